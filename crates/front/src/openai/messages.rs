//! `messages` of a chat request, read into a conversation.

use serde_json::Value;

use super::message::{Message, Part, ToolCall};
use super::read::{Bad, Fields, each, wrong};

/// The roles that there are, for whoever sends another.
const ROLES: &str = "system, developer, user, assistant, tool or function";

/// Reads all of them. Legacy `function_call`s have no ids; they get one by their place.
pub(crate) fn read(list: &[Value]) -> Result<Vec<Message>, Bad> {
    let mut legacy = Legacy::default();
    let mut messages = Vec::with_capacity(list.len());
    for (index, value) in list.iter().enumerate() {
        messages.push(message(value, &mut legacy).map_err(|bad| bad.nth(index))?);
    }
    Ok(messages)
}

/// Counts legacy calls, so that each result finds its call.
#[derive(Default)]
struct Legacy {
    calls: usize,
}

impl Legacy {
    fn next(&mut self) -> Box<str> {
        self.calls += 1;
        self.last()
    }

    fn last(&self) -> Box<str> {
        format!("function_{}", self.calls).into()
    }
}

fn message(value: &Value, legacy: &mut Legacy) -> Result<Message, Bad> {
    let fields = Fields::of(value)?;
    match fields.need_word("role", ROLES)? {
        "system" | "developer" => Ok(Message::Instruction(text_of(&content(fields)?)?)),
        "user" => Ok(Message::User(content(fields)?)),
        "assistant" => assistant(fields, legacy),
        "tool" => Ok(Message::Result { call: fields.need_text("tool_call_id")?.into(), content: content(fields)? }),
        "function" if legacy.calls == 0 => Err(Bad::value("answers a function_call, and there is none before it")),
        "function" => Ok(Message::Result { call: legacy.last(), content: content(fields)? }),
        other => Err(Bad::value(format!("must be {ROLES}, not {other:?}")).at("role")),
    }
}

fn assistant(fields: Fields<'_>, legacy: &mut Legacy) -> Result<Message, Bad> {
    let mut calls = match fields.list("tool_calls")? {
        Some(list) => each(list, tool_call).map_err(|bad| bad.at("tool_calls"))?,
        None => Vec::new(),
    };
    if let Some(function) = fields.object("function_call")? {
        calls.push(called(legacy.next(), function).map_err(|bad| bad.at("function_call"))?);
    }
    let mut text = if fields.get("content").is_some() { text_of(&content(fields)?)? } else { String::new() };
    if text.is_empty() {
        text.push_str(fields.text("refusal")?.unwrap_or_default());
    }
    Ok(Message::Assistant { text, calls })
}

fn tool_call(value: &Value) -> Result<ToolCall, Bad> {
    let fields = Fields::of(value)?;
    if let Some(kind) = fields.text("type")?.filter(|kind| *kind != "function") {
        return Err(Bad::unsupported(format!("must be \"function\", not {kind:?}")).at("type"));
    }
    let id = fields.need_text("id")?.into();
    let function = fields.object("function")?.ok_or_else(|| Bad::value("is missing").at("function"))?;
    called(id, function).map_err(|bad| bad.at("function"))
}

fn called(id: Box<str>, function: Fields<'_>) -> Result<ToolCall, Bad> {
    let arguments = function.text("arguments")?.unwrap_or("{}").to_owned();
    Ok(ToolCall { id, name: function.need_text("name")?.into(), arguments })
}

/// The content where only text makes sense.
pub(super) fn text_of(content: &[Part]) -> Result<String, Bad> {
    let mut text = String::new();
    for (index, part) in content.iter().enumerate() {
        match part {
            Part::Text(more) => text.push_str(more),
            Part::Image(_) => return Err(Bad::value("must be text here").nth(index).at("content")),
        }
    }
    Ok(text)
}

fn content(fields: Fields<'_>) -> Result<Vec<Part>, Bad> {
    parts(fields, "content")
}

/// A text, or a list of parts.
pub(super) fn parts(fields: Fields<'_>, name: &str) -> Result<Vec<Part>, Bad> {
    let read = |value: &Value| match value {
        Value::String(text) => Ok(vec![Part::Text(text.clone())]),
        Value::Array(parts) => each(parts, part),
        other => Err(wrong(other, "a text or a list of parts")),
    };
    fields.read(name, read)?.ok_or_else(|| Bad::value("is missing; send a text or a list of parts").at(name))
}

/// One part, in the words of either API.
fn part(value: &Value) -> Result<Part, Bad> {
    if let Value::String(text) = value {
        return Ok(Part::Text(text.clone()));
    }
    let fields = Fields::of(value)?;
    match fields.need_text("type")? {
        "text" | "input_text" | "output_text" => Ok(Part::Text(fields.need_text("text")?.into())),
        "refusal" => Ok(Part::Text(fields.need_text("refusal")?.into())),
        "image_url" | "input_image" => match (fields.get("image_url"), fields.get("file_id")) {
            (None, Some(_)) => {
                let why = "cannot be used: files are not kept here; send `image_url` with a data URL";
                Err(Bad::unsupported(why).at("file_id"))
            }
            _ => image(fields).map_err(|bad| bad.at("image_url")),
        },
        kind @ ("input_audio" | "audio" | "file" | "input_file" | "video_url") => {
            Err(Bad::unsupported(format!("must be text or an image; the worker takes no {kind:?}")).at("type"))
        }
        other => Err(Bad::value(format!("must be \"text\" or \"image_url\", not {other:?}")).at("type")),
    }
}

/// `{"url": …}` in one API, the URL itself in the other.
fn image(fields: Fields<'_>) -> Result<Part, Bad> {
    match fields.get("image_url") {
        Some(Value::String(url)) => Part::image(url),
        Some(value @ Value::Object(_)) => {
            let url = Fields::of(value)?.need_text("url")?;
            Part::image(url).map_err(|bad| bad.at("url"))
        }
        Some(other) => Err(wrong(other, "a text or an object with `url`")),
        None => Err(Bad::value("is missing; send a data URL")),
    }
}
