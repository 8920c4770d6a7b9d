//! How far a schema unfolds, pure. A few lines that refer to each other twice each can keep a judge of arguments busy for
//! years, and a long chain of references can exhaust its stack; a schema that does either judges nothing.

use std::collections::HashMap;

use serde_json::Value;

/// Parts of a schema, with those that it refers to counted each time: the largest real ones have some thousands.
const PARTS_MAX: u64 = 20_000;
/// How deep they may lie in each other.
const DEPTH_MAX: usize = 256;

/// How far a schema unfolds that can be looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Its parts, with those that it refers to counted each time.
    pub(crate) parts: u64,
    /// References that lead to what they stand in.
    pub(crate) self_references: u64,
    /// Whether it may look into strings.
    pub(crate) has_patterns: bool,
}

impl Extent {
    /// That of a schema against which arguments can be held without fear. One whose references lead elsewhere, or are not
    /// written as a plain path, is none of those.
    pub(crate) fn of(schema: &Value) -> Option<Self> {
        let mut unfolding =
            Unfolding { root: schema, counted: HashMap::new(), self_references: 0, has_patterns: false };
        let parts = unfolding.count(schema, 0).filter(|parts| *parts <= PARTS_MAX)?;
        let Unfolding { self_references, has_patterns, .. } = unfolding;
        Some(Self { parts, self_references, has_patterns })
    }
}

/// Whether a schema has such an extent.
pub(crate) fn is_bounded(schema: &Value) -> bool {
    Extent::of(schema).is_some()
}

/// Whether it is too large to be looked into, wherever its references lead.
pub(crate) fn is_large(schema: &Value) -> bool {
    fn parts(value: &Value) -> u64 {
        match value {
            Value::Object(fields) => 1 + fields.values().map(parts).sum::<u64>(),
            Value::Array(values) => 1 + values.iter().map(parts).sum::<u64>(),
            _ => 1,
        }
    }
    parts(schema) > PARTS_MAX
}

struct Unfolding<'a> {
    root: &'a Value,
    /// By the place of the part; nothing for those that are being counted, which end in themselves.
    counted: HashMap<*const Value, u64>,
    self_references: u64,
    has_patterns: bool,
}

impl<'a> Unfolding<'a> {
    /// How many parts this one has; `None` if nobody can say.
    fn count(&mut self, part: &'a Value, depth: usize) -> Option<u64> {
        if depth > DEPTH_MAX {
            return None;
        }
        if let Some(parts) = self.counted.get(&std::ptr::from_ref(part)) {
            self.self_references += u64::from(*parts == 0);
            return Some(*parts);
        }
        let mut parts = 1_u64;
        match part {
            Value::Object(fields) => {
                self.counted.insert(part, 0);
                for (name, value) in fields {
                    self.has_patterns |= matches!(name.as_str(), "pattern" | "patternProperties" | "format");
                    let inner = match (name.as_str(), value) {
                        ("$dynamicRef" | "$recursiveRef", Value::String(_)) => return None,
                        ("$ref", Value::String(path)) => self.referred(path)?,
                        _ => value,
                    };
                    parts = parts.saturating_add(self.count(inner, depth + 1)?);
                }
                self.counted.insert(part, parts);
            }
            Value::Array(values) => {
                for value in values {
                    parts = parts.saturating_add(self.count(value, depth + 1)?);
                }
            }
            _ => {}
        }
        Some(parts)
    }

    fn referred(&self, path: &str) -> Option<&'a Value> {
        self.root.pointer(path.strip_prefix('#').filter(|pointer| !pointer.contains('%'))?)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    fn chained(length: usize, link: impl Fn(Value) -> Value) -> Value {
        let mut defs = Map::new();
        for number in 0..length {
            let next = json!({ "$ref": format!("#/$defs/a{}", number + 1) });
            defs.insert(format!("a{number}"), link(next));
        }
        defs.insert(format!("a{length}"), json!({}));
        json!({ "type": "object", "$ref": "#/$defs/a0", "$defs": defs })
    }

    #[test]
    fn ordinary_and_recursive_schemas_are_bounded() {
        assert!(is_bounded(&json!({ "type": "object", "properties": { "a": { "type": "string" } } })));
        let tree = json!({ "type": "object", "properties": { "left": { "$ref": "#" }, "right": { "$ref": "#" } } });
        assert!(is_bounded(&tree));
        let extent = Extent::of(&tree).unwrap();
        assert_eq!((extent.self_references, extent.has_patterns), (2, false));
        let pattern = json!({ "type": "object", "properties": { "a": { "pattern": "^a" } } });
        assert!(Extent::of(&pattern).unwrap().has_patterns);
        assert!(is_bounded(&chained(30, |next| next)));
        assert!(is_bounded(&json!({ "type": "object", "properties": { "$ref": { "type": "string" } } })));
    }

    #[test]
    fn what_doubles_at_each_step_or_never_seems_to_end_is_not() {
        assert!(!is_bounded(&chained(40, |next| json!({ "allOf": [next, next] }))));
        assert!(!is_bounded(&chained(100_000, |next| next)));
    }

    #[test]
    fn what_has_more_parts_than_anybody_writes_is_large() {
        let properties = |count: usize| (0..count).map(|number| (format!("p{number}"), json!({ "type": "string" })));
        let schema = |count| json!({ "type": "object", "properties": properties(count).collect::<Map<_, _>>() });
        assert!(!is_large(&schema(5_000)) && is_bounded(&schema(5_000)));
        assert!(is_large(&schema(15_000)) && !is_bounded(&schema(15_000)));
    }

    #[test]
    fn what_leads_elsewhere_is_not() {
        for reference in ["https://example.com/a.json", "#name", "#/%24defs/a", "#/nowhere"] {
            assert!(!is_bounded(&json!({ "type": "object", "$ref": reference })), "{reference}");
        }
        assert!(!is_bounded(&json!({ "type": "object", "$dynamicRef": "#a" })));
    }
}
