//! The turns of one connection that somebody here has started or follows. A turn ends exactly once, and what it has
//! begun and not finished is closed before.

use std::collections::{BTreeSet, HashMap};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use wire::{Outcome, Progress};

use super::errands::Errand;
use super::mailbox::{Mailbox, Posted, room, weight};
use crate::event::{Item, Placed, TurnError, TurnEvent, TurnStatus};

/// Names a turn before the worker has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TurnKey(u64);

/// Turns of others that are known to run; more are not remembered.
const OTHERS_MAX: usize = 10_000;

/// A thread or a turn of others with a longer name is not remembered; the real worker's have 36 bytes.
const NAME_BYTES_MAX: usize = 256;

/// How long after the deadline of the call that starts it a turn may take to tell its name, where the answer does not.
const NAME_TIMEOUT: Duration = Duration::from_secs(1);

/// Items of one turn that may be begun and not finished; more, or more than its mailbox could hold, are not closed at
/// its end.
const OPEN_ITEMS_MAX: usize = 1024;

#[derive(Debug)]
pub(crate) struct Turns {
    turns: HashMap<TurnKey, Turn>,
    /// The turn of ours that each thread is busy with.
    by_thread: HashMap<Box<str>, TurnKey>,
    /// What runs and is not ours.
    others: HashMap<Box<str>, Box<str>>,
    /// Those that were answered and have no name, and until when they may get one.
    unnamed: BTreeSet<(Instant, TurnKey)>,
    next: u64,
    mailbox_bytes_max: usize,
}

#[derive(Debug)]
struct Turn {
    thread: Box<str>,
    /// Known from what tells it first.
    id: Option<Box<str>>,
    naming: Naming,
    phase: Phase,
    mailbox: Mailbox<TurnEvent>,
    open_items: Vec<Item>,
    /// Whether the worker was told to stop it.
    is_interrupted: bool,
    /// Whether events had to be left out.
    is_cut: bool,
    has_reader: bool,
    starter: Option<Waker>,
    /// What listens for it, in the dialect that wants one.
    listener: Option<Box<str>>,
}

#[derive(Debug)]
enum Phase {
    Starting {
        is_answered: bool,
        /// Its first events can overtake the answer to the call that starts it.
        held: Vec<Placed>,
        held_bytes: usize,
    },
    Refused(Option<Outcome>),
    Running,
    Over,
}

/// Where a turn gets its name from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    /// From the answer to the call that starts it, as in v2; what comes before may be of an earlier turn.
    Answer,
    /// From its first event, as in v1.
    FirstEvent,
}

/// A thread does one thing at a time. The worker would take a second turn for more input to the first.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("thread {thread} is busy with turn {turn}: wait for its end, or steer it")]
pub struct Busy {
    /// The thread.
    pub thread: Box<str>,
    /// The turn that it is busy with.
    pub turn: Box<str>,
}

impl Turns {
    pub(crate) fn new(mailbox_bytes_max: usize) -> Self {
        Self {
            turns: HashMap::new(),
            by_thread: HashMap::new(),
            others: HashMap::new(),
            unnamed: BTreeSet::new(),
            next: 0,
            mailbox_bytes_max,
        }
    }

    /// A turn that is about to be started in a thread.
    pub(crate) fn begin(&mut self, thread: &str, naming: Naming) -> Result<TurnKey, Busy> {
        self.claim(thread)?;
        let phase = Phase::Starting { is_answered: false, held: Vec::new(), held_bytes: 0 };
        Ok(self.insert(Turn::new(thread, naming, phase, self.mailbox_bytes_max)))
    }

    /// A turn that runs already, and that somebody else has started.
    pub(crate) fn follow(&mut self, thread: &str, turn: &str) -> Result<TurnKey, Busy> {
        if self.others.get(thread).is_some_and(|running| **running == *turn) {
            self.others.remove(thread);
        }
        self.claim(thread)?;
        let followed = Turn::new(thread, Naming::Answer, Phase::Running, self.mailbox_bytes_max);
        Ok(self.insert(Turn { id: Some(turn.into()), ..followed }))
    }

