//! What the tool host may hold, each limit with its reason. The waits of each server are its [`Timeouts`](crate::Timeouts), and
//! what only one file knows of, such as the room of a queue, is a constant there.

use std::time::Duration;

use crate::frame::RingLimits;

/// What the tool host may hold.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Servers that may be starting at once: thirteen Python servers together need nine seconds each on two cores.
    pub starts_max: usize,
    /// How long a start may keep others from theirs: one that hangs must not delay them, and imports that overlap are only slow.
    pub start_turn_max: Duration,
    /// The longest line of a server that is kept.
    pub line_bytes_max: usize,
    /// Calls of one server that may be under way; the next one waits for its turn as long as a call may take.
    pub calls_max: usize,
    /// How long a call may take in all, however often it tells of its progress.
    pub call_max: Duration,
    /// How long the arguments of a call may be held against their schema, once it is their turn: real ones take microseconds, but
    /// a machine can be busy.
    pub validation_timeout: Duration,
    /// Arguments for the tools of one server that may be held against their schemas at once. Each has a thread that cannot be
    /// interrupted: what a hostile schema keeps busy must stay few, and be the loss of its own server alone.
    pub validations_max: usize,
    /// Tools, and likewise resources, templates and prompts, that are taken of one server.
    pub listed_max: usize,
    /// How much of them in all is taken of one server.
    pub listed_bytes_max: usize,
    /// Pages of one list that are read: a server may have always one more.
    pub pages_max: usize,
    /// How many of a list one page holds for a caller. Many callers never ask for the second page.
    pub page_max: usize,
    /// Calls that may wait for an answer of their callers.
    pub parked_max: usize,
    /// How long they wait.
    pub input_timeout: Duration,
    /// How often one call may ask its caller something.
    pub input_rounds_max: usize,
    /// Callers that are told of changes.
    pub listeners_max: usize,
    /// How long a caller of the older era may leave its connection without any use. Many never close theirs.
    pub caller_idle_max: Duration,
    /// How much of each connection is kept for an operator.
    pub ring: RingLimits,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            starts_max: 4,
            start_turn_max: Duration::from_secs(3),
            line_bytes_max: 16 << 20,
            calls_max: 64,
            call_max: Duration::from_secs(60 * 60),
            validation_timeout: Duration::from_secs(5),
            validations_max: 2,
            listed_max: 1024,
            listed_bytes_max: 16 << 20,
            pages_max: 1024,
            page_max: 1000,
            parked_max: 256,
            input_timeout: Duration::from_secs(10 * 60),
            input_rounds_max: 10,
            listeners_max: 4096,
            caller_idle_max: Duration::from_secs(10 * 60),
            ring: RingLimits::default(),
        }
    }
}
