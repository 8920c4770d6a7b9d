//! Whether and when to start again what has ended, pure: longer waits after each end. What ends too often, or cannot start,
//! has failed: a worker is then tried again after minutes, a tool server when somebody asks for it.

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
    /// After so many ends within the window it has failed.
    pub ends_max: usize,
    /// How long an end counts.
    pub window: Duration,
    /// What becomes of it then.
    pub after_failure: AfterFailure,
}

/// What becomes of a process that has failed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AfterFailure {
    /// It stays down until somebody asks for it.
    StayDown,
    /// It is tried again, after waits that double from the least to the longest.
    Retry {
        /// The least wait.
        wait_min: Duration,
        /// The longest, and the only one where trying again would not change anything by itself.
        wait_max: Duration,
    },
}

impl RestartPolicy {
    /// For workers: they start slowly, and people notice. Nothing else can take their place, so that none is given up: memory
    /// may be free again, and somebody may install a missing program.
    pub const WORKER: Self = Self {
        ends_max: 3,
        window: Duration::from_secs(5 * 60),
        after_failure: AfterFailure::Retry { wait_min: Duration::from_secs(30), wait_max: Duration::from_secs(5 * 60) },
        ..Self::TOOL_SERVER
    };

    /// For tool servers, which start fast and fail more often for reasons that pass.
    pub const TOOL_SERVER: Self = Self {
        wait_min: Duration::from_millis(100),
        wait_max: Duration::from_secs(30),
        exhausted_wait_min: Duration::from_secs(5),
        stable_uptime: Duration::from_secs(60),
        ends_max: 5,
        window: Duration::from_secs(3 * 60),
        after_failure: AfterFailure::StayDown,
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
    /// How many of the last starts were made after it had failed.
    late_starts: u32,
    given_up: Option<Box<str>>,
}

/// What to do after an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Start it again then.
    RestartAt(Instant),
    /// It has failed, for this reason.
    Fail {
        /// Why.
        why: Box<str>,
        /// When to try again; not before [`Restarts::reset`], if absent.
        retry_at: Option<Instant>,
    },
}

impl Restarts {
    /// Nothing has happened yet.
    #[must_use]
    pub fn new(policy: RestartPolicy) -> Self {
        Self { policy, ends: VecDeque::new(), unstable_starts: 0, late_starts: 0, given_up: None }
    }

    /// Something ended, or could not be started, that ran for `uptime`; `jitter` is a random number from 0 to 1.
    pub fn handle_end(&mut self, reason: &EndReason, uptime: Duration, jitter: f64, now: Instant) -> Verdict {
        if let Some(why) = &self.given_up {
            return Verdict::Fail { why: why.clone(), retry_at: None };
        }
        if uptime >= self.policy.stable_uptime {
            (self.unstable_starts, self.late_starts) = (0, 0);
        }
        let Some(why) = self.reason_to_fail(reason, now) else {
            return Verdict::RestartAt(now + self.next_wait(reason, jitter));
        };
        let retry_at = match self.policy.after_failure {
            AfterFailure::Retry { wait_min, wait_max } => {
                Some(now + self.next_late_wait(reason, wait_min, wait_max, jitter))
            }
            AfterFailure::StayDown => None,
        };
        if retry_at.is_none() {
            self.given_up = Some(why.clone());
        }
        Verdict::Fail { why, retry_at }
    }

    /// Somebody asked for it: all is forgotten.
    pub fn reset(&mut self) {
        *self = Self::new(self.policy);
    }

    fn reason_to_fail(&mut self, reason: &EndReason, now: Instant) -> Option<Box<str>> {
        if is_lasting(reason) {
            return Some(match self.policy.after_failure {
                AfterFailure::StayDown => format!("{reason}; trying again would not change that").into(),
                AfterFailure::Retry { .. } => reason.to_string().into(),
            });
        }
        let RestartPolicy { ends_max, window, .. } = self.policy;
        self.ends.push_back(now);
        while self.ends.front().is_some_and(|end| now.saturating_duration_since(*end) >= window) {
            self.ends.pop_front();
        }
        match self.ends.len() {
            ends if ends >= ends_max => {
                Some(format!("it ended {ends} times within {window:?}; at last {reason}").into())
            }
            // The waits have grown longer than the window.
            _ if self.late_starts > 0 => Some(format!("it ends after each start; at last {reason}").into()),
            _ => None,
        }
    }

