//! JSON Schema to shapes. Objects that stand inside another definition get a name of their own; a form of schema that
//! upstream has never used before is an error that names its place, never a guess.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Map, Value};

use super::names;
use super::shape::{Alternative, Definition, Field, Presence, Shape, Type, Variant};

/// Definitions that describe the envelope, which `wire` reads, or that list methods, of which we have a table.
const NOT_VALUES: [&str; 10] = [
    "ClientNotification",
    "ClientRequest",
    "JSONRPCError",
    "JSONRPCErrorError",
    "JSONRPCMessage",
    "JSONRPCNotification",
    "JSONRPCRequest",
    "JSONRPCResponse",
    "ServerNotification",
    "ServerRequest",
];

/// Every definition of the bundle, those below `v2` beside the others, by name.
pub(super) fn definitions(bundle: &Value) -> Result<BTreeMap<String, Definition>> {
    let all = bundle.get("definitions").and_then(Value::as_object).context("the bundle has no definitions")?;
    let newer = all.get("v2").and_then(Value::as_object);
    let mut sources: BTreeMap<&str, &Value> = BTreeMap::new();
    for (name, schema) in all.iter().filter(|(name, _)| *name != "v2").chain(newer.into_iter().flatten()) {
        let known = sources.insert(name, schema);
        ensure!(known.is_none_or(|known| known == schema), "{name} is defined twice, differently");
    }
    sources.retain(|name, _| !NOT_VALUES.contains(name));
    let mut reader = Reader { sources, definitions: BTreeMap::new() };
    for (name, schema) in reader.sources.clone() {
        let shape = reader.shape(name, schema).with_context(|| format!("cannot read the definition {name}"))?;
        reader.add(name, shape)?;
    }
    Ok(reader.definitions)
}

struct Reader<'a> {
    sources: BTreeMap<&'a str, &'a Value>,
    definitions: BTreeMap<String, Definition>,
}

