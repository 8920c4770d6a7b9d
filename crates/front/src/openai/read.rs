//! Reading a caller's JSON field by field: `null` means absent, what nobody asks for cannot be wrong, and whatever is wrong is
//! named by its path. Paths are put together on the way out of an error, so that what is right costs nothing.

use serde_json::{Map, Value};

use crate::error::{Code, Error};

/// Something in the body that cannot be used.
#[derive(Debug)]
pub(crate) struct Bad {
    code: Code,
    /// Its path below the value that is being read.
    path: String,
    message: String,
}

impl Bad {
    /// Of the value itself that is being read.
    pub(crate) fn value(message: impl Into<String>) -> Self {
        Self { code: Code::InvalidValue, path: String::new(), message: message.into() }
    }

    /// Well written, but beyond what any worker can do.
    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self { code: Code::Unsupported, ..Self::value(message) }
    }

    pub(crate) fn coded(self, code: Code) -> Self {
        Self { code, ..self }
    }

    /// The value stands in this field.
    pub(crate) fn at(self, field: &str) -> Self {
        let path = match self.path.chars().next() {
            None => field.to_owned(),
            Some('[') => format!("{field}{}", self.path),
            Some(_) => format!("{field}.{}", self.path),
        };
        Self { path, ..self }
    }

    /// The value is this one of a list.
    pub(crate) fn nth(self, index: usize) -> Self {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        Self { path: format!("[{index}]{dot}{}", self.path), ..self }
    }
}

impl From<Bad> for Error {
    fn from(bad: Bad) -> Self {
        let about = if bad.path.is_empty() { "the body".into() } else { format!("`{}`", bad.path) };
        let error = Self::new(bad.code, format!("{about} {}", bad.message));
        if bad.path.is_empty() { error } else { error.about(bad.path) }
    }
}

/// An object of the body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a>(&'a Map<String, Value>);

impl<'a> Fields<'a> {
    pub(crate) fn of(value: &'a Value) -> Result<Self, Bad> {
        value.as_object().map(Self).ok_or_else(|| wrong(value, "an object"))
    }

    /// A field that is there and is not `null`.
    pub(crate) fn get(self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    pub(crate) fn text(self, name: &str) -> Result<Option<&'a str>, Bad> {
        self.read(name, |value| value.as_str().ok_or_else(|| wrong(value, "a text")))
    }

    pub(crate) fn flag(self, name: &str) -> Result<Option<bool>, Bad> {
        self.read(name, |value| value.as_bool().ok_or_else(|| wrong(value, "true or false")))
    }

    pub(crate) fn count(self, name: &str) -> Result<Option<u64>, Bad> {
        let whole = |value: &Value| match value {
            Value::Number(number) => {
                number.as_u64().ok_or_else(|| Bad::value(format!("must be a whole number, not {number}")))
            }
            other => Err(wrong(other, "a whole number")),
        };
        self.read(name, whole)
    }

    pub(crate) fn list(self, name: &str) -> Result<Option<&'a [Value]>, Bad> {
        self.read(name, |value| value.as_array().map(Vec::as_slice).ok_or_else(|| wrong(value, "a list")))
    }

    pub(crate) fn object(self, name: &str) -> Result<Option<Fields<'a>>, Bad> {
        self.read(name, Self::of)
    }

    /// A text that must be there.
    pub(crate) fn need_text(self, name: &str) -> Result<&'a str, Bad> {
        self.text(name)?.ok_or_else(|| Bad::value("is missing; send a text").at(name))
    }

    /// The same where there are a few of them to choose from.
    pub(crate) fn need_word(self, name: &str, words: &str) -> Result<&'a str, Bad> {
        self.text(name)?.ok_or_else(|| Bad::value(format!("is missing; send {words}")).at(name))
    }

    /// Reads a field, and says where it stands if that fails.
    pub(crate) fn read<T>(self, name: &str, read: impl FnOnce(&'a Value) -> Result<T, Bad>) -> Result<Option<T>, Bad> {
        self.get(name).map(read).transpose().map_err(|bad| bad.at(name))
    }
}

/// Reads every value of a list.
pub(crate) fn each<'a, T>(list: &'a [Value], read: impl Fn(&'a Value) -> Result<T, Bad>) -> Result<Vec<T>, Bad> {
    list.iter().enumerate().map(|(index, value)| read(value).map_err(|bad| bad.nth(index))).collect()
}

/// What is there is not what it must be.
pub(crate) fn wrong(value: &Value, wanted: &str) -> Bad {
    let there = match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    Bad::value(format!("must be {wanted}, not {there}"))
}
