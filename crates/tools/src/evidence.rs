//! All that is known of one life of a tool server, from which its faults are told. Gathered by whoever ran it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::frame::Frame;
use crate::settings::Dialect;

/// What one life of a tool server has left.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// What was said in another life of it, in which it was asked for its tools without a handshake.
    pub unshaken: Vec<Frame>,
    /// What its configuration says that it speaks.
    pub dialect: Dialect,
    /// What was said, in order.
    pub frames: Vec<Frame>,
    /// What it was doing when it was last looked at, or when it ended.
    pub phase: Phase,
    /// When its first byte came, from its start.
    pub first_byte_at: Option<Duration>,
    /// The tools as it listed them, whole and unread: the `tools` of every page of `tools/list`, or of its handshake.
    pub tools: Vec<Listed>,
    /// How it ended, if it did so before it was asked to.
    pub ended: Option<Ended>,
    /// How long it has been silent in this phase, and how much processor time it has used, if it answered nothing in time.
    pub silent: Option<Silence>,
    /// What came of asking it to stop.
    pub stop: Option<Stop>,
    /// The end of what it wrote to stderr.
    pub stderr: String,
}

/// One tool as its server listed it.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The text of the frame that has it, which a thousand others may be in too.
    pub frame: Arc<str>,
    /// Where in that frame, such as `$.result.tools[3]`.
    pub path: String,
    /// The tool itself.
    pub tool: Value,
}

/// What a tool server was doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It was being started.
    #[default]
    Spawn,
    /// It was asked `server/discover`.
    Discover,
    /// It was asked `initialize`.
    Initialize,
    /// Its lists were read.
    List,
    /// It was ready for calls.
    Ready,
}

/// An end that nobody asked for.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Such as `exited with code 1`.
    pub how: String,
    /// From its start.
    pub after: Duration,
}

/// A silence that was longer than allowed.
#[derive(Clone, Copy, Debug)]
pub struct Silence {
    /// In which phase.
    pub phase: Phase,
    /// How long it lasted.
    pub lasted: Duration,
    /// The processor time that its processes had used until then.
    pub processor: Option<Duration>,
}

/// What came of asking it to stop.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    /// How long it took.
    pub took: Duration,
    /// What had to be done besides closing its stdin, such as `SIGTERM`.
    pub forced_by: Option<String>,
    /// Processes that it had started and left.
    pub left_behind: usize,
}
