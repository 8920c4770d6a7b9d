//! What is sent for our own order: interrupts of turns that nobody wants, and the end of listening. Nobody waits for the
//! answers, but a worker that has no time for one of these is asked again.

use std::time::{Duration, Instant};

use wire::{Outcome, Refused};

use super::{Exchange, Purpose};
use crate::backoff::{self, OVERLOADED};

/// How long the worker may take over one of these, all attempts together.
const ERRAND_TIMEOUT: Duration = Duration::from_secs(30);

/// What has to be done for a turn.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Errand {
    /// Nobody wants it any more: stop it.
    Interrupt { thread: Box<str>, turn: Box<str> },
    /// It is over: nothing listens for it any more.
    Unlisten { listener: Box<str> },
    /// It is over: what it asked is moot.
    Settle { thread: Box<str>, turn: Box<str> },
}

/// One of them and how it stands.
#[derive(Debug)]
pub(super) struct Attempt {
    errand: Errand,
    failures: u32,
    deadline: Instant,
}

/// Those that are to be made again, and when.
#[derive(Debug, Default)]
pub(super) struct Postponed(Vec<(Instant, Attempt)>);

impl Postponed {
    pub(super) fn first(&self) -> Option<Instant> {
        self.0.iter().map(|(again, _)| *again).min()
    }
}

impl Exchange {
    pub(super) fn run_errands(&mut self, now: Instant) {
        while let Some(errand) = self.errands.pop() {
            self.attempt(Attempt { errand, failures: 0, deadline: now + ERRAND_TIMEOUT }, now);
        }
    }

    pub(super) fn run_postponed(&mut self, now: Instant) {
        let due: Vec<_> = self.postponed.0.extract_if(.., |(again, _)| *again <= now).collect();
        for (_, attempt) in due {
            self.attempt(attempt, now);
        }
    }

    fn attempt(&mut self, attempt: Attempt, now: Instant) {
        let line = match &attempt.errand {
            Errand::Interrupt { thread, turn } => self.reader.interrupt(thread, turn),
            Errand::Unlisten { listener } => self.reader.unlisten(listener),
            Errand::Settle { thread, turn } => {
                for request in self.requests.of_turn(thread, turn) {
                    self.decline(&request, "the turn is over");
                }
                return;
            }
        };
        match self.connection.call(&line.method, line.params.as_ref(), attempt.deadline) {
            Ok(call) => {
                self.calls.insert(call, Purpose::Errand(attempt));
            }
            Err(Refused::Full { .. }) => self.postpone(attempt, now),
            // On a connection that is over there is nothing more to be done for it.
            Err(Refused::Closed | Refused::TooLong { .. }) => {}
        }
    }

    pub(super) fn settle_errand(&mut self, attempt: Attempt, settled: &Outcome, now: Instant) {
        match (settled, &attempt.errand) {
            (Outcome::Failed(error), _) if error.code == OVERLOADED => self.postpone(attempt, now),
            // There is no such turn, so its end will not come; or it is waited for in vain.
            (Outcome::Failed(_) | Outcome::TimedOut(_), Errand::Interrupt { thread, turn }) => {
                self.turns.give_up_unread(thread, turn, &mut self.errands);
            }
            _ => {}
        }
    }

    fn postpone(&mut self, attempt: Attempt, now: Instant) {
        let failures = attempt.failures + 1;
        let again = now + backoff::wait(failures, 1.0);
        if again < attempt.deadline {
            self.postponed.0.push((again, Attempt { failures, ..attempt }));
        }
    }
}
