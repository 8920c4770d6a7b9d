//! What all connections of one load have seen so far. Whoever measures the server beside it is told when to look: a load that
//! is cut keeps what it has seen.

use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::print::{Form, print};

/// The count of one load.
pub(super) struct Tally {
    form: Form,
    connections: usize,
    seen: Mutex<Seen>,
    all_are_open: Notify,
}

/// What was seen.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) answers: Vec<Duration>,
    pub(super) first_tokens: Vec<Duration>,
    pub(super) gaps: Vec<Duration>,
    pub(super) deltas: usize,
}

impl Tally {
    pub(super) fn new(form: Form, connections: usize) -> Self {
        Self { form, connections, seen: Mutex::default(), all_are_open: Notify::new() }
    }

    pub(super) fn answered(&self, after: Duration) {
        self.seen().answers.push(after);
    }

    /// The first text of a stream.
    pub(super) fn opened(&self, after: Duration, deltas: usize) {
        let mut seen = self.seen();
        seen.first_tokens.push(after);
        seen.deltas += deltas;
        if seen.first_tokens.len() == self.connections {
            self.all_are_open.notify_one();
        }
    }

    /// More text of a stream.
    pub(super) fn continued(&self, gap: Duration, deltas: usize) {
        let mut seen = self.seen();
        seen.gaps.push(gap);
        seen.deltas += deltas;
    }

    /// Done when all streams are open.
    pub(super) async fn all_open(&self) {
        self.all_are_open.notified().await;
        self.tell("all_open");
    }

    /// Forgets the gaps so far: while others still open, they tell of that.
    pub(super) fn forget_gaps(&self) {
        self.seen().gaps.clear();
    }

    pub(super) fn tell(&self, mark: &str) {
        if let Form::Json = self.form {
            // A reader that is gone is noticed when the figures are printed.
            _ = print(&format!("{{\"mark\":\"{mark}\",\"deltas\":{}}}\n", self.seen().deltas));
        }
    }

    pub(super) fn take(&self) -> Seen {
        mem::take(&mut self.seen())
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
