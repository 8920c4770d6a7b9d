//! The book of what waits for a decision, pure: each is recorded, then open, then decided exactly once, and nothing is
//! ever allowed because time passed, a worker went or a write failed.
//!
//! A decision is first proposed ([`Output::Commit`]) and becomes one when it is durable ([`Output::Decided`]). One that
//! allows nothing also stands when it could not be written: the safe side is no worse for being forgotten.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

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
}

#[derive(Debug)]
enum Phase {
    /// Being written for the first time; nobody knows of it. What is known to come next waits here.
    Recording {
        next: Option<Proposal>,
    },
    Open,
    Deciding(Proposal),
}

impl Book {
    /// A request that is being written. A ruling is written with it, and needs no second commit.
    pub(crate) fn handle_asked(&mut self, id: &str, asked: Asked) {
        let phase = Phase::Recording { next: None };
        self.entries.insert(id.into(), Entry { asked, claimed: true, phase });
    }

    /// One that an earlier run left open.
    pub(crate) fn handle_loaded(&mut self, id: &str, asked: Asked) {
        self.entries.insert(id.into(), Entry { asked, claimed: false, phase: Phase::Open });
    }

    /// It is durable, with a ruling if there was one.
    pub(crate) fn handle_recorded(&mut self, id: &str, ruling: Option<Proposal>) {
        let Some(entry) = self.entries.get_mut(id) else {
            return;
        };
        let Phase::Recording { next } = &mut entry.phase else {
            return;
        };
        let (id, next) = (id.to_owned(), next.take());
        if let Some(proposal) = ruling {
            self.entries.remove(&id);
            self.outputs.push_back(Output::Decided { id, proposal });
        } else if let Some(proposal) = next {
            entry.phase = Phase::Deciding(proposal.clone());
            self.outputs.push_back(Output::Commit { id, proposal });
        } else {
            entry.phase = Phase::Open;
            self.outputs.push_back(Output::Opened { id });
        }
    }

    /// It never got into the book: it could not be written, or an earlier decision answers it.
    pub(crate) fn handle_not_recorded(&mut self, id: &str) {
        self.entries.remove(id);
    }

    /// The approval that this very request already has. Of an earlier run, it is shown again from now on.
    pub(crate) fn handle_repeated(&mut self, identity: &str) -> Option<String> {
        let (id, entry) = self.entries.iter_mut().find(|(_, entry)| entry.asked.identity == identity)?;
        if !std::mem::replace(&mut entry.claimed, true) {
            self.outputs.push_back(Output::Opened { id: id.clone() });
        }
        Some(id.clone())
    }

    /// Somebody decides; the first one's decision goes to be written.
    pub(crate) fn handle_decision(&mut self, id: &str, proposal: Proposal) -> Result<(), NotOpen> {
        let entry = self.entries.get_mut(id).ok_or(NotOpen::Unknown)?;
        match entry.phase {
            Phase::Recording { .. } => Err(NotOpen::Unknown),
            Phase::Deciding(_) => Err(NotOpen::BeingDecided),
            Phase::Open => {
                entry.phase = Phase::Deciding(proposal.clone());
                self.outputs.push_back(Output::Commit { id: id.into(), proposal });
                Ok(())
            }
        }
    }

    /// It needs no decision any more. One that is being written stands.
    pub(crate) fn handle_withdrawn(&mut self, id: &str, why: Withdrawal) {
        let proposal = Proposal { verdict: Verdict::Cancel, by: By::Withdrawn { why } };
        match self.entries.get_mut(id).map(|entry| &mut entry.phase) {
            Some(Phase::Recording { next }) => *next = Some(proposal),
            Some(Phase::Open) => self.handle_decision(id, proposal).expect("it is open"),
            Some(Phase::Deciding(_)) | None => {}
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
            let verdict = Verdict::deny("nobody decided in time");
            self.handle_decision(&id, Proposal { verdict, by: By::Deadline }).expect("it is open");
        }
    }

    /// The decision is durable. A grant for the session clears all that want the same.
    pub(crate) fn handle_committed(&mut self, id: &str) {
        let Some((asked, proposal)) = self.take_deciding(id) else {
            return;
        };
        let grants = proposal.verdict == Verdict::AllowForSession;
        self.outputs.push_back(Output::Decided { id: id.into(), proposal });
        if grants {
            self.clear_alike(id, &asked.likeness);
        }
    }

    /// The decision could not be written. Whoever allowed something has to try again; anything else stands.
    pub(crate) fn handle_not_committed(&mut self, id: &str) {
        let Some(entry) = self.entries.get_mut(id) else {
            return;
        };
        match &entry.phase {
            Phase::Deciding(proposal) if proposal.verdict.allows() => entry.phase = Phase::Open,
            Phase::Deciding(_) => self.handle_committed(id),
            Phase::Recording { .. } | Phase::Open => {}
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

    fn take_deciding(&mut self, id: &str) -> Option<(Asked, Proposal)> {
        match self.entries.remove(id)? {
            Entry { asked, phase: Phase::Deciding(proposal), .. } => Some((asked, proposal)),
            other => {
                self.entries.insert(id.into(), other);
                None
            }
        }
    }

    fn clear_alike(&mut self, granted: &str, likeness: &str) {
        let by = By::Grant { approval: granted.into() };
        let proposal = Proposal { verdict: Verdict::Allow, by };
        for id in self.ids_where(|entry| entry.claimed && entry.asked.likeness == likeness) {
            match self.entries.get_mut(&id).map(|entry| &mut entry.phase) {
                Some(Phase::Recording { next }) => {
                    next.get_or_insert_with(|| proposal.clone());
                }
                Some(Phase::Open) => self.handle_decision(&id, proposal.clone()).expect("it is open"),
                Some(Phase::Deciding(_)) | None => {}
            }
        }
    }

    fn ids_where(&self, is_wanted: impl Fn(&Entry) -> bool) -> Vec<String> {
        self.entries.iter().filter(|(_, entry)| is_wanted(entry)).map(|(id, _)| id.clone()).collect()
    }
}

#[cfg(test)]
mod tests;
