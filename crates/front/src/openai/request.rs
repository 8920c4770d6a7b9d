//! A chat request, read: everything that the caller asks for, in words of our own.

use serde_json::Value;
use workers::Afterwards;

use super::message::{self, Message};
use super::read::{Bad, Fields, each, wrong};
use super::reading::{Manner, WorkForm};
use super::responses::items;
use super::tools::Tools;
use super::{messages, parameters};
use crate::error::Code;

/// How many answers to one request there may be.
const CHOICES_MAX: u64 = 8;
/// How many texts may end an answer.
const STOPS_MAX: usize = 4;
/// How long each of them, and the name of a model, may be.
const WORD_BYTES_MAX: usize = 1024;

/// What is asked for.
#[derive(Debug)]
pub(crate) struct Request {
    pub model: Box<str>,
    pub messages: Vec<Message>,
    pub tools: Tools,
    pub form: Form,
    pub effort: Option<Box<str>>,
    pub summary: Option<Box<str>>,
    pub verbosity: Option<Box<str>>,
    pub service_tier: Option<Box<str>>,
    pub choices: u32,
    pub stop: Vec<Box<str>>,
    pub delivery: Delivery,
    pub manner: Manner,
    pub work_form: WorkForm,
    /// Whether the first message is the request's own instructions, and no part of the conversation.
    pub has_instructions: bool,
    /// What becomes of its thread.
    pub afterwards: Afterwards,
    /// What is not done, by name.
    pub ignored: Vec<&'static str>,
}

/// The form of the answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Form {
    Text,
    /// Some object of JSON.
    Json,
    /// A value of this schema.
    Schema(Value),
}

/// How the answer comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    Whole,
    Stream,
    StreamWithUsage,
}

impl Request {
    /// Reads a chat request.
    pub(crate) fn read(body: &Value) -> Result<Self, Bad> {
        let body = Fields::of(body)?;
        let request = Self::read_common(body)?;
        let mut ignored = parameters::ignored(body)?;
        let asked_in_vain = [
            ("input", body.get("messages").is_some() && body.get("input").is_some()),
            ("instructions", body.get("messages").is_some() && body.get("instructions").is_some()),
            ("messages.name", has_in_messages(body, &has_speaker)),
            ("image_url.detail", has_in_messages(body, &has_detail)),
        ];
        ignored.extend(asked_in_vain.into_iter().filter(|(_, is_so)| *is_so).map(|(name, _)| name));
        ignored.extend(request.ignored);
        Ok(Self {
            messages: conversation(body)?,
            choices: choices(body)?,
            stop: stop(body)?,
            delivery: delivery(body)?,
            ignored,
            ..request
        })
    }

    /// Reads what is the same in both APIs. Nothing is said yet, and one whole answer is wanted.
    pub(crate) fn read_common(body: Fields<'_>) -> Result<Self, Bad> {
        let model = body.text("model")?.filter(|model| !model.is_empty());
        if model.is_some_and(|model| model.len() > WORD_BYTES_MAX) {
            return Err(Bad::value(format!("must have {WORD_BYTES_MAX} bytes at most")).at("model"));
        }
        let model = model.ok_or_else(|| Bad::value("is missing; GET /v1/models lists them").at("model"));
        let reasoning = body.object("reasoning")?;
        let of_reasoning = |name: &str| match reasoning {
            Some(fields) => fields.text(name).map_err(|bad| bad.at("reasoning")),
            None => Ok(None),
        };
        let tools = Tools::read(body)?;
        let (form, is_loose) = form(body)?;
        let asked_in_vain = [
            ("tool_choice", tools.is_demanded && !tools.are_functions),
            ("function_call", tools.is_demanded && tools.are_functions),
            ("tools.strict", tools.is_strict),
            ("response_format.json_schema.strict", is_loose),
        ];
        let tier = body.text("service_tier")?.filter(|tier| !matches!(*tier, "auto" | "default"));
        Ok(Self {
            model: model.map_err(|bad| bad.coded(Code::ModelMissing))?.into(),
            messages: Vec::new(),
            tools,
            form,
            effort: body.text("reasoning_effort")?.or(of_reasoning("effort")?).map(Into::into),
            summary: of_reasoning("summary")?.map(Into::into),
            verbosity: verbosity(body)?.map(Into::into),
            service_tier: tier.map(Into::into),
            choices: 1,
            stop: Vec::new(),
            delivery: Delivery::Whole,
            manner: Manner::Joined,
            work_form: WorkForm::Lines,
            has_instructions: false,
            afterwards: Afterwards::Stays,
            ignored: asked_in_vain.into_iter().filter(|(_, is_so)| *is_so).map(|(name, _)| name).collect(),
        })
    }
}

impl Request {
    /// What was said, without the request's own instructions.
    pub(crate) fn conversation(&self) -> &[Message] {
        &self.messages[usize::from(self.has_instructions)..]
    }

    /// How many tokens its messages are taken for.
    pub(crate) fn tokens(&self) -> u64 {
        self.messages.iter().map(Message::tokens).fold(0, u64::saturating_add)
    }
}

/// `verbosity` in one API, `text.verbosity` in the other.
fn verbosity(body: Fields<'_>) -> Result<Option<&str>, Bad> {
    match (body.text("verbosity")?, body.object("text")?) {
        (None, Some(text)) => text.text("verbosity").map_err(|bad| bad.at("text")),
        (verbosity, _) => Ok(verbosity),
    }
}

