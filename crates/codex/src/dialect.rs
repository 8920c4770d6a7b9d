//! What differs between the two dialects, in one place: how a turn is begun, stopped and listened to, and how what the
//! worker says is read.

use serde::Deserialize;
use serde_json::{Value, json};
use wire::{Json, PeerError};

use crate::event::{Placed, Told};
use crate::requests;
use crate::v2;

/// A call that is ready to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) method: Box<str>,
    pub(crate) params: Option<Json>,
}

impl Line {
    pub(crate) fn new(method: &str, params: &Value) -> Self {
        Self { method: method.into(), params: Some(requests::written(params)) }
    }
}

/// Reads what a worker says.
pub(crate) enum Reader {
    V2,
    V1(Box<crate::v1::Reader>),
}

impl Reader {
    pub(crate) fn notification(&mut self, method: &str, params: &Json, told: &mut Vec<Told>) {
        match self {
            Self::V2 => told.extend(v2::notification(method, params)),
            Self::V1(reader) => reader.notification(method, params, told),
        }
    }

    pub(crate) fn request(&mut self, id: &str, method: &str, params: &Json) -> Option<Placed> {
        match self {
            Self::V2 => v2::request(id, method, params),
            Self::V1(reader) => reader.request(id, method, params),
        }
    }

    /// Whatever is remembered of a thread holds no longer: it is loaded anew.
    pub(crate) fn forget(&mut self, thread: &str) {
        match self {
            Self::V2 => {}
            Self::V1(reader) => reader.forget(thread),
        }
    }

    /// The name of the turn that was started.
    pub(crate) fn turn_started(&self, result: &Json) -> Result<Box<str>, PeerError> {
        #[derive(Deserialize)]
        struct Started {
            turn: Named,
        }
        #[derive(Deserialize)]
        struct Named {
            id: Box<str>,
        }
        result.parse::<Started>().map(|started| started.turn.id).map_err(|error| {
            let message = format!("the answer names no turn ({error}): the worker speaks another protocol");
            PeerError { code: 0, message: message.into(), data: None }
        })
    }

    /// What listens for a conversation now.
    pub(crate) fn listener(&self, result: &Json) -> Option<Box<str>> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Added {
            subscription_id: Box<str>,
        }
        result.parse::<Added>().ok().map(|added| added.subscription_id)
    }

    pub(crate) fn interrupt(&self, thread: &str, turn: &str) -> Line {
        match self {
            Self::V2 => Line::new("turn/interrupt", &json!({"threadId": thread, "turnId": turn})),
            Self::V1(_) => Line::new("interruptConversation", &json!({"conversationId": thread})),
        }
    }

    pub(crate) fn unlisten(&self, listener: &str) -> Line {
        Line::new("removeConversationListener", &json!({"subscriptionId": listener}))
    }
}
