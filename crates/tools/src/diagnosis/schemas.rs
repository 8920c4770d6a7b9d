//! Faults of schemas: none that can be used (D7), none that says anything (D8), and one in another JSON Schema than
//! MCP's (D19).

use serde_json::{Map, Value};

use crate::evidence::{Evidence, Listed};
use crate::finding::{Code, Finding, Severity};
use crate::nesting::{LISTED_DEPTH_MAX, is_pruned};
use crate::settings::Dialect;
use crate::unfolding::{is_bounded, is_large};
use crate::validation::{Uncompiled, compile};

use super::place::{Place, key, pointed, quoted};
use super::reading::{Reading, told};
use super::{grouped, near};

/// What people call `inputSchema`.
const TAKEN_FOR_INPUT_SCHEMA: [&str; 9] =
    ["paramsschema", "parameters", "params", "schema", "arguments", "args", "argsschema", "parametersschema", "inputs"];

/// References of one schema that are looked into without asking where they lead.
const REFERENCES_MAX: usize = 100;

/// The drafts of JSON Schema that can be checked, by what stands in `$schema` without its scheme.
const DRAFTS: [(&str, &str); 5] = [
    ("json-schema.org/draft-04/schema", "draft-04"),
    ("json-schema.org/draft-06/schema", "draft-06"),
    ("json-schema.org/draft-07/schema", "draft-07"),
    ("json-schema.org/draft/2019-09/schema", "2019-09"),
    ("json-schema.org/draft/2020-12/schema", "2020-12"),
];

pub(super) fn look(reading: &Reading<'_>) -> Vec<Finding> {
    let evidence = reading.evidence;
    let mut findings: Vec<Finding> = unlisted(reading).into_iter().collect();
    findings.extend(evidence.tools.iter().filter_map(|listed| schema_fault(listed, evidence.dialect)));
    findings.extend(backtracking(evidence));
    findings.extend(empty(evidence));
    findings.extend(other_drafts(evidence));
    findings
}

/// Why this tool cannot be offered, if it cannot.
pub(crate) fn schema_fault(listed: &Listed, dialect: Dialect) -> Option<Finding> {
    let fault = |place: Place, what: String, fix: String| Some(place.shows(Code::D7, Severity::Error, what, fix));
    let at = |name: &str| Place::of_tool(listed, key(&listed.path, name));
    let Some(tool) = listed.tool.as_object() else {
        let what = format!("{} stands where a tool must be", quoted(&listed.tool));
        let fix = "describe each tool as an object with `name`, `description` and `inputSchema`".to_owned();
        return fault(Place::of_tool(listed, listed.path.clone()), what, fix);
    };
    let name = name_of(listed);
    let Some((field, schema)) = input_schema(tool, dialect) else {
        return match taken_for_input_schema(tool) {
            Some(near) => {
                let what = format!("tool `{name}` has `{near}` where `inputSchema` must be");
                fault(at(near), what, format!("rename `{near}` to `inputSchema`"))
            }
            None => {
                let what = format!("tool `{name}` has no `inputSchema`");
                let fix = "add a JSON Schema of its arguments as `inputSchema`; `{\"type\": \"object\", \
                           \"additionalProperties\": false}` if it takes none";
                fault(at("inputSchema"), what, fix.to_owned())
            }
        };
    };
    let Some(object) = schema.as_object() else {
        let what = format!("`{field}` of tool `{name}` is no object");
        return fault(at(field), what, "write it as a JSON Schema with `\"type\": \"object\"`".to_owned());
    };
    let path = key(&listed.path, field);
    if is_pruned(&listed.tool) {
        let what = format!("tool `{name}` nests deeper than {LISTED_DEPTH_MAX} levels");
        let fix = "write repeated or deep parts of its schema once under `$defs`, and refer to them with `$ref`";
        return fault(Place::of_tool(listed, path), what, fix.to_owned());
    }
    if object.get("type").and_then(Value::as_str) != Some("object") {
        let (what, path) = match object.get("type") {
            Some(other) => (format!("`{field}` of tool `{name}` has type {}", quoted(other)), key(&path, "type")),
            None => (format!("`{field}` of tool `{name}` has no type"), path),
        };
        let fix = "set `\"type\": \"object\"`, and describe the arguments under `properties`".to_owned();
        return fault(Place::of_tool(listed, path), what, fix);
    }
    let (Uncompiled::Unresolved { error } | Uncompiled::Invalid { error }) = uncompiled(object)? else { return None };
    let (pointer, why) = (error.instance_path().to_string(), error.masked_with(quoted(error.instance())));
    let what = format!("`{field}` of tool `{name}` is no valid JSON Schema: {why}");
    let fix = "write it in JSON Schema 2020-12, with every `$ref` inside of it".to_owned();
    fault(Place::of_tool(listed, pointed(&path, &pointer)), what, fix)
}

