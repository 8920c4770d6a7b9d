//! Which thread stands at the end of which history, so that whoever brings that history and something new can go on there.
//! Pure, and bounded: the newest are kept. A tip is claimed by one at a time, and gone once its thread has gone on.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};

/// How many tips are kept, at some 400 bytes each.
pub(crate) const TIPS_MAX: u32 = 50_000;

pub(crate) struct Tips {
    /// By its thread, which stands at one place.
    tips: HashMap<Box<str>, Tip>,
    /// The threads that stand at the end of a history.
    threads: HashMap<Box<str>, Vec<Box<str>>>,
    /// The threads by the age of their tips, the oldest first.
    ages: BTreeMap<i64, Box<str>>,
    tips_max: usize,
    newest: i64,
    /// The threads that have gone on before what was kept is read: what it says of them is old.
    ahead: Option<HashSet<Box<str>>>,
}

/// Where a thread stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) thread: Box<str>,
    pub(crate) history: Box<str>,
    pub(crate) last_turn: Box<str>,
    pub(crate) stage: Stage,
}

/// Whether a history ends where a turn does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The last turn is over.
    Between,
    /// The last turn waits in its middle: nobody else can begin where it stands.
    Within,
}

#[derive(Debug)]
struct Tip {
    place: Place,
    state: State,
    /// No other has it.
    number: i64,
}

/// Who uses a tip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Free,
    /// Somebody is about to go on there.
    Claimed,
    /// Its thread goes on.
    Taken,
}

/// What a history leads to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Nothing,
    Several,
    /// The tip is the finder's now; the number is for giving it back.
    Free(Place, i64),
    Taken(Place),
}

/// The thread does not stand there any more.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MovedOn;

impl Tips {
    pub(crate) fn new(tips_max: u32) -> Self {
        Self {
            tips: HashMap::new(),
            threads: HashMap::new(),
            ages: BTreeMap::new(),
            tips_max: tips_max as usize,
            newest: 0,
            ahead: Some(HashSet::new()),
        }
    }

    /// Takes in what was kept, the newest first. Whatever has happened meanwhile is newer.
    pub(crate) fn load(&mut self, kept: impl IntoIterator<Item = Place>) {
        let ahead = self.ahead.take().unwrap_or_default();
        let mut oldest = 0;
        for place in kept {
            if self.tips.len() >= self.tips_max {
                return;
            }
            if !ahead.contains(&place.thread) && !self.tips.contains_key(&place.thread) {
                oldest -= 1;
                self.insert(place, oldest);
            }
        }
    }

    /// A thread stands there from now on.
    pub(crate) fn leave(&mut self, place: Place) {
        self.remove(&place.thread);
        self.newest += 1;
        self.insert(place, self.newest);
        if self.tips.len() > self.tips_max
            && let Some((_, oldest)) = self.ages.pop_first()
        {
            self.remove(&oldest);
        }
    }

    /// Claims the one tip of a history, if it is free.
    pub(crate) fn claim(&mut self, history: &str) -> Found {
        let threads = self.threads.get(history).map(Vec::as_slice).unwrap_or_default();
        let [thread] = threads else {
            return if threads.is_empty() { Found::Nothing } else { Found::Several };
        };
        let tip = self.tips.get_mut(thread).expect("every thread of a history has a tip");
        match (tip.state, tip.place.stage) {
            (State::Free, _) => {
                tip.state = State::Claimed;
                Found::Free(tip.place.clone(), tip.number)
            }
            (State::Claimed | State::Taken, Stage::Between) => Found::Taken(tip.place.clone()),
            (State::Claimed | State::Taken, Stage::Within) => Found::Nothing,
        }
    }

    /// Whoever claimed a tip does not go on there.
    pub(crate) fn give_back(&mut self, thread: &str, number: i64) {
        let claimed = self.tips.get_mut(thread).filter(|tip| tip.number == number && tip.state == State::Claimed);
        claimed.into_iter().for_each(|tip| tip.state = State::Free);
    }

    /// A thread is about to go on, if it still stands after that turn; with none named, wherever it stands. Tells
    /// whether it stood anywhere.
    pub(crate) fn take(&mut self, thread: &str, after: Option<&str>) -> Result<bool, MovedOn> {
        if let Some(ahead) = &mut self.ahead {
            ahead.insert(thread.into());
        }
        let tip = self.tips.get_mut(thread);
        if let Some(after) = after
            && tip.as_ref().is_none_or(|tip| tip.state == State::Taken || *tip.place.last_turn != *after)
        {
            return Err(MovedOn);
        }
        Ok(tip.map(|tip| tip.state = State::Taken).is_some())
    }

    /// The thread did not go on after all, and whoever claimed its tip has no use for it.
    pub(crate) fn restore(&mut self, thread: &str) {
        let taken = self.tips.get_mut(thread).filter(|tip| tip.state == State::Taken);
        taken.into_iter().for_each(|tip| tip.state = State::Free);
    }

    /// A thread does not stand where it did: its turn is over, or it is put away.
    pub(crate) fn remove(&mut self, thread: &str) {
        if let Some(ahead) = &mut self.ahead {
            ahead.insert(thread.into());
        }
        let Some(Tip { place, number, .. }) = self.tips.remove(thread) else { return };
        self.ages.remove(&number);
        if let Some(threads) = self.threads.get_mut(&place.history) {
            threads.retain(|other| **other != *thread);
            if threads.is_empty() {
                self.threads.remove(&place.history);
            }
        }
    }

    fn insert(&mut self, place: Place, number: i64) {
        self.threads.entry(place.history.clone()).or_default().push(place.thread.clone());
        self.ages.insert(number, place.thread.clone());
        self.tips.insert(place.thread.clone(), Tip { place, state: State::Free, number });
    }
}
