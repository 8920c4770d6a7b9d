//! The deterministic form of a JSON Schema: prose out, keys sorted, the order of lists kept.

use serde::Serialize as _;
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Map, Value};

/// Keywords that say nothing about which values are valid.
const PROSE: [&str; 3] = ["$schema", "description", "title"];

/// Keywords whose members are named by the protocol, not by JSON Schema.
const NAMESPACES: [&str; 3] = ["definitions", "patternProperties", "properties"];

/// Keywords whose value is a value of the protocol and no schema.
const LITERALS: [&str; 4] = ["const", "default", "enum", "examples"];

/// A schema without prose, its keys in order.
pub(crate) fn trimmed(mut schema: Value) -> Value {
    trim_schema(&mut schema);
    // Explicit, because another crate in the build may turn on serde_json's `preserve_order`.
    schema.sort_all_objects();
    schema
}

/// A value as text with one blank per level and a newline at the end.
pub(crate) fn pretty(value: &Value) -> String {
    let mut bytes = Vec::new();
    let formatter = PrettyFormatter::with_indent(b" ");
    let mut serializer = Serializer::with_formatter(&mut bytes, formatter);
    value.serialize(&mut serializer).expect("a value is JSON");
    bytes.push(b'\n');
    String::from_utf8(bytes).expect("JSON is UTF-8")
}

fn trim_schema(schema: &mut Value) {
    match schema {
        Value::Object(keywords) => {
            keywords.retain(|keyword, value| !(value.is_string() && PROSE.contains(&keyword.as_str())));
            for (keyword, value) in keywords.iter_mut() {
                match value {
                    Value::Object(members) if NAMESPACES.contains(&keyword.as_str()) => {
                        trim_members(members);
                    }
                    _ if LITERALS.contains(&keyword.as_str()) => {}
                    _ => trim_schema(value),
                }
            }
        }
        Value::Array(schemas) => schemas.iter_mut().for_each(trim_schema),
        _ => {}
    }
}

fn trim_members(members: &mut Map<String, Value>) {
    members.values_mut().for_each(trim_schema);
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::{pretty, trimmed};

    #[test]
    fn prose_goes_and_a_property_of_that_name_stays() {
        let schema = json!({
            "title": "Tool", "$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
            "required": ["title", "description"],
            "properties": {
                "title": { "type": "string", "description": "Shown to people." },
                "description": true,
                "default": { "title": "Default", "type": ["string", "null"] },
                "kind": { "enum": ["b", "a"], "default": { "title": "kept", "a": 1 } },
            },
            "definitions": { "v2": { "Item": { "title": "Item", "oneOf": [{ "title": "B" }, { "title": "A", "const": "a" }] } } },
        });
        expect![[r#"
            {
             "definitions": {
              "v2": {
               "Item": {
                "oneOf": [
                 {},
                 {
                  "const": "a"
                 }
                ]
               }
              }
             },
             "properties": {
              "default": {
               "type": [
                "string",
                "null"
               ]
              },
              "description": true,
              "kind": {
               "default": {
                "a": 1,
                "title": "kept"
               },
               "enum": [
                "b",
                "a"
               ]
              },
              "title": {
               "type": "string"
              }
             },
             "required": [
              "title",
              "description"
             ],
             "type": "object"
            }
        "#]]
        .assert_eq(&pretty(&trimmed(schema)));
    }

    #[test]
    fn trimming_twice_changes_nothing() {
        let once = trimmed(json!({ "b": { "title": "x" }, "a": [{ "description": "y", "type": "null" }] }));
        assert_eq!(pretty(&trimmed(once.clone())), pretty(&once));
    }
}
