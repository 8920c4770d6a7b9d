//! Fields of tools that MCP does not know, and that are therefore dropped (D14). One finding for each field, for a field
//! is mostly in every tool of a server.

use serde_json::{Map, Value};

use crate::evidence::{Evidence, Listed};
use crate::finding::{Code, Finding, Severity};
use crate::settings::Dialect;

use super::grouped;
use super::near::plain;
use super::place::{Place, key};
use super::schemas::{name_of, shortened, taken_for_input_schema};

/// What every known version of MCP has in a tool.
const KNOWN: [&str; 9] =
    ["name", "title", "description", "inputSchema", "outputSchema", "annotations", "icons", "_meta", "execution"];

/// Hints of `annotations`, and what people write in their place.
const HINTS: [(&str, &[&str]); 4] = [
    ("readOnlyHint", &["readonly"]),
    ("destructiveHint", &["destructive", "isdestructive"]),
    ("idempotentHint", &["idempotent"]),
    ("openWorldHint", &["openworld"]),
];

pub(super) fn look(evidence: &Evidence) -> Vec<Finding> {
    let in_tool =
        |listed| unknown(listed, evidence.dialect).into_iter().map(move |(field, value)| (field, (listed, value)));
    let dropped = grouped(evidence.tools.iter().flat_map(in_tool));
    dropped.iter().map(|(field, tools)| finding(field, tools)).collect()
}

/// The fields of one tool that are dropped, each by its keys.
fn unknown(listed: &Listed, dialect: Dialect) -> Vec<(Vec<&str>, &Value)> {
    let Some(tool) = listed.tool.as_object() else { return Vec::new() };
    // What stands in its place is a finding of its own.
    let for_input_schema = taken_for_input_schema(tool);
    let mut fields = Vec::new();
    for (name, value) in tool {
        match value {
            _ if KNOWN.contains(&name.as_str()) || for_input_schema == Some(name) => {}
            Value::Object(inner) if !inner.is_empty() && name == "metadata" => {
                fields.extend(inner.iter().map(|(key, value)| (vec![name.as_str(), key.as_str()], value)));
            }
            _ => fields.push((vec![name.as_str()], value)),
        }
    }
    if let Some(annotations) = tool.get("annotations").and_then(Value::as_object) {
        fields.extend(mistaken_hints(annotations));
    }
    if dialect == Dialect::LocalCowork {
        fields.retain(|(field, _)| !field.last().is_some_and(|name| is_of_dialect(name)));
    }
    fields
}

fn mistaken_hints(annotations: &Map<String, Value>) -> impl Iterator<Item = (Vec<&str>, &Value)> {
    let is_mistaken = |name: &str| hint(name).is_some_and(|hint| hint != name);
    let mistaken = annotations.iter().filter(move |(name, _)| is_mistaken(name));
    mistaken.map(|(name, value)| (vec!["annotations", name.as_str()], value))
}

/// The hint that is meant by this name.
fn hint(name: &str) -> Option<&'static str> {
    let plain = plain(name);
    let is_meant = |hint: &str, taken: &[&str]| plain == self::plain(hint) || taken.contains(&plain.as_str());
    HINTS.iter().find(|(hint, taken)| is_meant(hint, taken)).map(|(hint, _)| *hint)
}

fn finding(field: &[&str], tools: &[(&Listed, &Value)]) -> Finding {
    let dotted = field.join(".");
    let names = |is_wanted: fn(&Value) -> bool| -> Vec<String> {
        let wanted = tools.iter().filter(|(_, value)| is_wanted(value));
        wanted.map(|(listed, _)| format!("`{}`", name_of(listed))).collect()
    };
    let (all, set) = (names(|_| true), names(|value| *value == Value::Bool(true)));
    let mut what = format!("MCP knows no `{dotted}` in a tool, so hosts drop it: it is in {}", shortened(&all));
    if !set.is_empty() && set.len() < all.len() {
        what.push_str(&format!(", and `true` in {}", shortened(&set)));
    }
    let name = field.last().copied().unwrap_or_default();
    let fix = match (field[0], hint(name)) {
        ("annotations", Some(hint)) => format!("rename `{dotted}` to `annotations.{hint}`"),
        _ if is_confirmation(name) => {
            "say it as `\"annotations\": {\"destructiveHint\": true}`, which hosts ask a person \
                                       about, or name these tools under `confirm_tools` in its configuration"
                .to_owned()
        }
        _ => format!("put it under `_meta`, as `\"com.example/{name}\"` with a domain of your own"),
    };
    let is_set = |(_, value): &&(&Listed, &Value)| **value == Value::Bool(true);
    let (first, _) = tools.iter().find(is_set).unwrap_or(&tools[0]);
    let path = field.iter().fold(first.path.clone(), |path, name| key(&path, name));
    Place::of_tool(first, path).shows(Code::D14, Severity::Warning, what, fix)
}

fn is_confirmation(name: &str) -> bool {
    matches!(plain(name).as_str(), "confirmationrequired" | "requiresconfirmation" | "confirm" | "requiresapproval")
}

/// What the dialect of LocalCowork has in a tool beside MCP's fields.
fn is_of_dialect(name: &str) -> bool {
    matches!(plain(name).as_str(), "confirmationrequired" | "undosupported")
}
