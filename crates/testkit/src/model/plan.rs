//! Decides, purely, what the stand-in answers to one request.
//!
//! | marker | answer |
//! |---|---|
//! | `[[text]]`, or none | "Hello from mock." in four deltas |
//! | `[[deltas N]]` · `[[slow N MS]]` | N deltas at once · with a pause after each |
//! | `[[reason]]` | reasoning with two summary parts and raw text, then a message |
//! | `[[shell CMD]]` · `[[shellesc CMD]]` | a command, by whichever tool is offered · with escalated permissions |
//! | `[[patch PATH TEXT]]` | a patch that adds a file |
//! | `[[plan]]` | a plan of three steps |
//! | `[[tool NAME JSON]]` · `[[tools NAME N]]` | a client tool (`NAME` may be `namespace.name`) · N calls in one response |
//! | `[[json OBJ]]` | a message whose text is OBJ |
//! | `[[http CODE]]` · `[[httponce CODE]]` | that HTTP status · the first time only |
//! | `[[ctx]]` · `[[quota]]` | a response that fails: context window, quota |
//! | `[[drop]]` · `[[hang]]` | a stream cut in mid message · a stream that never goes on |
//!
//! Once a tool's output follows the user message, the answer is "Done after tool." in three deltas.

use std::time::Duration;

use serde_json::{Value, json};

use super::marker::Marker;

/// What to answer to one request.
#[derive(Debug)]
pub(super) enum Answer {
    Refusal { status: u16, body: Value },
    Stream(Vec<Step>),
}

/// One step of a streamed answer; the stream ends after the last.
#[derive(Debug)]
pub(super) enum Step {
    Event(Value),
    Pause(Duration),
    Hang,
}

/// The part of a request's input that decides the answer.
pub(super) struct Prompt {
    pub text: String,
    pub tool_has_answered: bool,
}

impl Prompt {
    /// The last user message, and whether a tool's output follows it. What codex adds as user messages of its own
    /// (`<environment_context>` and the like) does not count.
    pub(super) fn of(body: &Value) -> Self {
        let input = body["input"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let said = input.iter().enumerate().rev().find_map(|(at, item)| {
            let text = user_text(item)?;
            (!text.starts_with('<')).then_some((at, text))
        });
        let (after, text) = said.map_or((0, String::new()), |(at, text)| (at + 1, text));
        let tool_has_answered = input[after..]
            .iter()
            .any(|item| kind(item).ends_with("_call_output"));
        Self {
            text,
            tool_has_answered,
        }
    }
}

fn kind(item: &Value) -> &str {
    item["type"].as_str().unwrap_or("message")
}

fn user_text(item: &Value) -> Option<String> {
    if kind(item) != "message" || item["role"] != "user" {
        return None;
    }
    Some(match &item["content"] {
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| part["text"].as_str())
            .collect(),
        content => content.as_str().unwrap_or_default().to_owned(),
    })
}

/// The answer to the request `body`, the `number`th of this provider; its prompt was `asked_before` so often.
pub(super) fn plan(body: &Value, prompt: &Prompt, number: u64, asked_before: u64) -> Answer {
    let marker = Marker::last(&prompt.text).unwrap_or(Marker {
        name: "text",
        argument: "",
    });
    let argument = marker.argument;
    let mut response = Response::begin(number);
    if prompt.tool_has_answered {
        response.message(&["Done ", "after ", "tool."]);
        return response.complete(Usage::TEXT);
    }
    match marker.name {
        "http" => return refusal(status(argument)),
        "httponce" if asked_before == 0 => return refusal(status(argument)),
        "deltas" => {
            let count = first_number(argument, 100);
            response.message(&numbered("t", count));
            return response.complete(Usage {
                output: count,
                ..Usage::TEXT
            });
        }
        "slow" => {
            let pause = Duration::from_millis(
                argument
                    .split_whitespace()
                    .nth(1)
                    .map_or(200, |ms| first_number(ms, 200)),
            );
            response.paced_message(&numbered("s", first_number(argument, 20)), pause);
        }
        "reason" => {
            response.reasoning();
            response.message(&["Reasoned ", "answer."]);
            return response.complete(Usage {
                output: 30,
                reasoning: 20,
                ..Usage::TEXT
            });
        }
        "shell" | "shellesc" | "patch" | "plan" | "tool" | "tools" => {
            response.tool_calls(&calls(&marker, &Offered::by(body), number));
            return response.complete(Usage::TOOL);
        }
        "json" => response.message(&[argument]),
        "ctx" => {
            return response.fail(
                "context_length_exceeded",
                "Your input exceeds the context window of this model.",
            );
        }
        "quota" => return response.fail("insufficient_quota", "You exceeded your current quota."),
        "drop" => return response.cut(),
        "hang" => return response.hang(),
        _ => response.message(&["Hello ", "from ", "mock", "."]),
    }
    response.complete(Usage::TEXT)
}

