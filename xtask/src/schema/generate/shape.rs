//! What the generator makes of a definition: the few shapes that upstream's schema really has, and nothing of how they
//! are written in JSON Schema or in Rust.

/// A type under its name.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Definition {
    pub(super) name: String,
    pub(super) shape: Shape,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shape {
    /// Another name for a type.
    Alias(Type),
    /// An object with known fields.
    Record(Vec<Field>),
    /// One of several strings.
    Words(Vec<String>),
    /// Objects that a field of one fixed word tells apart.
    Tagged { tag: String, variants: Vec<Variant> },
    /// A string, or an object whose only key says what its value is.
    Keyed { words: Vec<String>, keys: Vec<Variant> },
    /// Values that only their form tells apart; the first that fits counts.
    Choice(Vec<Alternative>),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Field {
    pub(super) wire: String,
    pub(super) holds: Type,
    pub(super) presence: Presence,
    /// What it is taken for when it is missing, if that is not Rust's own default.
    pub(super) default: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Presence {
    Required,
    /// Always there, perhaps as null.
    Nullable,
    /// May be missing, or null.
    Optional,
    /// Missing means Rust's own default: false, zero, empty.
    Defaulted,
}

/// A variant that a word on the wire selects.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Variant {
    pub(super) wire: String,
    pub(super) content: Option<Type>,
}

/// One of the forms of a [`Shape::Choice`].
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Alternative {
    pub(super) name: String,
    pub(super) holds: Type,
    /// A field that must have one of these words, where the fields' names alone do not tell.
    pub(super) guard: Option<(String, Vec<String>)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Type {
    Text,
    Truth,
    /// By its name in Rust.
    Number(&'static str),
    /// Any JSON.
    Json,
    List(Box<Type>),
    Map(Box<Type>),
    Optional(Box<Type>),
    Boxed(Box<Type>),
    Named(String),
}

impl Type {
    pub(super) fn optional(self) -> Self {
        match self {
            Self::Optional(_) => self,
            other => Self::Optional(Box::new(other)),
        }
    }

    pub(super) fn boxed(self) -> Self {
        match self {
            Self::Optional(inner) => inner.boxed().optional(),
            Self::Boxed(_) => self,
            other => Self::Boxed(Box::new(other)),
        }
    }

    /// The definition that a value of this type is built of, wherever in it.
    pub(super) fn named(&self) -> Option<&str> {
        match self {
            Self::Named(name) => Some(name),
            Self::List(inner) | Self::Map(inner) | Self::Optional(inner) | Self::Boxed(inner) => inner.named(),
            Self::Text | Self::Truth | Self::Number(_) | Self::Json => None,
        }
    }
}

impl Shape {
    /// The types that this one is made of.
    pub(super) fn parts(&self) -> Vec<&Type> {
        match self {
            Self::Alias(of) => vec![of],
            Self::Record(fields) => fields.iter().map(|field| &field.holds).collect(),
            Self::Words(_) => Vec::new(),
            Self::Tagged { variants, .. } | Self::Keyed { keys: variants, .. } => {
                variants.iter().filter_map(|variant| variant.content.as_ref()).collect()
            }
            Self::Choice(alternatives) => alternatives.iter().map(|alternative| &alternative.holds).collect(),
        }
    }

    pub(super) fn parts_mut(&mut self) -> Vec<&mut Type> {
        match self {
            Self::Alias(of) => vec![of],
            Self::Record(fields) => fields.iter_mut().map(|field| &mut field.holds).collect(),
            Self::Words(_) => Vec::new(),
            Self::Tagged { variants, .. } | Self::Keyed { keys: variants, .. } => {
                variants.iter_mut().filter_map(|variant| variant.content.as_mut()).collect()
            }
            Self::Choice(alternatives) => alternatives.iter_mut().map(|alternative| &mut alternative.holds).collect(),
        }
    }
}
