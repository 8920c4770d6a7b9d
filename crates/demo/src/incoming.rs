//! Takes one received line apart: a call, a notification or an answer to a request of ours.
//!
//! What the real worker drops is an error here, with the words for its log.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The id of a call: echoed exactly as it came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum CallId {
    Number(i64),
    Text(String),
}

/// A received line.
#[derive(Debug)]
pub(crate) enum Incoming {
    Call { id: CallId, method: String, params: Option<Value> },
    Notification { method: String },
    Answer { id: CallId, outcome: Outcome },
}

/// How a request of ours was answered.
#[derive(Debug)]
pub(crate) enum Outcome {
    Result(Value),
    Refused,
}

/// Why a line was dropped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Dropped {
    /// The real worker ends when it reads one.
    #[error("the line is not UTF-8")]
    NotUtf8,
    #[error("{0}")]
    NotAMessage(String),
}

#[derive(Deserialize)]
struct Envelope {
    id: Option<Value>,
    method: Option<String>,
    #[serde(default, deserialize_with = "present")]
    params: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    result: Option<Value>,
    error: Option<Value>,
}

/// Keeps an explicit `null` apart from a missing key.
fn present<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(value).map(Some)
}

/// Parses one line; `None` for a blank one.
pub(crate) fn parse(line: &[u8]) -> Result<Option<Incoming>, Dropped> {
    let line = std::str::from_utf8(line).map_err(|_| Dropped::NotUtf8)?.trim();
    if line.is_empty() {
        return Ok(None);
    }
    if line.starts_with('[') {
        return Err(Dropped::NotAMessage("a batch is not a message".to_owned()));
    }
    let envelope: Envelope = serde_json::from_str(line).map_err(|error| Dropped::NotAMessage(error.to_string()))?;
    let id = envelope.id.map(|id| CallId::deserialize(id).ok());
    match (id, envelope.method) {
        (Some(Some(id)), Some(method)) => Ok(Some(Incoming::Call { id, method, params: envelope.params })),
        (None, Some(method)) => Ok(Some(Incoming::Notification { method })),
        (Some(Some(id)), None) => match (envelope.result, envelope.error) {
            (Some(result), _) => Ok(Some(Incoming::Answer { id, outcome: Outcome::Result(result) })),
            (None, Some(_)) => Ok(Some(Incoming::Answer { id, outcome: Outcome::Refused })),
            (None, None) => Err(Dropped::NotAMessage("neither a method nor an answer".to_owned())),
        },
        (None, None) => Err(Dropped::NotAMessage("neither a method nor an answer".to_owned())),
        _ => Err(Dropped::NotAMessage("the id is neither a string nor a 64-bit integer".to_owned())),
    }
}
