//! What a single message says by itself: events that need no memory, how a piece of work ended, and why one failed.

use serde_json::{Value, json};

use super::conversation::Message;
use super::event_kind::EventKind;
use super::fields::Fields;
use crate::event::{PlanStep, TurnError, TurnEvent, to_snake_case};

/// The event of a message that needs no memory to be told.
pub(crate) fn event(message: &Message<'_>) -> Option<TurnEvent> {
    let fields = message.fields;
    let event = match message.kind {
        EventKind::PlanUpdate => {
            TurnEvent::Plan { explanation: fields.text("explanation"), steps: fields.get::<Vec<PlanStep>>("plan")? }
        }
        EventKind::TurnDiff => TurnEvent::Diff { diff: fields.text("unified_diff")? },
        EventKind::ContextCompacted => TurnEvent::Compacted,
        EventKind::TerminalInteraction => TurnEvent::TerminalInteraction {
            item: fields.id("call_id")?,
            process: fields.id("process_id")?,
            input: fields.text("stdin")?,
        },
        _ => message.warning()?,
    };
    Some(event)
}

pub(crate) fn command_status(fields: &Fields<'_>) -> &'static str {
    match fields.get::<i64>("exit_code") {
        Some(0) => "completed",
        Some(-1) if fields.text("stderr").as_deref() == Some(REJECTED) => "declined",
        _ => "failed",
    }
}

pub(crate) fn patch_status(fields: &Fields<'_>) -> &'static str {
    if fields.get("success") == Some(true) { "completed" } else { "failed" }
}

/// A tool server's answer may itself say that the tool failed.
pub(crate) fn tool_status(fields: &Fields<'_>) -> &'static str {
    let answer = fields.get::<Value>("result").unwrap_or_default();
    let has_failed = answer["Ok"].is_null() || answer["Ok"]["isError"] == json!(true);
    if has_failed { "failed" } else { "completed" }
}

/// The class of an error is a word, or an object whose one key is the word and whose value may hold a status. Workers up to
/// 0.58 give none: they say it in their message.
pub(crate) fn turn_error(fields: &Fields<'_>) -> Option<TurnError> {
    let message = fields.text("message")?;
    let class = fields.get::<Value>("codex_error_info").unwrap_or_default();
    let (kind, detail) = match &class {
        Value::String(kind) => (Some(kind), None),
        Value::Object(object) => object.iter().next().unzip(),
        _ => (None, None),
    };
    let (said_kind, said_status) = said_class(&message).unzip();
    let status = detail.and_then(|detail| detail["http_status_code"].as_u64()?.try_into().ok());
    Some(TurnError {
        kind: kind.map(|kind| to_snake_case(kind)).or(said_kind.map(Into::into)),
        http_status: if kind.is_some() { status } else { said_status.flatten() },
        details: fields.text("additional_details"),
        message,
    })
}

/// How each class of error begins; behind some of these stands the provider's status.
const CLASSES: [(&str, &str); 7] = [
    ("exceeded retry limit, last status: ", "response_too_many_failed_attempts"),
    ("unexpected status ", "http_connection_failed"),
    ("stream disconnected before completion", "response_stream_disconnected"),
    ("Codex ran out of room in the model's context window", "context_window_exceeded"),
    ("Quota exceeded", "usage_limit_exceeded"),
    ("You've hit your usage limit", "usage_limit_exceeded"),
    ("We're currently experiencing high demand", "internal_server_error"),
];

fn said_class(message: &str) -> Option<(&'static str, Option<u16>)> {
    CLASSES.iter().find_map(|(beginning, kind)| {
        let rest = message.strip_prefix(beginning)?;
        Some((*kind, rest.split(' ').next().and_then(|word| word.parse().ok())))
    })
}

/// The error output of a command that was not allowed to run.
const REJECTED: &str = "exec command rejected by user";
