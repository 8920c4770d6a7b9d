//! One turn: how it gets its name, what is held until it has one, and what its reader is told.

use std::task::Waker;

use wire::{Outcome, Progress};

use super::errands::Errand;
use super::items::Items;
use super::mailbox::{Mailbox, Posted};
use crate::event::{Placed, TurnError, TurnEvent};

#[derive(Debug)]
pub(super) struct Turn {
    pub(super) thread: Box<str>,
    /// Known from what tells it first.
    pub(super) id: Option<Box<str>>,
    pub(super) naming: Naming,
    pub(super) phase: Phase,
    pub(super) mailbox: Mailbox<TurnEvent>,
    pub(super) items: Items,
    /// Whether the worker was told to stop it.
    pub(super) is_interrupted: bool,
    /// Whether somebody wants it stopped.
    pub(super) is_unwanted: bool,
    /// Whether anything was heard of it: before that the worker says that there is no such turn.
    pub(super) has_begun: bool,
    /// Whether events had to be left out.
    pub(super) is_cut: bool,
    pub(super) has_reader: bool,
    pub(super) starter: Option<Waker>,
    /// What listens for it, in the dialect that wants one.
    pub(super) listener: Option<Box<str>>,
    /// Who waits for its thread to be free.
    pub(super) waiting: Vec<Waker>,
}

#[derive(Debug)]
pub(super) enum Phase {
    Starting {
        is_answered: bool,
        /// Its first events can overtake the answer to the call that starts it.
        held: Vec<Placed>,
        held_bytes: usize,
        /// Events and bytes for which there was no room.
        left_out: (u64, u64),
    },
    Refused(Option<Outcome>),
    Running,
    Over,
}

/// Where a turn gets its name from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    /// From the answer to the call that starts it, as in v2; what comes before may be of an earlier turn.
    Answer,
    /// From its first event, as in v1.
    FirstEvent,
}

impl Turn {
    pub(super) fn new(thread: &str, naming: Naming, phase: Phase, mailbox_bytes_max: usize) -> Self {
        Self {
            thread: thread.into(),
            id: None,
            naming,
            phase,
            mailbox: Mailbox::new(mailbox_bytes_max),
            items: Items::default(),
            is_interrupted: false,
            is_unwanted: false,
            has_begun: false,
            is_cut: false,
            has_reader: true,
            starter: None,
            listener: None,
            waiting: Vec::new(),
        }
    }

    /// Has it stopped, as soon as it has begun.
    pub(super) fn interrupt(&mut self) -> Option<Errand> {
        self.is_unwanted = true;
        self.interrupt_if_begun()
    }

    /// It was heard of.
    pub(super) fn begin(&mut self) -> Option<Errand> {
        self.has_begun = true;
        self.is_unwanted.then(|| self.interrupt_if_begun()).flatten()
    }

    fn interrupt_if_begun(&mut self) -> Option<Errand> {
        let (Phase::Running, Some(id), true) = (&self.phase, &self.id, self.has_begun) else {
            return None;
        };
        // Once is enough, and the real worker never answers a second one.
        let is_first = !std::mem::replace(&mut self.is_interrupted, true);
        is_first.then(|| Errand::Interrupt { thread: self.thread.clone(), turn: id.clone() })
    }

    /// Tells its reader; a reader that is too slow has its turn stopped.
    pub(super) fn tell(&mut self, event: TurnEvent) -> Option<Errand> {
        if !self.has_reader {
            return None;
        }
        let mut is_cut = false;
        self.items.put_in_order(event, self.mailbox.bytes_max(), |event| {
            is_cut |= self.mailbox.post(event) == Posted::LeftOut;
        });
        self.is_cut |= is_cut;
        is_cut.then(|| self.interrupt()).flatten()
    }
}

impl Phase {
    pub(super) fn starting() -> Self {
        Self::Starting { is_answered: false, held: Vec::new(), held_bytes: 0, left_out: (0, 0) }
    }
}

/// Whether the worker may still begin the turn that it was asked for.
pub(super) fn may_begin(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::TimedOut(progress) | Outcome::Cancelled(progress) => *progress == Progress::Sent,
        Outcome::TooLong | Outcome::Unreadable(_) => true,
        Outcome::Answered(_) | Outcome::Failed(_) | Outcome::Closed(_) => false,
    }
}

/// A turn that is stopped in the instant of its start may end without having begun.
pub(super) fn names_turn(event: &TurnEvent) -> bool {
    matches!(event, TurnEvent::TurnStarted { .. } | TurnEvent::TurnEnded { .. })
}

pub(super) fn slow_consumer() -> TurnError {
    TurnError {
        message: "the reader was too slow: events were left out and the turn was interrupted".into(),
        kind: Some("slow_consumer".into()),
        http_status: None,
        details: None,
    }
}