impl Reader<'_> {
    fn add(&mut self, name: &str, shape: Shape) -> Result<()> {
        let definition = Definition { name: name.to_owned(), shape };
        let known = self.definitions.insert(name.to_owned(), definition);
        ensure!(known.is_none(), "two types would be called {name}");
        Ok(())
    }

    /// Adds a type for an object that has no definition of its own.
    fn lift(&mut self, name: &str, shape: Shape) -> Result<Type> {
        ensure!(!self.sources.contains_key(name), "two types would be called {name}");
        self.add(name, shape)?;
        Ok(Type::Named(name.to_owned()))
    }

    fn shape(&mut self, name: &str, schema: &Value) -> Result<Shape> {
        let keywords = schema.as_object().context("is no object")?;
        if let Some(variants) = alternatives_of(keywords) {
            only_keywords(keywords, &["anyOf", "oneOf", "properties", "required", "type"])?;
            return self.union(name, keywords, variants);
        }
        if keywords.contains_key("enum") {
            only_keywords(keywords, &["enum", "type"])?;
            return Ok(Shape::Words(words_of(schema)?));
        }
        if is_record(keywords) {
            return Ok(Shape::Record(self.fields(name, keywords)?));
        }
        self.type_of(name, schema).map(Shape::Alias)
    }

    fn union(&mut self, name: &str, base: &Map<String, Value>, variants: &[Value]) -> Result<Shape> {
        // Upstream says with such a variant that it will add words and keys; ours are open anyway.
        let open = serde_json::json!({ "type": ["string", "object"] });
        let variants: Vec<&Value> = variants.iter().filter(|variant| **variant != open).collect();
        let is_word = |variant: &&Value| variant.get("enum").is_some();
        if variants.iter().all(is_word) {
            return Ok(Shape::Words(all_words(&variants)?));
        }
        if let Some(tag) = tag_of(&variants) {
            return self.tagged(name, base, &variants, tag);
        }
        let (words, objects): (Vec<&Value>, Vec<&Value>) = variants.iter().copied().partition(is_word);
        if objects.iter().all(|object| only_key(object).is_some()) {
            let words = all_words(&words)?;
            let keys = objects.into_iter().filter_map(only_key);
            let keys = keys.map(|(key, content)| self.keyed_variant(name, key, content)).collect::<Result<_>>()?;
            return Ok(Shape::Keyed { words, keys });
        }
        if let [inner, null] = variants.as_slice()
            && is_null(null)
        {
            return Ok(Shape::Alias(self.type_of(name, inner)?.optional()));
        }
        let alternatives = variants.iter().map(|variant| self.alternative(name, variant, &variants));
        Ok(Shape::Choice(alternatives.collect::<Result<_>>()?))
    }

    fn tagged(&mut self, name: &str, base: &Map<String, Value>, variants: &[&Value], tag: &str) -> Result<Shape> {
        let mut read = Vec::new();
        for variant in variants {
            let own = variant.as_object().context("a variant is no object")?;
            let wire = fixed_word(own, tag).context("a variant has no tag")?.to_owned();
            let content_name = format!("{name}{}", names::variant(name, &wire)?);
            let mut own = own.clone();
            if let Some(Value::Object(properties)) = own.get_mut("properties") {
                properties.remove(tag);
            }
            let mut fields = self.fields(&content_name, &own)?;
            fields.extend(self.own_fields(&content_name, base)?);
            let content = match fields.is_empty() {
                true => None,
                false => Some(self.lift(&content_name, Shape::Record(fields))?),
            };
            read.push(Variant { wire, content });
        }
        Ok(Shape::Tagged { tag: tag.to_owned(), variants: read })
    }

    fn keyed_variant(&mut self, owner: &str, key: &str, content: &Value) -> Result<Variant> {
        let name = format!("{owner}{}", names::variant(owner, key)?);
        Ok(Variant { wire: key.to_owned(), content: Some(self.type_of(&name, content)?) })
    }

    fn alternative(&mut self, owner: &str, schema: &Value, all: &[&Value]) -> Result<Alternative> {
        let name = match reference_of(schema) {
            Some(name) => between_ends(owner, name),
            None => form_of(schema, all).with_context(|| format!("no name for {schema}"))?,
        };
        let holds = self.type_of(&format!("{owner}{name}"), schema)?;
        let guard = reference_of(schema).and_then(|name| self.guard(name));
        Ok(Alternative { name, holds, guard })
    }

    /// A required field of the definition whose words are known, and which thus tells it from others.
    fn guard(&self, definition: &str) -> Option<(String, Vec<String>)> {
        let schema = self.sources.get(definition)?.as_object()?;
        let properties = schema.get("properties")?.as_object()?;
        properties.iter().filter(|(field, _)| is_required(schema, field)).find_map(|(field, property)| {
            let words = self.sources.get(reference_of(property)?)?;
            Some((field.clone(), words_of(words).ok()?))
        })
    }

    /// The fields of an object. Where it must have one of several sets of fields, each of these may be missing.
    fn fields(&mut self, owner: &str, object: &Map<String, Value>) -> Result<Vec<Field>> {
        only_keywords(object, &["additionalProperties", "anyOf", "default", "properties", "required", "type"])?;
        let mut fields = self.own_fields(owner, object)?;
        for set in object.get("anyOf").and_then(Value::as_array).into_iter().flatten() {
            let set = set.as_object().context("a set of fields is no object")?;
            only_keywords(set, &["properties", "required", "type"])?;
            let more = self.own_fields(owner, set)?;
            fields.extend(more.into_iter().map(|field| Field {
                holds: field.holds.optional(),
                presence: Presence::Optional,
                ..field
            }));
        }
        Ok(fields)
    }

    fn own_fields(&mut self, owner: &str, object: &Map<String, Value>) -> Result<Vec<Field>> {
        let properties = object.get("properties").and_then(Value::as_object).into_iter().flatten();
        let read = properties.map(|(wire, schema)| {
            let field = self.field(owner, wire, schema, is_required(object, wire));
            field.with_context(|| format!("cannot read the field {wire} of {owner}"))
        });
        read.collect()
    }

    fn field(&mut self, owner: &str, wire: &str, schema: &Value, required: bool) -> Result<Field> {
        let name = format!("{owner}{}", names::pascal(wire));
        let holds = self.type_of(&name, schema)?;
        let default = schema.get("default").filter(|default| !is_rusts_own(default));
        let can_default = matches!(holds, Type::Text | Type::Truth | Type::Number(_) | Type::List(_) | Type::Map(_));
        let presence = match (&holds, required) {
            (Type::Optional(_), true) => Presence::Nullable,
            (_, true) => Presence::Required,
            (_, false) if can_default && default.is_none() => Presence::Defaulted,
            (_, false) => Presence::Optional,
        };
        let holds = if presence == Presence::Optional { holds.optional() } else { holds };
        Ok(Field { wire: wire.to_owned(), holds, presence, default: default.map(Value::to_string) })
    }

    /// The type of a value; `name` is for an object that has none.
    fn type_of(&mut self, name: &str, schema: &Value) -> Result<Type> {
        let Some(keywords) = schema.as_object() else {
            ensure!(schema == &Value::Bool(true), "nothing can be {schema}");
            return Ok(Type::Json);
        };
        if let Some(definition) = reference_of(schema) {
            only_keywords(keywords, &["$ref", "allOf", "default"])?;
            ensure!(self.sources.contains_key(definition), "{definition} is not defined");
            return Ok(Type::Named(definition.to_owned()));
        }
        if let Some(Value::Array(variants)) = keywords.get("anyOf") {
            only_keywords(keywords, &["anyOf", "default"])?;
            if let [inner, null] = variants.as_slice()
                && is_null(null)
            {
                return Ok(self.type_of(name, inner)?.optional());
            }
            bail!("a choice within a field: {schema}");
        }
        match keywords.get("type") {
            None if keywords.keys().all(|keyword| keyword == "default") => Ok(Type::Json),
            Some(Value::String(simple)) => self.simple(name, simple, keywords),
            Some(Value::Array(kinds)) => match kinds.as_slice() {
                [Value::String(simple), Value::String(null)] if null == "null" => {
                    Ok(self.simple(name, simple, keywords)?.optional())
                }
                _ => bail!("a value of several types: {schema}"),
            },
            _ => bail!("a form of schema that the generator does not know: {schema}"),
        }
    }

    fn simple(&mut self, name: &str, simple: &str, keywords: &Map<String, Value>) -> Result<Type> {
        let numbers = ["format", "minLength", "minimum"];
        let objects = ["additionalProperties", "anyOf", "items", "properties", "required"];
        only_keywords(keywords, &[&["default", "type"], &numbers[..], &objects[..]].concat())?;
        Ok(match simple {
            "string" => Type::Text,
            "boolean" => Type::Truth,
            "integer" | "number" => Type::Number(number(keywords)?),
            "array" => {
                let items = keywords.get("items").context("a list of nothing")?;
                Type::List(Box::new(self.type_of(name, items)?))
            }
            "object" if keywords.contains_key("properties") => {
                let fields = self.fields(name, keywords)?;
                self.lift(name, Shape::Record(fields))?
            }
            "object" => match keywords.get("additionalProperties") {
                Some(values) => Type::Map(Box::new(self.type_of(name, values)?)),
                None => Type::Json,
            },
            other => bail!("a {other} that the generator does not know: {keywords:?}"),
        })
    }
}

