//! Every limit of the pool, with its reason.

use std::time::Duration;

use supervise::RestartPolicy;

/// How much the pool holds, and how long it waits.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Orders that may wait for a place. Beyond it a caller is told to come back: a longer queue only hides the delay.
    pub queue_max: usize,
    /// How long an order waits for its place, if it does not say.
    pub queue_timeout: Duration,
    /// How long a running turn may make no progress while nothing is waited for. Reasoning models are silent for minutes.
    pub stall_timeout: Duration,
    /// How long a worker may report of a turn that it cannot reach the model provider and tries again. Codex with its default
    /// retries takes 25 s to fail such a turn by itself.
    pub provider_retry_timeout: Duration,
    /// How long the end of an interrupted turn may take to be told; the real worker takes some milliseconds.
    pub interrupt_timeout: Duration,
    /// How long a worker may take to answer a call. One that has not is asked whether it is alive.
    pub call_timeout: Duration,
    /// How long a worker may take to show that it is alive, before it is restarted.
    pub ping_timeout: Duration,
    /// How long a worker with a turn that never ends is left to its other turns, before it is restarted.
    pub retire_timeout: Duration,
    /// When a worker that has ended is started again.
    pub restart: RestartPolicy,
    /// How long a turn waits for the result of a caller's tool.
    pub tool_call_timeout: Duration,
    /// How long a thread may be unused before it is put away.
    pub thread_idle_max: Duration,
    /// Turns that wait without a reader. One key may have a quarter of them: beyond that its longest waiting turn is
    /// cancelled, and beyond the total that of the key with the most turns. Each holds a thread of its worker, some 2 MB
    /// and two descriptors.
    pub parked_max: usize,
    /// How long a listening worker may take to listen.
    pub listen_timeout: Duration,
    /// How long a worker that was found again may take to ask again what it had asked, before that is orphaned.
    pub settle_timeout: Duration,
    /// How long a turn of an earlier run may have nobody who could be asked for it, before it counts as gone with its worker.
    pub unheard_timeout: Duration,
    /// How much of the last frames of each connection is kept for an operator.
    pub frames_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            queue_max: 256,
            queue_timeout: Duration::from_secs(60),
            stall_timeout: Duration::from_secs(10 * 60),
            provider_retry_timeout: Duration::from_secs(60),
            interrupt_timeout: Duration::from_secs(10),
            call_timeout: Duration::from_secs(30),
            ping_timeout: Duration::from_secs(5),
            retire_timeout: Duration::from_secs(60),
            restart: RestartPolicy::WORKER,
            tool_call_timeout: Duration::from_secs(60 * 60),
            thread_idle_max: Duration::from_hours(30 * 24),
            parked_max: 256,
            listen_timeout: Duration::from_secs(20),
            settle_timeout: Duration::from_secs(2),
            // A worker that starts at all has done so by then.
            unheard_timeout: Duration::from_secs(60),
            frames_bytes_max: 256 << 10,
        }
    }
}
