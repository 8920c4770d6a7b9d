//! The tool calls of a planned answer, by whichever tools the request offers: they differ by codex version.

use serde_json::{Value, json};

use super::marker::Marker;
use super::plan::first_number;

/// The tools of a request, which differ by codex version.
pub(super) struct Offered<'a>(Vec<&'a Value>);

impl<'a> Offered<'a> {
    pub(super) fn by(body: &'a Value) -> Self {
        Self(body["tools"].as_array().into_iter().flatten().collect())
    }

    fn find(&self, name: &str) -> Option<&'a Value> {
        self.0.iter().copied().find(|tool| tool["name"] == name || tool["type"] == name)
    }
}

/// The calls that the marker asks for, in the `number`th request.
pub(super) fn calls(marker: &Marker<'_>, offered: &Offered<'_>, number: u64) -> Vec<Value> {
    let argument = marker.argument;
    let call_id = format!("call_resp_{number}");
    match marker.name {
        "shell" => vec![shell_call(offered, argument, json!({}), &call_id)],
        "shellesc" => vec![shell_call(offered, argument, escalation(offered), &call_id)],
        "patch" => vec![patch_call(offered, argument, &call_id)],
        "plan" => vec![function_call(&call_id, "update_plan", &three_steps().to_string())],
        "tools" => {
            let (name, count) = argument.split_once(' ').unwrap_or((argument, "2"));
            let question = |index| json!({"question": format!("q{index}")}).to_string();
            (1..=first_number(count, 2))
                .map(|index| function_call(&format!("{call_id}_{index}"), name, &question(index)))
                .collect()
        }
        _ => {
            let (name, arguments) = argument.split_once(' ').unwrap_or((argument, "{}"));
            vec![function_call(&call_id, name, arguments)]
        }
    }
}

/// A `function_call` item; a `name` with a dot is a namespace and the name in it.
fn function_call(call_id: &str, name: &str, arguments: &str) -> Value {
    let id = call_id.replacen("call", "fc", 1);
    match name.split_once('.') {
        None => {
            json!({"type": "function_call", "id": id, "call_id": call_id, "name": name, "arguments": arguments})
        }
        Some((namespace, name)) => json!({
            "type": "function_call", "id": id, "call_id": call_id,
            "namespace": namespace, "name": name, "arguments": arguments,
        }),
    }
}

fn three_steps() -> Value {
    json!({
        "explanation": "Three steps.",
        "plan": [
            {"step": "Read the code", "status": "completed"},
            {"step": "Change it", "status": "in_progress"},
            {"step": "Run the tests", "status": "pending"},
        ],
    })
}

fn escalation(offered: &Offered<'_>) -> Value {
    let justification = "mock wants to run this";
    if offered.find("exec_command").or(offered.find("shell_command")).is_some() {
        json!({"sandbox_permissions": "require_escalated", "justification": justification})
    } else {
        json!({"with_escalated_permissions": true, "justification": justification})
    }
}

/// A command by the tool that is offered: `exec_command`, `shell_command`, `local_shell` or `shell`.
fn shell_call(offered: &Offered<'_>, command: &str, mut arguments: Value, call_id: &str) -> Value {
    let through_bash = json!(["bash", "-lc", command]);
    let (name, key, value) = if offered.find("exec_command").is_some() {
        ("exec_command", "cmd", json!(command))
    } else if offered.find("shell_command").is_some() {
        ("shell_command", "command", json!(command))
    } else if offered.find("local_shell").is_some() {
        return json!({
            "type": "local_shell_call", "id": call_id.replacen("call", "lsh", 1), "call_id": call_id,
            "status": "completed", "action": {"type": "exec", "command": through_bash},
        });
    } else {
        ("shell", "command", through_bash)
    };
    arguments[key] = value;
    function_call(call_id, name, &arguments.to_string())
}

/// A patch by the tool that is offered: `apply_patch` as a custom tool or a function, or else a shell.
fn patch_call(offered: &Offered<'_>, argument: &str, call_id: &str) -> Value {
    let (path, text) = argument.split_once(' ').unwrap_or((argument, "hello"));
    let patch = format!("*** Begin Patch\n*** Add File: {path}\n+{text}\n*** End Patch\n");
    match offered.find("apply_patch") {
        Some(tool) if tool["type"] == "custom" => json!({
            "type": "custom_tool_call", "id": call_id.replacen("call", "ctc", 1), "call_id": call_id,
            "name": "apply_patch", "input": patch,
        }),
        Some(_) => function_call(call_id, "apply_patch", &json!({"input": patch}).to_string()),
        None => shell_call(offered, &format!("apply_patch <<'EOF'\n{patch}EOF\n"), json!({}), call_id),
    }
}