fn first_number(argument: &str, default: u64) -> u64 {
    argument
        .split_whitespace()
        .next()
        .and_then(|word| word.parse().ok())
        .unwrap_or(default)
}

fn status(argument: &str) -> u16 {
    argument.parse().unwrap_or(500)
}

fn numbered(letter: &str, count: u64) -> Vec<String> {
    (0..count)
        .map(|index| format!("{letter}{index} "))
        .collect()
}

fn refusal(status: u16) -> Answer {
    let error = match status {
        400 => json!({
            "message": "Your input exceeds the context window of this model.",
            "type": "invalid_request_error",
            "code": "context_length_exceeded",
        }),
        401 => {
            json!({"message": "Incorrect API key", "type": "invalid_request_error", "code": "invalid_api_key"})
        }
        429 => json!({
            "message": "Rate limit reached for mock",
            "type": "rate_limit_exceeded",
            "code": "rate_limit_exceeded",
        }),
        other => json!({"message": format!("mock error {other}"), "type": "server_error"}),
    };
    Answer::Refusal {
        status,
        body: json!({"error": error}),
    }
}

/// The tools of a request, which differ by codex version.
struct Offered<'a>(Vec<&'a Value>);

impl<'a> Offered<'a> {
    fn by(body: &'a Value) -> Self {
        Self(body["tools"].as_array().into_iter().flatten().collect())
    }

    fn find(&self, name: &str) -> Option<&'a Value> {
        self.0
            .iter()
            .copied()
            .find(|tool| tool["name"] == name || tool["type"] == name)
    }
}

