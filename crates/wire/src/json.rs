//! JSON text that is known to be JSON and that nobody has typed yet.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// One JSON value as it was written: forwarded as it is, typed when somebody asks.
///
/// Unlike `serde_json`'s raw value it is made from a checked line without checking it again, and its clones share the text.
#[derive(Clone, PartialEq, Eq)]
pub struct Json(Arc<str>);

impl Json {
    /// Writes a value as JSON.
    ///
    /// # Errors
    /// What `serde_json` cannot write, such as a map whose keys are not strings.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> serde_json::Result<Self> {
        serde_json::to_string(value).map(|text| Self(text.into()))
    }

    /// Accepts text that is one JSON value.
    ///
    /// # Errors
    /// The text is not JSON.
    pub fn new(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str::<&RawValue>(text).map(|value| Self(value.get().into()))
    }

    /// Text that a scanner has passed.
    pub(crate) fn scanned(text: &str) -> Self {
        Self(text.into())
    }

    /// The text.
    #[must_use]
    pub fn get(&self) -> &str {
        &self.0
    }

    /// Types the value; the type may borrow from it.
    ///
    /// # Errors
    /// The value is not of that type.
    pub fn parse<'a, T: Deserialize<'a>>(&'a self) -> serde_json::Result<T> {
        serde_json::from_str(&self.0)
    }
}

impl From<&Value> for Json {
    fn from(value: &Value) -> Self {
        Self(value.to_string().into())
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

/// Works only with `serde_json`, which alone knows the text of a value.
impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(|raw| Self(raw.get().into()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::Json;

    #[test]
    fn a_part_of_a_value_is_kept_as_it_was_written() {
        let parts: Vec<Json> = serde_json::from_str(r#"[ {"b" : 1, "a":2.50} , null, "x\u0041" ]"#).unwrap();
        let texts: Vec<&str> = parts.iter().map(Json::get).collect();
        assert_eq!(texts, [r#"{"b" : 1, "a":2.50}"#, "null", r#""x\u0041""#]);
        let from_value: Vec<Json> = serde_json::from_value(Value::from(vec![1, 2])).unwrap();
        assert_eq!(from_value[1].get(), "2");
    }
}
