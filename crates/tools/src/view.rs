//! What an operator sees of the tool host.

use std::sync::Arc;

use serde::Serialize;

use crate::catalog::Quarantined;
use crate::finding::Finding;
use crate::frame::Frame;
use crate::handshake::Era;

/// What a tool server is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerState {
    /// It waits for its turn, starts, shakes hands or is asked for its lists.
    #[default]
    Starting,
    /// Its tools can be called.
    Ready,
    /// Its tools can be called, but not all of what it has can be used.
    Degraded,
    /// It has ended and will be started again.
    Restarting,
    /// It has ended, and nobody starts it again unless asked.
    Failed,
    /// It was stopped.
    Stopped,
}

impl ServerState {
    /// The word that the API uses.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Degraded => "degraded",
            Self::Restarting => "restarting",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }

    /// Whether it answers calls.
    #[must_use]
    pub fn is_usable(self) -> bool {
        matches!(self, Self::Ready | Self::Degraded)
    }
}

/// One tool server.
#[derive(Clone, Debug, Serialize)]
pub struct ServerView {
    /// Its name in the configuration.
    pub name: Box<str>,
    /// What it is doing.
    pub state: ServerState,
    /// Why, if there is something to say.
    pub reason: Option<Arc<str>>,
    /// How its last life ended, if nobody wished for that.
    pub last_end: Option<Arc<str>>,
    /// How it is spoken to, once that is known.
    pub era: Option<Era>,
    /// The version of the protocol.
    pub protocol: Option<String>,
    /// What it calls itself.
    pub implementation: Option<Implementation>,
    /// Its process.
    pub pid: Option<u32>,
    /// How often it was started again.
    pub restarts: u64,
    /// How long it took from its start until it could be used, in milliseconds.
    pub ready_after_ms: Option<u64>,
    /// The tools that it offers, by the names that callers use.
    pub tools: Vec<String>,
    /// How many resources and templates it offers.
    pub resources: usize,
    /// How many prompts.
    pub prompts: usize,
    /// Whether these lists are from an earlier run of it.
    pub is_from_memory: bool,
    /// What of its lists cannot be used.
    pub quarantined: Vec<Quarantined>,
    /// What is wrong with it.
    pub findings: Vec<Finding>,
}

/// What a tool server calls itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Implementation {
    /// Its name, which says nothing for certain.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// The frames of a connection that are kept.
#[derive(Clone, Debug, Serialize)]
pub struct Frames {
    /// The oldest first.
    pub frames: Vec<Frame>,
    /// How many between the first and the latest were let go of.
    pub left_out: u64,
}
