//! What the Responses API holds in memory, reads at once and waits for.

use std::time::Duration;

/// How long a response may take to be stored before its caller is told that it is not: only a disk that hangs takes so long.
pub(super) const STORE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a background response waits for a store that cannot be written: time for an operator to free some space.
pub(super) const STORE_RECOVERY_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// When to try again what needs the store while it cannot be written: how late the store itself notices that there is room.
pub(super) const STORE_RETRY: Duration = Duration::from_secs(15);
/// How long to wait until what was left to be written is: longer, and a crash may cost it.
pub(super) const KEEP_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a response may take to be cancelled before it is told as it is.
pub(super) const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait for more calls of the same message of the model.
pub(super) const GATHER_TIMEOUT: Duration = Duration::from_millis(300);
/// How often to look whether what a turn waits for is a call.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long a worker may take to be there for a turn that is to be given up, before that is told all the same.
pub(super) const REACH_TIMEOUT: Duration = Duration::from_secs(3);

const MINUTE: Duration = Duration::from_secs(60);
const MIB: usize = 1024 * 1024;

/// How much of responses is held and read.
#[derive(Clone, Debug)]
pub struct ResponseLimits {
    /// How old a WebSocket may become; a response that runs then may end first.
    pub websocket_age_max: Duration,
    /// How long a WebSocket may be open with no response running.
    pub websocket_idle_timeout: Duration,
    /// How many bytes of the events of one response in the background can be followed. What is older is forgotten.
    pub events_bytes_max: usize,
    /// How many finished responses of the background can still be followed.
    pub finished_max: usize,
    /// How many bytes of them.
    pub finished_bytes_max: usize,
    /// How many responses of a conversation are read, to be told to a new thread or to be listed.
    pub conversation_responses_max: usize,
    /// How many bytes of them, and how many of what was said a WebSocket remembers that nothing is stored of.
    pub conversation_bytes_max: usize,
    /// How many responses a request may name items of.
    pub references_max: usize,
    /// How many bytes of them.
    pub references_bytes_max: usize,
}

impl Default for ResponseLimits {
    fn default() -> Self {
        Self {
            // The public API's own limit: clients know to connect again.
            websocket_age_max: 60 * MINUTE,
            // Longer than an agent's tools usually take between two responses.
            websocket_idle_timeout: 15 * MINUTE,
            // Hours of an agent's work; a reader that comes back has rarely missed more than a minute.
            events_bytes_max: 8 * MIB,
            // Whoever lost its connection is back within minutes; the store has the objects anyway.
            finished_max: 256,
            finished_bytes_max: 64 * MIB,
            // More than any model can be told; beyond it the reading itself would be noticed.
            conversation_responses_max: 1000,
            conversation_bytes_max: 64 * MIB,
            // A request that names more could as well be a conversation.
            references_max: 1000,
            // Twice what a body may be: named items save the sending, not the memory.
            references_bytes_max: 32 * MIB,
        }
    }
}
