//! What differs between the two dialects, in one place: how a turn is begun, stopped and listened to, and how what the
//! worker says is read.

use serde::Deserialize;
use wire::{Json, PeerError};

use crate::event::{Placed, Told};
use crate::protocol::calls::TurnInterrupt;
use crate::protocol::{Call, TurnInterruptParams};
use crate::v1::calls::{
    AddConversationListenerAnswer, ConversationParams, InterruptConversation, RemoveConversationListener,
    RemoveConversationListenerParams,
};
use crate::v2;

/// A call that is ready to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) method: Box<str>,
    pub(crate) params: Option<Json>,
}

impl Line {
    /// A call of the protocol. Its parameters are structs of ours, which can be written.
    pub(crate) fn of<C: Call>(params: &C::Params) -> Self {
        Self::named::<C>(C::METHOD, params)
    }

    /// The same under the name that the worker has for it.
    pub(crate) fn named<C: Call>(method: &str, params: &C::Params) -> Self {
        let params = Json::of(params).expect("a struct with named fields can be written");
        Self { method: method.into(), params: Some(params) }
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

    /// The piece of text that most notifications are.
    pub(crate) fn delta<'a>(&self, method: &str, params: &'a Json) -> Option<v2::Delta<'a>> {
        match self {
            Self::V2 => v2::delta(method, params),
            Self::V1(_) => None,
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
        result.parse::<AddConversationListenerAnswer>().ok().map(|added| added.subscription_id)
    }

    pub(crate) fn interrupt(&self, thread: &str, turn: &str) -> Line {
        match self {
            Self::V2 => {
                let params = TurnInterruptParams { thread_id: thread.into(), turn_id: turn.into() };
                Line::of::<TurnInterrupt>(&params)
            }
            Self::V1(_) => Line::of::<InterruptConversation>(&ConversationParams { conversation_id: thread.into() }),
        }
    }

    pub(crate) fn unlisten(&self, listener: &str) -> Line {
        let params = RemoveConversationListenerParams { subscription_id: listener.into() };
        Line::of::<RemoveConversationListener>(&params)
    }
}
