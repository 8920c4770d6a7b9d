//! What the screen makes of an event, whether it comes from a worker of our own or as JSON from a server.

use codex::event::{TurnError, TurnEvent, TurnStatus};
use serde::Deserialize;
use serde_json::Value;

/// The part of an event that a person is shown.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Told {
    Text {
        text: Box<str>,
    },
    ItemStarted {
        item: ToldItem,
    },
    Warning {
        message: Box<str>,
    },
    Error {
        error: ToldError,
        will_retry: bool,
    },
    ApprovalWanted {
        kind: Box<str>,
    },
    TurnEnded {
        #[serde(deserialize_with = "status")]
        status: TurnStatus,
        error: Option<ToldError>,
    },
    /// The server has forgotten what a slow reader did not read.
    Missed {},
    /// One event was larger than the server keeps.
    TooLong {},
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
pub(super) struct ToldItem {
    pub(super) kind: Box<str>,
    #[serde(default)]
    raw: Value,
}

#[derive(Deserialize)]
pub(super) struct ToldError {
    pub(super) message: Box<str>,
    pub(super) kind: Option<Box<str>>,
}

impl Told {
    /// The same of an event of our own worker, of which it declines whatever needs a decision.
    pub(super) fn of(event: &TurnEvent) -> Self {
        match event {
            TurnEvent::Text { text, .. } => Self::Text { text: text.to_str().into() },
            TurnEvent::ItemStarted { item } => {
                let raw = item.raw.parse().unwrap_or_default();
                Self::ItemStarted { item: ToldItem { kind: item.kind.clone(), raw } }
            }
            TurnEvent::Warning { message } => Self::Warning { message: message.clone() },
            TurnEvent::Error { error, will_retry } => Self::Error { error: error.into(), will_retry: *will_retry },
            TurnEvent::TurnEnded { status, error } => {
                Self::TurnEnded { status: *status, error: error.as_ref().map(Into::into) }
            }
            _ => Self::Other,
        }
    }
}

impl ToldItem {
    /// The command that it runs, as a line.
    pub(super) fn command(&self) -> Option<String> {
        match &self.raw["command"] {
            Value::String(command) => Some(command.clone()),
            Value::Array(words) => Some(words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")),
            _ => None,
        }
    }
}

impl From<&TurnError> for ToldError {
    fn from(error: &TurnError) -> Self {
        Self { message: error.message.clone(), kind: error.kind.clone() }
    }
}

fn status<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<TurnStatus, D::Error> {
    Ok(match &*Box::<str>::deserialize(deserializer)? {
        "completed" => TurnStatus::Completed,
        "interrupted" => TurnStatus::Interrupted,
        "failed" => TurnStatus::Failed,
        _ => TurnStatus::Lost,
    })
}
