//! What a server speaks in the place of MCP, made into MCP at the line: pure. LocalCowork's servers take `initialize` without
//! parameters, send their tools with it, call schemas `params_schema`, answer notifications, and fail with protocol errors.
//! None of this is guessed: it counts only for servers whose configuration says so.

use rmcp::model::ErrorData;
use serde_json::{Map, Value, json};

use crate::settings::Dialect;

/// The version that a server without any stands for.
const OLDEST: &str = "2024-11-05";

/// How one server is spoken to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tongue(pub(crate) Dialect);

impl Tongue {
    /// The parameters of a request as this server takes them.
    pub(crate) fn params(self, method: &str, params: Value) -> Option<Value> {
        match (self.0, method, params) {
            (_, _, Value::Null) | (Dialect::LocalCowork, "initialize", _) => None,
            (Dialect::Mcp, _, params) => Some(params),
            (Dialect::LocalCowork, _, mut params) => {
                if let Some(fields) = params.as_object_mut() {
                    fields.remove("_meta");
                }
                Some(params)
            }
        }
    }

    /// Whether it may be told anything that it must not answer.
    pub(crate) fn takes_notifications(self) -> bool {
        self.0 == Dialect::Mcp
    }

    /// The answer of a server as MCP has it.
    pub(crate) fn outcome(self, method: &str, outcome: Result<Value, ErrorData>) -> Result<Value, ErrorData> {
        match (self.0, method, outcome) {
            (Dialect::Mcp, _, outcome) => outcome,
            (Dialect::LocalCowork, "initialize", Ok(result)) => Ok(initialized(result)),
            (Dialect::LocalCowork, "tools/list", Ok(result)) => Ok(listed(result)),
            (Dialect::LocalCowork, "tools/call", Ok(result)) => Ok(called(result)),
            (Dialect::LocalCowork, "tools/call", Err(error)) => {
                Ok(json!({ "content": [{ "type": "text", "text": error.message }], "isError": true }))
            }
            (Dialect::LocalCowork, _, outcome) => outcome,
        }
    }
}

fn initialized(mut result: Value) -> Value {
    if let Some(fields) = result.as_object_mut() {
        rename(fields, "server_info", "serverInfo");
        fields.entry("protocolVersion").or_insert_with(|| OLDEST.into());
        fields.entry("capabilities").or_insert_with(|| json!({ "tools": {} }));
    }
    listed(result)
}

fn listed(mut result: Value) -> Value {
    for tool in result.get_mut("tools").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(fields) = tool.as_object_mut() {
            rename(fields, "params_schema", "inputSchema");
        }
    }
    result
}

/// A result is any object there.
fn called(result: Value) -> Value {
    if result.get("content").is_some_and(Value::is_array) {
        return result;
    }
    let text = match &result {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut whole = json!({ "content": [{ "type": "text", "text": text }] });
    if result.is_object() {
        whole["structuredContent"] = result;
    }
    whole
}

fn rename(fields: &mut Map<String, Value>, theirs: &str, ours: &str) {
    if !fields.contains_key(ours)
        && let Some(value) = fields.remove(theirs)
    {
        fields.insert(ours.into(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THEIRS: Tongue = Tongue(Dialect::LocalCowork);

    #[test]
    fn their_handshake_becomes_one_of_mcp_with_the_tools_in_it() {
        let result = json!({ "server_info": { "name": "security", "version": "1.0" }, "tools": [{ "name": "scan", "params_schema": { "type": "object" } }] });
        let result = THEIRS.outcome("initialize", Ok(result)).unwrap();
        assert_eq!(result["serverInfo"]["name"], "security");
        assert_eq!(result["protocolVersion"], OLDEST);
        assert_eq!(result["tools"][0]["inputSchema"]["type"], "object");
        assert_eq!(THEIRS.params("initialize", json!({ "protocolVersion": "2025-11-25" })), None);
    }

    #[test]
    fn their_results_and_failures_become_results_of_a_tool() {
        let result = THEIRS.outcome("tools/call", Ok(json!({ "files": 3 }))).unwrap();
        assert_eq!(
            result,
            json!({ "content": [{ "type": "text", "text": "{\"files\":3}" }], "structuredContent": { "files": 3 } })
        );
        let error = ErrorData::internal_error("no such file", None);
        let result = THEIRS.outcome("tools/call", Err(error)).unwrap();
        assert_eq!(result, json!({ "content": [{ "type": "text", "text": "no such file" }], "isError": true }));
    }

    #[test]
    fn a_server_of_mcp_is_left_as_it_is() {
        let result = json!({ "server_info": {}, "tools": [{ "params_schema": {} }] });
        assert_eq!(Tongue(Dialect::Mcp).outcome("initialize", Ok(result.clone())), Ok(result));
    }
}
