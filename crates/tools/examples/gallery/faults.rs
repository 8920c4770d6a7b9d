//! One server for each fault from D1 to D20: the same small server, with one thing wrong.

use std::process;
use std::time::Duration;

use serde_json::{Value, json};

use super::lines::{done, failed, heard, log, method_of, pause, say, say_line, told, unknown};
use super::processes::leave;

/// A good legacy server of two tools, as a function from what it hears to what it answers.
pub(crate) struct Plain {
    has_begun: bool,
    tools: Value,
}

impl Plain {
    pub(crate) fn new() -> Self {
        Self { has_begun: false, tools: json!([move_file(), now()]) }
    }

    fn with_tools(tools: Value) -> Self {
        Self { has_begun: false, tools }
    }

    /// One that does not insist on a handshake.
    fn begun() -> Self {
        Self { has_begun: true, ..Self::new() }
    }

    pub(crate) fn answer(&mut self, heard: &Value) -> Option<Value> {
        let id = heard.get("id")?;
        Some(match method_of(heard) {
            "initialize" => {
                self.has_begun = true;
                done(id, &hello())
            }
            "ping" => done(id, &json!({})),
            "tools/list" | "tools/call" if !self.has_begun => failed(id, -32600, "Not initialized"),
            "tools/list" => done(id, &json!({"tools": self.tools})),
            "tools/call" => done(id, &json!({"content": [{"type": "text", "text": "done"}], "isError": false})),
            method => unknown(id, method),
        })
    }

    /// Serves, with each answer changed like this.
    fn serve(mut self, mut changed: impl FnMut(&Value, Option<Value>) -> Option<Value>) {
        for message in heard() {
            let answer = self.answer(&message);
            if let Some(answer) = changed(&message, answer) {
                say(&answer);
            }
        }
    }

    /// Serves without a fault.
    pub(crate) fn serve_well(self) {
        self.serve(|_, answer| answer);
    }
}

fn hello() -> Value {
    json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "gallery", "version": "1.0.0"},
    })
}

fn move_file() -> Value {
    json!({
        "name": "move_file",
        "description": "Move or rename a file",
        "inputSchema": {
            "type": "object",
            "properties": {
                "source": {"type": "string", "description": "Where it is"},
                "destination": {"type": "string", "description": "Where it goes"},
            },
            "required": ["source", "destination"],
        },
    })
}

fn now() -> Value {
    json!({
        "name": "now",
        "description": "The time here",
        "inputSchema": {"type": "object", "properties": {}, "additionalProperties": false},
    })
}

/// The same value with one key set.
fn with(mut value: Value, key: &str, set: Value) -> Value {
    value[key] = set;
    value
}

pub(crate) fn d1() {
    say(&done(&json!("ready"), &json!({"status": "ready"})));
    Plain::new().serve_well();
}

pub(crate) fn d2() {
    Plain::new().serve(|_, answer| {
        let answer = answer?;
        let id = match &answer["id"] {
            Value::String(id) => id.clone(),
            id => id.to_string(),
        };
        Some(with(answer, "id", json!(id)))
    });
}

pub(crate) fn d3() {
    Plain::begun().serve(|heard, answer| match method_of(heard) {
        "initialize" => Some(unknown(&heard["id"], "initialize")),
        _ => answer,
    });
}

pub(crate) fn d4() {
    Plain::new().serve(|heard, answer| answer.or_else(|| Some(unknown(&Value::Null, method_of(heard)))));
}

pub(crate) fn d5() {
    Plain::new().serve(|heard, answer| match method_of(heard) {
        "initialize" => {
            let server = json!({"name": "gallery", "version": "1.0.0"});
            let hello = json!({"protocol_version": "2025-11-25", "server_info": server, "capabilities": {"tools": {}}});
            Some(done(&heard["id"], &hello))
        }
        _ => answer,
    });
}

pub(crate) fn d6() {
    Plain::new().serve(|heard, answer| match method_of(heard) {
        "initialize" => Some(done(&heard["id"], &with(hello(), "tools", json!([move_file(), now()])))),
        _ => answer,
    });
}

pub(crate) fn d7() {
    let mut tool = move_file();
    if let Some(tool) = tool.as_object_mut()
        && let Some(schema) = tool.remove("inputSchema")
    {
        tool.insert("parameters".to_owned(), schema);
    }
    Plain::with_tools(json!([now(), tool])).serve_well();
}

pub(crate) fn d8() {
    let stub = || json!({"type": "object"});
    let tools = json!([with(move_file(), "inputSchema", stub()), with(now(), "inputSchema", stub())]);
    Plain::with_tools(tools).serve_well();
}

pub(crate) fn d9() {
    say_line("gallery server listening on stdio");
    Plain::new().serve(|heard, answer| {
        say_line(&format!("[INFO] handling {}", method_of(heard)));
        answer
    });
}

pub(crate) fn d10() {
    Plain::new().serve(|heard, answer| {
        if method_of(heard) == "initialize" {
            log("fatal: the database is not there");
            process::exit(3);
        }
        answer
    });
}

pub(crate) fn d11() {
    heard().for_each(drop);
}

pub(crate) fn d12(slow: Option<Duration>) {
    pause(slow.unwrap_or(Duration::from_secs(6)));
    Plain::new().serve_well();
}

pub(crate) fn d13() {
    Plain::begun().serve_well();
}

pub(crate) fn d14() {
    let metadata = json!({"confirmationRequired": true, "undoSupported": true});
    Plain::with_tools(json!([with(move_file(), "metadata", metadata), now()])).serve_well();
}

pub(crate) fn d15() {
    Plain::new().serve(|heard, _| {
        let mut answer = failed(heard.get("id")?, -32022, "Unsupported protocol version");
        answer["error"]["data"] = json!({"supported": ["2027-03-01"]});
        Some(answer)
    });
}

pub(crate) fn d16() {
    let dotted = with(move_file(), "name", json!("files.move"));
    Plain::with_tools(json!([dotted, now(), now()])).serve_well();
}

pub(crate) fn d17() {
    Plain::new().serve_well();
    loop {
        pause(Duration::from_secs(60));
    }
}

pub(crate) fn d18() {
    leave("sleep", &["300"]);
    Plain::new().serve_well();
}

pub(crate) fn d19() {
    let mut tool = move_file();
    tool["inputSchema"]["$schema"] = json!("http://json-schema.org/draft-04/schema#");
    Plain::with_tools(json!([tool, now()])).serve_well();
}

pub(crate) fn d20(late: Option<Duration>) {
    say(&told("notifications/message", &json!({"level": "info", "data": "awake"})));
    Plain::new().serve(|heard, answer| {
        if method_of(heard) == "server/discover" {
            pause(late.unwrap_or(Duration::from_secs(7)));
        }
        answer
    });
}
