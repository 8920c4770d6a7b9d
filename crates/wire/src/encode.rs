//! Messages to lines.

use crate::event::PeerError;
use crate::json::Json;

/// Whether our lines carry `"jsonrpc":"2.0"`. Lines of the peer are accepted either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JsonRpcField {
    /// As codex speaks.
    #[default]
    Omitted,
    /// As MCP and JSON-RPC proper want it.
    Sent,
}

/// A line under construction: one JSON object, written member by member.
pub(crate) struct Line(Vec<u8>);

impl Line {
    pub(crate) fn new(field: JsonRpcField) -> Self {
        let line = Self(Vec::with_capacity(256));
        match field {
            JsonRpcField::Omitted => line,
            JsonRpcField::Sent => line.member("jsonrpc", r#""2.0""#),
        }
    }

    pub(crate) fn member(mut self, key: &str, json: &str) -> Self {
        self.0.push(if self.0.is_empty() { b'{' } else { b',' });
        self.0.push(b'"');
        self.0.extend_from_slice(key.as_bytes());
        self.0.extend_from_slice(b"\":");
        self.0.extend_from_slice(json.as_bytes());
        self
    }

    pub(crate) fn method(self, method: &str, params: Option<&Json>) -> Self {
        let line = self.member("method", &quoted(method));
        match params {
            Some(params) => line.member("params", params.get()),
            None => line,
        }
    }

    pub(crate) fn error(self, error: &PeerError) -> Self {
        let object =
            Self(Vec::new()).member("code", &error.code.to_string()).member("message", &quoted(&error.message));
        let object = match &error.data {
            Some(data) => object.member("data", data.get()),
            None => object,
        };
        self.member("error", &String::from_utf8_lossy(&object.closed()))
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        let mut bytes = self.closed();
        // Raw JSON may be pretty-printed. A line break is never part of a JSON string, so blanks can stand for it.
        for byte in &mut bytes {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
        bytes.push(b'\n');
        bytes
    }

    fn closed(mut self) -> Vec<u8> {
        self.0.push(b'}');
        self.0
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
