//! Shapes to Rust, formatted as rustfmt would. Nearly everything is written in the macros of `protocol/record.rs` and
//! `protocol/open.rs`, which keeps the generated text short and the compiler quick.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::names;
use super::shape::{Alternative, Definition, Field, Presence, Shape, Type, Variant};

const LINE_WIDTH_MAX: usize = 120;
/// Clippy's own limit; beyond it a struct literal reads better anyway.
const ARGUMENTS_MAX: usize = 7;

/// What is known of the types beside their shapes.
pub(super) struct Writer<'a> {
    pub(super) definitions: &'a BTreeMap<String, Definition>,
    /// What each type is for, where a method says so.
    pub(super) purposes: BTreeMap<&'a str, String>,
    /// The fields, by their owner, that need the capability `experimentalApi`.
    pub(super) experimental: BTreeSet<(&'a str, &'a str)>,
    /// The types that we build.
    pub(super) sent: BTreeSet<&'a str>,
}

impl Writer<'_> {
    pub(super) fn definition(&self, definition: &Definition) -> Result<String> {
        let Definition { name, shape } = definition;
        let purpose = self.purposes.get(name.as_str()).cloned();
        let docs = format!("/// {}\n", purpose.unwrap_or_else(|| format!("Upstream's `{name}`.")));
        Ok(match shape {
            Shape::Alias(of) => format!("{docs}pub type {name} = {};\n", rust(of)),
            Shape::Record(fields) => self.record(name, &docs, fields),
            Shape::Words(words) => in_macro("words", &docs, name, "", &each_word(name, words)?),
            Shape::Tagged { tag, variants } => {
                let text = in_macro("tagged", &docs, name, &format!(" by {tag:?}"), &each_variant(name, variants)?);
                text + &self.shared(name, variants)?
            }
            Shape::Keyed { words, keys } => {
                let indented = |lines: Vec<String>| lines.into_iter().map(|line| format!("    {line}"));
                let mut lines = vec!["words {".to_owned()];
                lines.extend(indented(each_word(name, words)?));
                lines.extend(["}".to_owned(), "keys {".to_owned()]);
                lines.extend(indented(each_variant(name, keys)?));
                lines.push("}".to_owned());
                in_macro("keyed", &docs, name, "", &lines)
            }
            Shape::Choice(alternatives) => {
                let lines: Vec<String> = alternatives.iter().map(|alternative| self.alternative(alternative)).collect();
                in_macro("choice", &docs, name, "", &lines)
            }
        })
    }

    fn record(&self, name: &str, docs: &str, fields: &[Field]) -> String {
        let has_required = fields.iter().any(|field| !may_be_missing(field));
        let default = if has_required { "" } else { "    #[derive(Default)]\n" };
        let mut text = format!("record! {{\n    {docs}{default}    pub struct {name} {{\n");
        for field in fields {
            text += &self.field(name, field);
        }
        text += "    }\n}\n";
        if self.sent.contains(name) {
            text += &constructor(name, fields).unwrap_or_default();
        }
        text
    }

    fn field(&self, owner: &str, field: &Field) -> String {
        let Field { wire, holds, presence, default } = field;
        let mut notes = Vec::new();
        let (note, absent) = match presence {
            Presence::Required => (None, ""),
            Presence::Nullable => (Some("may be null"), " or null"),
            Presence::Optional => (Some("optional"), " or none"),
            Presence::Defaulted => (Some("optional"), " or default"),
        };
        notes.extend(note.map(str::to_owned));
        notes.extend(default.iter().map(|default| format!("`{default}` if missing")));
        if self.experimental.contains(&(owner, wire.as_str())) {
            notes.push("experimental".to_owned());
        }
        let notes = if notes.is_empty() { String::new() } else { format!(": {}", notes.join(", ")) };
        let (name, holds) = (names::field(wire), rust(holds));
        format!("        /// `{wire}`{notes}.\n        {name}: {holds} = {wire:?}{absent},\n")
    }

    /// The fields that every variant has, which can then be had without knowing the variant.
    fn shared(&self, owner: &str, variants: &[Variant]) -> Result<String> {
        let contents: Option<Vec<&Vec<Field>>> = variants.iter().map(|variant| self.fields_of(variant)).collect();
        let Some((first, others)) = contents.as_ref().and_then(|contents| contents.split_first()) else {
            return Ok(String::new());
        };
        let is_everywhere = |field: &&Field| others.iter().all(|fields| fields.contains(field));
        let fields = first.iter().filter(is_everywhere).map(|field| {
            let holds = if field.holds == Type::Text { "str".to_owned() } else { rust(&field.holds) };
            format!("{}: {holds},", names::field(&field.wire))
        });
        let fields: Vec<String> = fields.collect();
        if fields.is_empty() || others.is_empty() {
            return Ok(String::new());
        }
        let variants = variants.iter().map(|variant| names::variant(owner, &variant.wire));
        let variants: Vec<String> = variants.collect::<Result<_>>()?;
        let lines = |lines: &[String]| lines.iter().map(|line| format!("        {line}\n")).collect::<String>();
        let variants: Vec<String> = variants.iter().map(|name| format!("{name},")).collect();
        Ok(format!("\nshared! {{\n    {owner} {{\n{}    }} in [\n{}    ]\n}}\n", lines(&fields), lines(&variants)))
    }

    fn fields_of(&self, variant: &Variant) -> Option<&Vec<Field>> {
        let name = variant.content.as_ref()?.named()?;
        match &self.definitions.get(name)?.shape {
            Shape::Record(fields) => Some(fields),
            _ => None,
        }
    }

    fn alternative(&self, alternative: &Alternative) -> String {
        let Alternative { name, holds, guard } = alternative;
        let is_choice = holds
            .named()
            .and_then(|name| self.definitions.get(name))
            .is_some_and(|definition| matches!(definition.shape, Shape::Choice(_)));
        let (holds, how) = (rust(holds), if is_choice { " as choice" } else { "" });
        let guard = guard.as_ref().map(|(field, words)| format!(" if {field:?} in {words:?}"));
        format!("{name}({holds}){how}{},", guard.unwrap_or_default())
    }
}

