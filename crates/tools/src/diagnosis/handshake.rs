//! Faults of the handshake: none that it knows (D3), an answer that lacks something (D5) or has the tools in it (D6),
//! tools that need none (D13), and no common version (D15).

use serde::Serialize;
use serde_json::{Map, Value};

use crate::evidence::Evidence;
use crate::finding::{Code, Finding, Severity};
use crate::handshake::{LEGACY, MODERN};
use crate::settings::Dialect;

use super::near;
use super::place::{Place, key, quoted};
use super::reading::{Reading, Said, told};

const UNKNOWN_METHOD: i64 = -32601;
const UNSUPPORTED_VERSION: i64 = -32022;

/// What a server speaks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "era", rename_all = "snake_case")]
pub enum Spoken {
    /// MCP that begins with `initialize`.
    Legacy {
        /// Its version.
        version: String,
    },
    /// MCP in which every request stands for itself.
    Modern {
        /// Its version.
        version: String,
    },
    /// What LocalCowork's servers speak, if they are configured so.
    LocalCowork,
}

/// One field that an answer must have.
struct Field {
    name: &'static str,
    /// What people put in its place.
    taken_for_it: &'static [&'static str],
    is_right: fn(&Value) -> bool,
    kind: &'static str,
    example: &'static str,
    severity: Severity,
}

const INITIALIZE: [Field; 3] = [
    Field {
        name: "protocolVersion",
        taken_for_it: &["version", "protocol", "mcpversion"],
        is_right: Value::is_string,
        kind: "a string",
        example: "\"2025-11-25\"",
        severity: Severity::Error,
    },
    CAPABILITIES,
    Field {
        name: "serverInfo",
        taken_for_it: &["server", "info", "implementation"],
        is_right: Value::is_object,
        kind: "an object",
        example: "{\"name\": …, \"version\": …}",
        severity: Severity::Warning,
    },
];

const DISCOVER: [Field; 5] = [
    Field {
        name: "supportedVersions",
        taken_for_it: &["versions", "supported", "protocolversions", "supportedprotocolversions", "protocolversion"],
        is_right: Value::is_array,
        kind: "an array",
        example: "[\"2026-07-28\"]",
        severity: Severity::Error,
    },
    CAPABILITIES,
    Field {
        name: "resultType",
        taken_for_it: &["type"],
        is_right: Value::is_string,
        kind: "a string",
        example: "\"complete\"",
        severity: Severity::Warning,
    },
    Field {
        name: "ttlMs",
        taken_for_it: &["ttl"],
        is_right: Value::is_number,
        kind: "a number",
        example: "0",
        severity: Severity::Warning,
    },
    Field {
        name: "cacheScope",
        taken_for_it: &["scope", "cache"],
        is_right: Value::is_string,
        kind: "a string",
        example: "\"private\"",
        severity: Severity::Warning,
    },
];

const CAPABILITIES: Field = Field {
    name: "capabilities",
    taken_for_it: &["capability", "features"],
    is_right: Value::is_object,
    kind: "an object",
    example: "{\"tools\": {}}",
    severity: Severity::Warning,
};

pub(super) fn look(reading: &Reading<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let no_handshake = no_handshake(reading);
    if no_handshake.is_none() {
        findings.extend(answers_without_handshake(reading).or_else(|| answers_unshaken(reading.evidence)));
    }
    findings.extend(no_handshake);
    for (method, fields) in [("server/discover", &DISCOVER[..]), ("initialize", &INITIALIZE[..])] {
        let Some((said, result)) = reading.results(method).next() else { continue };
        findings.extend(lacking(reading, said, result, method, fields));
        findings.extend(tools_inline(reading, said, result, method));
    }
    findings.extend(refusal(reading));
    findings.extend(no_common_version(reading));
    findings
}

/// What came of the handshake, if it came to something.
pub(super) fn spoken(reading: &Reading<'_>) -> Option<Spoken> {
    let modern = |is_late: bool| {
        let (_, result) = reading.results("server/discover").find(|(said, _)| said.is_late() == is_late)?;
        let offered = result.get("supportedVersions")?.as_array()?.iter().filter_map(Value::as_str);
        let version = offered.filter(|version| *version == MODERN).max()?.to_owned();
        Some(Spoken::Modern { version })
    };
    let legacy = || {
        let (_, result) = reading.results("initialize").next()?;
        match result.get("protocolVersion").and_then(Value::as_str).filter(|version| is_known(version)) {
            Some(version) => Some(Spoken::Legacy { version: version.to_owned() }),
            None => (reading.evidence.dialect == Dialect::LocalCowork).then_some(Spoken::LocalCowork),
        }
    };
    // Whoever answers the probe too late is spoken to in the older way, if it knows that.
    modern(false).or_else(legacy).or_else(|| modern(true))
}

