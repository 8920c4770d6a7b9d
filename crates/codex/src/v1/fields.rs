//! An object of the dialect, whose fields may be spelled `like_this` or `likeThis` and are typed one by one: a field that
//! nobody asks for cannot be wrong.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use wire::Json;

/// The fields of one object.
#[derive(Debug, Deserialize)]
pub(crate) struct Fields<'a>(#[serde(borrow)] BTreeMap<Cow<'a, str>, &'a RawValue>);

impl<'a> Fields<'a> {
    /// The field with that name, given in snake case, if it is there and of that type.
    pub(crate) fn get<T: Deserialize<'a>>(&self, name: &str) -> Option<T> {
        serde_json::from_str(self.raw(name)?.get()).ok()
    }

    pub(crate) fn text(&self, name: &str) -> Option<Box<str>> {
        self.get(name)
    }

    pub(crate) fn json(&self, name: &str) -> Option<Json> {
        Json::new(self.raw(name)?.get()).ok()
    }

    /// An id: text, or a number that is taken as text; an empty one is none.
    pub(crate) fn id(&self, name: &str) -> Option<Box<str>> {
        let id = self.text(name).or_else(|| self.get::<u64>(name).map(|number| number.to_string().into()));
        id.filter(|id| !id.is_empty())
    }

    /// The only field of an object that names a variant, as `{"UserMessage": {…}}`.
    pub(crate) fn variant(&self) -> Option<(&str, Fields<'a>)> {
        let mut fields = self.0.iter();
        let (name, value) = fields.next().filter(|_| self.0.len() == 1)?;
        Some((name, serde_json::from_str(value.get()).ok()?))
    }

    fn raw(&self, name: &str) -> Option<&'a RawValue> {
        self.0.get(name).or_else(|| self.0.get(&*camel_case(name))).copied()
    }
}

fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    camel
}
