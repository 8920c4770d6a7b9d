//! Every limit of one child process but the waits of its end, which are the [`Ladder`](crate::Ladder)'s; each with its
//! reason.

use std::time::Duration;

/// What one child may hold, and how long it may keep us waiting.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes that may wait for the child to read them; the line that crosses the limit is still taken, so that a line of
    /// any length passes. Small, for what waits here can no longer be taken back.
    pub queued_bytes_max: usize,
    /// How long the child may read nothing while something waits. As long as a call may last: after that every call
    /// on the connection has failed anyway.
    pub write_timeout: Duration,
    /// How much of the end of stderr is kept: enough for a backtrace of every thread, small beside a worker's 95 MB.
    pub stderr_bytes_max: usize,
    /// How long to wait for the last of stderr once the group is dead. It is there at once unless a process that left
    /// the group holds the pipe open.
    pub stderr_drain_timeout: Duration,
    /// How long the log of a detached process may grow before all but its end is cut off; looked at every few seconds,
    /// so a flood is longer for so long.
    pub log_bytes_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            queued_bytes_max: 256 << 10,
            write_timeout: Duration::from_secs(30),
            stderr_bytes_max: 64 << 10,
            stderr_drain_timeout: Duration::from_millis(500),
            log_bytes_max: 8 << 20,
        }
    }
}
