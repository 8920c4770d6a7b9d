//! What waits to be sent. Lines leave in the order in which they came, but for calls beyond the limit: these are held
//! back in their own order, and answers and notifications overtake them. Otherwise calls that wait for the peer could
//! hold the very answer that the peer waits for.

use std::collections::{BTreeMap, VecDeque};

use crate::id::CallId;

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    ready: VecDeque<(Kind, Vec<u8>)>,
    held: BTreeMap<CallId, Vec<u8>>,
    bytes: usize,
    answers: usize,
}

/// What a line is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Call(CallId),
    Answer,
    Notification,
}

impl Outbox {
    /// Bytes of all lines that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Answers that wait.
    pub(crate) fn answers(&self) -> usize {
        self.answers
    }

    pub(crate) fn push_answer(&mut self, line: Vec<u8>) {
        self.answers += 1;
        self.push(Kind::Answer, line);
    }

    pub(crate) fn push_notification(&mut self, line: Vec<u8>) {
        self.push(Kind::Notification, line);
    }

    pub(crate) fn hold(&mut self, call: CallId, line: Vec<u8>) {
        self.bytes += line.len();
        self.held.insert(call, line);
    }

    /// Moves the oldest held call to the lines that may leave.
    pub(crate) fn release(&mut self) -> Option<CallId> {
        let (call, line) = self.held.pop_first()?;
        self.ready.push_back((Kind::Call(call), line));
        Some(call)
    }

    /// Takes a call back that has not left yet.
    pub(crate) fn withdraw(&mut self, call: CallId) {
        let line = self.held.remove(&call).or_else(|| {
            let at = self.ready.iter().position(|(kind, _)| *kind == Kind::Call(call))?;
            self.ready.remove(at).map(|(_, line)| line)
        });
        self.bytes -= line.map_or(0, |line| line.len());
    }

    pub(crate) fn pop(&mut self) -> Option<(Kind, Vec<u8>)> {
        let (kind, line) = self.ready.pop_front()?;
        self.bytes -= line.len();
        self.answers -= usize::from(kind == Kind::Answer);
        Some((kind, line))
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    fn push(&mut self, kind: Kind, line: Vec<u8>) {
        self.bytes += line.len();
        self.ready.push_back((kind, line));
    }
}