fn calls(marker: &Marker<'_>, offered: &Offered<'_>, number: u64) -> Vec<Value> {
    let argument = marker.argument;
    let call_id = format!("call_resp_{number}");
    match marker.name {
        "shell" => vec![shell_call(offered, argument, json!({}), &call_id)],
        "shellesc" => vec![shell_call(offered, argument, escalation(offered), &call_id)],
        "patch" => vec![patch_call(offered, argument, &call_id)],
        "plan" => vec![function_call(
            &call_id,
            "update_plan",
            &three_steps().to_string(),
        )],
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
    if offered
        .find("exec_command")
        .or(offered.find("shell_command"))
        .is_some()
    {
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
        None => shell_call(
            offered,
            &format!("apply_patch <<'EOF'\n{patch}EOF\n"),
            json!({}),
            call_id,
        ),
    }
}

/// The tokens of a response, as the provider counts them.
struct Usage {
    input: u64,
    output: u64,
    reasoning: u64,
}

impl Usage {
    const TEXT: Self = Self {
        input: 100,
        output: 10,
        reasoning: 0,
    };
    const TOOL: Self = Self {
        input: 200,
        output: 20,
        reasoning: 0,
    };

    fn to_json(&self) -> Value {
        json!({
            "input_tokens": self.input,
            "input_tokens_details": {"cached_tokens": 40},
            "output_tokens": self.output,
            "output_tokens_details": {"reasoning_tokens": self.reasoning},
            "total_tokens": self.input + self.output,
        })
    }
}

/// A response stream in the least form that codex accepts.
struct Response {
    id: String,
    steps: Vec<Step>,
}

impl Response {
    fn begin(number: u64) -> Self {
        let mut response = Self {
            id: format!("resp_{number}"),
            steps: Vec::new(),
        };
        let created = json!({"id": response.id, "status": "in_progress"});
        response.event("response.created", json!({"response": created}));
        response
    }

    fn event(&mut self, name: &str, mut event: Value) {
        event["type"] = json!(name);
        self.steps.push(Step::Event(event));
    }

    fn added(&mut self, index: usize, item: &Value) {
        self.event(
            "response.output_item.added",
            json!({"output_index": index, "item": item}),
        );
    }

    fn done(&mut self, index: usize, item: &Value) {
        self.event(
            "response.output_item.done",
            json!({"output_index": index, "item": item}),
        );
    }

    fn message(&mut self, deltas: &[impl AsRef<str>]) {
        self.paced_message(deltas, Duration::ZERO);
    }

    fn paced_message(&mut self, deltas: &[impl AsRef<str>], pause: Duration) {
        self.open_message();
        let mut text = String::new();
        for delta in deltas {
            text.push_str(delta.as_ref());
            self.message_delta(delta.as_ref());
            if !pause.is_zero() {
                self.steps.push(Step::Pause(pause));
            }
        }
        let content = json!([{"type": "output_text", "text": text, "annotations": []}]);
        let id = self.message_id();
        self.done(0, &json!({"type": "message", "role": "assistant", "id": id, "status": "completed", "content": content}));
    }

    fn message_id(&self) -> String {
        format!("msg_{}", self.id)
    }

    fn open_message(&mut self) {
        let id = self.message_id();
        self.added(0, &json!({"type": "message", "role": "assistant", "id": id, "status": "in_progress", "content": []}));
    }

    fn message_delta(&mut self, delta: &str) {
        let id = self.message_id();
        let place = json!({"item_id": id, "output_index": 0, "content_index": 0, "delta": delta});
        self.event("response.output_text.delta", place);
    }

    fn reasoning(&mut self) {
        let id = format!("rs_{}", self.id);
        self.added(0, &json!({"type": "reasoning", "id": id, "summary": []}));
        let summary = [
            &["**Thinking", " hard** ", "about it."][..],
            &["Second part."],
        ];
        for (index, deltas) in summary.iter().enumerate() {
            let part = json!({"type": "summary_text", "text": ""});
            let place =
                json!({"item_id": id, "output_index": 0, "summary_index": index, "part": part});
            self.event("response.reasoning_summary_part.added", place);
            for delta in *deltas {
                let place = json!({"item_id": id, "output_index": 0, "summary_index": index, "delta": delta});
                self.event("response.reasoning_summary_text.delta", place);
            }
        }
        for delta in ["raw ", "chain"] {
            let place =
                json!({"item_id": id, "output_index": 0, "content_index": 0, "delta": delta});
            self.event("response.reasoning_text.delta", place);
        }
        let summary: Vec<_> = summary
            .iter()
            .map(|deltas| json!({"type": "summary_text", "text": deltas.concat()}))
            .collect();
        let content = json!([{"type": "reasoning_text", "text": "raw chain"}]);
        self.done(0, &json!({
            "type": "reasoning", "id": id, "summary": summary, "content": content, "encrypted_content": "ENC",
        }));
    }

    fn tool_calls(&mut self, calls: &[Value]) {
        for (index, call) in calls.iter().enumerate() {
            self.added(index, call);
            self.done(index, call);
        }
    }

    fn complete(mut self, usage: Usage) -> Answer {
        let completed = json!({"id": self.id, "status": "completed", "usage": usage.to_json()});
        self.event("response.completed", json!({"response": completed}));
        Answer::Stream(self.steps)
    }

    fn fail(mut self, code: &str, message: &str) -> Answer {
        let failed =
            json!({"id": self.id, "status": "failed", "error": {"code": code, "message": message}});
        self.event("response.failed", json!({"response": failed}));
        Answer::Stream(self.steps)
    }

    fn cut(mut self) -> Answer {
        self.open_message();
        self.message_delta("partial");
        Answer::Stream(self.steps)
    }

    fn hang(mut self) -> Answer {
        self.steps.push(Step::Hang);
        Answer::Stream(self.steps)
    }
}