fn is_known(version: &str) -> bool {
    LEGACY.contains(&version) || version == MODERN
}

fn no_handshake(reading: &Reading<'_>) -> Option<Finding> {
    if reading.results("server/discover").next().is_some() || reading.results("initialize").next().is_some() {
        return None;
    }
    let (said, error) = reading.errors("initialize").find(|(_, error)| is_unknown_method(error))?;
    let what = format!("it knows neither `initialize` nor `server/discover`: it answered {}", told(error));
    let fix = "answer the request `initialize`, with its own `id`, with `protocolVersion`, `capabilities` and \
               `serverInfo`; a server must not announce itself in place of that";
    Some(Place::inside(said, "$.error").shows(Code::D3, Severity::Error, what, fix))
}

fn is_unknown_method(error: &Value) -> bool {
    const WORDS: [&str; 5] =
        ["unknown method", "method not found", "no such method", "unsupported method", "not implemented"];
    let message = error.get("message").and_then(Value::as_str).unwrap_or_default().to_ascii_lowercase();
    error.get("code").and_then(Value::as_i64) == Some(UNKNOWN_METHOD) || WORDS.iter().any(|word| message.contains(word))
}

fn lacking(reading: &Reading<'_>, said: &Said<'_>, result: &Value, method: &str, fields: &[Field]) -> Vec<Finding> {
    let Some(object) = result.as_object() else {
        let what = format!("its answer to `{method}` has {} for a result, which is no object", quoted(result));
        let wanted = fields.iter().map(|field| format!("`{}`", field.name)).collect::<Vec<_>>().join(", ");
        let fix = format!("answer `{method}` with an object that has {wanted}");
        return vec![Place::inside(said, "$.result").shows(Code::D5, Severity::Error, what, fix)];
    };
    let mut findings: Vec<Finding> =
        fields.iter().filter_map(|field| lacking_field(said, object, method, field)).collect();
    findings.extend(unnamed(said, object));
    findings.extend(undeclared_tools(reading, said, object, method));
    findings
}

fn lacking_field(said: &Said<'_>, result: &Map<String, Value>, method: &str, field: &Field) -> Option<Finding> {
    let Field { name, kind, example, .. } = field;
    let found = |place: Place, what: String, fix: String| Some(place.shows(Code::D5, field.severity, what, fix));
    match result.get(*name) {
        Some(value) if (field.is_right)(value) => None,
        Some(_) => {
            let what = format!("`{name}` in its answer to `{method}` is not {kind}");
            found(Place::inside(said, &key("$.result", name)), what, format!("write it as {kind}, such as {example}"))
        }
        None => match near::miss(result, name, field.taken_for_it) {
            Some(near) => {
                let what = format!("its answer to `{method}` has `{near}` where `{name}` must be");
                let fix = format!("rename `{near}` to `{name}`, and write it as {kind}, such as {example}");
                found(Place::inside(said, &key("$.result", near)), what, fix)
            }
            None => {
                let what = format!("its answer to `{method}` has no `{name}`");
                let fix = format!("add `\"{name}\": {example}` to the result");
                found(Place::inside(said, "$.result"), what, fix)
            }
        },
    }
}

fn unnamed(said: &Said<'_>, result: &Map<String, Value>) -> Option<Finding> {
    let server = result.get("serverInfo")?.as_object()?;
    let lacks = ["name", "version"].into_iter().find(|name| !server.get(*name).is_some_and(Value::is_string))?;
    let what = format!("`serverInfo` has no `{lacks}`");
    let fix = format!("add `\"{lacks}\"` to `serverInfo`, as a string");
    Some(Place::inside(said, "$.result.serverInfo").shows(Code::D5, Severity::Warning, what, fix))
}

fn undeclared_tools(
    reading: &Reading<'_>,
    said: &Said<'_>,
    result: &Map<String, Value>,
    method: &str,
) -> Option<Finding> {
    let declares = result.get("capabilities")?.as_object()?.contains_key("tools");
    if declares || reading.evidence.tools.is_empty() {
        return None;
    }
    let what = format!("it has tools, but its answer to `{method}` does not say so");
    let fix = "add `\"tools\": {}` to `capabilities`: hosts ask for `tools/list` only then";
    Some(Place::inside(said, "$.result.capabilities").shows(Code::D5, Severity::Warning, what, fix))
}

