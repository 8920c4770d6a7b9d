//! Why a call has no result, and whether the worker may have acted on it all the same.

use wire::{Json, Outcome, PeerError, Refused};

use crate::abilities::Unable;
use crate::backoff::OVERLOADED;
use crate::exchange::{Busy, NotBegun};

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The call was not made. If the connection is over, [`Client::ended`](crate::Client::ended) says why.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The worker answered with an error.
    #[error("the worker refused {method}: {} (code {}){}", error.message, error.code, advice(error))]
    Failed {
        /// The call.
        method: Box<str>,
        /// The worker's error.
        error: PeerError,
    },
    /// The call ended without an answer that could be used.
    #[error("{method} got no answer: {outcome}")]
    Unanswered {
        /// The call.
        method: Box<str>,
        /// How it ended.
        outcome: Outcome,
    },
    /// The answer is not what the protocol says.
    #[error("the answer to {method} is not of the shape that this client knows: {reason}")]
    Unexpected {
        /// The call.
        method: Box<str>,
        /// What does not fit.
        reason: Box<str>,
        /// The answer as it came: the work was done.
        answer: Json,
    },
    /// The parameters cannot be written as JSON.
    #[error("the parameters of {method} cannot be written: {reason}")]
    Unwritable {
        /// The call.
        method: Box<str>,
        /// Why not.
        reason: Box<str>,
    },
    /// The worker is too old, or too new.
    #[error(transparent)]
    Unable(#[from] Unable),
    /// Something experimental that was not asked for when the connection was made.
    #[error("{what} is experimental: ask for it with `experimental_api` when you connect")]
    Experimental {
        /// The method, or the method and its field.
        what: Box<str>,
    },
    /// The connection is initialised once, when it is made.
    #[error("the connection is initialised already: make another one")]
    AlreadyInitialized,
    /// The thread does something else.
    #[error(transparent)]
    Busy(#[from] Busy),
    /// The worker opened a thread without the permission profile that it was given; no turn was begun.
    #[error("{method} did not confine the thread: the active permission profile is {}", active.as_deref().unwrap_or("none"))]
    NotConfined {
        /// The call.
        method: Box<str>,
        /// The profile that holds in place of the one that was given.
        active: Option<Box<str>>,
    },
}

impl CallError {
    /// Whether the worker may have done, or still be doing, what the call asked.
    #[must_use]
    pub fn work_may_have_run(&self) -> bool {
        match self {
            Self::Failed { error, .. } => error.code != OVERLOADED,
            Self::Unanswered { outcome, .. } => outcome.work_may_have_run(),
            Self::Unexpected { .. } => true,
            Self::Refused(_)
            | Self::Unwritable { .. }
            | Self::Unable(_)
            | Self::Experimental { .. }
            | Self::AlreadyInitialized
            | Self::Busy(_)
            | Self::NotConfined { .. } => false,
        }
    }

    /// Whether the worker took too long to answer.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Unanswered { outcome: Outcome::TimedOut(_), .. })
    }

    /// What the worker's words mean, for the refusals that every client meets.
    #[must_use]
    pub fn trap(&self) -> Option<Trap> {
        match self {
            Self::Failed { error, .. } => Trap::of(error),
            _ => None,
        }
    }

    pub(crate) fn unexpected(method: &str, reason: &impl ToString, answer: &Json) -> Self {
        Self::Unexpected { method: method.into(), reason: reason.to_string().into(), answer: answer.clone() }
    }

    pub(crate) fn of(method: &str, outcome: Outcome) -> Self {
        match outcome {
            Outcome::Failed(error) => Self::Failed { method: method.into(), error },
            outcome => Self::Unanswered { method: method.into(), outcome },
        }
    }
}

impl From<NotBegun> for CallError {
    fn from(error: NotBegun) -> Self {
        match error {
            NotBegun::Busy(busy) => Self::Busy(busy),
            NotBegun::Refused(refused) => Self::Refused(refused),
        }
    }
}

/// A refusal that has a known meaning; the worker has one code for nearly all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trap {
    /// Too much was asked at once, for longer than the call's deadline.
    Overloaded,
    /// The worker's home has no such thread. A thread is kept from its first turn on: one that never ran is gone with its
    /// worker.
    NeverRan,
    /// Another worker has the thread.
    HeldElsewhere,
    /// The thread is not loaded here.
    NotLoaded,
    /// The turn is over, or is not the one that runs.
    NoSuchTurn,
}

impl Trap {
    fn of(error: &PeerError) -> Option<Self> {
        const SIGNS: [(&str, Trap); 7] = [
            ("no rollout found", Trap::NeverRan),
            ("already has an active writer", Trap::HeldElsewhere),
            ("thread not found", Trap::NotLoaded),
            ("thread not loaded", Trap::NotLoaded),
            ("conversation not found", Trap::NotLoaded),
            ("no active turn", Trap::NoSuchTurn),
            ("expected active turn id", Trap::NoSuchTurn),
        ];
        if error.code == OVERLOADED {
            return Some(Self::Overloaded);
        }
        SIGNS.iter().find(|(sign, _)| error.message.contains(sign)).map(|(_, trap)| *trap)
    }
}

fn advice(error: &PeerError) -> &'static str {
    match Trap::of(error) {
        Some(Trap::Overloaded) => "; it stayed overloaded until the deadline",
        Some(Trap::NeverRan) => "; it never had a turn, or is kept in another home",
        Some(Trap::HeldElsewhere) => "; stop the worker that has it, or fork the thread",
        Some(Trap::NotLoaded) => "; resume the thread first",
        Some(Trap::NoSuchTurn) => "; it is over, or was never the one",
        None => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(code: i64, message: &str) -> CallError {
        CallError::of("thread/resume", Outcome::Failed(PeerError { code, message: message.into(), data: None }))
    }

    #[test]
    fn known_refusals_come_with_advice() {
        let error = failed(-32600, "thread 7 already has an active writer");
        assert_eq!(error.trap(), Some(Trap::HeldElsewhere));
        assert_eq!(
            error.to_string(),
            "the worker refused thread/resume: thread 7 already has an active writer (code -32600); stop the worker that has it, or fork the thread"
        );
        assert_eq!(failed(-32600, "no rollout found for thread id 7").trap(), Some(Trap::NeverRan));
        assert_eq!(failed(-32600, "what?").trap(), None);
    }

    #[test]
    fn an_overloaded_worker_has_not_begun() {
        assert!(!failed(OVERLOADED, "Server overloaded; retry later.").work_may_have_run());
        assert!(failed(-32600, "anything else").work_may_have_run());
    }
}
