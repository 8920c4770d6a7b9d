//! What whoever keeps workers looks at in an exchange, and tells it.

use std::time::Instant;

use super::Exchange;
use crate::event::Item;

impl Exchange {
    /// Somebody will read the stream of requests in a moment: none is declined before.
    pub(crate) fn expect_requests(&mut self) {
        self.requests.expect_reader();
    }

    /// The worker says that a thread is idle.
    pub(crate) fn handle_idle(&mut self, thread: &str, now: Instant) {
        self.turns.handle_status(thread, "idle", now);
    }

    /// An item that a thread is busy with.
    pub(crate) fn open_item(&self, thread: &str, item: &str) -> Option<Item> {
        self.turns.open_item(thread, item).cloned()
    }

    /// Whether a thread has asked something that is open.
    pub(crate) fn is_waiting(&self, thread: &str) -> bool {
        self.requests.is_waiting(thread)
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.end.is_some() || self.connection.is_closed()
    }
}