/// The field that stands in place of a missing `inputSchema`.
pub(super) fn taken_for_input_schema(tool: &Map<String, Value>) -> Option<&str> {
    let is_missing = !tool.contains_key("inputSchema");
    is_missing.then(|| near::miss(tool, "inputSchema", &TAKEN_FOR_INPUT_SCHEMA)).flatten()
}

pub(super) fn name_of(listed: &Listed) -> &str {
    listed.tool.get("name").and_then(Value::as_str).unwrap_or_default()
}

fn input_schema(tool: &Map<String, Value>, dialect: Dialect) -> Option<(&'static str, &Value)> {
    let in_dialect = match dialect {
        Dialect::Mcp => None,
        Dialect::LocalCowork => tool.get("params_schema").map(|schema| ("params_schema", schema)),
    };
    tool.get("inputSchema").map(|schema| ("inputSchema", schema)).or(in_dialect)
}

/// Why a schema cannot be used to check arguments.
fn uncompiled(schema: &Map<String, Value>) -> Option<Uncompiled> {
    let mut schema = schema.clone();
    let is_known = schema.get("$schema").is_none_or(|named| draft(named).is_some());
    if !is_known {
        schema.remove("$schema");
    }
    // A few references can be looked into wherever they lead; more of them only where that has an end.
    let references = references(&schema);
    let schema = Value::Object(schema);
    if is_large(&schema) || (references > REFERENCES_MAX && !is_bounded(&schema)) {
        return None;
    }
    compile(&schema).err()
}

/// Tools with a pattern that is not checked because it would need an engine that backtracks.
fn backtracking(evidence: &Evidence) -> Vec<Finding> {
    let found = |listed: &Listed| {
        let (field, schema) = input_schema_of(listed, evidence.dialect)?;
        let Uncompiled::Backtracks { pattern } = uncompiled(schema.as_object()?)? else { return None };
        let what = format!(
            "`{field}` of tool `{}` has the pattern {}, which needs backtracking and is not checked",
            name_of(listed),
            quoted(&pattern.into())
        );
        let fix = "write the pattern without look-around (such as `(?=`, `(?!`) and back-references (such as `\\1`)";
        Some(Place::of_tool(listed, key(&listed.path, field)).shows(Code::D7, Severity::Warning, what, fix))
    };
    evidence.tools.iter().filter_map(found).collect()
}

fn references(fields: &Map<String, Value>) -> usize {
    fn inside(value: &Value) -> usize {
        match value {
            Value::Object(fields) => references(fields),
            Value::Array(values) => values.iter().map(inside).sum(),
            _ => 0,
        }
    }
    fields.iter().map(|(name, value)| usize::from(name == "$ref") + inside(value)).sum()
}

fn draft(named: &Value) -> Option<&'static str> {
    let uri = named.as_str()?.trim_end_matches('#');
    let uri = uri.strip_prefix("https://").or_else(|| uri.strip_prefix("http://"))?;
    DRAFTS.iter().find(|(known, _)| *known == uri).map(|(_, draft)| *draft)
}

/// A list of tools that is none.
fn unlisted(reading: &Reading<'_>) -> Option<Finding> {
    if let Some((said, result)) = reading.results("tools/list").find(|(_, result)| !result["tools"].is_array()) {
        let near = result.as_object().and_then(|result| near::miss(result, "tools", &["tool", "functions", "items"]));
        let what = "its answer to `tools/list` has no array `tools`".to_owned();
        let fix = near.map_or("put the tools into an array `tools` in the result".to_owned(), |near| {
            format!("rename `{near}` to `tools`, and make it an array")
        });
        return Some(Place::inside(said, "$.result").shows(Code::D7, Severity::Error, what, fix));
    }
    if reading.results("tools/list").next().is_some() {
        return None;
    }
    let declares = |method| reading.results(method).any(|(_, result)| result["capabilities"]["tools"].is_object());
    let (said, error) = reading.errors("tools/list").next_back()?;
    if !declares("initialize") && !declares("server/discover") {
        return None;
    }
    let what = format!("it says that it has tools, and answered `tools/list` with error {}", told(error));
    let fix = "answer `tools/list` with the tools, or leave `tools` out of `capabilities`";
    Some(Place::inside(said, "$.error").shows(Code::D7, Severity::Error, what, fix))
}

