//! The book of our calls: which wait for an answer, until when, and which ended without one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

use crate::event::Progress;
use crate::id::CallId;
use crate::report::Fault;

/// How many calls that ended unanswered are remembered, to tell a late answer from a second one.
const GIVEN_UP_MAX: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct Calls {
    made: u64,
    open: BTreeMap<CallId, Call>,
    deadlines: BTreeSet<(Instant, CallId)>,
    in_flight: usize,
    given_up: VecDeque<(CallId, Progress)>,
}

#[derive(Debug)]
struct Call {
    deadline: Instant,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Held,
    Released,
    Sent,
}

impl Calls {
    /// The id that the next call will have.
    pub(crate) fn next_id(&self) -> CallId {
        CallId(self.made + 1)
    }

    pub(crate) fn open(&mut self, call: CallId, deadline: Instant) {
        self.made = call.0;
        self.deadlines.insert((deadline, call));
        let stage = Stage::Held;
        self.open.insert(call, Call { deadline, stage });
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub(crate) fn release(&mut self, call: CallId) {
        if let Some(open) = self.open.get_mut(&call) {
            open.stage = Stage::Released;
            self.in_flight += 1;
        }
    }

    pub(crate) fn send(&mut self, call: CallId) {
        if let Some(open) = self.open.get_mut(&call) {
            open.stage = Stage::Sent;
        }
    }

    pub(crate) fn is_open(&self, call: CallId) -> bool {
        self.open.contains_key(&call)
    }

    /// Closes a call that the peer answered, or says why the answer is none.
    pub(crate) fn answer(&mut self, call: Option<CallId>) -> Result<CallId, Fault> {
        let call = call.filter(|call| (1..=self.made).contains(&call.0)).ok_or(Fault::UnknownAnswer)?;
        match self.open.get(&call).map(|open| open.stage) {
            Some(Stage::Sent) => {
                self.remove(call);
                Ok(call)
            }
            // The peer cannot know a call that has not left us: it guessed the id.
            Some(Stage::Held | Stage::Released) => Err(Fault::UnknownAnswer),
            None => {
                let at = self.given_up.iter().position(|(of, _)| *of == call);
                match at.and_then(|at| self.given_up.remove(at)) {
                    Some((_, Progress::Sent)) => Err(Fault::LateAnswer(call)),
                    Some((_, Progress::Queued)) => Err(Fault::UnknownAnswer),
                    None => Err(Fault::SecondAnswer(call)),
                }
            }
        }
    }

    /// Closes a call that will not be answered.
    pub(crate) fn give_up(&mut self, call: CallId) -> Option<Progress> {
        let progress = match self.remove(call)? {
            Stage::Sent => Progress::Sent,
            Stage::Held | Stage::Released => Progress::Queued,
        };
        if self.given_up.len() == GIVEN_UP_MAX {
            self.given_up.pop_front();
        }
        self.given_up.push_back((call, progress));
        Some(progress)
    }

    pub(crate) fn first_deadline(&self) -> Option<(Instant, CallId)> {
        self.deadlines.first().copied()
    }

    pub(crate) fn first(&self) -> Option<CallId> {
        self.open.keys().next().copied()
    }

    fn remove(&mut self, call: CallId) -> Option<Stage> {
        let Call { deadline, stage } = self.open.remove(&call)?;
        self.deadlines.remove(&(deadline, call));
        if stage != Stage::Held {
            self.in_flight -= 1;
        }
        Some(stage)
    }
}
