//! What one protocol has and another lacks, and what of it Switchboard needs. Pure: two outlines in, a report out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::Serialize;

use super::outline::Outline;

/// What a binary's protocol has more, less or otherwise than the one that is built in.
#[derive(Debug, Serialize)]
pub(crate) struct Difference {
    methods: Changes,
    types: Changes,
    fields: Changes,
    words: Changes,
    /// The changes other than additions that Switchboard needs not to happen.
    needed: Vec<String>,
}

/// The changes of one sort of thing.
#[derive(Debug, Default, Serialize)]
struct Changes {
    added: Vec<String>,
    removed: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changed: Vec<Change>,
}

/// A thing that has another form.
#[derive(Debug, Serialize)]
struct Change {
    name: String,
    built_in: String,
    found: String,
}

impl Difference {
    /// Compares; `needs` are the names of what Switchboard needs.
    pub(crate) fn between(built_in: &Outline, found: &Outline, needs: &[&str]) -> Self {
        let kinds = |outline: &Outline| -> BTreeMap<String, String> {
            outline.methods.iter().map(|(method, kind)| (method.clone(), (*kind).to_owned())).collect()
        };
        let set = |names: &BTreeSet<String>| -> BTreeMap<String, String> {
            names.iter().map(|name| (name.clone(), String::new())).collect()
        };
        let both: BTreeSet<&str> = built_in.types.intersection(&found.types).map(String::as_str).collect();
        // Of a type that only one of the two has, its name says enough.
        let in_both = |names: BTreeMap<String, String>| -> BTreeMap<String, String> {
            names.into_iter().filter(|(name, _)| both.contains(owner_of(name))).collect()
        };
        let methods = Changes::between(&kinds(built_in), &kinds(found));
        let types = Changes::between(&set(&built_in.types), &set(&found.types));
        let fields = Changes::between(&in_both(built_in.fields.clone()), &in_both(found.fields.clone()));
        let words = Changes::between(&in_both(set(&built_in.words)), &in_both(set(&found.words)));
        let gone_types: BTreeSet<&str> = types.removed.iter().map(String::as_str).collect();
        let changed = [&methods, &fields, &words].into_iter().flat_map(Changes::gone_or_other);
        let changed: BTreeSet<&str> = changed.collect();
        let is_hit = |need: &&str| changed.contains(need) || gone_types.contains(owner_of(need));
        let needed = needs.iter().copied().filter(is_hit).map(str::to_owned).collect();
        Self { methods, types, fields, words, needed }
    }

    /// For people: every change on a line, sorted, and a summary.
    pub(crate) fn to_text(&self) -> String {
        let mut text = String::new();
        for (name, changes) in self.sections() {
            if changes.count() == 0 {
                continue;
            }
            writeln!(text, "{name}").expect("text");
            for added in &changes.added {
                writeln!(text, "  + {added}").expect("text");
            }
            for removed in &changes.removed {
                writeln!(text, "  - {removed}{}", self.note(removed)).expect("text");
            }
            for Change { name, built_in, found } in &changes.changed {
                writeln!(text, "  ~ {name}: {built_in} → {found}{}", self.note(name)).expect("text");
            }
            text.push('\n');
        }
        text + &self.summary()
    }

    fn sections(&self) -> [(&'static str, &Changes); 4] {
        [("methods", &self.methods), ("types", &self.types), ("fields", &self.fields), ("words", &self.words)]
    }

    fn note(&self, name: &str) -> &'static str {
        let is_needed = self.needed.iter().any(|need| need == name || owner_of(need) == name);
        if is_needed { "    (Switchboard depends on it)" } else { "" }
    }

    fn summary(&self) -> String {
        if self.sections().iter().all(|(_, changes)| changes.count() == 0) {
            return "no difference\n".to_owned();
        }
        let parts = self.sections().map(|(name, changes)| {
            let Changes { added, removed, changed } = changes;
            let changed = if changed.is_empty() { String::new() } else { format!(" ~{}", changed.len()) };
            format!("{name} +{} -{}{changed}", added.len(), removed.len())
        });
        format!("{}; Switchboard depends on {} of what is gone or changed\n", parts.join(", "), self.needed.len())
    }
}

impl Changes {
    fn between(built_in: &BTreeMap<String, String>, found: &BTreeMap<String, String>) -> Self {
        let missing_in = |other: &BTreeMap<String, String>, name: &&String| !other.contains_key(*name);
        let changed = built_in.iter().filter_map(|(name, form)| {
            let other = found.get(name).filter(|other| *other != form)?;
            Some(Change { name: name.clone(), built_in: form.clone(), found: other.clone() })
        });
        Self {
            added: found.keys().filter(|name| missing_in(built_in, name)).cloned().collect(),
            removed: built_in.keys().filter(|name| missing_in(found, name)).cloned().collect(),
            changed: changed.collect(),
        }
    }

    fn count(&self) -> usize {
        self.added.len() + self.removed.len() + self.changed.len()
    }

