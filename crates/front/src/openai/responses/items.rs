//! `input` of the Responses API: a text or a list of items, read into messages.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::super::message::{Message, Part, ToolCall};
use super::super::messages::{parts, text_of};
use super::super::read::{Bad, Fields, wrong};
use super::compaction;
use super::object::Name;

/// What the agent did itself. It stays on its thread, and is not told to another.
const WORK: &[&str] = &[
    "apply_patch_call",
    "apply_patch_call_output",
    "local_shell_call",
    "local_shell_call_output",
    "mcp_call",
    "mcp_list_tools",
    "shell_call",
    "shell_call_output",
    "web_search_call",
];

/// The roles that there are, for whoever sends another.
const ROLES: &str = "system, developer, user or assistant";

/// Messages, each with the place in `input` at which it begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Input {
    pub messages: Vec<Message>,
    pub places: Vec<usize>,
    /// The message with the last calls, and the response that they are of.
    calling: Option<(usize, Name)>,
}

/// Reads `input`; `find` has the items that are only named there.
pub(crate) fn read(input: &Value, find: &dyn Fn(&str) -> Option<Value>) -> Result<Input, Bad> {
    let mut read = Input::default();
    match input {
        Value::String(text) => read.push(Message::User(vec![Part::Text(text.clone())]), 0),
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                read.add(value, index, find).map_err(|bad| bad.nth(index))?;
            }
        }
        other => return Err(wrong(other, "a text or a list of items")),
    }
    Ok(read)
}

/// The ids of the items that `input` only names.
pub(crate) fn references(input: &Value) -> impl Iterator<Item = &str> {
    let items = input.as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().filter(|item| is_reference(item)).filter_map(|item| item["id"].as_str())
}

fn is_reference(item: &Value) -> bool {
    let is_bare = item["type"].is_null() && item["role"].is_null() && item["id"].is_string();
    item["type"] == "item_reference" || is_bare
}

/// The same with what is only named in the place of its name.
pub(crate) fn found(input: Value, find: &dyn Fn(&str) -> Option<Value>) -> Value {
    let Value::Array(items) = input else { return input };
    let item = |item: Value| match item["id"].as_str().filter(|_| is_reference(&item)).map(find) {
        Some(found) => found,
        None => Some(item),
    };
    items.into_iter().filter_map(item).collect()
}

impl Input {
    fn push(&mut self, message: Message, place: usize) {
        self.messages.push(message);
        self.places.push(place);
    }

    fn add(&mut self, value: &Value, place: usize, find: &dyn Fn(&str) -> Option<Value>) -> Result<(), Bad> {
        let fields = Fields::of(value)?;
        if is_reference(value) {
            let id = fields.need_text("id")?;
            // The worker keeps the reasoning of its own threads.
            if id.starts_with("rs_") {
                return Ok(());
            }
            let why = || Bad::value(format!("names {id:?}, which is no item of a response that is kept")).at("id");
            return self.add(&find(id).ok_or_else(why)?, place, &|_| None);
        }
        match fields.text("type")?.unwrap_or("message") {
            "message" => self.push(message(fields)?, place),
            "function_call" => self.call(fields, place)?,
            "function_call_output" => {
                let call = fields.need_text("call_id")?.into();
                self.push(Message::Result { call, content: parts(fields, "output")? }, place);
            }
            "compaction" => {
                let sealed = fields.need_text("encrypted_content")?;
                let why =
                    || Bad::value("is no summary of this server's; pass back what it gave").at("encrypted_content");
                self.push(compaction::open(sealed).ok_or_else(why)?, place);
            }
            // That of other threads means nothing to a worker.
            "reasoning" => {}
            own if WORK.contains(&own) => {}
            other => {
                let wanted =
                    "must be message, function_call, function_call_output, reasoning, compaction or item_reference";
                return Err(Bad::unsupported(format!("{wanted}, not {other:?}")).at("type"));
            }
        }
        Ok(())
    }

