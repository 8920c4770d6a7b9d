//! One turn among all that a connection tells: picks its events, and ends exactly once.

use crate::event::{TurnError, TurnEvent, TurnStatus};
use crate::v2::Placed;

/// A turn that was started and whose end has not been seen.
#[derive(Debug)]
pub struct Turn {
    thread: Box<str>,
    id: Option<Box<str>>,
    is_over: bool,
}

impl Turn {
    /// The next turn of a thread. Its events can come before the answer that names it.
    #[must_use]
    pub fn of_thread(thread: &str) -> Self {
        Self {
            thread: thread.into(),
            id: None,
            is_over: false,
        }
    }

    /// The turn's id, once it is known.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Whether its end has been told.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// The event, if it belongs to this turn.
    pub fn take(&mut self, placed: Placed) -> Option<TurnEvent> {
        if self.is_over || placed.thread != self.thread {
            return None;
        }
        if let Some(turn) = placed.turn
            && *self.id.get_or_insert_with(|| turn.clone()) != turn
        {
            return None;
        }
        self.is_over = matches!(placed.event, TurnEvent::TurnEnded { .. });
        Some(placed.event)
    }

    /// The end of a turn whose worker is gone; `None` if its end has been told.
    pub fn lose(&mut self, reason: &str) -> Option<TurnEvent> {
        if std::mem::replace(&mut self.is_over, true) {
            return None;
        }
        let error = TurnError {
            message: reason.into(),
            kind: None,
            http_status: None,
            details: None,
        };
        Some(TurnEvent::TurnEnded {
            status: TurnStatus::Lost,
            error: Some(error),
        })
    }
}
