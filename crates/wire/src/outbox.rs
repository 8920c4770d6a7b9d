//! What waits to be sent. Lines leave in the order in which they came, but for calls beyond the limit: these are held
//! back in their own order, and answers and notifications overtake them. Otherwise calls that wait for the peer could
//! hold the very answer that the peer waits for.

use std::collections::{BTreeMap, VecDeque};

use crate::id::CallId;

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    ready: VecDeque<(Option<CallId>, Vec<u8>)>,
    held: BTreeMap<CallId, Vec<u8>>,
    bytes: usize,
}

impl Outbox {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn push(&mut self, line: Vec<u8>) {
        self.bytes += line.len();
        self.ready.push_back((None, line));
    }

    pub(crate) fn hold(&mut self, call: CallId, line: Vec<u8>) {
        self.bytes += line.len();
        self.held.insert(call, line);
    }

    /// Moves the oldest held call to the lines that may leave.
    pub(crate) fn release(&mut self) -> Option<CallId> {
        let (call, line) = self.held.pop_first()?;
        self.ready.push_back((Some(call), line));
        Some(call)
    }

    /// Takes a call back that has not left yet.
    pub(crate) fn withdraw(&mut self, call: CallId) {
        let line = self.held.remove(&call).or_else(|| {
            let at = self.ready.iter().position(|(of, _)| *of == Some(call))?;
            self.ready.remove(at).map(|(_, line)| line)
        });
        self.bytes -= line.map_or(0, |line| line.len());
    }

    pub(crate) fn pop(&mut self) -> Option<(Option<CallId>, Vec<u8>)> {
        let (call, line) = self.ready.pop_front()?;
        self.bytes -= line.len();
        Some((call, line))
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}