    fn next_wait(&mut self, reason: &EndReason, jitter: f64) -> Duration {
        let RestartPolicy { wait_min, wait_max, exhausted_wait_min, .. } = self.policy;
        self.unstable_starts = self.unstable_starts.saturating_add(1);
        let least = match reason {
            EndReason::OutOfMemory | EndReason::StartRefused => exhausted_wait_min.max(wait_min),
            _ => wait_min,
        };
        doubled(wait_min, self.unstable_starts, wait_max, jitter).max(least).min(wait_max.max(least))
    }

    fn next_late_wait(&mut self, reason: &EndReason, wait_min: Duration, wait_max: Duration, jitter: f64) -> Duration {
        if is_lasting(reason) {
            return wait_max;
        }
        self.late_starts = self.late_starts.saturating_add(1);
        doubled(wait_min, self.late_starts, wait_max, jitter)
    }
}

/// Whether the next try would come to the same, unless somebody changes something.
fn is_lasting(reason: &EndReason) -> bool {
    matches!(reason, EndReason::CouldNotStart | EndReason::ProtocolMismatch)
}

/// A wait that doubles with each time, of which the second half is left to chance.
fn doubled(wait_min: Duration, times: u32, wait_max: Duration, jitter: f64) -> Duration {
    let longest = wait_min.saturating_mul(2_u32.saturating_pow(times)).min(wait_max);
    longest.mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    use super::*;

    /// Plays ends of the form `seconds since the start of it all: reason after uptime`, and tells the verdicts.
    fn check(policy: RestartPolicy, jitter: f64, ends: &str, expect: &Expect) {
        let start = Instant::now();
        let mut restarts = Restarts::new(policy);
        let mut told = String::new();
        for line in ends.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let Some((at, end)) = line.split_once(": ") else {
                restarts.reset();
                writeln!(told, "{line}").unwrap();
                continue;
            };
            let (reason, uptime) = end.split_once(" after ").unwrap();
            let now = start + Duration::from_secs(at.parse().unwrap());
            let uptime = Duration::from_secs(uptime.parse().unwrap());
            match restarts.handle_end(&reason_of(reason), uptime, jitter, now) {
                Verdict::RestartAt(at) => writeln!(told, "{line}: restart in {:?}", at - now).unwrap(),
                Verdict::Fail { why, retry_at: None } => writeln!(told, "{line}: give up: {why}").unwrap(),
                Verdict::Fail { why, retry_at: Some(at) } => {
                    writeln!(told, "{line}: failed, retry in {:?}: {why}", at - now).unwrap();
                }
            }
        }
        expect.assert_eq(&told);
    }

    fn reason_of(name: &str) -> EndReason {
        let all = [
            EndReason::Clean,
            EndReason::Code(1),
            EndReason::Signal(11),
            EndReason::OutOfMemory,
            EndReason::CouldNotStart,
            EndReason::StartRefused,
            EndReason::HandshakeFailed,
            EndReason::ProtocolMismatch,
            EndReason::LinkLost,
        ];
        all.into_iter().find(|reason| reason.name() == name).unwrap()
    }

    #[test]
    fn a_worker_that_crashes_three_times_in_five_minutes_is_tried_again_after_growing_waits() {
        check(
            RestartPolicy::WORKER,
            0.0,
            "
            0: signal after 1
            100: code after 99
            299: signal after 59
            330: out_of_memory after 1
            400: code after 1
            600: code after 0
            1000: code after 0
            2000: code after 59
            2400: code after 0
            2800: code after 60
            asked for
            2801: code after 1
            ",
            &expect![[r#"
                0: signal after 1: restart in 100ms
                100: code after 99: restart in 100ms
                299: signal after 59: failed, retry in 30s: it ended 3 times within 300s; at last it was killed by SIGSEGV
                330: out_of_memory after 1: failed, retry in 60s: it ended 3 times within 300s; at last it ran out of memory
                400: code after 1: failed, retry in 120s: it ended 3 times within 300s; at last it exited with code 1
                600: code after 0: failed, retry in 150s: it ended 3 times within 300s; at last it exited with code 1
                1000: code after 0: failed, retry in 150s: it ends after each start; at last it exited with code 1
                2000: code after 59: failed, retry in 150s: it ends after each start; at last it exited with code 1
                2400: code after 0: failed, retry in 150s: it ends after each start; at last it exited with code 1
                2800: code after 60: restart in 100ms
                asked for
                2801: code after 1: restart in 100ms
            "#]],
        );
    }

    #[test]
    fn a_tool_server_that_crashes_too_often_is_given_up_until_asked_for() {
        let hasty = RestartPolicy { ends_max: 2, ..RestartPolicy::TOOL_SERVER };
        check(
            hasty,
            0.0,
            "
            0: signal after 1
            1: code after 1
            1000: code after 0
            asked for
            1001: code after 1
            ",
            &expect![[r#"
                0: signal after 1: restart in 100ms
                1: code after 1: give up: it ended 2 times within 180s; at last it exited with code 1
                1000: code after 0: give up: it ended 2 times within 180s; at last it exited with code 1
                asked for
                1001: code after 1: restart in 100ms
            "#]],
        );
    }

    #[test]
    fn a_worker_that_cannot_start_is_tried_again_at_the_longest_wait() {
        check(
            RestartPolicy::WORKER,
            0.0,
            "
            0: could_not_start after 0
            300: could_not_start after 0
            600: protocol_mismatch after 0
            900: code after 0
            ",
            &expect![[r#"
                0: could_not_start after 0: failed, retry in 300s: it could not be started
                300: could_not_start after 0: failed, retry in 300s: it could not be started
                600: protocol_mismatch after 0: failed, retry in 300s: it speaks no protocol that we know
                900: code after 0: restart in 100ms
            "#]],
        );
    }

    #[test]
    fn crashes_that_are_far_apart_are_forgiven() {
        check(
            RestartPolicy::WORKER,
            0.0,
            "0: code after 1\n299: code after 1\n300: code after 1\n599: code after 1",
            &expect![[r#"
                0: code after 1: restart in 100ms
                299: code after 1: restart in 200ms
                300: code after 1: restart in 400ms
                599: code after 1: restart in 800ms
            "#]],
        );
    }

    #[test]
    fn waits_double_until_it_has_run_long_enough() {
        let patient = RestartPolicy { ends_max: 100, ..RestartPolicy::TOOL_SERVER };
        let ends = "
            0: clean after 0
            1: handshake_failed after 0
            2: link_lost after 0
            3: code after 0
            4: code after 59
            5: code after 0
            6: code after 0
            7: code after 0
            8: code after 0
            9: code after 0
            10: code after 60
            11: code after 0
        ";
        check(
            patient,
            0.0,
            ends,
            &expect![[r#"
            0: clean after 0: restart in 100ms
            1: handshake_failed after 0: restart in 200ms
            2: link_lost after 0: restart in 400ms
            3: code after 0: restart in 800ms
            4: code after 59: restart in 1.6s
            5: code after 0: restart in 3.2s
            6: code after 0: restart in 6.4s
            7: code after 0: restart in 12.8s
            8: code after 0: restart in 15s
            9: code after 0: restart in 15s
            10: code after 60: restart in 100ms
            11: code after 0: restart in 200ms
        "#]],
        );
        check(
            patient,
            1.0,
            ends,
            &expect![[r#"
            0: clean after 0: restart in 200ms
            1: handshake_failed after 0: restart in 400ms
            2: link_lost after 0: restart in 800ms
            3: code after 0: restart in 1.6s
            4: code after 59: restart in 3.2s
            5: code after 0: restart in 6.4s
            6: code after 0: restart in 12.8s
            7: code after 0: restart in 25.6s
            8: code after 0: restart in 30s
            9: code after 0: restart in 30s
            10: code after 60: restart in 200ms
            11: code after 0: restart in 400ms
        "#]],
        );
    }

    #[test]
    fn what_cannot_start_is_not_tried_again_and_an_exhausted_machine_is_given_time() {
        check(
            RestartPolicy::TOOL_SERVER,
            0.5,
            "0: could_not_start after 0",
            &expect![[r#"
            0: could_not_start after 0: give up: it could not be started; trying again would not change that
        "#]],
        );
        check(
            RestartPolicy::TOOL_SERVER,
            0.5,
            "0: protocol_mismatch after 0",
            &expect![[r#"
            0: protocol_mismatch after 0: give up: it speaks no protocol that we know; trying again would not change that
        "#]],
        );
        check(
            RestartPolicy::TOOL_SERVER,
            0.5,
            "0: out_of_memory after 90\n9: start_refused after 0",
            &expect![[r#"
            0: out_of_memory after 90: restart in 5s
            9: start_refused after 0: restart in 5s
        "#]],
        );
    }

    fn any_reason() -> impl Strategy<Value = EndReason> {
        prop_oneof![
            Just(EndReason::Clean),
            any::<i32>().prop_map(EndReason::Code),
            Just(EndReason::OutOfMemory),
            Just(EndReason::HandshakeFailed),
            Just(EndReason::LinkLost),
        ]
    }

    proptest! {
        /// Whatever it dies of and however long it runs in between: in no window are there more quick starts than ends are
        /// allowed, every wait is within its bounds, a worker is never given up, and a tool server that was stays so until it is
        /// asked for.
        #[test]
        fn never_more_starts_than_allowed_within_the_window(
            runs in prop::collection::vec((any_reason(), 0_u64..400_000, 0.0..=1.0), 1..60),
            policy in prop_oneof![Just(RestartPolicy::WORKER), Just(RestartPolicy::TOOL_SERVER)],
        ) {
            let mut restarts = Restarts::new(policy);
            let mut now = Instant::now();
            let mut starts = vec![now];
            let mut given_up = None;
            for (reason, uptime, jitter) in runs {
                let uptime = Duration::from_millis(uptime);
                now += uptime;
                match restarts.handle_end(&reason, uptime, jitter, now) {
                    Verdict::RestartAt(at) => {
                        prop_assert!(given_up.is_none());
                        let wait = at - now;
                        let least = if reason == EndReason::OutOfMemory { policy.exhausted_wait_min } else { policy.wait_min };
                        prop_assert!(least <= wait && wait <= policy.wait_max, "{wait:?}");
                        now = at;
                        starts.push(now);
                    }
                    Verdict::Fail { retry_at: Some(at), .. } => {
                        let AfterFailure::Retry { wait_min, wait_max } = policy.after_failure else {
                            return Err(TestCaseError::fail("it stays down"));
                        };
                        prop_assert!(wait_min <= at - now && at - now <= wait_max, "{:?}", at - now);
                        now = at;
                        starts.clear();
                    }
                    Verdict::Fail { why, retry_at: None } => {
                        prop_assert_eq!(policy.after_failure, AfterFailure::StayDown);
                        prop_assert!(given_up.is_none_or(|earlier| earlier == why));
                        given_up = Some(why);
                    }
                }
            }
            for (number, start) in starts.iter().enumerate() {
                let within = starts[number..].iter().take_while(|later| **later - *start < policy.window).count();
                prop_assert!(within <= policy.ends_max, "{within} starts");
            }
            restarts.reset();
            prop_assert!(matches!(restarts.handle_end(&EndReason::Code(1), Duration::ZERO, 0.5, now), Verdict::RestartAt(_)));
        }
    }
}
