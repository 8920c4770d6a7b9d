//! The answer as the bytes of server-sent events. What is the same in every chunk is written once; text is put between as the
//! JSON that it already is. There are never `id` lines: clients of the OpenAI kind break on them.

use codex::Usage;
use serde::Serialize;

use super::message::ToolCall;
use super::reading::{End, Piece};
use crate::error::Error;

/// Keeps a connection alive; clients pass over it.
pub(crate) const HEARTBEAT: &[u8] = b": ping\n\n";

/// The last event of a stream that came to its end.
pub(crate) const DONE: &[u8] = b"data: [DONE]\n\n";

/// What every chunk of one answer has in common.
pub(crate) struct Heading {
    pub id: Box<str>,
    pub created: u64,
    pub model: Box<str>,
    /// Whether the usage is told in a chunk of its own, and is `null` in the others.
    pub tells_usage: bool,
    /// Whether calls are told in the older form.
    pub tells_functions: bool,
}

/// Writes the chunks of one choice.
pub(crate) struct ChunkWriter {
    /// Up to and with `"delta":`.
    head: Box<str>,
    /// Behind the delta.
    tail: &'static str,
    usage: &'static str,
    tells_functions: bool,
    calls: usize,
}

const OPEN_TAIL: &str = r#","logprobs":null,"finish_reason":null}]}"#;
const OPEN_TAIL_WITH_USAGE: &str = r#","logprobs":null,"finish_reason":null}],"usage":null}"#;

impl ChunkWriter {
    pub(crate) fn new(heading: &Heading, choice: usize) -> Self {
        Self {
            head: format!(r#"{}"choices":[{{"index":{choice},"delta":"#, heading.begin()).into(),
            tail: if heading.tells_usage { OPEN_TAIL_WITH_USAGE } else { OPEN_TAIL },
            usage: if heading.tells_usage { r#","usage":null"# } else { "" },
            tells_functions: heading.tells_functions,
            calls: 0,
        }
    }

    /// The first chunk, before anything is known.
    pub(crate) fn write_role(&self, out: &mut Vec<u8>) {
        self.write(out, &[r#"{"role":"assistant","content":"","refusal":null}"#]);
    }

    pub(crate) fn write_piece(&mut self, piece: &Piece<'_>, out: &mut Vec<u8>) {
        match piece {
            Piece::Content(text) => self.write(out, &[r#"{"content":""#, text.as_json(), r#""}"#]),
            Piece::Reasoning(text) => {
                let text = text.as_json();
                self.write(out, &[r#"{"reasoning_content":""#, text, r#"","reasoning":""#, text, r#""}"#]);
            }
            Piece::Call(call) if self.tells_functions => {
                let (name, arguments) = (json(&call.name), json(&call.arguments));
                self.write(out, &[r#"{"function_call":{"name":"#, &name, r#","arguments":""}}"#]);
                self.write(out, &[r#"{"function_call":{"arguments":"#, &arguments, "}}"]);
            }
            Piece::Call(call) => self.write_call(call, out),
            Piece::Message(_) | Piece::Thought(_) | Piece::Work(_) | Piece::TakenBack => {}
        }
    }

    /// The last chunk.
    pub(crate) fn write_finish(&self, reason: &str, out: &mut Vec<u8>) {
        let Self { head, usage, .. } = self;
        let end = format!(r#"{{}},"logprobs":null,"finish_reason":"{reason}"}}]{usage}}}"#);
        extend(out, &["data: ", head, &end, "\n\n"]);
    }

    /// Index always; id, type and name once; then the arguments.
    fn write_call(&mut self, call: &ToolCall, out: &mut Vec<u8>) {
        let index = self.calls.to_string();
        self.calls += 1;
        let (id, name, arguments) = (json(&call.id), json(&call.name), json(&call.arguments));
        let begin = [
            r#"{"tool_calls":[{"index":"#,
            &index,
            r#","id":"#,
            &id,
            r#","type":"function","function":{"name":"#,
            &name,
            r#","arguments":""}}]}"#,
        ];
        self.write(out, &begin);
        let rest = [r#"{"tool_calls":[{"index":"#, &index, r#","function":{"arguments":"#, &arguments, "}}]}"];
        self.write(out, &rest);
    }

    fn write(&self, out: &mut Vec<u8>, delta: &[&str]) {
        extend(out, &["data: ", &self.head]);
        extend(out, delta);
        extend(out, &[self.tail, "\n\n"]);
    }
}

impl Heading {
    /// The word for how a choice ended.
    pub(crate) fn finish_reason(&self, end: &End) -> &'static str {
        match end {
            End::ToolsWanted if self.tells_functions => "function_call",
            End::ToolsWanted => "tool_calls",
            End::Said | End::Failed(_) => "stop",
        }
    }

    /// Up to the choices.
    fn begin(&self) -> String {
        let (id, model) = (json(&self.id), json(&self.model));
        let Self { created, .. } = self;
        format!(
            r#"{{"id":{id},"object":"chat.completion.chunk","created":{created},"model":{model},"system_fingerprint":null,"#
        )
    }

    /// The usage, after the last choice has ended.
    pub(crate) fn write_usage(&self, usage: &Usage, out: &mut Vec<u8>) {
        let usage = json(&Told::from(usage));
        extend(out, &["data: ", &self.begin(), r#""choices":[],"usage":"#, &usage, "}\n\n"]);
    }
}

/// The last event of a stream that cannot go on.
pub(crate) fn write_error(error: &Error, out: &mut Vec<u8>) {
    extend(out, &["data: ", &error.body(), "\n\n"]);
}

/// Usage in the words of the API.
#[derive(Serialize)]
pub(crate) struct Told {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    prompt_tokens_details: PromptDetails,
    completion_tokens_details: CompletionDetails,
}

#[derive(Serialize)]
struct PromptDetails {
    cached_tokens: u64,
    audio_tokens: u64,
}

#[derive(Serialize)]
struct CompletionDetails {
    reasoning_tokens: u64,
    audio_tokens: u64,
    accepted_prediction_tokens: u64,
    rejected_prediction_tokens: u64,
}

impl From<&Usage> for Told {
    fn from(usage: &Usage) -> Self {
        Self {
            prompt_tokens: usage.input_tokens,
            completion_tokens: usage.output_tokens,
            total_tokens: usage.input_tokens + usage.output_tokens,
            prompt_tokens_details: PromptDetails { cached_tokens: usage.cached_input_tokens, audio_tokens: 0 },
            completion_tokens_details: CompletionDetails {
                reasoning_tokens: usage.reasoning_output_tokens,
                audio_tokens: 0,
                accepted_prediction_tokens: 0,
                rejected_prediction_tokens: 0,
            },
        }
    }
}

fn json(value: &(impl Serialize + ?Sized)) -> String {
    serde_json::to_string(value).expect("texts and numbers can be written")
}

fn extend(out: &mut Vec<u8>, parts: &[&str]) {
    parts.iter().for_each(|part| out.extend_from_slice(part.as_bytes()));
}