fn has_in_messages(body: Fields<'_>, is_asked: &dyn Fn(Fields<'_>) -> bool) -> bool {
    let list = body.list("messages").ok().flatten().unwrap_or_default();
    list.iter().filter_map(|message| Fields::of(message).ok()).any(is_asked)
}

/// Whether the speaker has a name; that of a result is its tool's.
fn has_speaker(message: Fields<'_>) -> bool {
    let is_result = message.get("role").is_some_and(|role| role == "function" || role == "tool");
    message.get("name").is_some() && !is_result
}

/// Whether an image is to be seen in another detail than the model chooses.
fn has_detail(message: Fields<'_>) -> bool {
    let parts = message.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    parts.iter().any(|part| part["image_url"]["detail"].as_str().is_some_and(|detail| detail != "auto"))
}

fn conversation(body: Fields<'_>) -> Result<Vec<Message>, Bad> {
    let (name, messages, places) = match (body.list("messages")?, body.get("input")) {
        (Some(list), _) => ("messages", messages::read(list).map_err(|bad| bad.at("messages"))?, None),
        (None, Some(input)) => {
            let read = items::read(input, &|_| None).map_err(|bad| bad.at("input"))?;
            let instructions = body.text("instructions")?.map(|text| Message::Instruction(text.into()));
            let before = usize::from(instructions.is_some());
            let messages = instructions.into_iter().chain(read.messages).collect();
            ("input", messages, Some((before, read.places)))
        }
        (None, None) => return Err(Bad::value("is missing; send a list of messages").at("messages")),
    };
    if messages.is_empty() {
        return Err(Bad::value("must hold a message").at(name));
    }
    message::check(&messages).map_err(|(index, bad)| {
        let place = index.map(|index| match &places {
            Some((before, places)) => index.checked_sub(*before).map_or(0, |index| places[index]),
            None => index,
        });
        match place {
            Some(place) => bad.nth(place).at(name),
            None => bad.at(name),
        }
    })?;
    Ok(messages)
}

/// The form of the answer, and whether the schema was to be followed only loosely, which a worker never does.
fn form(body: Fields<'_>) -> Result<(Form, bool), Bad> {
    let chat = body.object("response_format")?.map(|fields| ("response_format", "json_schema", fields));
    let flat = match body.object("text")? {
        Some(text) => {
            text.object("format").map_err(|bad| bad.at("text"))?.map(|fields| ("text.format", "schema", fields))
        }
        None => None,
    };
    let Some((name, wanted, fields)) = chat.or(flat) else {
        return Ok((Form::Text, false));
    };
    read_form(fields, wanted).map_err(|bad| bad.at(name))
}

/// `wanted` is the field that a schema must come in.
fn read_form(fields: Fields<'_>, wanted: &str) -> Result<(Form, bool), Bad> {
    match fields.need_text("type")? {
        "text" => Ok((Form::Text, false)),
        "json_object" => Ok((Form::Json, false)),
        "json_schema" => {
            let nested = fields.object("json_schema")?;
            if nested.is_none() && fields.get("schema").is_none() {
                return Err(Bad::value("is missing").at(wanted));
            }
            let holder = nested.unwrap_or(fields);
            let schema = holder.read("schema", |value| match value {
                Value::Object(_) => Ok(value.clone()),
                other => Err(wrong(other, "a JSON Schema (an object)")),
            });
            let schema = schema.and_then(|schema| schema.ok_or_else(|| Bad::value("is missing").at("schema")));
            let is_loose = holder.flag("strict").map(|strict| strict == Some(false));
            let below = |bad: Bad| if nested.is_some() { bad.at("json_schema") } else { bad };
            Ok((Form::Schema(schema.map_err(below)?), is_loose.map_err(below)?))
        }
        other => Err(Bad::value(format!("must be text, json_object or json_schema, not {other:?}")).at("type")),
    }
}

fn choices(body: Fields<'_>) -> Result<u32, Bad> {
    match body.count("n")? {
        None => Ok(1),
        Some(n @ 1..=CHOICES_MAX) => Ok(u32::try_from(n).unwrap_or(1)),
        Some(n) => Err(Bad::value(format!("must be from 1 to {CHOICES_MAX}, not {n}")).at("n")),
    }
}

fn stop(body: Fields<'_>) -> Result<Vec<Box<str>>, Bad> {
    let text = |value: &Value| match value.as_str() {
        Some("") => Err(Bad::value("must not be empty")),
        Some(text) if text.len() > WORD_BYTES_MAX => {
            Err(Bad::value(format!("must have {WORD_BYTES_MAX} bytes at most")))
        }
        Some(text) => Ok(text.into()),
        None => Err(wrong(value, "a text")),
    };
    let read = |value: &Value| match value {
        Value::Array(list) if list.len() > STOPS_MAX => {
            Err(Bad::value(format!("must hold {STOPS_MAX} texts at most, not {}", list.len())))
        }
        Value::Array(list) => each(list, text),
        Value::String(_) => Ok(vec![text(value)?]),
        other => Err(wrong(other, "a text or a list of texts")),
    };
    Ok(body.read("stop", read)?.unwrap_or_default())
}

fn delivery(body: Fields<'_>) -> Result<Delivery, Bad> {
    let is_streamed = body.flag("stream")?.unwrap_or(false);
    let has_usage = match body.object("stream_options")? {
        Some(options) => options.flag("include_usage").map_err(|bad| bad.at("stream_options"))?.unwrap_or(false),
        None => false,
    };
    Ok(match (is_streamed, has_usage) {
        (false, _) => Delivery::Whole,
        (true, false) => Delivery::Stream,
        (true, true) => Delivery::StreamWithUsage,
    })
}