    fn gone_or_other(&self) -> impl Iterator<Item = &str> {
        self.removed.iter().map(String::as_str).chain(self.changed.iter().map(|change| change.name.as_str()))
    }
}

/// The type that a field or a word belongs to.
fn owner_of(name: &str) -> &str {
    let end = name.find(['.', '[', ' ']).unwrap_or(name.len());
    &name[..end]
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::{Value, json};

    use super::{Difference, Outline};

    fn bundle(definitions: Value) -> Outline {
        let method = |name: &str| json!({ "properties": { "method": { "enum": [name] } } });
        let mut all = json!({
            "ClientRequest": { "oneOf": [method("go"), method("stay")] },
            "ClientNotification": { "oneOf": [] },
            "ServerNotification": { "oneOf": [method("gone")] },
            "ServerRequest": { "oneOf": [] },
        });
        let Value::Object(definitions) = definitions else { panic!("no object") };
        all.as_object_mut().unwrap().extend(definitions);
        Outline::of(&json!({ "definitions": all })).unwrap()
    }

    fn built_in() -> Outline {
        bundle(json!({ "v2": {
            "GoParams": { "type": "object", "required": ["far", "who"], "properties": {
                "far": { "type": ["string", "null"] }, "who": { "$ref": "#/definitions/v2/Who" }, "when": true } },
            "Who": { "enum": ["you", "me"] },
            "Item": { "oneOf": [
                { "required": ["type"], "properties": { "type": { "enum": ["plan"] }, "text": { "type": "string" } } },
                { "required": ["type"], "properties": { "type": { "enum": ["sleep"] } } },
            ] },
            "Gone": { "type": "object", "properties": { "x": {} } },
        } }))
    }

    #[test]
    fn a_schema_does_not_differ_from_itself() {
        expect!["no difference\n"].assert_eq(&Difference::between(&built_in(), &built_in(), &["go"]).to_text());
    }

    #[test]
    fn what_is_more_less_or_other_is_told_and_what_we_need_is_marked() {
        let found = bundle(json!({
            "ServerNotification": { "oneOf": [{ "properties": { "method": { "enum": ["new/one"] } } }] },
            "v2": {
                "GoParams": { "type": "object", "required": ["who"], "properties": {
                    "far": { "type": "string" }, "who": { "$ref": "#/definitions/v2/Who" }, "how": { "type": "array", "items": {} } } },
                "Who": { "oneOf": [{ "enum": ["you"] }, { "enum": ["they"] }] },
                "Item": { "oneOf": [
                    { "required": ["type"], "properties": { "type": { "enum": ["plan"] }, "steps": { "type": "string" } } },
                ] },
                "New": { "type": "string" },
            },
        }));
        let needs = ["go", "gone", "GoParams.far", "GoParams.who", "Who \"me\"", "Item[plan].text", "Gone.x"];
        let difference = Difference::between(&built_in(), &found, &needs);
        expect![[r#"
            methods
              + new/one
              - gone    (Switchboard depends on it)

            types
              + New
              - Gone    (Switchboard depends on it)

            fields
              + GoParams.how
              + Item[plan].steps
              - GoParams.when
              - Item[plan].text    (Switchboard depends on it)
              ~ GoParams.far: string|null → optional string    (Switchboard depends on it)

            words
              + Who "they"
              - Item "sleep"
              - Who "me"    (Switchboard depends on it)

            methods +1 -1, types +1 -1, fields +2 -2 ~1, words +1 -2; Switchboard depends on 5 of what is gone or changed
        "#]].assert_eq(&difference.to_text());
        expect![[r#"
            {
              "methods": {
                "added": [
                  "new/one"
                ],
                "removed": [
                  "gone"
                ]
              },
              "types": {
                "added": [
                  "New"
                ],
                "removed": [
                  "Gone"
                ]
              },
              "fields": {
                "added": [
                  "GoParams.how",
                  "Item[plan].steps"
                ],
                "removed": [
                  "GoParams.when",
                  "Item[plan].text"
                ],
                "changed": [
                  {
                    "name": "GoParams.far",
                    "built_in": "string|null",
                    "found": "optional string"
                  }
                ]
              },
              "words": {
                "added": [
                  "Who \"they\""
                ],
                "removed": [
                  "Item \"sleep\"",
                  "Who \"me\""
                ]
              },
              "needed": [
                "gone",
                "GoParams.far",
                "Who \"me\"",
                "Item[plan].text",
                "Gone.x"
              ]
            }"#]]
        .assert_eq(&serde_json::to_string_pretty(&difference).unwrap());
    }

    #[test]
    fn a_file_that_is_no_bundle_is_refused_by_what_it_lacks() {
        assert_eq!(Outline::of(&json!({})).unwrap_err().to_string(), "it has no `definitions`");
        let error = Outline::of(&json!({ "definitions": {} })).unwrap_err();
        assert_eq!(error.to_string(), "it has no union `ClientRequest`");
    }
}
