//! A conversation in words of our own, whichever shape it came in: what was said by whom, which tools were called, and what they
//! gave. Written as the items that a worker takes into a thread's history, and as the input of a turn.

use std::collections::BTreeSet;

use codex::{Input, Json};
use serde_json::{Value, json};
use workers::{IMAGE_TOKENS, text_tokens};

use super::read::Bad;
use super::tools::Names;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// What the caller's program tells the model: `system` and `developer` alike.
    Instruction(String),
    /// What the user says.
    User(Vec<Part>),
    /// What the model said, and the tools that it called.
    Assistant { text: String, calls: Vec<ToolCall> },
    /// What a tool gave.
    Result { call: Box<str>, content: Vec<Part> },
}

/// One part of what is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Text(String),
    /// An image as a data URL.
    Image(String),
}

/// A call of one of the caller's tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ToolCall {
    pub id: Box<str>,
    pub name: Box<str>,
    /// As the model wrote them.
    pub arguments: String,
}

impl Message {
    /// How many tools it calls.
    pub(crate) fn calls(&self) -> usize {
        match self {
            Self::Assistant { calls, .. } => calls.len(),
            Self::Instruction(_) | Self::User(_) | Self::Result { .. } => 0,
        }
    }

    /// How long its text is, with images and the arguments of calls.
    pub(crate) fn text_bytes(&self) -> usize {
        let bytes_of =
            |parts: &[Part]| parts.iter().map(|(Part::Text(text) | Part::Image(text))| text.len()).sum::<usize>();
        match self {
            Self::Instruction(text) => text.len(),
            Self::User(content) | Self::Result { content, .. } => bytes_of(content),
            Self::Assistant { text, calls } => {
                text.len() + calls.iter().map(|call| call.name.len() + call.arguments.len()).sum::<usize>()
            }
        }
    }

    /// How many tokens it is taken for.
    pub(crate) fn tokens(&self) -> u64 {
        match self {
            Self::Instruction(text) => text_tokens(text),
            Self::User(parts) | Self::Result { content: parts, .. } => {
                parts.iter().map(Part::tokens).fold(0, u64::saturating_add)
            }
            Self::Assistant { text, calls } => {
                let calls = calls.iter().map(|call| text_tokens(&call.name) + text_tokens(&call.arguments));
                calls.fold(text_tokens(text), u64::saturating_add)
            }
        }
    }

    /// As items of a thread's history.
    pub(crate) fn write_items(&self, names: &Names, items: &mut Vec<Json>) {
        let mut push = |item: Value| items.push(Json::from(&item));
        match self {
            // A worker drops items of the role `system`.
            Self::Instruction(text) => push(said("developer", &[input_text(text)])),
            Self::User(parts) => push(said("user", &parts.iter().map(Part::to_item).collect::<Vec<_>>())),
            Self::Assistant { text, calls } => {
                if !text.is_empty() {
                    push(said("assistant", &[json!({"type": "output_text", "text": text})]));
                }
                for ToolCall { id, name, arguments } in calls {
                    let name = names.at_the_worker(name);
                    push(json!({"type": "function_call", "call_id": id, "name": name, "arguments": arguments}));
                }
            }
            Self::Result { call, content } => {
                let output = match content.as_slice() {
                    [Part::Text(text)] => Value::from(text.as_str()),
                    parts => parts.iter().map(Part::to_item).collect(),
                };
                push(json!({"type": "function_call_output", "call_id": call, "output": output}));
            }
        }
    }
}

impl Part {
    fn tokens(&self) -> u64 {
        match self {
            Self::Text(text) => text_tokens(text),
            Self::Image(_) => IMAGE_TOKENS,
        }
    }

    fn to_item(&self) -> Value {
        match self {
            Self::Text(text) => input_text(text),
            Self::Image(url) => json!({"type": "input_image", "image_url": url}),
        }
    }

    /// As the content of the answer to a worker's tool call.
    pub(crate) fn to_result(&self) -> Value {
        match self {
            Self::Text(text) => json!({"type": "inputText", "text": text}),
            Self::Image(url) => json!({"type": "inputImage", "imageUrl": url}),
        }
    }

    pub(crate) fn to_input(&self) -> Input {
        match self {
            Self::Text(text) => Input::Text(text.clone()),
            Self::Image(url) => Input::Image { url: url.clone() },
        }
    }

    pub(crate) fn image(url: &str) -> Result<Self, Bad> {
        let Some((scheme, rest)) = url.split_once(':').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("data")) else {
            return Err(Bad::unsupported("must be a data URL (data:image/png;base64,…); the worker fetches no images"));
        };
        let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
        let whole = rest
            .split_once(";base64,")
            .filter(|(kind, image)| kind.starts_with("image/") && !image.is_empty() && image.bytes().all(is_base64));
        match whole {
            Some(_) => Ok(Self::Image(format!("{}:{rest}", scheme.to_ascii_lowercase()))),
            None => Err(Bad::value("must be an image in base64 (data:image/png;base64,…)")),
        }
    }
}

/// Holds that every call has its result right behind it, and every result its call: a model takes nothing else. Tells the message
/// that is wrong; the end of them all is none.
pub(crate) fn check(messages: &[Message]) -> Result<(), (Option<usize>, Bad)> {
    let mut open: BTreeSet<&str> = BTreeSet::new();
    for (index, message) in messages.iter().enumerate() {
        match message {
            Message::Result { call, .. } => {
                if !open.remove(&**call) {
                    let text = format!("answers {call:?}, which no call right before it has as its id");
                    return Err((Some(index), Bad::value(text)));
                }
            }
            _ if !open.is_empty() => return Err((Some(index), unanswered(&open))),
            Message::Assistant { calls, .. } => open = calls.iter().map(|call| &*call.id).collect(),
            Message::Instruction(_) | Message::User(_) => {}
        }
    }
    if open.is_empty() { Ok(()) } else { Err((None, unanswered(&open))) }
}

fn unanswered(open: &BTreeSet<&str>) -> Bad {
    let open: Vec<_> = open.iter().copied().collect();
    Bad::value(format!("must answer every tool call before it; these have no result: {}", open.join(", ")))
}

fn said(role: &str, content: &[Value]) -> Value {
    json!({"type": "message", "role": role, "content": content})
}

fn input_text(text: &str) -> Value {
    json!({"type": "input_text", "text": text})
}
