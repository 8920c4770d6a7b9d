//! The stop ladder, pure: close stdin, SIGTERM, SIGTERM again, SIGKILL, with a wait after each.

use std::time::{Duration, Instant};

/// How long each rung is given. Together under 10 s, within which nothing of a stopped worker may be left.
#[derive(Clone, Copy, Debug)]
pub struct Ladder {
    /// After stdin was closed: the real worker ends in 50 ms, in mid turn too; the rest is for a loaded machine.
    pub stdin_wait: Duration,
    /// After the first SIGTERM, which ends what does not watch its stdin, and shells and tools in the group.
    pub terminate_wait: Duration,
    /// After the second: a listening worker with a parked turn ignores the first one.
    pub terminate_again_wait: Duration,
    /// After SIGKILL: only a process that is stuck inside the kernel needs any of it.
    pub kill_wait: Duration,
}

impl Default for Ladder {
    fn default() -> Self {
        Self {
            stdin_wait: Duration::from_secs(2),
            terminate_wait: Duration::from_secs(2),
            terminate_again_wait: Duration::from_secs(2),
            kill_wait: Duration::from_secs(3),
        }
    }
}

/// What was done to end a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rung {
    /// Its stdin was closed.
    CloseStdin,
    /// Its group got SIGTERM; a detached process got it alone.
    Terminate,
    /// SIGTERM for the second time.
    TerminateAgain,
    /// All that it started got SIGKILL.
    Kill,
}

/// One way up a ladder.
pub(crate) struct Climb {
    ladder: Ladder,
    first: Rung,
    taken: Option<(Rung, Instant)>,
}

/// What to do next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Take(Rung),
    WaitUntil(Instant),
    /// The process outlived the whole ladder.
    GiveUp,
}

impl Climb {
    pub(crate) fn new(ladder: Ladder) -> Self {
        Self { ladder, first: Rung::CloseStdin, taken: None }
    }

    /// The way of a process whose stdin is not ours.
    pub(crate) fn without_stdin(ladder: Ladder) -> Self {
        Self { first: Rung::Terminate, ..Self::new(ladder) }
    }

    /// The rung taken last.
    pub(crate) fn rung(&self) -> Option<Rung> {
        self.taken.map(|(rung, _)| rung)
    }

    /// Each wait counts from when its rung was taken, so a late caller shortens none of them.
    pub(crate) fn next(&mut self, now: Instant) -> Step {
        let ladder = &self.ladder;
        let (wait_until, next) = match self.taken {
            None => (now, Some(self.first)),
            Some((Rung::CloseStdin, at)) => (at + ladder.stdin_wait, Some(Rung::Terminate)),
            Some((Rung::Terminate, at)) => (at + ladder.terminate_wait, Some(Rung::TerminateAgain)),
            Some((Rung::TerminateAgain, at)) => (at + ladder.terminate_again_wait, Some(Rung::Kill)),
            Some((Rung::Kill, at)) => (at + ladder.kill_wait, None),
        };
        if now < wait_until {
            return Step::WaitUntil(wait_until);
        }
        let Some(rung) = next else {
            return Step::GiveUp;
        };
        self.taken = Some((rung, now));
        Step::Take(rung)
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use expect_test::{Expect, expect};

    use super::*;

    /// Looks at the ladder at each of the times, in milliseconds, and writes down every step up to a wait.
    fn check(waits: [u64; 4], times: &[u64], expect: &Expect) {
        let [stdin_wait, terminate_wait, terminate_again_wait, kill_wait] = waits.map(Duration::from_millis);
        let mut climb = Climb::new(Ladder { stdin_wait, terminate_wait, terminate_again_wait, kill_wait });
        let start = Instant::now();
        let mut written = String::new();
        for time in times {
            write!(written, "at {time}:").unwrap();
            let last = loop {
                match climb.next(start + Duration::from_millis(*time)) {
                    Step::Take(rung) => write!(written, " {rung:?},").unwrap(),
                    Step::WaitUntil(until) => {
                        break format!("wait until {}", (until - start).as_millis());
                    }
                    Step::GiveUp => break "give up".into(),
                }
            };
            writeln!(written, " {last}").unwrap();
        }
        expect.assert_eq(&written);
    }

    #[test]
    fn every_rung_is_taken_in_turn_and_gets_its_wait() {
        check(
            [100, 200, 300, 400],
            &[0, 99, 100, 299, 300, 599, 600, 999, 1000, 2000],
            &expect![[r#"
                at 0: CloseStdin, wait until 100
                at 99: wait until 100
                at 100: Terminate, wait until 300
                at 299: wait until 300
                at 300: TerminateAgain, wait until 600
                at 599: wait until 600
                at 600: Kill, wait until 1000
                at 999: wait until 1000
                at 1000: give up
                at 2000: give up
            "#]],
        );
    }

    #[test]
    fn a_late_look_shortens_no_wait() {
        check(
            [100, 100, 100, 100],
            &[0, 5000, 5050, 9000],
            &expect![[r#"
                at 0: CloseStdin, wait until 100
                at 5000: Terminate, wait until 5100
                at 5050: wait until 5100
                at 9000: TerminateAgain, wait until 9100
            "#]],
        );
    }

    #[test]
    fn a_wait_of_zero_skips_to_the_next_rung() {
        check(
            [0, 0, 0, 100],
            &[0, 100],
            &expect![[r#"
                at 0: CloseStdin, Terminate, TerminateAgain, Kill, wait until 100
                at 100: give up
            "#]],
        );
    }

    #[test]
    fn without_stdin_the_way_starts_at_sigterm() {
        let mut climb = Climb::without_stdin(Ladder::default());
        assert!(matches!(climb.next(Instant::now()), Step::Take(Rung::Terminate)));
    }
}
