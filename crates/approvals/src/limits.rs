//! Every limit of the approvals, each with its reason.

use std::time::Duration;

/// How much may wait, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long a decision may take where the request does not say: long enough to be called to the screen.
    pub decision_timeout: Duration,
    /// The longest that any request may wait; a profile may ask for hours, not for ever.
    pub decision_timeout_max: Duration,
    /// Approvals that may wait at once, and of one key a [quarter](Self::pending_per_key_max); the next one is refused. Far above what
    /// people can look at.
    pub pending_max: usize,
    /// Decisions that are known by their requests, to answer one that is repeated: far above what workers ask at once.
    pub repeats_max: u32,
    /// How large the parameters of one request may be, with what is shown beside them.
    pub shown_bytes_max: usize,
    /// How large a verdict with its answer or reason may be.
    pub verdict_bytes_max: usize,
    /// Orders that may wait for the clerk; senders then wait.
    pub orders_waiting_max: usize,
    /// Hooks that may run at once: each is a process.
    pub hooks_running_max: usize,
    /// How much a hook may say on stdout.
    pub hook_output_bytes_max: usize,
    /// Webhook posts that may be under way at once.
    pub posts_running_max: usize,
    /// How often one post is tried.
    pub post_attempts_max: u32,
    /// How long one try may take, from the connection to the answer.
    pub post_timeout: Duration,
    /// How soon a failed post is tried again for the first time; doubled each time.
    pub post_retry_min: Duration,
    /// How late at most.
    pub post_retry_max: Duration,
}

/// Which part of the approvals that may wait is open to one key: whatever it does, at least three others find room.
const KEY_SHARE: usize = 4;

impl Limits {
    /// Approvals of one key that may wait at once.
    #[must_use]
    pub fn pending_per_key_max(&self) -> usize {
        self.pending_max.div_ceil(KEY_SHARE)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            decision_timeout: Duration::from_secs(10 * 60),
            decision_timeout_max: Duration::from_secs(7 * 24 * 3600),
            pending_max: 10_000,
            repeats_max: 4_096,
            shown_bytes_max: 4 << 20,
            verdict_bytes_max: 256 << 10,
            orders_waiting_max: 1024,
            hooks_running_max: 16,
            hook_output_bytes_max: 1 << 20,
            posts_running_max: 16,
            post_attempts_max: 5,
            post_timeout: Duration::from_secs(10),
            post_retry_min: Duration::from_millis(500),
            post_retry_max: Duration::from_secs(10),
        }
    }
}
