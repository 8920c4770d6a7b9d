//! The book of what waits for a decision, pure: each is recorded, then open, then decided exactly once, and nothing is
//! ever allowed because time passed, a worker went or a write failed.
//!
//! A decision is first proposed ([`Output::Commit`]) and becomes one when it is durable ([`Output::Decided`]). One that
//! allows nothing also stands when it could not be written: the safe side is no worse for being forgotten.

use std::collections::{BTreeMap, VecDeque};
use std::mem::replace;
use std::time::Instant;

use crate::limits::Limits;
use crate::shown::Origin;
use crate::verdict::{By, Verdict, Withdrawal};

/// All approvals that wait.
#[derive(Debug, Default)]
pub(crate) struct Book {
    entries: BTreeMap<String, Entry>,
    outputs: VecDeque<Output>,
}

/// What the book needs to know of an approval.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) origin: Origin,
    /// Equal for the same request when it comes again.
    pub(crate) identity: String,
    /// Equal for requests that one grant covers.
    pub(crate) likeness: String,
    /// Whose turn asks. Those without a known key share one place.
    pub(crate) key: Option<String>,
    pub(crate) deadline: Instant,
}

/// A verdict and who gives it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Proposal {
    pub(crate) verdict: Verdict,
    pub(crate) by: By,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Output {
    /// It is durable: show it to hooks and people.
    Opened { id: String },
    /// Make this decision durable, then say whether it is.
    Commit { id: String, proposal: Proposal },
    /// It is decided: tell whoever waits.
    Decided { id: String, proposal: Proposal },
}

/// Why no more can wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRoom {
    /// As many wait as may.
    ForAnyone,
    /// As many wait as may of one key.
    ForKey,
}

/// Why a decision was not taken up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotOpen {
    /// Nothing of that id waits.
    Unknown,
    /// Another decision is being written; it will stand, or this one may be made again.
    BeingDecided,
}

#[derive(Debug)]
struct Entry {
    asked: Asked,
    /// Whether somebody of this run waits for it.
    claimed: bool,
    phase: Phase,
    /// What is to be proposed once the write under way has ended, if that leaves it open.
    next: Option<Proposal>,
}

#[derive(Debug)]
enum Phase {
    /// Being written for the first time; nobody knows of it.
    Recording,
    Open,
    /// This is being written.
    Deciding(Proposal),
}

impl Book {
    /// Whether one more of this key may wait.
    pub(crate) fn check_room(&self, key: Option<&str>, limits: &Limits) -> Result<(), NoRoom> {
        let of_key = || self.entries.values().filter(|entry| entry.asked.key.as_deref() == key).count();
        if self.entries.len() >= limits.pending_max {
            Err(NoRoom::ForAnyone)
        } else if of_key() >= limits.pending_per_key_max() {
            Err(NoRoom::ForKey)
        } else {
            Ok(())
        }
    }

    /// A request that is being written. A ruling is written with it, and needs no second commit.
    pub(crate) fn handle_asked(&mut self, id: &str, asked: Asked) {
        self.entries.insert(id.into(), Entry { asked, claimed: true, phase: Phase::Recording, next: None });
    }

    /// One that an earlier run left open.
    pub(crate) fn handle_loaded(&mut self, id: &str, asked: Asked) {
        self.entries.insert(id.into(), Entry { asked, claimed: false, phase: Phase::Open, next: None });
    }

    /// It is durable, with a ruling if there was one.
    pub(crate) fn handle_recorded(&mut self, id: &str, ruling: Option<Proposal>) {
        let Some(entry) = self.entries.get_mut(id).filter(|entry| matches!(entry.phase, Phase::Recording)) else {
            return;
        };
        entry.phase = Phase::Open;
        let (id, next) = (id.to_owned(), entry.next.take());
        match (ruling, next) {
            (Some(proposal), _) => {
                self.entries.remove(&id);
                self.outputs.push_back(Output::Decided { id, proposal });
            }
            (None, Some(proposal)) => self.propose(&id, proposal),
            (None, None) => self.outputs.push_back(Output::Opened { id }),
        }
    }

    /// It never got into the book: it could not be written, or an earlier decision answers it.
    pub(crate) fn handle_not_recorded(&mut self, id: &str) {
        self.entries.remove(id);
    }

    /// The approval that this very request already has. Of an earlier run, it is shown again from now on.
    pub(crate) fn handle_repeated(&mut self, identity: &str) -> Option<String> {
        let (id, entry) = self.entries.iter_mut().find(|(_, entry)| entry.asked.identity == identity)?;
        let was_claimed = replace(&mut entry.claimed, true);
        if !was_claimed && matches!(entry.phase, Phase::Open) {
            self.outputs.push_back(Output::Opened { id: id.clone() });
        }
        Some(id.clone())
    }

