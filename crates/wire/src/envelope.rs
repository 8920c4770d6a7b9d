//! A peek at one line: what kind of message it is, and where its parts lie.
//!
//! Nothing is copied: method, id, params, result and error are borrowed from the line, the last three as raw JSON that
//! somebody may type later. The peek checks what a later reader relies on: UTF-8, one JSON object and nothing after it,
//! bounded nesting, and no key of the envelope twice (parsers differ on which of the two counts).

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;

use crate::depth::is_deeper_than;
use crate::id::RawId;
use crate::report::Fault;

/// One message of the peer, borrowed from its line.
#[derive(Clone, Debug)]
pub enum Envelope<'a> {
    /// The peer asks and waits for an answer.
    Request {
        /// The peer's id for it.
        id: RawId<'a>,
        /// What is asked.
        method: Cow<'a, str>,
        /// Its parameters.
        params: Option<&'a RawValue>,
    },
    /// The peer tells.
    Notification {
        /// What is told.
        method: Cow<'a, str>,
        /// Its parameters.
        params: Option<&'a RawValue>,
        /// When the worker sent it, by its own clock.
        emitted_at_ms: Option<u64>,
    },
    /// The peer answers a call: with a result, or with an error object.
    Answer {
        /// The id that the call had.
        id: RawId<'a>,
        /// The result or the error.
        outcome: Result<&'a RawValue, &'a RawValue>,
    },
}

/// Reads the envelope of one line.
///
/// # Errors
/// The [`Fault`] that makes the line unusable.
pub fn peek(line: &[u8], depth_max: usize) -> Result<Envelope<'_>, Fault> {
    let text = std::str::from_utf8(line).map_err(|_| Fault::NotUtf8)?;
    if is_deeper_than(line, depth_max) {
        return Err(Fault::TooDeep);
    }
    if text.trim_start().starts_with('[') {
        return Err(Fault::Batch);
    }
    let parts: Parts<'_> = serde_json::from_str(text).map_err(|error| match error.classify() {
        Category::Data => Fault::NotAnEnvelope(error.to_string().into()),
        Category::Syntax | Category::Eof | Category::Io => Fault::NotJson(error.to_string().into()),
    })?;
    parts.into_envelope()
}

#[derive(Default)]
struct Parts<'a> {
    id: Option<&'a RawValue>,
    method: Option<Cow<'a, str>>,
    params: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    emitted_at_ms: Option<&'a RawValue>,
    jsonrpc: Option<IgnoredAny>,
    duplicate: Option<&'static str>,
}

impl<'a> Parts<'a> {
    fn into_envelope(self) -> Result<Envelope<'a>, Fault> {
        if let Some(key) = self.duplicate {
            return Err(Fault::DuplicateKey(key));
        }
        let id = self
            .id
            .map(|id| RawId::new(id.get()).ok_or(Fault::BadId))
            .transpose()?;
        match (self.method, id, self.result, self.error) {
            (Some(method), Some(id), None, None) => Ok(Envelope::Request {
                id,
                method,
                params: self.params,
            }),
            (Some(method), None, None, None) => Ok(Envelope::Notification {
                method,
                params: self.params,
                emitted_at_ms: self.emitted_at_ms.and_then(|at| at.get().parse().ok()),
            }),
            (None, Some(id), Some(result), None) => Ok(Envelope::Answer {
                id,
                outcome: Ok(result),
            }),
            (None, Some(id), None, Some(error)) => Ok(Envelope::Answer {
                id,
                outcome: Err(error),
            }),
            (None, None, None, None) => Err(Fault::NotAnEnvelope("no method and no id".into())),
            (None, None, _, _) => Err(Fault::NotAnEnvelope("an answer without id".into())),
            (None, Some(_), None, None) => Err(Fault::NotAnEnvelope(
                "an id without method, result or error".into(),
            )),
            (None, Some(_), Some(_), Some(_)) => {
                Err(Fault::NotAnEnvelope("a result and an error".into()))
            }
            (Some(_), _, _, _) => Err(Fault::NotAnEnvelope(
                "a method with a result or an error".into(),
            )),
        }
    }
}

#[derive(Deserialize)]
#[serde(field_identifier)]
enum Key {
    #[serde(rename = "id")]
    Id,
    #[serde(rename = "method")]
    Method,
    #[serde(rename = "params")]
    Params,
    #[serde(rename = "result")]
    Result,
    #[serde(rename = "error")]
    Error,
    #[serde(rename = "emittedAtMs")]
    EmittedAtMs,
    #[serde(rename = "jsonrpc")]
    JsonRpc,
    #[serde(other)]
    Unknown,
}

impl<'de> Deserialize<'de> for Parts<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PartsVisitor)
    }
}

struct PartsVisitor;

impl<'de> Visitor<'de> for PartsVisitor {
    type Value = Parts<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON-RPC message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Parts<'de>, A::Error> {
        let mut parts = Parts::default();
        while let Some(key) = map.next_key()? {
            let duplicate = match key {
                Key::Id => ("id", parts.id.replace(map.next_value()?).is_some()),
                Key::Method => {
                    let BorrowedStr(method) = map.next_value()?;
                    ("method", parts.method.replace(method).is_some())
                }
                Key::Params => ("params", parts.params.replace(map.next_value()?).is_some()),
                Key::Result => ("result", parts.result.replace(map.next_value()?).is_some()),
                Key::Error => ("error", parts.error.replace(map.next_value()?).is_some()),
                Key::EmittedAtMs => (
                    "emittedAtMs",
                    parts.emitted_at_ms.replace(map.next_value()?).is_some(),
                ),
                Key::JsonRpc => (
                    "jsonrpc",
                    parts.jsonrpc.replace(map.next_value()?).is_some(),
                ),
                Key::Unknown => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            if let (key, true) = duplicate {
                parts.duplicate.get_or_insert(key);
            }
        }
        Ok(parts)
    }
}

/// `Cow<str>` by itself is always owned when deserialized.
#[derive(Deserialize)]
struct BorrowedStr<'a>(#[serde(borrow)] Cow<'a, str>);
