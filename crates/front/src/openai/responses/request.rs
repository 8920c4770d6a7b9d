//! A request of the Responses API, read: what is asked of a worker, and what is kept of it.

use serde_json::{Map, Value, json};
use workers::Afterwards;

use super::super::message::{self, Message};
use super::super::read::{Bad, Fields, wrong};
use super::super::reading::Manner;
use super::super::request::{Delivery, Form, Request};
use super::items::{self, Input};
use super::parameters;

const METADATA_MAX: usize = 16;
const METADATA_NAME_CHARS_MAX: usize = 64;
const METADATA_VALUE_CHARS_MAX: usize = 512;

/// What is asked for.
#[derive(Debug)]
pub(crate) struct ResponseRequest {
    /// As for a chat request, but for what was said before.
    ask: Request,
    instructions: Option<String>,
    input: Input,
    pub terms: Terms,
}

/// What concerns the response itself, and no worker.
#[derive(Debug)]
pub(crate) struct Terms {
    /// Items as they came; those that were only named are there too.
    pub input: Value,
    pub is_stored: bool,
    pub is_background: bool,
    /// What is given back of the request, as the fields of the object.
    pub echo: Value,
}

/// What a request goes on from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Links {
    pub previous: Option<Box<str>>,
    pub conversation: Option<Box<str>>,
}

impl Links {
    /// What must be known before the request can be read as a whole.
    pub(crate) fn read(body: &Value) -> Result<Self, Bad> {
        let body = Fields::of(body)?;
        let previous = body.text("previous_response_id")?.map(Into::into);
        let conversation = body.read("conversation", |value| match value {
            Value::String(id) => Ok(id.as_str().into()),
            Value::Object(_) => Ok(Fields::of(value)?.need_text("id")?.into()),
            other => Err(wrong(other, "an id or an object with `id`")),
        })?;
        if previous.is_some() && conversation.is_some() {
            return Err(Bad::value("cannot be sent together with `previous_response_id`").at("conversation"));
        }
        Ok(Self { previous, conversation })
    }
}

impl ResponseRequest {
    /// Reads a request; `find` has the items that it only names.
    pub(crate) fn read(body: &Value, find: &dyn Fn(&str) -> Option<Value>) -> Result<Self, Bad> {
        let links = Links::read(body)?;
        let fields = Fields::of(body)?;
        let common = Request::read_common(fields)?;
        let mut ignored = parameters::ignored(fields)?;
        let loose = |name: &&str| *name != "response_format.json_schema.strict";
        ignored.extend(common.ignored.iter().copied().filter(loose));
        let given = fields.get("input");
        let input = match given {
            Some(given) => items::read(given, find).map_err(|bad| bad.at("input"))?,
            None if links == Links::default() => {
                return Err(Bad::value("is missing; send a text or a list of items").at("input"));
            }
            None => Input::default(),
        };
        let (is_stored, is_background) =
            (fields.flag("store")?.unwrap_or(true), fields.flag("background")?.unwrap_or(false));
        if is_background && !is_stored {
            return Err(Bad::value("needs `store`: whoever comes back for the response must find it").at("background"));
        }
        if links.conversation.is_some() && !is_stored {
            return Err(Bad::value("needs `store`: what is said in it is kept").at("conversation"));
        }
        let delivery = if fields.flag("stream")?.unwrap_or(false) { Delivery::Stream } else { Delivery::Whole };
        fields.object("stream_options")?;
        let instructions = fields.text("instructions")?.map(str::to_owned);
        let echo = echo(fields, &common, &links)?;
        let ask = Request {
            delivery,
            manner: Manner::Apart,
            has_instructions: instructions.is_some(),
            afterwards: if is_stored { Afterwards::Stays } else { Afterwards::Goes },
            ignored,
            ..common
        };
        let found = items::found(given.cloned().unwrap_or_else(|| json!([])), find);
        let terms = Terms { input: found, is_stored, is_background, echo };
        Ok(Self { ask, instructions, input, terms })
    }

    /// What is asked of a worker where this was said before.
    pub(crate) fn told_after(self, before: Vec<Message>) -> Result<(Request, Terms), Bad> {
        let Input { messages, places, .. } = self.input;
        let own = self.instructions.iter().map(|text| Message::Instruction(text.clone()));
        let first = usize::from(self.instructions.is_some()) + before.len();
        let messages: Vec<_> = own.chain(before).chain(messages).collect();
        if messages.iter().all(|message| matches!(message, Message::Instruction(_))) && places.is_empty() {
            return Err(
                Bad::value("must hold an item, unless `previous_response_id` or `conversation` is sent").at("input")
            );
        }
        message::check(&messages).map_err(|(index, bad)| match index.map(|index| index.checked_sub(first)) {
            Some(Some(index)) => bad.nth(places[index]).at("input"),
            Some(None) => bad.at("previous_response_id"),
            None => bad.at("input"),
        })?;
        Ok((Request { messages, ..self.ask }, self.terms))
    }
}

