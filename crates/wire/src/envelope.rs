//! A peek at one line: what kind of message it is, and where its parts lie.
//!
//! Nothing is copied: method, id, params, result and error are borrowed from the line, the last three as JSON text that
//! somebody may type later. The peek checks what a later reader relies on: UTF-8, one JSON object and nothing after it,
//! bounded nesting, and no key of the envelope twice (parsers differ on which of the two counts).

use std::borrow::Cow;

use crate::id::RawId;
use crate::report::Fault;
use crate::scan::{ScanFault, Scanner};

/// One message of the peer, borrowed from its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Envelope<'a> {
    /// The peer asks and waits for an answer.
    Request {
        /// The peer's id for it.
        id: RawId<'a>,
        /// What is asked.
        method: Cow<'a, str>,
        /// Its parameters, as JSON text.
        params: Option<&'a str>,
    },
    /// The peer tells.
    Notification {
        /// What is told.
        method: Cow<'a, str>,
        /// Its parameters, as JSON text.
        params: Option<&'a str>,
        /// When the worker sent it, by its own clock.
        emitted_at_ms: Option<u64>,
    },
    /// The peer answers a call: with a result, or with an error object, as JSON text.
    Answer {
        /// The id that the call had.
        id: RawId<'a>,
        /// The result or the error.
        outcome: Result<&'a str, &'a str>,
    },
}

/// Reads the envelope of one line.
///
/// # Errors
/// The [`Fault`] that makes the line unusable.
pub fn peek(line: &[u8], depth_max: usize) -> Result<Envelope<'_>, Fault> {
    let text = std::str::from_utf8(line).map_err(|_| Fault::NotUtf8)?;
    match text.trim_start().as_bytes().first() {
        Some(b'{') => Parts::read(text, depth_max)?.into_envelope(),
        Some(b'[') => Err(Fault::Batch),
        _ => {
            let mut scanner = Scanner::new(line, depth_max);
            scanner.value().and_then(|_| scanner.end())?;
            Err(Fault::NotAnEnvelope("not an object"))
        }
    }
}

#[derive(Default)]
struct Parts<'a> {
    id: Option<&'a str>,
    method: Option<&'a str>,
    params: Option<&'a str>,
    result: Option<&'a str>,
    error: Option<&'a str>,
    emitted_at_ms: Option<&'a str>,
    jsonrpc: Option<&'a str>,
}

impl<'a> Parts<'a> {
    fn read(text: &'a str, depth_max: usize) -> Result<Self, Fault> {
        let mut parts = Self::default();
        let mut duplicate = None;
        // The envelope itself is one level.
        let mut scanner = Scanner::new(text.as_bytes(), depth_max.saturating_sub(1));
        scanner.byte(b'{', "'{'")?;
        if !scanner.eats(b'}') {
            loop {
                let key = &text[scanner.key()?];
                let value = &text[scanner.value()?];
                if let Some((name, part)) = parts.slot(key)
                    && part.replace(value).is_some()
                {
                    duplicate.get_or_insert(name);
                }
                if !scanner.eats(b',') {
                    break;
                }
            }
            scanner.byte(b'}', "',' or '}'")?;
        }
        scanner.end()?;
        match duplicate {
            Some(name) => Err(Fault::DuplicateKey(name)),
            None => Ok(parts),
        }
    }

    /// Where the value of a key belongs. A key may be written with escapes and is the same key nevertheless.
    fn slot(&mut self, key: &str) -> Option<(&'static str, &mut Option<&'a str>)> {
        match unquoted(key)?.as_ref() {
            "id" => Some(("id", &mut self.id)),
            "method" => Some(("method", &mut self.method)),
            "params" => Some(("params", &mut self.params)),
            "result" => Some(("result", &mut self.result)),
            "error" => Some(("error", &mut self.error)),
            "emittedAtMs" => Some(("emittedAtMs", &mut self.emitted_at_ms)),
            "jsonrpc" => Some(("jsonrpc", &mut self.jsonrpc)),
            _ => None,
        }
    }

    fn into_envelope(self) -> Result<Envelope<'a>, Fault> {
        let id = self.id.map(|id| RawId::new(id).ok_or(Fault::BadId)).transpose()?;
        let method = self.method.map(|method| unquoted(method).ok_or(METHOD_NOT_TEXT)).transpose()?;
        let params = self.params;
        // Older peers send both members and leave the one that does not apply null.
        let (result, error) = match (self.result, self.error) {
            (Some(result), Some("null")) => (Some(result), None),
            (Some("null"), Some(error)) => (None, Some(error)),
            other => other,
        };
        match (method, id, result, error) {
            (Some(method), Some(id), None, None) => Ok(Envelope::Request { id, method, params }),
            (Some(method), None, None, None) => Ok(Envelope::Notification {
                method,
                params,
                emitted_at_ms: self.emitted_at_ms.and_then(|at| at.parse().ok()),
            }),
            (None, Some(id), Some(result), None) => Ok(Envelope::Answer { id, outcome: Ok(result) }),
            (None, Some(id), None, Some(error)) => Ok(Envelope::Answer { id, outcome: Err(error) }),
            (None, None, None, None) => Err(Fault::NotAnEnvelope("no method and no id")),
            (None, None, _, _) => Err(Fault::NotAnEnvelope("an answer without id")),
            (None, Some(_), None, None) => Err(Fault::NotAnEnvelope("an id without method, result or error")),
            (None, Some(_), Some(_), Some(_)) => Err(Fault::NotAnEnvelope("a result and an error")),
            (Some(_), _, _, _) => Err(Fault::NotAnEnvelope("a method with a result or an error")),
        }
    }
}

const METHOD_NOT_TEXT: Fault = Fault::NotAnEnvelope("a method that is not a string");

/// The content of a JSON string; borrowed unless it has escapes.
fn unquoted(json: &str) -> Option<Cow<'_, str>> {
    let content = json.strip_prefix('"')?.strip_suffix('"')?;
    if content.contains('\\') {
        return serde_json::from_str(json).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(content))
}

impl From<ScanFault> for Fault {
    fn from(fault: ScanFault) -> Self {
        match fault {
            ScanFault::Expected(what, at) => Self::NotJson { expected: what, at },
            ScanFault::TooDeep => Self::TooDeep,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_written_with_escapes_is_the_same_key() {
        let line = br#"{"\u0069d":1,"id":2,"method":"m"}"#;
        assert_eq!(peek(line, 128), Err(Fault::DuplicateKey("id")));
        let line = br#"{"m\u0065thod":"a\u002fb"}"#;
        let Ok(Envelope::Notification { method, .. }) = peek(line, 128) else {
            panic!("not a notification");
        };
        assert_eq!(method, "a/b");
    }

    #[test]
    fn the_envelope_counts_as_one_level() {
        assert!(peek(br#"{"method":"m","params":[[]]}"#, 3).is_ok());
        assert_eq!(peek(br#"{"method":"m","params":[[]]}"#, 2), Err(Fault::TooDeep));
    }

    #[test]
    fn a_null_result_is_an_answer() {
        let Ok(Envelope::Answer { outcome, .. }) = peek(br#"{"id":1,"result":null}"#, 128) else {
            panic!("not an answer");
        };
        assert_eq!(outcome, Ok("null"));
    }
}
