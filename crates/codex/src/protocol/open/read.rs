//! How open values are read: words, objects with a tag, values that only their form tells apart. A tagged object is read
//! in one pass if its tag comes first, which is how workers write it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use wire::Json;

/// Reads a string as one of the words of `T`.
pub(in crate::protocol) struct WordVisitor<T>(PhantomData<T>);

impl<T> WordVisitor<T> {
    pub(in crate::protocol) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T: for<'a> From<&'a str>> Visitor<'_> for WordVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a word")
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<T, E> {
        Ok(T::from(word))
    }
}

/// An enum whose variants a field tells apart.
pub(in crate::protocol) trait Tagged: Sized {
    const TAG: &'static str;
    const KNOWN: &'static [&'static str];

    /// The variant of a known tag, from the object's other fields.
    fn read<'de, D: Deserializer<'de>>(tag: &'static str, rest: D) -> Result<Self, D::Error>;

    fn other(raw: Json) -> Self;
}

/// Reads an object as one of the variants of `T`: in one pass if the tag comes first, which is how workers write it.
pub(in crate::protocol) struct TaggedVisitor<T>(PhantomData<T>);

impl<T> TaggedVisitor<T> {
    pub(in crate::protocol) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<'de, T: Tagged> Visitor<'de> for TaggedVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with `{}`", T::TAG)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let mut object = Object::new();
        let mut tag = Tag::Missing;
        while let Some(key) = map.next_key_seed(OneOf(&[T::TAG]))? {
            match key {
                Err(key) => object.add(&key, map.next_value::<Json>()?.get()),
                Ok(_) => match map.next_value_seed(OneOf(T::KNOWN))? {
                    Ok(known) if object.is_empty() => return T::read(known, MapAccessDeserializer::new(map)),
                    Ok(known) => tag = Tag::Known(known),
                    Err(unknown) => {
                        object.add(T::TAG, &Value::from(unknown).to_string());
                        tag = Tag::Unknown;
                    }
                },
            }
        }
        let text = object.into_text();
        match tag {
            Tag::Missing => Err(A::Error::missing_field(T::TAG)),
            Tag::Unknown => Json::new(&text).map(T::other).map_err(A::Error::custom),
            Tag::Known(tag) => T::read(tag, &mut serde_json::Deserializer::from_str(&text)).map_err(A::Error::custom),
        }
    }
}

enum Tag {
    Missing,
    Unknown,
    Known(&'static str),
}

/// Reads a string: as one of these without copying it, or as what else it is.
struct OneOf(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for OneOf {
    type Value = Result<&'static str, String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for OneOf {
    type Value = Result<&'static str, String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().find(|known| **known == word).copied().ok_or_else(|| word.to_owned()))
    }
}

/// An object that is written anew, field by field.
struct Object(String);

impl Object {
    fn new() -> Self {
        Self("{".to_owned())
    }

    fn is_empty(&self) -> bool {
        self.0.len() == 1
    }

    fn add(&mut self, key: &str, value: &str) {
        if !self.is_empty() {
            self.0.push(',');
        }
        self.0 += &Value::from(key).to_string();
        self.0.push(':');
        self.0 += value;
    }

    fn into_text(self) -> String {
        self.0 + "}"
    }
}

/// An enum whose variants only their form tells apart.
pub(in crate::protocol) trait Form: Sized {
    /// The first variant whose form the value has.
    fn known(raw: &Json) -> Option<Self>;
}

impl<T: Form> Form for Box<T> {
    fn known(raw: &Json) -> Option<Self> {
        T::known(raw).map(Self::new)
    }
}

/// A value that is a word or has a single key.
pub(in crate::protocol) enum Keyed<'a> {
    Word(Cow<'a, str>),
    Entry(Cow<'a, str>, &'a RawValue),
    Neither,
}

impl<'a> Keyed<'a> {
    pub(in crate::protocol) fn of(raw: &'a Json) -> Self {
        if let Ok(word) = raw.parse::<String>() {
            return Self::Word(word.into());
        }
        match fields(raw).and_then(|mut fields| if fields.len() == 1 { fields.pop_first() } else { None }) {
            Some((key, content)) => Self::Entry(key, content),
            None => Self::Neither,
        }
    }
}

/// Whether a field of an object is one of these words.
pub(in crate::protocol) fn has_word(raw: &Json, name: &str, words: &[&str]) -> bool {
    let word = field(raw, name).and_then(|value| serde_json::from_str::<String>(value.get()).ok());
    word.is_some_and(|word| words.contains(&word.as_str()))
}

fn field<'a>(raw: &'a Json, name: &str) -> Option<&'a RawValue> {
    fields(raw)?.remove(name)
}

#[derive(Deserialize)]
struct Fields<'a>(#[serde(borrow)] BTreeMap<Cow<'a, str>, &'a RawValue>);

fn fields(raw: &Json) -> Option<BTreeMap<Cow<'_, str>, &RawValue>> {
    raw.parse::<Fields<'_>>().ok().map(|fields| fields.0)
}