    /// Somebody decides; the first one's decision goes to be written.
    pub(crate) fn handle_decision(&mut self, id: &str, proposal: Proposal) -> Result<(), NotOpen> {
        match self.entries.get(id).map(|entry| &entry.phase) {
            None | Some(Phase::Recording) => Err(NotOpen::Unknown),
            Some(Phase::Deciding(_)) => Err(NotOpen::BeingDecided),
            Some(Phase::Open) => {
                self.propose(id, proposal);
                Ok(())
            }
        }
    }

    /// It needs no decision any more. One that is being written stands.
    pub(crate) fn handle_withdrawn(&mut self, id: &str, why: Withdrawal) {
        let proposal = Proposal { verdict: Verdict::Cancel, by: By::Withdrawn { why } };
        match self.entries.get_mut(id) {
            Some(Entry { phase: Phase::Open, .. }) => self.propose(id, proposal),
            Some(entry) => entry.next = Some(proposal),
            None => {}
        }
    }

    /// The worker has repeated all that it still waits for: what nobody claimed is orphaned.
    pub(crate) fn handle_all_repeated(&mut self, group: &str, worker: &str) -> Vec<String> {
        let is_orphan =
            |entry: &Entry| !entry.claimed && entry.asked.origin.group == group && entry.asked.origin.worker == worker;
        let orphans = self.ids_where(is_orphan);
        for id in &orphans {
            self.handle_withdrawn(id, Withdrawal::WorkerGone);
        }
        orphans
    }

    /// Denies what nobody decided in time.
    pub(crate) fn handle_deadline(&mut self, now: Instant) {
        for id in self.ids_where(|entry| matches!(entry.phase, Phase::Open) && entry.asked.deadline <= now) {
            self.propose(&id, Proposal { verdict: Verdict::deny("nobody decided in time"), by: By::Deadline });
        }
    }

    /// The decision is durable. A grant that lasts clears all that want the same.
    pub(crate) fn handle_committed(&mut self, id: &str) {
        let Some(Entry { phase: Phase::Deciding(proposal), asked, .. }) = self.entries.get(id) else {
            return;
        };
        let (proposal, likeness) = (proposal.clone(), asked.likeness.clone());
        self.entries.remove(id);
        let lasts = proposal.verdict.lasts();
        self.outputs.push_back(Output::Decided { id: id.into(), proposal });
        if lasts {
            self.clear_alike(id, &likeness);
        }
    }

    /// The decision could not be written. Whoever allowed something has to try again; anything else stands.
    pub(crate) fn handle_not_committed(&mut self, id: &str) {
        let Some(Entry { phase, next, .. }) = self.entries.get_mut(id) else {
            return;
        };
        match phase {
            Phase::Deciding(proposal) if proposal.verdict.allows() => {
                *phase = Phase::Open;
                if let Some(next) = next.take() {
                    self.propose(id, next);
                }
            }
            Phase::Deciding(_) => self.handle_committed(id),
            Phase::Recording | Phase::Open => {}
        }
    }

    /// When [`handle_deadline`](Self::handle_deadline) is due.
    pub(crate) fn poll_deadline(&self) -> Option<Instant> {
        let open = self.entries.values().filter(|entry| matches!(entry.phase, Phase::Open));
        open.map(|entry| entry.asked.deadline).min()
    }

    /// What is to be done next.
    pub(crate) fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// How many wait, in whatever phase.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// For what is open.
    fn propose(&mut self, id: &str, proposal: Proposal) {
        let entry = self.entries.get_mut(id).expect("what is open is in the book");
        entry.phase = Phase::Deciding(proposal.clone());
        self.outputs.push_back(Output::Commit { id: id.into(), proposal });
    }

    fn clear_alike(&mut self, granted: &str, likeness: &str) {
        let by = By::Grant { approval: granted.into() };
        let proposal = Proposal { verdict: Verdict::Allow, by };
        for id in self.ids_where(|entry| entry.claimed && entry.asked.likeness == likeness) {
            match self.entries.get_mut(&id) {
                Some(Entry { phase: Phase::Open, .. }) => self.propose(&id, proposal.clone()),
                Some(Entry { phase: Phase::Recording, next, .. }) => {
                    next.get_or_insert_with(|| proposal.clone());
                }
                Some(Entry { phase: Phase::Deciding(_), .. }) | None => {}
            }
        }
    }

    fn ids_where(&self, is_wanted: impl Fn(&Entry) -> bool) -> Vec<String> {
        self.entries.iter().filter(|(_, entry)| is_wanted(entry)).map(|(id, _)| id.clone()).collect()
    }
}

#[cfg(test)]
mod tests;
