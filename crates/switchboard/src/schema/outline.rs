//! A schema as a flat list of what can be added to it or taken away: methods, types, fields with their forms, words.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::{Map, Value};

/// The unions that list methods, and what their members are.
const METHODS: [(&str, &str); 4] = [
    ("ClientRequest", "call"),
    ("ClientNotification", "client notification"),
    ("ServerNotification", "notification"),
    ("ServerRequest", "request"),
];

/// Everything in a schema that has a name.
#[derive(Debug, Default)]
pub(crate) struct Outline {
    /// By method, its kind.
    pub(crate) methods: BTreeMap<String, &'static str>,
    pub(crate) types: BTreeSet<String>,
    /// By `Type.field`, its form in a few signs.
    pub(crate) fields: BTreeMap<String, String>,
    /// As `Type "word"`.
    pub(crate) words: BTreeSet<String>,
}

impl Outline {
    /// Reads the bundle that a codex prints.
    pub(crate) fn of(bundle: &Value) -> Result<Self> {
        let definitions = bundle.get("definitions").and_then(Value::as_object).context("it has no `definitions`")?;
        let mut outline = Self::default();
        for (union, kind) in METHODS {
            let variants = definitions.get(union).and_then(variants_of);
            for variant in variants.with_context(|| format!("it has no union `{union}`"))? {
                let method = variant.get("properties").and_then(|properties| properties.pointer("/method/enum/0"));
                outline.methods.extend(method.and_then(Value::as_str).map(|method| (method.to_owned(), kind)));
            }
        }
        // Where a name is defined twice, the second dialect's is the one that counts.
        let newer = definitions.get("v2").and_then(Value::as_object);
        let older =
            definitions.iter().filter(|(name, _)| *name != "v2" && newer.is_none_or(|v2| !v2.contains_key(*name)));
        for (name, schema) in older.chain(newer.into_iter().flatten()) {
            if METHODS.iter().all(|(union, _)| union != name) && !name.starts_with("JSONRPC") {
                outline.types.insert(name.clone());
                outline.add(name, name, schema);
            }
        }
        Ok(outline)
    }

    /// Adds the words of a type and the fields at a place in it.
    fn add(&mut self, owner: &str, place: &str, schema: &Value) {
        for word in words_of(schema) {
            self.words.insert(format!("{owner} \"{word}\""));
        }
        let Some(keywords) = schema.as_object() else {
            return;
        };
        self.add_fields(owner, place, keywords, None);
        for variant in variants_of(schema).into_iter().flatten() {
            match tag_of(variant) {
                Some((tag, word)) => {
                    self.words.insert(format!("{owner} \"{word}\""));
                    self.add_fields(owner, &format!("{place}[{word}]"), variant, Some(tag));
                    for set in variant.get("anyOf").and_then(Value::as_array).into_iter().flatten() {
                        self.add(owner, &format!("{place}[{word}]"), set);
                    }
                }
                None => self.add_untagged(owner, place, variant),
            }
        }
    }

    /// A variant that is a word, an object with a single key, or one of several forms.
    fn add_untagged(&mut self, owner: &str, place: &str, variant: &Map<String, Value>) {
        let properties = variant.get("properties").and_then(Value::as_object);
        match properties.map(|properties| (properties.len(), properties.iter().next())) {
            Some((1, Some((key, content)))) if variant.get("additionalProperties") == Some(&Value::Bool(false)) => {
                self.words.insert(format!("{owner} \"{key}\""));
                self.add(owner, &format!("{place}[{key}]"), content);
            }
            _ => self.add(owner, place, &Value::Object(variant.clone())),
        }
    }

    fn add_fields(&mut self, owner: &str, place: &str, object: &Map<String, Value>, tag: Option<&str>) {
        let properties = object.get("properties").and_then(Value::as_object);
        let required = object.get("required").and_then(Value::as_array);
        for (field, schema) in properties.into_iter().flatten().filter(|(field, _)| Some(field.as_str()) != tag) {
            let is_required = required.is_some_and(|names| names.iter().any(|name| name == field));
            let form = if is_required { form_of(schema) } else { format!("optional {}", form_of(schema)) };
            let name = format!("{place}.{field}");
            if schema.get("properties").is_some() {
                self.add(owner, &name, schema);
            }
            self.fields.insert(name, form);
        }
    }
}

fn variants_of(schema: &Value) -> Option<impl Iterator<Item = &Map<String, Value>>> {
    let variants = schema.get("oneOf").or_else(|| schema.get("anyOf"))?.as_array()?;
    Some(variants.iter().filter_map(Value::as_object))
}

fn words_of(schema: &Value) -> impl Iterator<Item = &str> {
    schema.get("enum").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// The field whose only word is what this variant is known by.
fn tag_of(variant: &Map<String, Value>) -> Option<(&str, &str)> {
    let properties = variant.get("properties")?.as_object()?;
    properties.iter().find_map(|(field, schema)| match schema.get("enum")?.as_array()?.as_slice() {
        [Value::String(word)] => Some((field.as_str(), word.as_str())),
        _ => None,
    })
}

/// `[Item]`, `string|null`, `{integer}`
fn form_of(schema: &Value) -> String {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        return reference.rsplit('/').next().unwrap_or_default().to_owned();
    }
    for keyword in ["allOf", "anyOf", "oneOf"] {
        if let Some(forms) = schema.get(keyword).and_then(Value::as_array) {
            return forms.iter().map(form_of).collect::<Vec<_>>().join("|");
        }
    }
    let simple = |kind: &str| match kind {
        "array" => format!("[{}]", schema.get("items").map(form_of).unwrap_or_default()),
        "object" => match schema.get("additionalProperties") {
            Some(values @ Value::Object(_)) => format!("{{{}}}", form_of(values)),
            _ => "object".to_owned(),
        },
        other => other.to_owned(),
    };
    match schema.get("type") {
        Some(Value::String(kind)) => simple(kind),
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).map(simple).collect::<Vec<_>>().join("|"),
        _ => "anything".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use codex::protocol::{METHODS, NEEDS, SCHEMA, Until};

    use super::Outline;

    #[test]
    fn everything_that_we_need_is_in_the_built_in_schema() {
        let outline = Outline::of(&serde_json::from_str(SCHEMA).unwrap()).unwrap();
        let is_there = |need: &&&str| {
            outline.methods.contains_key(**need)
                || outline.fields.contains_key(**need)
                || outline.words.contains(**need)
        };
        let missing: Vec<_> = NEEDS.iter().filter(|need| !is_there(need)).collect();
        assert!(missing.is_empty(), "{missing:?}");
        let today = METHODS.iter().filter(|row| row.until == Until::Today);
        assert!(today.filter(|row| outline.methods.contains_key(row.method)).count() == outline.methods.len());
    }
}
