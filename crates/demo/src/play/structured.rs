//! A small value that satisfies a JSON Schema as well as a demo can: constants, enums, types, required keys, items.

use serde_json::{Map, Value, json};

/// Schemas that refer to themselves are cut here.
const DEPTH_MAX: usize = 16;

/// An example of what `schema` describes.
pub(super) fn example(schema: &Value) -> Value {
    Example { root: schema }.of(schema, DEPTH_MAX)
}

struct Example<'a> {
    root: &'a Value,
}

impl Example<'_> {
    fn of(&self, schema: &Value, depth: usize) -> Value {
        let Some(depth) = depth.checked_sub(1) else {
            return Value::Null;
        };
        let first = |key: &str| schema.get(key).and_then(Value::as_array).and_then(|values| values.first());
        if let Some(value) = schema.get("const").or_else(|| first("enum")) {
            return value.clone();
        }
        if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
            return self
                .root
                .pointer(target.trim_start_matches('#'))
                .map_or(Value::Null, |target| self.of(target, depth));
        }
        if let Some(choice) = first("anyOf").or_else(|| first("oneOf")) {
            return self.of(choice, depth);
        }
        if let Some(parts) = schema.get("allOf").and_then(Value::as_array) {
            return merged(parts.iter().map(|part| self.of(part, depth)));
        }
        match type_of(schema) {
            "object" => self.object(schema, depth),
            "array" => self.array(schema, depth),
            "string" => string(schema),
            "integer" => json!(bound(schema, 1.0).ceil()).as_f64().map_or(json!(1), whole),
            "number" => json!(bound(schema, 1.0)),
            "boolean" => json!(true),
            _ => Value::Null,
        }
    }

    fn object(&self, schema: &Value, depth: usize) -> Value {
        let required: Vec<&str> = list(schema, "required").filter_map(Value::as_str).collect();
        let properties = schema.get("properties").and_then(Value::as_object);
        let known = properties.into_iter().flatten();
        let mut object: Map<String, Value> = known
            .filter(|(name, _)| required.is_empty() || required.contains(&name.as_str()))
            .map(|(name, schema)| (name.clone(), self.of(schema, depth)))
            .collect();
        for name in required {
            object.entry(name).or_insert(json!("demo"));
        }
        Value::Object(object)
    }

    fn array(&self, schema: &Value, depth: usize) -> Value {
        let wanted = schema.get("minItems").and_then(Value::as_u64).unwrap_or(1);
        let item = schema.get("items").map_or(json!("demo"), |items| self.of(items, depth));
        Value::Array(vec![item; usize::try_from(wanted).unwrap_or(1).min(100)])
    }
}

/// The type of a schema; the first that is not null if it names several.
fn type_of(schema: &Value) -> &str {
    match schema.get("type") {
        Some(Value::String(name)) => name,
        Some(Value::Array(names)) => {
            names.iter().filter_map(Value::as_str).find(|name| *name != "null").unwrap_or("null")
        }
        _ if schema.get("properties").is_some() => "object",
        _ if schema.get("items").is_some() => "array",
        _ => "string",
    }
}

fn string(schema: &Value) -> Value {
    let text = match schema.get("format").and_then(Value::as_str) {
        Some("date-time") => "2026-01-01T00:00:00Z",
        Some("date") => "2026-01-01",
        Some("time") => "00:00:00Z",
        Some("email") => "demo@example.com",
        Some("uri") => "https://example.com/",
        Some("uuid") => "00000000-0000-4000-8000-000000000000",
        _ => "demo",
    };
    let limit = |key| schema.get(key).and_then(Value::as_u64).and_then(|length| usize::try_from(length).ok());
    let padded = format!("{text:o<width$}", width = limit("minLength").unwrap_or(0).min(10_000));
    json!(padded.chars().take(limit("maxLength").unwrap_or(usize::MAX)).collect::<String>())
}

/// A number within the bounds, near `wanted`.
fn bound(schema: &Value, wanted: f64) -> f64 {
    let limit = |key| schema.get(key).and_then(Value::as_f64);
    let low = limit("minimum").or_else(|| limit("exclusiveMinimum").map(|low| low + 1.0)).unwrap_or(f64::MIN);
    let high = limit("maximum").or_else(|| limit("exclusiveMaximum").map(|high| high - 1.0)).unwrap_or(f64::MAX);
    wanted.max(low).min(high)
}

#[expect(clippy::cast_possible_truncation, reason = "an example beyond 64 bits saturates")]
fn whole(number: f64) -> Value {
    json!(number as i64)
}

fn merged(parts: impl Iterator<Item = Value>) -> Value {
    let mut object = Map::new();
    for part in parts {
        match part {
            Value::Object(part) => object.extend(part),
            other => return other,
        }
    }
    Value::Object(object)
}

fn list<'a>(schema: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    schema.get(key).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::example;

    #[expect(clippy::needless_pass_by_value, reason = "reads better at the call")]
    fn check(schema: &str, expected: Expect) {
        expected.assert_eq(&example(&serde_json::from_str(schema).unwrap()).to_string());
    }

    #[test]
    fn required_keys_get_values_of_their_type() {
        check(
            r#"{"type":"object","properties":{"ok":{"type":"boolean"},"n":{"type":"integer","minimum":5},
                "kind":{"enum":["a","b"]},"extra":{"type":"string"}},"required":["ok","n","kind","list"]}"#,
            expect![[r#"{"kind":"a","list":"demo","n":5,"ok":true}"#]],
        );
    }

    #[test]
    fn references_and_choices_are_followed() {
        check(
            r##"{"type":"array","minItems":2,"items":{"$ref":"#/$defs/point"},"$defs":{"point":
                {"anyOf":[{"type":"object","properties":{"x":{"type":["null","number"]}}},{"type":"null"}]}}}"##,
            expect![[r#"[{"x":1.0},{"x":1.0}]"#]],
        );
    }

    #[test]
    fn a_schema_that_holds_itself_ends() {
        check(
            r##"{"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{"next":{"$ref":"#/$defs/node"}}}}}"##,
            expect![[r#"{"next":{"next":{"next":{"next":{"next":{"next":{"next":{"next":null}}}}}}}}"#]],
        );
    }
}
