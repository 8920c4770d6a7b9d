//! One conversation: its turns, each begun and ended once, and the usage that was told so far.

use wire::Json;

use super::event_kind::EventKind;
use super::fields::Fields;
use super::items::{Habits, RunningTurn};
use crate::event::{Placed, Told, TurnEvent, TurnStatus, Usage};

/// What is known of a conversation.
#[derive(Debug, Default)]
pub(crate) struct Conversation {
    running: Option<RunningTurn>,
    ended: Option<Box<str>>,
    unnamed_turns: u32,
    habits: Habits,
    total: Option<Usage>,
}

/// One notification of a conversation.
#[derive(Debug)]
pub(crate) struct Message<'a> {
    pub(crate) kind: EventKind,
    pub(crate) method: &'a str,
    pub(crate) params: &'a Json,
    /// The turn, where the message names one.
    pub(crate) turn: Option<Box<str>>,
    pub(crate) fields: &'a Fields<'a>,
    /// The message itself, without its envelope.
    pub(crate) raw: Json,
}

impl Message<'_> {
    pub(crate) fn as_it_came(&self) -> TurnEvent {
        TurnEvent::Raw { method: self.method.into(), params: self.params.clone() }
    }

    /// What it warns of, if it is a warning.
    pub(crate) fn warning(&self) -> Option<TurnEvent> {
        let name = match self.kind {
            EventKind::Warning | EventKind::BackgroundEvent => "message",
            EventKind::DeprecationNotice => "summary",
            _ => return None,
        };
        Some(TurnEvent::Warning { message: self.fields.text(name)? })
    }
}

impl Conversation {
    /// Adds what the message tells to `told`; `false` if it belongs to no turn.
    pub(crate) fn take(&mut self, thread: &str, message: &Message<'_>, told: &mut Vec<Told>) -> bool {
        match message.kind {
            EventKind::TaskStarted => self.begin(thread, message.turn.clone(), told),
            EventKind::TaskComplete => self.end(thread, message, TurnStatus::Completed, told),
            EventKind::TurnAborted => self.end(thread, message, TurnStatus::Interrupted, told),
            _ => return self.within(thread, message, told),
        }
        true
    }

    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Remembers that a request waits, and says in which turn.
    pub(crate) fn asked(&mut self, item: Option<&str>, request: &str) -> Option<Box<str>> {
        let running = self.running.as_mut()?;
        running.asked(item, request);
        Some(running.id.clone())
    }

    fn begin(&mut self, thread: &str, turn: Option<Box<str>>, told: &mut Vec<Told>) {
        if self.running.as_ref().is_some_and(|running| turn.as_ref() == Some(&running.id)) {
            return;
        }
        if let Some(lost) = self.running.take() {
            tell(thread, &lost.id.clone(), lost.end(TurnStatus::Interrupted), told);
        }
        let id = turn.unwrap_or_else(|| {
            self.unnamed_turns += 1;
            format!("turn-{}", self.unnamed_turns).into()
        });
        tell(thread, &id, [started(thread, &id)], told);
        self.running = Some(RunningTurn::new(id));
    }

    fn end(&mut self, thread: &str, message: &Message<'_>, status: TurnStatus, told: &mut Vec<Told>) {
        let is_this = |running: &mut RunningTurn| message.turn.as_ref().is_none_or(|turn| *turn == running.id);
        if let Some(running) = self.running.take_if(is_this) {
            let id = running.id.clone();
            tell(thread, &id, running.end(status), told);
            self.ended = Some(id);
        } else if let Some(id) = message.turn.as_ref().filter(|turn| self.ended.as_ref() != Some(*turn)) {
            // 0.45 does not say that a turn started which was interrupted in the same moment.
            let ended = TurnEvent::TurnEnded { status, error: None };
            tell(thread, id, [started(thread, id), ended], told);
            self.ended = Some(id.clone());
        }
    }

    fn within(&mut self, thread: &str, message: &Message<'_>, told: &mut Vec<Told>) -> bool {
        let is_unseen = message.turn.is_some() && message.turn != self.ended;
        if self.running.is_none() && is_unseen && belongs_to_a_started_turn(message.kind) {
            self.begin(thread, message.turn.clone(), told);
        }
        let is_this = |running: &&mut RunningTurn| message.turn.as_ref().is_none_or(|turn| running.covers(turn));
        let Some(running) = self.running.as_mut().filter(is_this) else {
            let Some(turn) = &message.turn else {
                return false;
            };
            tell(thread, turn, [message.warning().unwrap_or_else(|| message.as_it_came())], told);
            return true;
        };
        let mut events = Vec::new();
        match message.kind {
            EventKind::TokenCount => events.extend(usage(message, running.has_output(), &mut self.total)),
            _ => running.take(message, &mut self.habits, &mut events),
        }
        tell(thread, &running.id, events, told);
        true
    }
}

fn tell(thread: &str, turn: &str, events: impl IntoIterator<Item = TurnEvent>, told: &mut Vec<Told>) {
    let place = |event| Told::Turn(Placed { thread: thread.into(), turn: Some(turn.into()), event });
    told.extend(events.into_iter().map(place));
}

fn started(thread: &str, turn: &str) -> TurnEvent {
    TurnEvent::TurnStarted { thread: thread.into(), turn: turn.into() }
}

/// Whether the message shows that its turn runs. The others may come before it has started or after it has ended.
fn belongs_to_a_started_turn(kind: EventKind) -> bool {
    !matches!(
        kind,
        EventKind::UserMessage
            | EventKind::TokenCount
            | EventKind::Warning
            | EventKind::BackgroundEvent
            | EventKind::DeprecationNotice
            | EventKind::TurnDiff
            | EventKind::Other
    )
}

/// The usage, if it is news: workers repeat the last known one whenever they report the account's limits, at the
/// beginning of a turn even that of an earlier turn.
fn usage(message: &Message<'_>, has_output: bool, known_total: &mut Option<Usage>) -> Option<TurnEvent> {
    if message.fields.get::<Option<serde_json::Value>>("info").flatten().is_none() {
        known_total.get_or_insert_default();
        return None;
    }
    let read = || {
        let usage: Fields<'_> = message.fields.get("info")?;
        let (last, total) = (tokens(&usage.get("last_token_usage")?), tokens(&usage.get("total_token_usage")?));
        Some((last, total, usage.get("model_context_window")))
    };
    let Some((last, total, context_window)) = read() else {
        return Some(message.as_it_came());
    };
    let is_news = known_total.replace(total).map_or(has_output, |known| known != total);
    is_news.then_some(TurnEvent::TokenUsage { last, total, context_window })
}

fn tokens(fields: &Fields<'_>) -> Usage {
    let count = |name| fields.get(name).unwrap_or_default();
    Usage {
        total_tokens: count("total_tokens"),
        input_tokens: count("input_tokens"),
        cached_input_tokens: count("cached_input_tokens"),
        cache_write_input_tokens: count("cache_write_input_tokens"),
        output_tokens: count("output_tokens"),
        reasoning_output_tokens: count("reasoning_output_tokens"),
    }
}
