//! What the pool tells of itself while it works: changes of state, never text.

use std::sync::Arc;

use codex::{Item, TurnError, TurnStatus, Usage};
use serde::Serialize;

use crate::view::WorkerState;

/// Takes what the pool tells. It must not wait.
pub type Notify = Arc<dyn Fn(Notice) + Send + Sync>;

/// One change of state.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Notice {
    /// A worker is in another state.
    WorkerState {
        /// Its name.
        worker: Box<str>,
        /// Its group.
        group: Box<str>,
        /// How it is.
        state: WorkerState,
        /// Why, if that needs a reason.
        reason: Option<Box<str>>,
    },
    /// A thread is loaded.
    ThreadOpened {
        /// The thread.
        thread: Box<str>,
        /// The worker that has it.
        worker: Box<str>,
        /// Whose it is.
        key: Box<str>,
    },
    /// A turn runs.
    TurnStarted {
        /// Where it runs.
        #[serde(flatten)]
        at: At,
    },
    /// A turn waits for a person or a caller.
    TurnParked {
        /// Where it waits.
        #[serde(flatten)]
        at: At,
    },
    /// The model has used tokens for a turn.
    TokensUsed {
        /// Where it runs.
        #[serde(flatten)]
        at: At,
        /// By one answer of the model.
        usage: Usage,
        /// Who says so.
        source: UsageSource,
    },
    /// A turn is over.
    TurnEnded {
        /// Where it ran.
        #[serde(flatten)]
        at: At,
        /// How it ended.
        status: TurnStatus,
        /// Why, if it failed.
        error: Option<TurnError>,
    },
    /// A piece of work of a turn begins.
    ItemStarted {
        /// Where.
        #[serde(flatten)]
        at: At,
        /// The item.
        item: Item,
    },
    /// A piece of work of a turn is over.
    ItemCompleted {
        /// Where.
        #[serde(flatten)]
        at: At,
        /// The item.
        item: Item,
    },
}

/// Where a count of tokens comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageSource {
    /// The worker.
    Reported,
    /// The text that was seen of an answer which was cut.
    Estimated,
}

/// Where something happens, and for whom.
#[derive(Clone, Debug, Serialize)]
pub struct At {
    /// The thread.
    pub thread: Arc<str>,
    /// The turn.
    pub turn: Arc<str>,
    /// The worker that runs it.
    pub worker: Arc<str>,
    /// The key that it runs for.
    pub key: Arc<str>,
}