    fn call(&mut self, fields: Fields<'_>, place: usize) -> Result<(), Bad> {
        let call = ToolCall {
            id: fields.need_text("call_id")?.into(),
            name: fields.need_text("name")?.into(),
            arguments: fields.text("arguments")?.unwrap_or("{}").into(),
        };
        let response = fields.text("id")?.and_then(Name::of_item).map(|(response, _)| response);
        let at = match self.messages.last() {
            Some(Message::Assistant { .. }) => self.messages.len() - 1,
            _ => match self.calling.take().filter(|(_, of)| response.as_ref() == Some(of)) {
                // Some repeat each call with its output behind it; calls of one response are one message all the same.
                Some((at, _)) => at,
                None => {
                    self.push(Message::Assistant { text: String::new(), calls: Vec::new() }, place);
                    self.messages.len() - 1
                }
            },
        };
        if let Message::Assistant { calls, .. } = &mut self.messages[at] {
            calls.push(call);
        }
        self.calling = response.map(|response| (at, response));
        Ok(())
    }
}

fn message(fields: Fields<'_>) -> Result<Message, Bad> {
    let parts = parts(fields, "content")?;
    Ok(match fields.need_word("role", ROLES)? {
        "user" => Message::User(parts),
        "system" | "developer" => Message::Instruction(text_of(&parts)?),
        "assistant" => Message::Assistant { text: text_of(&parts)?, calls: Vec::new() },
        other => {
            return Err(Bad::value(format!("must be {ROLES}, not {other:?}")).at("role"));
        }
    })
}

/// `input` as it is listed: every item with an id of its own and in its full form.
pub(crate) fn listed(input: &Value, name: impl Fn(&str, usize) -> String) -> Vec<Value> {
    let items = match input {
        Value::Array(items) => items.clone(),
        text => vec![json!({"type": "message", "role": "user", "content": text})],
    };
    let mut ids = HashSet::new();
    let mut in_order = |(index, mut item): (usize, Value)| {
        // Whoever turns pages goes on behind an id.
        if item["id"].as_str().is_some_and(|id| !is_reference(&item) && !ids.insert(id.to_owned())) {
            item["id"] = Value::Null;
        }
        in_full(item, index, &name)
    };
    items.into_iter().enumerate().map(&mut in_order).collect()
}

fn in_full(mut item: Value, index: usize, name: &impl Fn(&str, usize) -> String) -> Value {
    if is_reference(&item) {
        item["type"] = "item_reference".into();
        return item;
    }
    let kind = item["type"].as_str().unwrap_or("message").to_owned();
    if kind == "message" {
        let text = if item["role"] == "assistant" { output_text } else { input_text };
        item["content"] = content(item["content"].take(), text);
    }
    if item["id"].is_null() {
        let prefix = match kind.as_str() {
            "message" => "msg",
            "function_call" => "fc",
            "function_call_output" => "fco",
            "reasoning" => "rs",
            "compaction" => "cmp",
            _ => "item",
        };
        item["id"] = name(prefix, index).into();
    }
    if item["status"].is_null() && kind != "reasoning" && kind != "compaction" {
        item["status"] = "completed".into();
    }
    item["type"] = kind.into();
    item
}

fn output_text(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

fn input_text(text: &str) -> Value {
    json!({"type": "input_text", "text": text})
}

/// A text or parts as parts; those that are mere text become what `text` makes of them.
fn content(content: Value, text: fn(&str) -> Value) -> Value {
    match content {
        Value::String(whole) => json!([text(&whole)]),
        Value::Array(parts) => parts
            .into_iter()
            .map(|part| match part {
                Value::String(piece) => text(&piece),
                part if part["type"] == "text" => text(part["text"].as_str().unwrap_or_default()),
                part => part,
            })
            .collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::listed;

    #[test]
    fn every_item_is_listed_under_an_id_of_its_own() {
        let said = json!({"role": "user", "content": "hi", "id": "msg_1"});
        let input = json!([said, {"role": "user", "content": "hi"}, said]);
        let items = listed(&input, |prefix, place| format!("{prefix}_new{place}"));
        let ids: Vec<_> = items.iter().map(|item| item["id"].as_str().unwrap()).collect();
        assert_eq!(ids, ["msg_1", "msg_new1", "msg_new2"]);
    }
}
