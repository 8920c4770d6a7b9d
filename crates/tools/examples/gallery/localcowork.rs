//! LocalCowork's servers as they are on the wire: the TypeScript one before the fix of its ADR, and the two dialects since.
//! Notifications and parse errors are answered, a failed tool is a failed request, and `ping` says `ok`.

use serde_json::{Value, json};

use super::lines::{done, failed, heard, method_of, say, unknown};

const INVALID_PARAMS: i64 = -32602;
const METHOD_NOT_FOUND: i64 = -32601;
const FILE_NOT_FOUND: i64 = -32003;

/// The filesystem server before the fix: it pushes its tools under the id "init", knows no `initialize`, and its
/// converter of schemas is a stub.
pub(crate) fn adr() {
    let tools = json!([
        typescript_tool("filesystem.list_dir", "List files in a directory", false, &stub()),
        typescript_tool("filesystem.move_file", "Move or rename a file", true, &stub()),
        typescript_tool("filesystem.delete_file", "Delete a file", true, &stub()),
    ]);
    let server = json!({"name": "filesystem", "version": "1.0.0"});
    say(&done(&json!("init"), &json!({"serverInfo": server, "tools": tools})));
    for message in heard() {
        say_with_same_id(
            &message,
            match method_of(&message) {
                "initialize" => unknown(&message["id"], "initialize"),
                _ => answer(&message["id"], &message, &Value::Null, &tools),
            },
        );
    }
}

/// The Python base class: `params_schema`, `server_info`, flags at the top level, and id 0 for what has none.
pub(crate) fn python() {
    let tools = json!([
        {
            "name": "security.scan_for_pii",
            "description": "Scan a file for personal data",
            "params_schema": path_schema(),
            "confirmation_required": false,
            "undo_supported": false,
        },
        {
            "name": "security.encrypt_file",
            "description": "Encrypt a file in place",
            "params_schema": path_schema(),
            "confirmation_required": true,
            "undo_supported": false,
        },
    ]);
    let server = json!({"name": "security", "version": "1.0.0"});
    let hello = json!({"server_info": server, "tools": tools, "capabilities": {}});
    for message in heard() {
        let id = message.get("id").cloned().unwrap_or(json!(0));
        say(&answer(&id, &message, &hello, &tools));
    }
}

/// The TypeScript base class since the fix: `inputSchema`, flags under `metadata`, and no id for what has none.
pub(crate) fn typescript() {
    let tools = json!([
        typescript_tool("filesystem.read_file", "Read a file", false, &path_schema()),
        typescript_tool("filesystem.delete_file", "Delete a file", true, &path_schema()),
    ]);
    let server = json!({"name": "filesystem", "version": "1.0.0"});
    let hello = json!({"serverInfo": server, "tools": tools});
    for message in heard() {
        say_with_same_id(&message, answer(&message["id"], &message, &hello, &tools));
    }
}

/// In TypeScript an answer to what has no id has none either.
fn say_with_same_id(message: &Value, mut answer: Value) {
    if let Some(answer) = answer.as_object_mut().filter(|_| message.get("id").is_none()) {
        answer.remove("id");
    }
    say(&answer);
}

fn answer(id: &Value, message: &Value, hello: &Value, tools: &Value) -> Value {
    match method_of(message) {
        "initialize" => done(id, hello),
        "tools/list" => done(id, &json!({"tools": tools})),
        "tools/call" => call(id, &message["params"]),
        "ping" => done(id, &json!({"status": "ok"})),
        method => unknown(id, method),
    }
}

/// Any path but `missing` is there.
fn call(id: &Value, params: &Value) -> Value {
    const TOOLS: [&str; 6] = ["scan_for_pii", "encrypt_file", "read_file", "delete_file", "list_dir", "move_file"];
    let name = params["name"].as_str().unwrap_or_default();
    if !name.split_once('.').is_some_and(|(_, tool)| TOOLS.contains(&tool)) {
        return failed(id, METHOD_NOT_FOUND, &format!("Unknown tool: {name}"));
    }
    match params["arguments"]["path"].as_str() {
        None => failed(id, INVALID_PARAMS, "Invalid parameters: path: Required"),
        Some("missing") => failed(id, FILE_NOT_FOUND, "File not found: missing"),
        Some(path) => {
            let text = json!({"path": path, "tool": name}).to_string();
            done(id, &json!({"content": [{"type": "text", "text": text}]}))
        }
    }
}

fn typescript_tool(name: &str, description: &str, confirmation: bool, schema: &Value) -> Value {
    json!({
        "name": name,
        "description": description,
        "inputSchema": schema,
        "metadata": {"confirmationRequired": confirmation, "undoSupported": false},
    })
}

fn stub() -> Value {
    json!({"type": "object"})
}

fn path_schema() -> Value {
    json!({
        "type": "object",
        "properties": {"path": {"type": "string", "description": "Where the file is"}},
        "required": ["path"],
    })
}
