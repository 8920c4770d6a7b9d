//! Why a turn was not started, and whether anything of it may have run.

use std::time::Duration;

use codex::CallError;

use crate::confinement::NotConfinable;

/// Why a turn was not started.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// Every place is taken, and as many wait as may, or this order has waited long enough.
    #[error("all workers are busy: try again in {} s", retry_after.as_secs())]
    Busy {
        /// When it may be worth while to try again.
        retry_after: Duration,
    },
    /// Switchboard is about to stop.
    #[error("this server is stopping and takes no new turns: try again when it is back")]
    Draining,
    /// There is no such group.
    #[error("there is no group of workers named {group:?}: it has {}", known.join(", "))]
    NoSuchGroup {
        /// The name that was asked for.
        group: Box<str>,
        /// The names that there are.
        known: Vec<Box<str>>,
    },
    /// All workers of the group have failed, and none is started again for now.
    #[error("no worker of the group runs: {reason}")]
    NotReady {
        /// Why.
        reason: Box<str>,
    },
    /// There is no such thread, or it is not the caller's.
    #[error("there is no thread {thread:?} of yours: start a new one")]
    NoSuchThread {
        /// Its id.
        thread: Box<str>,
    },
    /// The thread does not stand any more where the order would go on.
    #[error("the thread {thread:?} has gone on meanwhile: fork it, or start a new one")]
    MovedOn {
        /// Its id.
        thread: Box<str>,
    },
    /// The worker was gone before it was asked.
    #[error("the worker is gone: try again")]
    WorkerGone,
    /// The thread cannot be confined, or its directory cannot be used; no turn was begun.
    #[error(transparent)]
    NotConfinable(#[from] NotConfinable),
    /// The worker cannot take the history of the order; no turn was begun.
    #[error("the history cannot be put into the thread: {0}")]
    History(#[source] CallError),
    /// The worker did not do it.
    #[error(transparent)]
    Worker(#[from] CallError),
}

impl Refused {
    /// Whether the worker may have begun: an order that surely did not run may be made again without harm.
    #[must_use]
    pub fn work_may_have_run(&self) -> bool {
        match self {
            Self::Worker(error) => error.work_may_have_run(),
            _ => false,
        }
    }

    /// Whether the worker took too long to answer: it may not hear anything any more.
    pub(crate) fn is_silence(&self) -> bool {
        matches!(self, Self::Worker(error) | Self::History(error) if error.is_timeout())
    }
}
