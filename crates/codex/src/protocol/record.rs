//! The macro that the generated structs are written in. It does what serde's derive would do for an object of JSON and
//! nothing else, at a third of the derive's price: with six hundred structs that is what the crate costs to compile.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

/// An object with known fields; unknown ones are passed over. A field may be `or null`, which is always written,
/// `or none` and `or default`, which are not written when they say nothing.
macro_rules! record {
    ($(#[$meta:meta])* pub struct $name:ident {
        $($(#[$note:meta])* $field:ident: $holds:ty = $wire:literal $(or $absent:ident)?,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $($(#[$note])* pub $field: $holds,)*
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let wires: &[&str] = &[$($wire),*];
                #[allow(unused_mut, reason = "there may be no fields")]
                let mut object = serializer.serialize_struct(stringify!($name), wires.len())?;
                $(record!(@write object, self.$field, $wire $(, $absent)?);)*
                serde::ser::SerializeStruct::end(object)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Reader;

                impl<'de> serde::de::Visitor<'de> for Reader {
                    type Value = $name;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str(concat!("an object, ", stringify!($name)))
                    }

                    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<$name, A::Error> {
                        $(let mut $field = None;)*
                        while let Some(key) = map.next_key::<$crate::protocol::record::Key<'de>>()? {
                            match key.0.as_ref() {
                                $($wire => $field = Some(map.next_value()?),)*
                                _ => _ = map.next_value::<serde::de::IgnoredAny>()?,
                            }
                        }
                        Ok($name { $($field: record!(@read $field, $wire $(, $absent)?),)* })
                    }
                }

                deserializer.deserialize_map(Reader)
            }
        }
    };
    (@write $object:ident, $self:ident.$field:ident, $wire:literal) => {
        serde::ser::SerializeStruct::serialize_field(&mut $object, $wire, &$self.$field)?
    };
    (@write $object:ident, $self:ident.$field:ident, $wire:literal, null) => {
        serde::ser::SerializeStruct::serialize_field(&mut $object, $wire, &$self.$field)?
    };
    (@write $object:ident, $self:ident.$field:ident, $wire:literal, none) => {
        if let Some(value) = &$self.$field {
            serde::ser::SerializeStruct::serialize_field(&mut $object, $wire, value)?
        }
    };
    (@write $object:ident, $self:ident.$field:ident, $wire:literal, default) => {
        if !$crate::protocol::record::is_default(&$self.$field) {
            serde::ser::SerializeStruct::serialize_field(&mut $object, $wire, &$self.$field)?
        }
    };
    (@read $field:ident, $wire:literal) => {
        $crate::protocol::record::required($field, $wire)?
    };
    (@read $field:ident, $wire:literal, $absent:ident) => {
        $field.unwrap_or_default()
    };
}

pub(super) use record;

/// The name of a field, borrowed from the text where it is written without escapes.
pub(super) struct Key<'a>(pub(super) Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(KeyVisitor)
    }
}

struct KeyVisitor;

impl<'de> Visitor<'de> for KeyVisitor {
    type Value = Key<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_borrowed_str<E: Error>(self, name: &'de str) -> Result<Key<'de>, E> {
        Ok(Key(Cow::Borrowed(name)))
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Key<'de>, E> {
        Ok(Key(Cow::Owned(name.to_owned())))
    }
}

/// A field that must be there.
pub(super) fn required<T, E: Error>(field: Option<T>, name: &'static str) -> Result<T, E> {
    field.ok_or_else(|| E::missing_field(name))
}

/// Whether a field holds what it is taken for when it is missing.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
