//! Whether and when to start again what has ended, pure: longer waits after each end, and an end of trying when it ends
//! too often. What was given up stays so until somebody asks for it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::reason::EndReason;

/// How patient to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RestartPolicy {
    /// The least wait.
    pub wait_min: Duration,
    /// The longest.
    pub wait_max: Duration,
    /// The least wait after an end for lack of memory or of room: whoever has it needs time to let it go.
    pub exhausted_wait_min: Duration,
    /// What ran so long has proved itself: the waits start from the least again.
    pub stable_uptime: Duration,
    /// So many ends within the window are the last.
    pub ends_max: usize,
    /// How long an end counts.
    pub window: Duration,
}

impl RestartPolicy {
    /// For workers: they start slowly, and people notice.
    pub const WORKER: Self = Self { ends_max: 3, window: Duration::from_secs(5 * 60), ..Self::TOOL_SERVER };

    /// For tool servers, which start fast and fail more often for reasons that pass.
    pub const TOOL_SERVER: Self = Self {
        wait_min: Duration::from_millis(100),
        wait_max: Duration::from_secs(30),
        exhausted_wait_min: Duration::from_secs(5),
        stable_uptime: Duration::from_secs(60),
        ends_max: 5,
        window: Duration::from_secs(3 * 60),
    };
}

/// The history of one worker or tool server, as far as it decides about the next start.
#[derive(Clone, Debug)]
pub struct Restarts {
    policy: RestartPolicy,
    /// The ends within the window.
    ends: VecDeque<Instant>,
    /// How many starts in a row did not last.
    unstable_starts: u32,
    given_up: Option<Box<str>>,
}

/// What to do after an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Start it again then.
    RestartAt(Instant),
    /// Leave it, for this reason, until [`Restarts::reset`].
    GiveUp(Box<str>),
}

impl Restarts {
    /// Nothing has happened yet.
    #[must_use]
    pub fn new(policy: RestartPolicy) -> Self {
        Self { policy, ends: VecDeque::new(), unstable_starts: 0, given_up: None }
    }

    /// Something ended, or could not be started, that ran for `uptime`; `jitter` is a random number from 0 to 1.
    pub fn handle_end(&mut self, reason: &EndReason, uptime: Duration, jitter: f64, now: Instant) -> Verdict {
        if self.given_up.is_none() {
            self.given_up = self.reason_to_give_up(reason, now);
        }
        match &self.given_up {
            Some(why) => Verdict::GiveUp(why.clone()),
            None => Verdict::RestartAt(now + self.next_wait(reason, uptime, jitter)),
        }
    }

    /// Somebody asked for it: all is forgotten.
    pub fn reset(&mut self) {
        *self = Self::new(self.policy);
    }

    fn reason_to_give_up(&mut self, reason: &EndReason, now: Instant) -> Option<Box<str>> {
        if matches!(reason, EndReason::CouldNotStart | EndReason::ProtocolMismatch) {
            return Some(format!("{reason}; trying again would not change that").into());
        }
        let RestartPolicy { ends_max, window, .. } = self.policy;
        self.ends.push_back(now);
        while self.ends.front().is_some_and(|end| now.saturating_duration_since(*end) >= window) {
            self.ends.pop_front();
        }
        let ends = self.ends.len();
        (ends >= ends_max).then(|| format!("it ended {ends} times within {window:?}; at last {reason}").into())
    }

    fn next_wait(&mut self, reason: &EndReason, uptime: Duration, jitter: f64) -> Duration {
        let RestartPolicy { wait_min, wait_max, exhausted_wait_min, stable_uptime, .. } = self.policy;
        if uptime >= stable_uptime {
            self.unstable_starts = 0;
        }
        self.unstable_starts = self.unstable_starts.saturating_add(1);
        let least = match reason {
            EndReason::OutOfMemory | EndReason::StartRefused => exhausted_wait_min.max(wait_min),
            _ => wait_min,
        };
        let longest = wait_min.saturating_mul(2_u32.saturating_pow(self.unstable_starts)).min(wait_max);
        longest.mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0).max(least).min(wait_max.max(least))
    }
}
