//! A ring of events with those who wait for the next one. The feed of everything is made of one, and so is every turn.
//! Adding an event never blocks and never awaits.

use std::sync::{Mutex, MutexGuard};

use tokio::sync::watch;

use crate::lock::lock;
use crate::ring::{Cursor, NotAnId, Read, Ring, RingLimits};

/// Events that any number of readers follow, each at its own pace.
pub(crate) struct Log {
    ring: Mutex<Ring>,
    news: watch::Sender<()>,
}

impl Log {
    /// An empty log. Its events have ids that those of another run do not have.
    pub(crate) fn new(limits: RingLimits) -> Self {
        let run = uuid::Uuid::now_v7().simple().to_string();
        // The tail of a UUIDv7 is random, its head the time.
        Self { ring: Mutex::new(Ring::new(&run[run.len() - 8..], limits)), news: watch::Sender::new(()) }
    }

    /// Adds an event, an object of JSON.
    pub(crate) fn push(&self, json: &str) {
        self.ring().push(json);
        self.news.send_replace(());
    }

    /// Ends the streams of all readers once they have read everything.
    pub(crate) fn close(&self) {
        self.ring().close();
        self.news.send_replace(());
    }

    /// What it holds.
    pub(crate) fn bytes(&self) -> usize {
        self.ring().bytes()
    }

    /// Where a reader stands that wants only what is new.
    pub(crate) fn now(&self) -> Cursor {
        self.ring().now()
    }

    /// Where a reader stands that sends this `Last-Event-ID`.
    pub(crate) fn cursor(&self, id: &str) -> Result<Cursor, NotAnId> {
        self.ring().cursor(id)
    }

    /// The next events for a reader.
    pub(crate) fn read(&self, cursor: Cursor, bytes_max: usize) -> Read {
        self.ring().read(cursor, bytes_max)
    }

    /// Changes whenever there is something to read.
    pub(crate) fn news(&self) -> watch::Receiver<()> {
        self.news.subscribe()
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        lock(&self.ring)
    }
}