fn tools_inline(reading: &Reading<'_>, said: &Said<'_>, result: &Value, method: &str) -> Option<Finding> {
    let tools = result.get("tools")?.as_array()?;
    let (severity, fix) = match reading.evidence.dialect {
        Dialect::Mcp => (
            Severity::Warning,
            "leave `tools` out of this answer and give them to `tools/list`; or, if it is a server of LocalCowork, set \
             `dialect = \"localcowork\"` in its configuration, and it can be used as it is",
        ),
        Dialect::LocalCowork => (Severity::Note, "nothing: its configuration says that it speaks this dialect"),
    };
    let what = format!(
        "it sent its tools ({}) with the answer to `{method}`: this is the dialect of LocalCowork's servers, not MCP",
        tools.len()
    );
    Some(Place::inside(said, "$.result.tools").shows(Code::D6, severity, what, fix))
}

/// Any error that is neither ignorance of the method nor about versions, where nothing else came of the handshake.
fn refusal(reading: &Reading<'_>) -> Option<Finding> {
    if reading.results("server/discover").next().is_some() || reading.results("initialize").next().is_some() {
        return None;
    }
    let (said, error) = reading.errors("initialize").next_back()?;
    if is_unknown_method(error) || offered(error).is_some() {
        return None;
    }
    let what = format!("it answered `initialize` with error {}", told(error));
    let fix = "take the parameters that MCP has for `initialize` (`protocolVersion`, `capabilities`, `clientInfo`), \
               and answer with `protocolVersion`, `capabilities` and `serverInfo`";
    Some(Place::inside(said, "$.error").shows(Code::D5, Severity::Error, what, fix))
}

/// The versions that an error about versions offers; none at all if it names none.
fn offered(error: &Value) -> Option<Vec<&str>> {
    let supported = error.get("data").and_then(|data| data.get("supported")).and_then(Value::as_array);
    match supported {
        Some(versions) => Some(versions.iter().filter_map(Value::as_str).collect()),
        None => (error.get("code")?.as_i64()? == UNSUPPORTED_VERSION).then(Vec::new),
    }
}

fn no_common_version(reading: &Reading<'_>) -> Option<Finding> {
    let mismatch = |said: &Said<'_>, path: &str, versions: &[&str]| {
        if versions.iter().any(|version| is_known(version)) {
            return None;
        }
        let theirs =
            if versions.is_empty() { "names none".to_owned() } else { format!("speaks {}", versions.join(", ")) };
        let ours = [&LEGACY[..], &[MODERN]].concat().join(", ");
        let what = format!("no version of MCP is common to both: it {theirs}");
        let fix = format!("let it speak one of {ours}");
        Some(Place::inside(said, path).shows(Code::D15, Severity::Error, what, fix))
    };
    let mut answers = reading.said.iter().filter(|said| said.answered().is_some());
    answers.find_map(|said| {
        if let Some(error) = said.error() {
            return mismatch(said, "$.error.data.supported", &offered(error)?);
        }
        let result = said.json.get("result")?;
        match said.answered()? {
            "initialize" => {
                let version = result.get("protocolVersion")?.as_str()?;
                mismatch(said, "$.result.protocolVersion", &[version])
            }
            "server/discover" => {
                let versions = result.get("supportedVersions")?.as_array()?;
                let versions: Vec<&str> = versions.iter().filter_map(Value::as_str).collect();
                mismatch(said, "$.result.supportedVersions", &versions)
            }
            _ => None,
        }
    })
}

fn answers_unshaken(evidence: &Evidence) -> Option<Finding> {
    let other_life = Evidence { frames: evidence.unshaken.clone(), ..Evidence::default() };
    answers_without_handshake(&Reading::of(&other_life))
}

fn answers_without_handshake(reading: &Reading<'_>) -> Option<Finding> {
    let has_result = |said: &&Said<'_>| said.answered().is_some() && said.json.get("result").is_some();
    let first = reading
        .said
        .iter()
        .filter(has_result)
        .find(|said| matches!(said.answered(), Some("server/discover" | "initialize" | "tools/list")))?;
    if first.answered() != Some("tools/list") {
        return None;
    }
    let what = "it answered `tools/list` before the handshake".to_owned();
    let fix = "nothing has to be done; whoever relies on it will find other servers that refuse";
    Some(Place::whole(first).shows(Code::D13, Severity::Note, what, fix))
}
