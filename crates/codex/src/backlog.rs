//! Events that came while a call was waited for: kept in order, up to a limit.

use std::collections::VecDeque;

use wire::{Event, Outcome};

/// How many events may wait.
const EVENTS_MAX: usize = 10_000;
/// How many bytes they may carry; a line that crosses the limit is still kept.
const BYTES_MAX: usize = 32 << 20;

#[derive(Default)]
pub(crate) struct Backlog {
    events: VecDeque<Event>,
    bytes: usize,
}

impl Backlog {
    pub(crate) fn push(&mut self, event: Event) {
        self.bytes += bytes(&event);
        self.events.push_back(event);
    }

    pub(crate) fn pop(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        self.bytes -= bytes(&event);
        Some(event)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.events.len() >= EVENTS_MAX || self.bytes >= BYTES_MAX
    }
}

fn bytes(event: &Event) -> usize {
    let carried = match event {
        Event::Notification(told) => told.params.as_ref(),
        Event::Request(asked) => asked.params.as_ref(),
        Event::Settled { outcome: Outcome::Answered(result), .. } => Some(result),
        Event::Settled { .. } | Event::Reported(_) | Event::Closed { .. } => None,
    };
    carried.map_or(0, |json| json.get().len())
}