/// Schemas that say nothing: all of them, or those of tools whose descriptions speak of arguments.
fn empty(evidence: &Evidence) -> Vec<Finding> {
    const FIX: &str = "describe each argument under `properties` with its type and what it means, and the necessary \
                       ones under `required`; a converter that gives only `{\"type\": \"object\"}` is a stub. A tool \
                       without arguments has `\"additionalProperties\": false`";
    let is_bare =
        |listed: &&Listed| input_schema_of(listed, evidence.dialect).is_some_and(|(_, schema)| is_bare(schema));
    let bare: Vec<&Listed> = evidence.tools.iter().filter(is_bare).collect();
    let place = |listed: &Listed| {
        let field = input_schema_of(listed, evidence.dialect).map_or("inputSchema", |(field, _)| field);
        Place::of_tool(listed, key(&listed.path, field))
    };
    if bare.len() >= 2 && bare.len() == evidence.tools.len() {
        let names: Vec<String> = bare.iter().map(|listed| format!("`{}`", name_of(listed))).collect();
        let what = format!("no tool says what its arguments are ({}): a model can only guess them", shortened(&names));
        return vec![place(bare[0]).shows(Code::D8, Severity::Warning, what, FIX)];
    }
    let told = bare.into_iter().filter_map(|listed| {
        let word = telling(listed.tool.get("description")?.as_str()?)?;
        let name = name_of(listed);
        let what = format!("the schema of tool `{name}` has no arguments, and its description speaks of `{word}`");
        Some(place(listed).shows(Code::D8, Severity::Warning, what, FIX))
    });
    told.collect()
}

fn input_schema_of(listed: &Listed, dialect: Dialect) -> Option<(&'static str, &Value)> {
    input_schema(listed.tool.as_object()?, dialect)
}

/// A schema that says neither what there is nor that there is nothing.
fn is_bare(schema: &Value) -> bool {
    const SAYS_NOTHING: [&str; 5] = ["type", "$schema", "$id", "title", "description"];
    schema.as_object().is_some_and(|schema| schema.keys().all(|key| SAYS_NOTHING.contains(&key.as_str())))
}

/// The word by which a description tells that there are arguments.
fn telling(description: &str) -> Option<&str> {
    const WORDS: [&str; 8] =
        ["args:", "arguments", "argument", "parameters", "parameter", ":param", "given", "specified"];
    const NONE: [&str; 7] = ["no arg", "no param", "no input", "without arg", "without param", "any arg", "any param"];
    let lower = description.to_ascii_lowercase();
    if NONE.iter().any(|none| lower.contains(none)) {
        return None;
    }
    let quoted = || {
        let (_, rest) = description.split_once('`')?;
        let (word, _) = rest.split_once('`')?;
        let is_name = !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        is_name.then_some(word)
    };
    WORDS.into_iter().find(|word| lower.contains(word)).or_else(quoted)
}

/// One finding for each other draft, with the tools that are written in it.
fn other_drafts<'a>(evidence: &'a Evidence) -> Vec<Finding> {
    const FIELDS: [&str; 3] = ["inputSchema", "outputSchema", "params_schema"];
    let in_tool = |listed: &'a Listed| {
        let named =
            FIELDS.map(|field| (listed.tool.get(field).and_then(|schema| schema.get("$schema")), (listed, field)));
        named.into_iter().filter_map(|(named, place)| Some((named?, place)))
    };
    let named = evidence.tools.iter().flat_map(in_tool);
    let others = grouped(named.filter(|(named, _)| draft(named) != Some("2020-12")));
    let finding = |(named, tools): (&Value, Vec<(&Listed, &str)>)| {
        let known = draft(named);
        let severity = if known == Some("draft-07") { Severity::Note } else { Severity::Warning };
        let mut names: Vec<String> = tools.iter().map(|(listed, _)| format!("`{}`", name_of(listed))).collect();
        names.dedup();
        let dialect = known.map_or_else(|| format!("{}, which is unknown", quoted(named)), str::to_owned);
        let what = format!("schemas are written in {dialect}, not in 2020-12: those of {}", shortened(&names));
        let fix = "write them in 2020-12, the dialect of MCP, and leave `$schema` out";
        let (first, field) = tools[0];
        let path = key(&key(&first.path, field), "$schema");
        Place::of_tool(first, path).shows(Code::D19, severity, what, fix)
    };
    others.into_iter().map(finding).collect()
}

/// The first few of many names.
pub(super) fn shortened(names: &[String]) -> String {
    const NAMES_MAX: usize = 5;
    let shown = names.iter().take(NAMES_MAX).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMES_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
