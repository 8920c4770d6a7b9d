//! The messages of a v1 worker as the events of its conversations and of the connection.
//!
//! The dialect leaves out what the vocabulary promises, so the reader remembers a little of each conversation: which turn
//! runs, which items are open, which of the twin messages the worker's version sends, what usage was already told.

use std::collections::HashMap;

use wire::Json;

use super::connection;
use super::conversation::{Conversation, Message};
use super::event_kind::EventKind;
use super::fields::Fields;
use crate::event::{ConnectionEvent, Placed, Told, TurnEvent};
use crate::requests::RequestKind;

/// Conversations that are remembered. Of one that is forgotten between its turns only usage may be told twice.
const CONVERSATIONS_MAX: usize = 1024;

/// Reads what one connection receives.
///
/// Every turn begins with [`TurnEvent::TurnStarted`], which is the first to name its id, and ends once.
#[derive(Debug, Default)]
pub struct Reader {
    conversations: HashMap<Box<str>, Conversation>,
}

impl Reader {
    /// Adds what a notification tells to `told`; nothing, if another one says the same.
    pub fn notification(&mut self, method: &str, params: &Json, told: &mut Vec<Told>) {
        let Some(kind) = EventKind::of(method) else {
            told.extend(connection::event(method, params).map(Told::Connection));
            return;
        };
        if !self.of_conversation(kind, method, params, told) {
            told.push(Told::Connection(of_connection(kind, method, params)));
        }
    }

    /// The event of a request that waits for a decision.
    pub fn request(&mut self, id: &str, method: &str, params: &Json) -> Option<Placed> {
        let fields: Fields<'_> = params.parse().ok()?;
        let thread = fields.id("conversation_id")?;
        let item = fields.id("call_id");
        let conversation = self.conversations.get_mut(&thread);
        let turn = conversation.and_then(|conversation| conversation.asked(item.as_deref(), id));
        let kind = RequestKind::of(method);
        let event = TurnEvent::ApprovalWanted { request: id.into(), kind, item, params: params.clone() };
        Some(Placed { thread, turn, event })
    }

    /// Drops what is known of a conversation: when it is closed, and before it is resumed, because its turns are then
    /// numbered from the beginning.
    pub fn forget(&mut self, thread: &str) {
        self.conversations.remove(thread);
    }

    /// Forgets another conversation, one that rests if there is one, before too many are remembered.
    fn make_room(&mut self, thread: &str) {
        if self.conversations.len() < CONVERSATIONS_MAX || self.conversations.contains_key(thread) {
            return;
        }
        let resting = self.conversations.iter().find(|(_, conversation)| !conversation.is_running());
        let other = resting.or_else(|| self.conversations.iter().next()).map(|(thread, _)| thread.clone());
        if let Some(other) = other {
            self.conversations.remove(&other);
        }
    }

    /// Whether the notification belongs to a conversation's turn.
    fn of_conversation(&mut self, kind: EventKind, method: &str, params: &Json, told: &mut Vec<Told>) -> bool {
        if matches!(kind, EventKind::SessionConfigured | EventKind::McpStartup) {
            return false;
        }
        let Ok(fields) = params.parse::<Fields<'_>>() else {
            return false;
        };
        let Some(thread) = fields.id("conversation_id").or_else(|| fields.id("thread_id")) else {
            return false;
        };
        let inner = fields.get::<Fields<'_>>("msg");
        let raw = inner.as_ref().and_then(|_| fields.json("msg")).unwrap_or_else(|| params.clone());
        let turn = fields.id("id").or_else(|| inner.as_ref()?.id("turn_id")).or_else(|| fields.id("turn_id"));
        let message = Message { kind, method, params, turn, fields: inner.as_ref().unwrap_or(&fields), raw };
        self.make_room(&thread);
        let conversation = self.conversations.entry(thread.clone()).or_default();
        conversation.take(&thread, &message, told)
    }
}

fn of_connection(kind: EventKind, method: &str, params: &Json) -> ConnectionEvent {
    let fields: Option<Fields<'_>> = params.parse().ok();
    let inner = fields.as_ref().and_then(|fields| fields.get::<Fields<'_>>("msg"));
    let text = |name: &str| inner.as_ref().or(fields.as_ref())?.id(name);
    let event = match kind {
        EventKind::SessionConfigured => {
            let thread = text("session_id").or_else(|| fields.as_ref()?.id("conversation_id"));
            thread.map(|thread| ConnectionEvent::ThreadStarted { thread, params: params.clone() })
        }
        EventKind::Warning | EventKind::BackgroundEvent => {
            text("message").map(|message| ConnectionEvent::Warning { message })
        }
        EventKind::DeprecationNotice => text("summary").map(|message| ConnectionEvent::Warning { message }),
        _ => None,
    };
    event.unwrap_or_else(|| ConnectionEvent::Raw { method: method.into(), params: params.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversations_without_end_are_not_all_remembered_and_one_that_runs_is() {
        let mut reader = Reader::default();
        let mut told = Vec::new();
        let started = |thread: &str| format!(r#"{{"conversationId":"{thread}","id":"1","msg":{{}}}}"#);
        let mut hear = |method: &str, thread: &str| {
            reader.notification(method, &Json::new(&started(thread)).unwrap(), &mut told);
            reader.conversations.len()
        };
        hear("codex/event/task_started", "running");
        let most =
            (0..3 * CONVERSATIONS_MAX).map(|number| hear("codex/event/task_complete", &number.to_string())).max();
        assert_eq!(most, Some(CONVERSATIONS_MAX));
        assert!(reader.conversations.contains_key("running"));
    }
}