/// A keyword that is not expected might change what is valid.
fn only_keywords(schema: &Map<String, Value>, expected: &[&str]) -> Result<()> {
    match schema.keys().find(|keyword| !expected.contains(&keyword.as_str())) {
        Some(keyword) => bail!("the generator does not expect {keyword:?} here: {schema:?}"),
        None => Ok(()),
    }
}

fn number(keywords: &Map<String, Value>) -> Result<&'static str> {
    let format = keywords.get("format").and_then(Value::as_str).unwrap_or_default();
    Ok(match format {
        "int32" => "i32",
        "int64" => "i64",
        "uint16" => "u16",
        "uint32" => "u32",
        "uint" | "uint64" => "u64",
        "double" => "f64",
        other => bail!("a number of the unknown format {other:?}"),
    })
}

fn alternatives_of(keywords: &Map<String, Value>) -> Option<&[Value]> {
    let list = keywords.get("oneOf").or_else(|| keywords.get("anyOf"))?;
    list.as_array().map(Vec::as_slice)
}

fn is_record(keywords: &Map<String, Value>) -> bool {
    let closed = keywords.get("additionalProperties").is_none_or(Value::is_boolean);
    keywords.get("type").is_some_and(|kind| kind == "object") && (keywords.contains_key("properties") || closed)
}

