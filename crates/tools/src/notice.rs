//! What the tool host tells whoever runs it, as it happens.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::view::ServerState;

/// Takes notices; it must not wait.
pub type Notify = Arc<dyn Fn(Notice) + Send + Sync>;

/// Something happened.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Notice {
    /// A tool server is doing something else.
    ToolServerState {
        /// Which.
        server: Arc<str>,
        /// What it does now.
        state: ServerState,
        /// Why.
        reason: Option<Arc<str>>,
    },
    /// What is offered has changed.
    ToolsChanged,
    /// A call is over.
    ToolCalled {
        /// Whose.
        key: Arc<str>,
        /// Of which server.
        server: Arc<str>,
        /// Which of its tools.
        tool: Arc<str>,
        /// What came of it: a word of [`store::ToolCallOutcome`].
        outcome: &'static str,
        /// How long it took.
        #[serde(skip)]
        took: Duration,
        /// The same, in milliseconds.
        took_ms: u64,
    },
}
