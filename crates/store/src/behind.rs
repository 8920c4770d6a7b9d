//! The book of what is written behind: the last value of a row stands for those before it, usage is summed, and both the
//! number of rows and their bytes are bounded. Pure: it knows neither the disk nor the clock.

use std::collections::{BTreeMap, HashMap};

use crate::change::{Change, Subject};

/// Changes that wait to be written, by the number that they were noted under.
pub(crate) struct Book {
    notes_max: usize,
    bytes_max: usize,
    bytes: usize,
    /// Approvals, calls and audit: dropped last.
    evidence: BTreeMap<u64, Change>,
    others: BTreeMap<u64, Change>,
    by_subject: HashMap<Subject, u64>,
    dropped: u64,
}

/// A change with its number: a smaller one was noted earlier.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Noted {
    pub(crate) number: u64,
    pub(crate) change: Change,
}

impl Book {
    pub(crate) fn new(notes_max: usize, bytes_max: usize) -> Self {
        Self {
            notes_max,
            bytes_max,
            bytes: 0,
            evidence: BTreeMap::new(),
            others: BTreeMap::new(),
            by_subject: HashMap::new(),
            dropped: 0,
        }
    }

    /// Takes a change in place of an earlier one of the same row. Numbers only grow.
    pub(crate) fn note(&mut self, number: u64, change: Change) {
        let earlier = change.subject().and_then(|subject| self.remove_subject(&subject));
        self.put(number, merged(earlier.as_ref(), change));
        self.keep_to_bounds();
    }

    /// The oldest changes, in order: at most so many, and only those noted before the number.
    pub(crate) fn take(&mut self, notes_max: usize, before: u64) -> Vec<Noted> {
        let mut taken = Vec::new();
        while taken.len() < notes_max {
            let Some(number) = self.oldest().filter(|number| *number < before) else { break };
            taken.extend(self.remove(number).map(|change| Noted { number, change }));
        }
        taken
    }

    /// Takes back what could not be written; what was noted of the same row since stands, or is added to it.
    pub(crate) fn take_back(&mut self, notes: Vec<Noted>) {
        for Noted { number, change } in notes {
            let later = change.subject().and_then(|subject| self.by_subject.get(&subject).copied());
            match later.and_then(|later| Some((later, self.remove(later)?))) {
                None => self.put(number, change),
                Some((later, newer)) => self.put(later, merged(Some(&change), newer)),
            }
        }
        self.keep_to_bounds();
    }

    /// Forgets what was noted of a row before a commit of the same row was asked for.
    pub(crate) fn supersede(&mut self, committed: &Change, number: u64) {
        if matches!(committed, Change::Usage(_)) {
            return;
        }
        let noted = committed.subject().and_then(|subject| self.by_subject.get(&subject).copied());
        if let Some(noted) = noted.filter(|noted| *noted < number) {
            self.remove(noted);
        }
    }

    /// How many wait that were noted before the number.
    pub(crate) fn count_before(&self, number: u64) -> usize {
        self.evidence.range(..number).count() + self.others.range(..number).count()
    }

    pub(crate) fn len(&self) -> usize {
        self.evidence.len() + self.others.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many the bounds have cost so far.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    fn keep_to_bounds(&mut self) {
        while self.len() > self.notes_max || self.bytes > self.bytes_max {
            let oldest = self.others.keys().next().or_else(|| self.evidence.keys().next()).copied();
            let Some(oldest) = oldest else { break };
            self.remove(oldest);
            self.dropped += 1;
        }
    }

    fn oldest(&self) -> Option<u64> {
        let firsts = [self.evidence.keys().next(), self.others.keys().next()];
        firsts.into_iter().flatten().min().copied()
    }

    fn put(&mut self, number: u64, change: Change) {
        self.bytes += change.bytes();
        if let Some(subject) = change.subject() {
            self.by_subject.insert(subject, number);
        }
        let place = if change.is_evidence() { &mut self.evidence } else { &mut self.others };
        place.insert(number, change);
    }

    fn remove_subject(&mut self, subject: &Subject) -> Option<Change> {
        let number = *self.by_subject.get(subject)?;
        self.remove(number)
    }

    fn remove(&mut self, number: u64) -> Option<Change> {
        let change = self.evidence.remove(&number).or_else(|| self.others.remove(&number))?;
        self.bytes -= change.bytes();
        if let Some(subject) = change.subject() {
            self.by_subject.remove(&subject);
        }
        Some(change)
    }
}

/// What two changes of one row come to.
fn merged(earlier: Option<&Change>, mut later: Change) -> Change {
    if let (Some(Change::Usage(earlier)), Change::Usage(later)) = (earlier, &mut later) {
        later.add(earlier);
    }
    later
}

#[cfg(test)]
mod tests;