fn is_required(object: &Map<String, Value>, field: &str) -> bool {
    object.get("required").and_then(Value::as_array).is_some_and(|required| required.iter().any(|name| name == field))
}

fn is_null(schema: &Value) -> bool {
    schema.get("type").is_some_and(|kind| kind == "null")
}

fn is_rusts_own(default: &Value) -> bool {
    match default {
        Value::Null => true,
        Value::Bool(truth) => !truth,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

/// The name behind a reference, also where it stands alone in an `allOf` to carry a default.
fn reference_of(schema: &Value) -> Option<&str> {
    if let Some([only]) = schema.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
        return reference_of(only);
    }
    schema.get("$ref")?.as_str()?.rsplit('/').next()
}

fn words_of(schema: &Value) -> Result<Vec<String>> {
    let words = schema.get("enum").and_then(Value::as_array).context("no enum")?;
    words.iter().map(|word| Ok(word.as_str().with_context(|| format!("{word} is no word"))?.to_owned())).collect()
}

fn all_words(variants: &[&Value]) -> Result<Vec<String>> {
    let words: Vec<Vec<String>> = variants.iter().map(|variant| words_of(variant)).collect::<Result<_>>()?;
    Ok(words.concat())
}

/// The field that has one fixed word in every variant.
fn tag_of<'a>(variants: &[&'a Value]) -> Option<&'a str> {
    let first = variants.first()?.get("properties")?.as_object()?;
    let is_tag = |field: &str| {
        variants.iter().all(|variant| variant.as_object().is_some_and(|variant| fixed_word(variant, field).is_some()))
    };
    first.keys().map(String::as_str).find(|field| is_tag(field))
}

fn fixed_word<'a>(variant: &'a Map<String, Value>, field: &str) -> Option<&'a str> {
    let words = variant.get("properties")?.get(field)?.get("enum")?.as_array()?;
    match words.as_slice() {
        [Value::String(word)] if is_required(variant, field) => Some(word),
        _ => None,
    }
}

/// The key and the content of an object that has exactly one.
fn only_key(variant: &Value) -> Option<(&str, &Value)> {
    let variant = variant.as_object()?;
    let properties = variant.get("properties")?.as_object()?;
    let (key, content) = properties.iter().next()?;
    let is_alone = properties.len() == 1 && is_required(variant, key);
    (is_alone && variant.get("additionalProperties") == Some(&Value::Bool(false))).then_some((key, content))
}

/// What is left of a name without the ends that it shares with its owner's: `…EnumSchema` of a `…PrimitiveSchema` is `Enum`.
fn between_ends(owner: &str, name: &str) -> String {
    let words = |name: &str| {
        let starts = name.char_indices().filter(|(_, c)| c.is_ascii_uppercase()).map(|(at, _)| at);
        let starts: Vec<usize> = starts.chain([name.len()]).collect();
        starts.windows(2).map(|pair| name[pair[0]..pair[1]].to_owned()).collect::<Vec<_>>()
    };
    let (owner, own) = (words(owner), words(name));
    let head = own.iter().zip(&owner).take_while(|(a, b)| a == b).count();
    let tail = own.iter().rev().zip(owner.iter().rev()).take_while(|(a, b)| a == b).count();
    let end = own.len().saturating_sub(tail).max(head);
    let middle = own[head..end].concat();
    if middle.is_empty() { name.to_owned() } else { middle }
}

/// A name for an alternative that has none: by its JSON type, or by the field that only it requires.
fn form_of(schema: &Value, all: &[&Value]) -> Option<String> {
    match schema.get("type")?.as_str()? {
        "string" => Some("Text".to_owned()),
        "integer" | "number" => Some("Number".to_owned()),
        "array" => Some("List".to_owned()),
        "object" => {
            let others: Vec<_> = all.iter().filter(|other| **other != schema).collect();
            let is_own = |field: &&Value| {
                !others.iter().any(|other| other["required"].as_array().is_some_and(|list| list.contains(field)))
            };
            let own = schema["required"].as_array()?.iter().find(is_own)?;
            own.as_str().map(names::pascal)
        }
        _ => None,
    }
}
