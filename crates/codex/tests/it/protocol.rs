//! The typed protocol: everything that the schema has is there, what the real worker said is read and written again
//! without loss, and whatever becomes of a line, no stream fails.

mod coverage;
mod mutation;
mod needs;
mod recorded;
mod samples;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

fn of_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn json_of_repository(path: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(of_repository(path)).unwrap()).unwrap()
}

/// What the real worker said in all recordings: its notifications, or its requests.
fn recorded(is_wanted: fn(&Value) -> bool) -> Vec<Value> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(of_repository("transcripts")).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    paths.sort();
    let texts: Vec<String> = paths.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let entries = texts.iter().flat_map(|text| text.lines()).map(|line| serde_json::from_str::<Value>(line).unwrap());
    let received = entries.filter(|entry| entry["dir"] == "received").map(|mut entry| entry["message"].take());
    received.filter(is_wanted).collect()
}

/// What the schema leaves out has no type of its own.
fn is_notification(message: &Value) -> bool {
    let method = message["method"].as_str();
    method.is_some_and(|method| !method.starts_with("rawResponse")) && message.get("id").is_none()
}

fn is_request(message: &Value) -> bool {
    message.get("method").is_some() && message.get("id").is_some()
}
