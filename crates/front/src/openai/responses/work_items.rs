//! What the agent did itself as items of its own types, for callers that ask for them: commands with their output, edits, searches, and
//! calls of tool servers.

use codex::Item;
use serde_json::{Value, json};

use super::object::Name;

/// Whether an item of the worker's is told by items of these types.
pub(crate) fn is_told(item: &Item) -> bool {
    matches!(&*item.kind, "command_execution" | "file_change" | "web_search" | "mcp_tool_call")
}

/// The items that tell it, the first at this place.
pub(crate) fn of(item: &Item, name: &Name, place: usize) -> Vec<Value> {
    let raw: Value = item.raw.parse().unwrap_or_default();
    let is_done = item.status.as_deref() == Some("completed");
    let status = if is_done { "completed" } else { "incomplete" };
    let text = |name: &str| raw[name].as_str().unwrap_or_default();
    match &*item.kind {
        "command_execution" => {
            let outcome = json!({"type": "exit", "exit_code": raw["exitCode"].as_i64().unwrap_or(-1)});
            let output = json!([{"stdout": text("aggregatedOutput"), "stderr": "", "outcome": outcome}]);
            let action = json!({"commands": [text("command")], "timeout_ms": null, "max_output_length": null});
            vec![
                json!({
                    "type": "shell_call", "id": name.item("sh", place), "call_id": item.id, "status": status,
                    "environment": null, "action": action,
                }),
                json!({
                    "type": "shell_call_output", "id": name.item("sho", place + 1), "call_id": item.id,
                    "status": status, "max_output_length": null, "output": output,
                }),
            ]
        }
        "file_change" => {
            let changes = raw["changes"].as_array().map(Vec::as_slice).unwrap_or_default();
            let patch = |(at, change): (usize, &Value)| {
                json!({
                    "type": "apply_patch_call", "id": name.item("apc", place + at), "call_id": item.id,
                    "status": if is_done { "completed" } else { "in_progress" }, "operation": operation(change),
                })
            };
            changes.iter().enumerate().map(patch).collect()
        }
        "web_search" => {
            let action = json!({"type": "search", "query": text("query")});
            vec![
                json!({"type": "web_search_call", "id": name.item("ws", place), "status": "completed", "action": action}),
            ]
        }
        _ => {
            let error = raw["error"]["message"].as_str();
            vec![json!({
                "type": "mcp_call", "id": name.item("mcp", place), "server_label": text("server"), "name": text("tool"),
                "arguments": raw["arguments"].to_string(), "approval_request_id": null,
                "output": Some(&raw["result"]).filter(|result| !result.is_null()).map(Value::to_string),
                "error": error.map(|message| json!({"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": message}]})),
                "status": if is_done { "completed" } else { "failed" },
            })]
        }
    }
}

fn operation(change: &Value) -> Value {
    let (path, diff) = (&change["path"], change["diff"].as_str().unwrap_or_default());
    match change["kind"]["type"].as_str() {
        Some("add") => json!({"type": "create_file", "path": path, "diff": diff}),
        Some("delete") => json!({"type": "delete_file", "path": path}),
        _ => json!({"type": "update_file", "path": path, "diff": diff}),
    }
}
