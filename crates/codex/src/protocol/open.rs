//! The macros that the generated types are written in. Every enum of the protocol is open: a word, a tag or a form that is
//! newer than we are is kept in `Other`, as it came.

pub(super) mod read;

/// One of several strings.
macro_rules! words {
    ($(#[$meta:meta])* pub enum $name:ident { $($variant:ident = $word:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $(#[doc = concat!("`", $word, "`")] $variant,)*
            /// A word that is newer than we are.
            Other(Box<str>),
        }

        impl $name {
            /// The words that we know.
            pub const KNOWN: &'static [&'static str] = &[$($word),*];

            /// The word on the wire.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $word,)*
                    Self::Other(word) => word,
                }
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                match word {
                    $($word => Self::$variant,)*
                    other => Self::Other(other.into()),
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str($crate::protocol::open::read::WordVisitor::new())
            }
        }
    };
}

/// Objects that a field of one fixed word tells apart.
macro_rules! tagged {
    (
        $(#[$meta:meta])*
        pub enum $name:ident by $tag:literal { $($variant:ident $(($content:ty))? = $wire:literal,)* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize)]
        #[serde(tag = $tag)]
        pub enum $name {
            $(
                #[doc = concat!("`", $wire, "`")]
                #[serde(rename = $wire)]
                $variant $(($content))?,
            )*
            /// One that is newer than we are, as it came.
            #[serde(untagged)]
            Other(wire::Json),
        }

        impl $name {
            /// The tags that we know.
            pub const KNOWN: &'static [&'static str] = &[$($wire),*];
        }

        impl $crate::protocol::open::read::Tagged for $name {
            const TAG: &'static str = $tag;
            const KNOWN: &'static [&'static str] = &[$($wire),*];

            fn read<'de, D: serde::Deserializer<'de>>(tag: &'static str, rest: D) -> Result<Self, D::Error> {
                match tag {
                    $($wire => tagged!(@read rest, $variant $(, $content)?),)*
                    _ => Err(serde::de::Error::unknown_variant(tag, Self::KNOWN)),
                }
            }

            fn other(raw: wire::Json) -> Self {
                Self::Other(raw)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_map($crate::protocol::open::read::TaggedVisitor::new())
            }
        }
    };
    (@read $rest:ident, $variant:ident) => {
        <serde::de::IgnoredAny as serde::Deserialize>::deserialize($rest).map(|_| Self::$variant)
    };
    (@read $rest:ident, $variant:ident, $content:ty) => {
        <$content as serde::Deserialize>::deserialize($rest).map(Self::$variant)
    };
}

/// The fields that all variants of a tagged enum have.
macro_rules! shared {
    ($name:ident { $($field:ident: $holds:ty,)* } in $variants:tt) => {
        impl $name {
            $(shared!(@ $field: $holds, $variants);)*
        }
    };
    (@ $field:ident: $holds:ty, [$($variant:ident,)*]) => {
        /// What every variant that we know has under this name.
        #[must_use]
        pub fn $field(&self) -> Option<&$holds> {
            match self {
                $(Self::$variant(content) => Some(&content.$field),)*
                Self::Other(_) => None,
            }
        }
    };
}

/// A string, or an object whose only key says what its value is.
macro_rules! keyed {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            words { $($variant:ident = $word:literal,)* }
            keys { $($key_variant:ident($content:ty) = $key:literal,)* }
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize)]
        pub enum $name {
            $(
                #[doc = concat!("`", $word, "`")]
                #[serde(rename = $word)]
                $variant,
            )*
            $(
                #[doc = concat!("`", $key, "`")]
                #[serde(rename = $key)]
                $key_variant($content),
            )*
            /// One that is newer than we are, as it came.
            #[serde(untagged)]
            Other(wire::Json),
        }

        impl $name {
            /// The words and keys that we know.
            pub const KNOWN: &'static [&'static str] = &[$($word,)* $($key),*];
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let raw = wire::Json::deserialize(deserializer)?;
                let known = match $crate::protocol::open::read::Keyed::of(&raw) {
                    $crate::protocol::open::read::Keyed::Word(word) => match word.as_ref() {
                        $($word => Some(Self::$variant),)*
                        _ => None,
                    },
                    $crate::protocol::open::read::Keyed::Entry(key, content) => match key.as_ref() {
                        $($key => {
                            let content = serde_json::from_str(content.get()).map_err(serde::de::Error::custom)?;
                            Some(Self::$key_variant(content))
                        })*
                        _ => None,
                    },
                    $crate::protocol::open::read::Keyed::Neither => None,
                };
                Ok(known.unwrap_or(Self::Other(raw)))
            }
        }
    };
}

/// Values that only their form tells apart; the first that fits counts.
macro_rules! choice {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $($variant:ident($holds:ty) $(as $how:ident)? $(if $field:literal in [$($word:literal),*])?,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize)]
        #[serde(untagged)]
        pub enum $name {
            $(#[doc = concat!("`", stringify!($holds), "`")] $variant($holds),)*
            /// A form that is newer than we are, as it came.
            Other(wire::Json),
        }

        impl $crate::protocol::open::read::Form for $name {
            fn known(raw: &wire::Json) -> Option<Self> {
                $(
                    if true $(&& $crate::protocol::open::read::has_word(raw, $field, &[$($word),*]))?
                        && let Some(value) = choice!(@read raw, $holds $(, $how)?)
                    {
                        return Some(Self::$variant(value));
                    }
                )*
                None
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let raw = wire::Json::deserialize(deserializer)?;
                let known = <Self as $crate::protocol::open::read::Form>::known(&raw);
                Ok(known.unwrap_or(Self::Other(raw)))
            }
        }
    };
    (@read $raw:ident, $holds:ty) => {
        $raw.parse::<$holds>().ok()
    };
    (@read $raw:ident, $holds:ty, choice) => {
        <$holds as $crate::protocol::open::read::Form>::known($raw)
    };
}

pub(super) use {choice, keyed, shared, tagged, words};
