//! A response stream in the least form that codex accepts.

use std::time::Duration;

use serde_json::{Value, json};

use super::plan::{Answer, Step};

/// The tokens of a response, as the provider counts them.
pub(super) struct Usage {
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) reasoning: u64,
}

impl Usage {
    pub(super) const TEXT: Self = Self { input: 100, output: 10, reasoning: 0 };
    pub(super) const TOOL: Self = Self { input: 200, output: 20, reasoning: 0 };

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

/// A response that is being written.
pub(super) struct Response {
    id: String,
    steps: Vec<Step>,
}

impl Response {
    pub(super) fn begin(number: u64) -> Self {
        let mut response = Self { id: format!("resp_{number}"), steps: Vec::new() };
        let created = json!({"id": response.id, "status": "in_progress"});
        response.event("response.created", json!({"response": created}));
        response
    }

    fn event(&mut self, name: &str, mut event: Value) {
        event["type"] = json!(name);
        self.steps.push(Step::Event(event));
    }

    fn added(&mut self, index: usize, item: &Value) {
        self.event("response.output_item.added", json!({"output_index": index, "item": item}));
    }

    fn done(&mut self, index: usize, item: &Value) {
        self.event("response.output_item.done", json!({"output_index": index, "item": item}));
    }

    pub(super) fn message(&mut self, deltas: &[impl AsRef<str>]) {
        self.paced_message(deltas, Duration::ZERO);
    }

    pub(super) fn paced_message(&mut self, deltas: &[impl AsRef<str>], pause: Duration) {
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
        self.done(
            0,
            &json!({"type": "message", "role": "assistant", "id": id, "status": "completed", "content": content}),
        );
    }

    fn message_id(&self) -> String {
        format!("msg_{}", self.id)
    }

    fn open_message(&mut self) {
        let id = self.message_id();
        self.added(
            0,
            &json!({"type": "message", "role": "assistant", "id": id, "status": "in_progress", "content": []}),
        );
    }

    fn message_delta(&mut self, delta: &str) {
        let id = self.message_id();
        let place = json!({"item_id": id, "output_index": 0, "content_index": 0, "delta": delta});
        self.event("response.output_text.delta", place);
    }

    pub(super) fn reasoning(&mut self) {
        let id = format!("rs_{}", self.id);
        self.added(0, &json!({"type": "reasoning", "id": id, "summary": []}));
        let summary = [&["**Thinking", " hard** ", "about it."][..], &["Second part."]];
        for (index, deltas) in summary.iter().enumerate() {
            let part = json!({"type": "summary_text", "text": ""});
            let place = json!({"item_id": id, "output_index": 0, "summary_index": index, "part": part});
            self.event("response.reasoning_summary_part.added", place);
            for delta in *deltas {
                let place = json!({"item_id": id, "output_index": 0, "summary_index": index, "delta": delta});
                self.event("response.reasoning_summary_text.delta", place);
            }
        }
        for delta in ["raw ", "chain"] {
            let place = json!({"item_id": id, "output_index": 0, "content_index": 0, "delta": delta});
            self.event("response.reasoning_text.delta", place);
        }
        let summary: Vec<_> =
            summary.iter().map(|deltas| json!({"type": "summary_text", "text": deltas.concat()})).collect();
        let content = json!([{"type": "reasoning_text", "text": "raw chain"}]);
        self.done(
            0,
            &json!({
                "type": "reasoning", "id": id, "summary": summary, "content": content, "encrypted_content": "ENC",
            }),
        );
    }

    pub(super) fn tool_calls(&mut self, calls: &[Value]) {
        for (index, call) in calls.iter().enumerate() {
            self.added(index, call);
            self.done(index, call);
        }
    }

    pub(super) fn complete(mut self, usage: &Usage) -> Answer {
        let completed = json!({"id": self.id, "status": "completed", "usage": usage.to_json()});
        self.event("response.completed", json!({"response": completed}));
        Answer::Stream(self.steps)
    }

    pub(super) fn fail(mut self, code: &str, message: &str) -> Answer {
        let failed = json!({"id": self.id, "status": "failed", "error": {"code": code, "message": message}});
        self.event("response.failed", json!({"response": failed}));
        Answer::Stream(self.steps)
    }

    pub(super) fn cut(mut self) -> Answer {
        self.open_message();
        self.message_delta("partial");
        Answer::Stream(self.steps)
    }

    pub(super) fn hang(mut self) -> Answer {
        self.steps.push(Step::Hang);
        Answer::Stream(self.steps)
    }
}
