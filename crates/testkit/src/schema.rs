//! Holds the lines of a worker against upstream's schema: notifications and requests by their method, answers by the
//! response type of the call, errors as JSON-RPC errors. It knows v2 alone; v1 has no schema.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use jsonschema::{Draft, Validator};
use serde_json::{Value, json};

use crate::transcript::{Direction, Transcript};

/// What is wrong with the lines of a worker, in words.
pub fn faults(transcript: &Transcript) -> Vec<String> {
    let schema = Schema::committed();
    let mut calls = HashMap::new();
    let mut faults = Vec::new();
    for entry in &transcript.entries {
        match entry.direction {
            Direction::Sent => {
                let method = entry.message["method"].as_str();
                calls.extend(method.map(|method| (entry.message["id"].to_string(), method)));
            }
            Direction::Received => {
                let call = calls.get(&entry.message["id"].to_string()).copied();
                faults.extend(
                    schema.fault(&entry.message, call).map(|fault| format!("{fault}\n      {}", entry.message)),
                );
            }
            Direction::Exit => calls.clear(),
        }
    }
    faults
}

/// Notifications that the schema has only the parameters of.
const UNLISTED: [(&str, &str); 2] = [
    ("rawResponse/completed", "RawResponseCompletedNotification"),
    ("rawResponseItem/completed", "RawResponseItemCompletedNotification"),
];

/// Upstream's schema, with the validators that have been needed so far.
#[derive(Debug)]
pub struct Schema {
    root: Value,
    validators: Mutex<HashMap<String, Arc<Validator>>>,
}

impl Schema {
    /// The schema of the repository, read once.
    pub fn committed() -> &'static Self {
        static SCHEMA: OnceLock<Schema> = OnceLock::new();
        SCHEMA.get_or_init(|| {
            let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../schema/app-server.json");
            let text = fs::read_to_string(path).expect("the schema is there");
            let root = serde_json::from_str(&text).expect("the schema is JSON");
            Self { root, validators: Mutex::default() }
        })
    }

    /// What is wrong with `line`, which answers `call` if it answers anything.
    pub fn fault(&self, line: &Value, call: Option<&str>) -> Option<String> {
        let (kind, value) = match (line["method"].as_str(), call) {
            (Some(method), _) if line["id"].is_null() => (Kind::Notification(method), line),
            (Some(method), _) => (Kind::Request(method), line),
            (None, _) if !line["error"].is_null() => (Kind::Error, line),
            (None, Some(call)) => (Kind::Answer(call), &line["result"]),
            (None, None) => return Some("answers no call".to_owned()),
        };
        let Some(validator) = self.validator(kind) else {
            return Some(format!("{kind:?} is not in the schema"));
        };
        validator.validate(value).err().map(|error| format!("{}: {error}", error.instance_path()))
    }

    fn validator(&self, kind: Kind<'_>) -> Option<Arc<Validator>> {
        let mut validators = self.validators.lock().expect("nothing panics in there");
        if let Some(validator) = validators.get(&format!("{kind:?}")) {
            return Some(Arc::clone(validator));
        }
        let schema = json!({"allOf": [self.part(kind)?], "definitions": self.root["definitions"]});
        let validator = jsonschema::options().with_draft(Draft::Draft7).build(&schema).expect("the schema is sound");
        let validator = Arc::new(validator);
        validators.insert(format!("{kind:?}"), Arc::clone(&validator));
        Some(validator)
    }

    /// The part of the schema that describes a kind of line.
    fn part(&self, kind: Kind<'_>) -> Option<Value> {
        match kind {
            Kind::Notification(method) => match UNLISTED.iter().find(|(unlisted, _)| *unlisted == method) {
                Some((_, params)) => {
                    Some(json!({"properties": {"params": {"$ref": format!("#/definitions/v2/{params}")}}}))
                }
                None => self.variant("ServerNotification", method).cloned(),
            },
            Kind::Request(method) => self.variant("ServerRequest", method).cloned(),
            Kind::Error => Some(json!({"$ref": "#/definitions/JSONRPCError"})),
            Kind::Answer(call) => {
                let params = self.variant("ClientRequest", call)?["properties"]["params"]["$ref"].as_str()?;
                let response = format!("{}Response", params.strip_suffix("Params")?);
                self.root.pointer(response.strip_prefix('#')?)?;
                Some(json!({"$ref": response}))
            }
        }
    }

    /// The message of that kind and method.
    fn variant(&self, kind: &str, method: &str) -> Option<&Value> {
        let variants = self.root["definitions"][kind]["oneOf"].as_array()?;
        variants.iter().find(|variant| variant["properties"]["method"]["enum"][0] == method)
    }
}

/// A kind of line: its method, or the method of the call that it answers.
#[derive(Debug, Clone, Copy)]
enum Kind<'a> {
    Notification(&'a str),
    Request(&'a str),
    Answer(&'a str),
    Error,
}
