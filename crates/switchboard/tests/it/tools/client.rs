//! An MCP client that writes its lines by hand.

use serde_json::{Value, json};

use crate::command::{Run, State};

/// A client that speaks to `tools serve`.
pub(super) struct Client {
    pub(super) run: Run,
    meta: Option<Value>,
}

impl Client {
    /// One that begins with `initialize`, and can be asked what `capabilities` say.
    pub(super) fn legacy(state: &State, arguments: &[&str], capabilities: &Value) -> Self {
        let mut client = Self { run: state.run_listening(&[&["tools", "serve"], arguments].concat()), meta: None };
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": { "name": "test", "version": "1" },
        });
        let answer = client.ask(0, "initialize", params);
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25", "{answer}");
        client.run.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        client
    }

    /// One whose requests stand for themselves.
    pub(super) fn modern(state: &State, arguments: &[&str], capabilities: &Value) -> Self {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        });
        Self { run: state.run_listening(&[&["tools", "serve"], arguments].concat()), meta: Some(meta) }
    }

    pub(super) fn ask(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.say(id, method, params);
        loop {
            let message = self.hear();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// Sends a request.
    pub(super) fn say(&mut self, id: u64, method: &str, mut params: Value) {
        if let Some(meta) = &self.meta {
            let progress = params["_meta"]["progressToken"].take();
            params["_meta"] = meta.clone();
            if !progress.is_null() {
                params["_meta"]["progressToken"] = progress;
            }
        }
        self.run.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string());
    }

    /// The next message.
    pub(super) fn hear(&mut self) -> Value {
        let line = self.run.line();
        assert!(!line.is_empty(), "it ended: {}", self.run.stderr_now());
        serde_json::from_str(&line).unwrap()
    }

    /// Hears of progress before any answer.
    pub(super) fn hear_progress(&mut self) {
        let heard = std::iter::repeat_with(|| self.hear()).find(|heard| {
            // What is offered may be told to have changed.
            !heard["method"].as_str().is_some_and(|method| method.ends_with("list_changed"))
        });
        assert_eq!(heard.unwrap()["method"], "notifications/progress");
    }

    pub(super) fn echo(&mut self, id: u64, tool: &str) {
        let said = format!("said {id}");
        let answer = self.ask(id, "tools/call", json!({ "name": tool, "arguments": { "text": said } }));
        if answer["result"]["content"][0]["text"] != said.as_str() {
            self.run.fall_silent();
            panic!("{answer}\n{}", self.run.stderr_now());
        }
    }

    pub(super) fn tools(&mut self, id: u64) -> Vec<String> {
        let answer = self.ask(id, "tools/list", json!({}));
        let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("{answer}"));
        tools.iter().map(|tool| tool["name"].as_str().unwrap().into()).collect()
    }

    /// Closes its end; what is left of it must be nothing but stdout that was read.
    pub(super) fn leave(mut self) -> Run {
        self.run.fall_silent();
        self.run
    }
}