    fn claim(&self, thread: &str) -> Result<(), Busy> {
        let ours = self.by_thread.get(thread).and_then(|key| self.turns.get(key));
        let ours = ours.map(|turn| turn.id.clone().unwrap_or_else(|| "that is being started".into()));
        match ours.or_else(|| self.others.get(thread).cloned()) {
            Some(turn) => Err(Busy { thread: thread.into(), turn }),
            None => Ok(()),
        }
    }

    fn insert(&mut self, turn: Turn) -> TurnKey {
        let key = TurnKey(self.next);
        self.next += 1;
        self.by_thread.insert(turn.thread.clone(), key);
        self.turns.insert(key, turn);
        key
    }

    /// The worker listens for this turn under that name, until it is told not to.
    pub(crate) fn listen(&mut self, key: TurnKey, listener: Box<str>) {
        if let Some(turn) = self.turns.get_mut(&key) {
            turn.listener = Some(listener);
        }
    }

    /// Whether somebody still wants the turn that is being started.
    pub(crate) fn is_wanted(&self, key: TurnKey) -> bool {
        self.turns.get(&key).is_some_and(|turn| turn.has_reader)
    }

    /// Whether the turn gets its name from its first event.
    pub(crate) fn is_named_later(&self, key: TurnKey) -> bool {
        self.turns.get(&key).is_some_and(|turn| turn.naming == Naming::FirstEvent)
    }

    /// The call that starts the turn was answered before its deadline, with a name or without.
    pub(crate) fn answered(
        &mut self,
        key: TurnKey,
        name: Option<Box<str>>,
        deadline: Instant,
        errands: &mut Vec<Errand>,
    ) {
        let Some(turn) = self.turns.get_mut(&key) else {
            return;
        };
        if let Phase::Starting { is_answered, .. } = &mut turn.phase {
            *is_answered = true;
            turn.id = turn.id.take().or(name);
            if turn.id.is_none() {
                self.unnamed.insert((deadline + NAME_TIMEOUT, key));
            }
        }
        self.run(key, errands);
    }

    /// The call that starts the turn came to nothing.
    pub(crate) fn refused(&mut self, key: TurnKey, outcome: Outcome, errands: &mut Vec<Errand>) {
        let Some(turn) = self.turns.get_mut(&key) else {
            return;
        };
        let phase = std::mem::replace(&mut turn.phase, Phase::Refused(Some(outcome)));
        self.by_thread.remove(&turn.thread);
        let listener = turn.listener.take();
        if let Some(starter) = turn.starter.take() {
            starter.wake();
        }
        if !turn.has_reader {
            self.turns.remove(&key);
        }
        match (listener, phase) {
            (Some(listener), _) => errands.push(Errand::Unlisten { listener }),
            // What the worker has begun all the same is heard of to its end.
            (None, Phase::Starting { held, .. }) => held.iter().for_each(|placed| self.remember_other(placed)),
            _ => {}
        }
    }

    pub(crate) fn first_deadline(&self) -> Option<Instant> {
        self.unnamed.first().map(|(until, _)| *until)
    }

    /// Gives up turns that should have told their name by now.
    pub(crate) fn handle_timeout(&mut self, now: Instant, errands: &mut Vec<Errand>) {
        while let Some((_, key)) = self.unnamed.first().copied().filter(|(until, _)| *until <= now) {
            self.unnamed.pop_first();
            if matches!(self.turns.get(&key), Some(Turn { phase: Phase::Starting { .. }, .. })) {
                self.refused(key, Outcome::TimedOut(Progress::Sent), errands);
            }
        }
    }

    /// The worker says how a thread stands: one that does nothing is not busy with a turn of others.
    pub(crate) fn handle_status(&mut self, thread: &str, status: &str) {
        if matches!(status, "idle" | "not_loaded" | "system_error") {
            self.others.remove(thread);
        }
    }

    /// The worker knows nothing of the turn: unless somebody still reads it, it is over.
    pub(crate) fn give_up_unread(&mut self, thread: &str, turn: &str, errands: &mut Vec<Errand>) {
        if let Some(&key) = self.by_thread.get(thread)
            && let Some(Turn { has_reader: false, id: Some(id), .. }) = self.turns.get(&key)
            && **id == *turn
        {
            self.post(key, TurnEvent::lost("the worker knows of no such turn"), errands);
        }
    }