/// What the object says of its request: everything, also where it was not asked for.
fn echo(fields: Fields<'_>, request: &Request, links: &Links) -> Result<Value, Bad> {
    let given = |name: &str, otherwise: Value| fields.get(name).cloned().unwrap_or(otherwise);
    let mut echo = json!({
        "background": given("background", json!(false)),
        "frequency_penalty": given("frequency_penalty", json!(0)),
        "instructions": given("instructions", Value::Null),
        "max_output_tokens": given("max_output_tokens", Value::Null),
        "max_tool_calls": given("max_tool_calls", Value::Null),
        "metadata": metadata(fields)?,
        "model": request.model,
        "parallel_tool_calls": given("parallel_tool_calls", json!(true)),
        "presence_penalty": given("presence_penalty", json!(0)),
        "previous_response_id": links.previous,
        "prompt_cache_key": given("prompt_cache_key", Value::Null),
        "prompt_cache_retention": given("prompt_cache_retention", Value::Null),
        "reasoning": {"effort": request.effort, "summary": request.summary},
        "safety_identifier": given("safety_identifier", Value::Null),
        "service_tier": given("service_tier", json!("default")),
        "store": given("store", json!(true)),
        "temperature": given("temperature", json!(1)),
        "text": {"format": format(fields, &request.form), "verbosity": request.verbosity.as_deref().unwrap_or("medium")},
        "tool_choice": tool_choice(fields),
        "tools": fields.list("tools")?.unwrap_or_default().iter().map(tool).collect::<Vec<_>>(),
        "top_logprobs": given("top_logprobs", json!(0)),
        "top_p": given("top_p", json!(1)),
        "truncation": given("truncation", json!("disabled")),
        "user": given("user", Value::Null),
    });
    if let Some(conversation) = &links.conversation {
        echo["conversation"] = json!({"id": conversation});
    }
    Ok(echo)
}

pub(crate) fn metadata(fields: Fields<'_>) -> Result<Value, Bad> {
    let check = |value: &Value| {
        let pairs = value.as_object().ok_or_else(|| wrong(value, "an object"))?;
        if pairs.len() > METADATA_MAX {
            return Err(Bad::value(format!("must hold {METADATA_MAX} pairs at most, not {}", pairs.len())));
        }
        for (name, value) in pairs {
            let text = value.as_str().ok_or_else(|| wrong(value, "a text").at(name))?;
            if name.chars().count() > METADATA_NAME_CHARS_MAX {
                return Err(Bad::value(format!("must have names of {METADATA_NAME_CHARS_MAX} characters at most")));
            }
            if text.chars().count() > METADATA_VALUE_CHARS_MAX {
                return Err(Bad::value(format!("must have {METADATA_VALUE_CHARS_MAX} characters at most")).at(name));
            }
        }
        Ok(value.clone())
    };
    Ok(fields.read("metadata", check)?.unwrap_or_else(|| json!({})))
}

fn format(fields: Fields<'_>, form: &Form) -> Value {
    match form {
        Form::Text => json!({"type": "text"}),
        Form::Json => json!({"type": "json_object"}),
        Form::Schema(schema) => {
            let asked = fields.get("text").map_or(&Value::Null, |text| &text["format"]);
            json!({
                "type": "json_schema",
                "name": asked["name"].as_str().unwrap_or("answer"),
                "description": asked["description"],
                "schema": schema,
                "strict": asked["strict"].as_bool().unwrap_or(true),
            })
        }
    }
}

/// A function in the flat form, whichever it came in.
fn tool(tool: &Value) -> Value {
    let function = if tool["function"].is_object() { &tool["function"] } else { tool };
    json!({
        "type": "function",
        "name": function["name"],
        "description": function["description"],
        "parameters": function["parameters"],
        "strict": function["strict"].as_bool().unwrap_or(false),
    })
}

fn tool_choice(fields: Fields<'_>) -> Value {
    match fields.get("tool_choice") {
        None => json!("auto"),
        Some(Value::String(word)) if word == "any" => json!("required"),
        Some(Value::Object(choice)) if choice.get("type").is_some_and(|kind| kind == "allowed_tools") => {
            let nested = choice.get("allowed_tools").and_then(Value::as_object).unwrap_or(choice);
            let part = |nested: &Map<String, Value>, name: &str| nested.get(name).cloned().unwrap_or_default();
            let mode = nested.get("mode").cloned().unwrap_or_else(|| json!("auto"));
            json!({"type": "allowed_tools", "mode": mode, "tools": part(nested, "tools")})
        }
        Some(Value::Object(choice)) => {
            let function = choice.get("function").and_then(Value::as_object).unwrap_or(choice);
            json!({"type": "function", "name": function.get("name")})
        }
        Some(other) => other.clone(),
    }
}