/// The name of a type in Rust.
pub(super) fn rust(of: &Type) -> String {
    match of {
        Type::Text => "String".to_owned(),
        Type::Truth => "bool".to_owned(),
        Type::Number(name) => (*name).to_owned(),
        Type::Json => "Json".to_owned(),
        Type::List(item) => format!("Vec<{}>", rust(item)),
        Type::Map(value) => format!("BTreeMap<String, {}>", rust(value)),
        Type::Optional(inner) => format!("Option<{}>", rust(inner)),
        Type::Boxed(inner) => format!("Box<{}>", rust(inner)),
        Type::Named(name) => name.clone(),
    }
}

fn may_be_missing(field: &Field) -> bool {
    matches!(field.presence, Presence::Optional | Presence::Defaulted)
}

/// `new` with what is required; none where everything or nothing is.
fn constructor(name: &str, fields: &[Field]) -> Option<String> {
    let required: Vec<&Field> = fields.iter().filter(|field| !may_be_missing(field)).collect();
    if required.is_empty() || required.len() == fields.len() || required.len() > ARGUMENTS_MAX {
        return None;
    }
    let arguments = required.iter().map(|field| {
        let holds = if field.holds == Type::Text { "impl Into<String>".to_owned() } else { rust(&field.holds) };
        format!("{}: {holds}", names::field(&field.wire))
    });
    let values = fields.iter().map(|field| {
        let name = names::field(&field.wire);
        match (field.presence, &field.holds) {
            (Presence::Required, Type::Text) => format!("{name}: {name}.into()"),
            (Presence::Required | Presence::Nullable, _) => name,
            (Presence::Optional, _) => format!("{name}: None"),
            (Presence::Defaulted, _) => format!("{name}: Default::default()"),
        }
    });
    let signature = fitted("    pub fn new(", &arguments.collect::<Vec<_>>(), ") -> Self {");
    let value = fitted("        Self { ", &values.collect::<Vec<_>>(), " }");
    Some(format!("\nimpl {name} {{\n    /// With what is required, and nothing else.\n{signature}{value}    }}\n}}\n"))
}

/// A list between its ends: on one line if it fits, else one element a line.
pub(super) fn fitted(begin: &str, list: &[String], end: &str) -> String {
    let line = format!("{begin}{}{end}\n", list.join(", "));
    if line.trim_end().len() <= LINE_WIDTH_MAX {
        return line;
    }
    let indent = " ".repeat(begin.len() - begin.trim_start().len());
    let rows: String = list.iter().map(|element| format!("{indent}    {element},\n")).collect();
    format!("{}\n{rows}{indent}{}\n", begin.trim_end(), end.trim_start())
}

fn each_word(owner: &str, words: &[String]) -> Result<Vec<String>> {
    words.iter().map(|word| Ok(format!("{} = {word:?},", names::variant(owner, word)?))).collect()
}

fn each_variant(owner: &str, variants: &[Variant]) -> Result<Vec<String>> {
    let line = |variant: &Variant| {
        let name = names::variant(owner, &variant.wire)?;
        let content = variant.content.as_ref().map(|content| format!("({})", rust(content)));
        Ok(format!("{name}{} = {:?},", content.unwrap_or_default(), variant.wire))
    };
    variants.iter().map(line).collect()
}

fn in_macro(name: &str, docs: &str, type_name: &str, more: &str, lines: &[String]) -> String {
    let lines: String = lines.iter().map(|line| format!("        {line}\n")).collect();
    format!("{name}! {{\n    {docs}    pub enum {type_name}{more} {{\n{lines}    }}\n}}\n")
}