    /// Hands an event to its turn; gives it back if it belongs to none of ours.
    pub(crate) fn handle(&mut self, placed: Placed, errands: &mut Vec<Errand>) -> Option<Placed> {
        let Some(&key) = self.by_thread.get(&placed.thread) else {
            self.remember_other(&placed);
            return Some(placed);
        };
        let turn = self.turns.get_mut(&key)?;
        match &mut turn.phase {
            Phase::Starting { held, held_bytes, .. } => {
                if turn.naming == Naming::FirstEvent && turn.id.is_none() && names_turn(&placed.event) {
                    turn.id.clone_from(&placed.turn);
                }
                let bytes = weight(&placed.event);
                if *held_bytes + bytes <= room(&placed.event, self.mailbox_bytes_max) {
                    *held_bytes += bytes;
                    held.push(placed);
                } else {
                    turn.is_cut = true;
                }
                self.run(key, errands);
                None
            }
            Phase::Running if placed.turn.is_some() && placed.turn != turn.id => Some(placed),
            Phase::Running => {
                self.post(key, placed.event, errands);
                None
            }
            Phase::Refused(_) | Phase::Over => Some(placed),
        }
    }

    pub(crate) fn poll_started(&mut self, key: TurnKey, context: &mut Context<'_>) -> Poll<Result<Box<str>, Outcome>> {
        let turn = self.turns.get_mut(&key).expect("a turn is kept while it has a reader");
        match &mut turn.phase {
            Phase::Running | Phase::Over => Poll::Ready(Ok(turn.id.clone().unwrap_or_default())),
            Phase::Refused(outcome) => Poll::Ready(Err(outcome.take().expect("a refusal is taken once"))),
            Phase::Starting { .. } => {
                turn.starter = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    pub(crate) fn poll_event(&mut self, key: TurnKey, context: &mut Context<'_>) -> Poll<Option<TurnEvent>> {
        match self.turns.get_mut(&key) {
            Some(turn) => turn.mailbox.poll_take(context),
            None => Poll::Ready(None),
        }
    }

    /// Nobody reads the turn any more: it is stopped, and its end still waited for.
    pub(crate) fn abandon(&mut self, key: TurnKey, errands: &mut Vec<Errand>) {
        let Some(turn) = self.turns.get_mut(&key) else {
            return;
        };
        turn.has_reader = false;
        turn.mailbox = Mailbox::new(0);
        turn.open_items = Vec::new();
        match turn.phase {
            Phase::Refused(_) | Phase::Over => {
                self.turns.remove(&key);
            }
            Phase::Starting { .. } => {}
            Phase::Running => errands.extend(turn.interrupt()),
        }
    }

    /// Asks for the turn to be stopped.
    pub(crate) fn interrupt(&mut self, key: TurnKey) -> Option<Errand> {
        self.turns.get_mut(&key)?.interrupt()
    }

    /// The connection is over, and every turn with it.
    pub(crate) fn lose_all(&mut self, reason: &str) {
        let mut errands = Vec::new();
        let mut keys: Vec<TurnKey> = self.by_thread.values().copied().collect();
        keys.sort_unstable();
        for key in keys {
            self.post(key, TurnEvent::lost(reason), &mut errands);
        }
        self.others.clear();
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty() && self.by_thread.is_empty()
    }

    /// The turn runs as soon as it is answered and has a name.
    fn run(&mut self, key: TurnKey, errands: &mut Vec<Errand>) {
        let Some(turn) = self.turns.get_mut(&key) else {
            return;
        };
        let (Phase::Starting { is_answered: true, held, .. }, Some(id)) = (&mut turn.phase, turn.id.clone()) else {
            return;
        };
        let held = std::mem::take(held);
        turn.phase = Phase::Running;
        if let Some(starter) = turn.starter.take() {
            starter.wake();
        }
        if !turn.has_reader || turn.is_cut {
            errands.extend(turn.interrupt());
        }
        for placed in held {
            if placed.turn.is_none_or(|turn| turn == id) {
                self.post(key, placed.event, errands);
            }
        }
    }

    fn post(&mut self, key: TurnKey, event: TurnEvent, errands: &mut Vec<Errand>) {
        let Some(turn) = self.turns.get_mut(&key).filter(|turn| !matches!(turn.phase, Phase::Over)) else {
            return;
        };
        turn.remember_item(&event);
        let TurnEvent::TurnEnded { status, error } = event else {
            if turn.has_reader && turn.mailbox.post(event) == Posted::LeftOut {
                turn.is_cut = true;
                errands.extend(turn.interrupt());
            }
            return;
        };
        turn.close_items(status);
        let error = if turn.is_cut { Some(slow_consumer()) } else { error };
        turn.mailbox.finish_with(TurnEvent::TurnEnded { status, error });
        errands.extend(turn.listener.take().map(|listener| Errand::Unlisten { listener }));
        turn.phase = Phase::Over;
        errands.extend(turn.id.clone().map(|id| Errand::Settle { thread: turn.thread.clone(), turn: id }));
        self.by_thread.remove(&turn.thread);
        if let Some(starter) = turn.starter.take() {
            starter.wake();
        }
        if !turn.has_reader {
            self.turns.remove(&key);
        }
    }

    fn remember_other(&mut self, placed: &Placed) {
        match &placed.event {
            TurnEvent::TurnStarted { turn, .. }
                if self.others.len() < OTHERS_MAX && placed.thread.len() + turn.len() <= NAME_BYTES_MAX =>
            {
                self.others.insert(placed.thread.clone(), turn.clone());
            }
            TurnEvent::TurnEnded { .. } => {
                let known = self.others.get(&placed.thread);
                if known.is_some() && (placed.turn.is_none() || known == placed.turn.as_ref()) {
                    self.others.remove(&placed.thread);
                }
            }
            _ => {}
        }
    }
}

impl Turn {
    fn new(thread: &str, naming: Naming, phase: Phase, mailbox_bytes_max: usize) -> Self {
        Self {
            thread: thread.into(),
            id: None,
            naming,
            phase,
            mailbox: Mailbox::new(mailbox_bytes_max),
            open_items: Vec::new(),
            is_interrupted: false,
            is_cut: false,
            has_reader: true,
            starter: None,
            listener: None,
        }
    }

    fn interrupt(&mut self) -> Option<Errand> {
        let (Phase::Running, Some(id)) = (&self.phase, &self.id) else {
            return None;
        };
        // Once is enough, and the real worker never answers a second one.
        let is_first = !std::mem::replace(&mut self.is_interrupted, true);
        is_first.then(|| Errand::Interrupt { thread: self.thread.clone(), turn: id.clone() })
    }

    fn remember_item(&mut self, event: &TurnEvent) {
        match event {
            TurnEvent::ItemStarted { item } if self.has_reader && self.has_room_for(item) => {
                self.open_items.push(item.clone());
            }
            TurnEvent::ItemCompleted { item } => self.open_items.retain(|open| open.id != item.id),
            _ => {}
        }
    }

    fn has_room_for(&self, item: &Item) -> bool {
        let open_bytes: usize = self.open_items.iter().map(|open| open.raw.get().len()).sum();
        self.open_items.len() < OPEN_ITEMS_MAX && open_bytes + item.raw.get().len() <= self.mailbox.bytes_max()
    }

    /// A worker does not complete what an interrupt, a steer or its own death has cut off.
    fn close_items(&mut self, status: TurnStatus) {
        let word = if status == TurnStatus::Lost { "lost" } else { "interrupted" };
        for item in std::mem::take(&mut self.open_items) {
            let item = Item { status: Some(word.into()), ..item };
            self.mailbox.post(TurnEvent::ItemCompleted { item });
        }
    }
}

/// A turn that is stopped in the instant of its start may end without having begun.
fn names_turn(event: &TurnEvent) -> bool {
    matches!(event, TurnEvent::TurnStarted { .. } | TurnEvent::TurnEnded { .. })
}

fn slow_consumer() -> TurnError {
    TurnError {
        message: "the reader was too slow: events were left out and the turn was interrupted".into(),
        kind: Some("slow_consumer".into()),
        http_status: None,
        details: None,
    }
}
