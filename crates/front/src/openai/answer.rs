//! The answer as one object, for callers that wait for the whole of it.

use codex::Usage;
use serde::Serialize;

use super::chunks::{Heading, Told};
use super::message::ToolCall;
use super::reading::Piece;

/// One choice, as far as it was said.
#[derive(Debug, Default)]
pub(crate) struct Said {
    content: String,
    /// Where its last message begins.
    message_at: usize,
    reasoning: String,
    calls: Vec<ToolCall>,
}

impl Said {
    pub(crate) fn add(&mut self, piece: &Piece<'_>) {
        match piece {
            Piece::Content(text) => self.content.push_str(&text.to_str()),
            Piece::Reasoning(text) => self.reasoning.push_str(&text.to_str()),
            Piece::Call(call) => self.calls.push((*call).clone()),
            Piece::Message(_) => self.message_at = self.content.len(),
            Piece::Thought(_) | Piece::Work(_) => {}
            Piece::TakenBack => self.content.truncate(self.message_at),
        }
    }
}

/// The whole answer.
#[derive(Serialize)]
pub(crate) struct Answer<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: Vec<Ended<'a>>,
    usage: Told,
    system_fingerprint: (),
}

#[derive(Serialize)]
struct Ended<'a> {
    index: usize,
    message: Message<'a>,
    logprobs: (),
    finish_reason: &'a str,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Option<&'a str>,
    refusal: (),
    annotations: [(); 0],
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_call: Option<Function<'a>>,
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    arguments: &'a str,
}

impl<'a> Answer<'a> {
    /// Each choice with how it ended.
    pub(crate) fn new(heading: &'a Heading, choices: &'a [(Said, &str)], usage: &Usage) -> Self {
        let choices = choices.iter().enumerate().map(|(index, (choice, finish_reason))| Ended {
            index,
            message: Message::new(choice, heading),
            logprobs: (),
            finish_reason,
        });
        Self {
            id: &heading.id,
            object: "chat.completion",
            created: heading.created,
            model: &heading.model,
            choices: choices.collect(),
            usage: usage.into(),
            system_fingerprint: (),
        }
    }
}

impl<'a> Message<'a> {
    fn new(choice: &'a Said, heading: &Heading) -> Self {
        let Said { content, reasoning, calls, .. } = choice;
        let function = |call: &'a ToolCall| Function { name: &call.name, arguments: &call.arguments };
        let (functions, tools) = if heading.tells_functions { (calls.first(), &[][..]) } else { (None, &calls[..]) };
        let reasoning = Some(reasoning.as_str()).filter(|reasoning| !reasoning.is_empty());
        Self {
            role: "assistant",
            content: Some(content.as_str()).filter(|content| !content.is_empty() || calls.is_empty()),
            refusal: (),
            annotations: [],
            reasoning_content: reasoning,
            reasoning,
            tool_calls: tools
                .iter()
                .map(|call| Call { id: &call.id, kind: "function", function: function(call) })
                .collect(),
            function_call: functions.map(function),
        }
    }
}
