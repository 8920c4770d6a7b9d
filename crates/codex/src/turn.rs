//! One turn among all that a connection tells: picks its events, and ends exactly once.

use crate::event::{Placed, TurnEvent};

/// A turn that was started and whose end has not been seen.
#[derive(Debug)]
pub struct Turn {
    thread: Box<str>,
    id: Box<str>,
    is_over: bool,
}

impl Turn {
    /// The turn with that id. The id must come from the answer to `turn/start`: what arrives before may belong to an
    /// earlier turn, such as the token usage that is told again after `thread/resume`.
    #[must_use]
    pub fn new(thread: &str, id: &str) -> Self {
        Self { thread: thread.into(), id: id.into(), is_over: false }
    }

    /// Whether its end has been told.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// The event, if it belongs to this turn or to its thread as a whole.
    pub fn take(&mut self, placed: Placed) -> Option<TurnEvent> {
        let is_mine = placed.thread == self.thread && placed.turn.is_none_or(|turn| turn == self.id);
        if self.is_over || !is_mine {
            return None;
        }
        self.is_over = matches!(placed.event, TurnEvent::TurnEnded { .. });
        Some(placed.event)
    }
}
