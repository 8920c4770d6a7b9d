//! The turns of one connection that somebody here has started or follows. A turn ends exactly once, and what it has
//! begun and not finished is closed before.

use std::collections::{BTreeSet, HashMap};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use wire::{Outcome, Progress};

use super::errands::Errand;
use super::items::Items;
use super::mailbox::{Mailbox, room, weight};
use super::turn::{Naming, Phase, Turn, may_begin, names_turn, slow_consumer};
use crate::event::{Item, Placed, TurnEvent};
use crate::v2::Delta;

/// Names a turn before the worker has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TurnKey(u64);

/// Turns of others that are known to run; more are not remembered.
const OTHERS_MAX: usize = 10_000;

/// A thread or a turn of others with a longer name is not remembered; the real worker's have 36 bytes.
const NAME_BYTES_MAX: usize = 256;

/// How long after the deadline of the call that starts it a turn may take to tell its name, where the answer does not.
const NAME_TIMEOUT: Duration = Duration::from_secs(1);

/// How long after the deadline of the call that starts it a turn can still begin. It would be nobody's, so it is waited
/// for and stopped.
const LATE_START_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a thread may be idle before a turn that has not told its end is over. The real worker says that the thread is
/// idle just before it says that the turn is over, and some versions have been seen to forget the latter.
const UNTOLD_END_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Turns {
    turns: HashMap<TurnKey, Turn>,
    /// The turn of ours that each thread is busy with.
    by_thread: HashMap<Box<str>, TurnKey>,
    /// What runs and is not ours.
    others: HashMap<Box<str>, Box<str>>,
    /// Those that were answered and have no name, and until when they may get one.
    unnamed: BTreeSet<(Instant, TurnKey)>,
    /// Those whose thread is idle though they have not ended, and until when they may.
    idle: BTreeSet<(Instant, TurnKey)>,
    next: u64,
    mailbox_bytes_max: usize,
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
            idle: BTreeSet::new(),
            next: 0,
            mailbox_bytes_max,
        }
    }

    /// A turn that is about to be started in a thread.
    pub(crate) fn begin(&mut self, thread: &str, naming: Naming) -> Result<TurnKey, Busy> {
        self.need_idle(thread)?;
        Ok(self.insert(Turn::new(thread, naming, Phase::starting(), self.mailbox_bytes_max)))
    }

    /// A turn that runs already, and that somebody else has started.
    pub(crate) fn follow(&mut self, thread: &str, turn: &str) -> Result<TurnKey, Busy> {
        self.others.remove(thread);
        self.need_idle(thread)?;
        let followed = Turn::new(thread, Naming::Answer, Phase::Running, self.mailbox_bytes_max);
        Ok(self.insert(Turn { id: Some(turn.into()), has_begun: true, ..followed }))
    }

    /// An item of a thread's turn that has begun and not ended.
    pub(crate) fn open_item(&self, thread: &str, item: &str) -> Option<&Item> {
        self.turns.get(self.by_thread.get(thread)?)?.items.open(item)
    }

    /// # Errors
    /// [`Busy`], if a turn of ours or of somebody else runs in the thread.
    pub(crate) fn need_idle(&self, thread: &str) -> Result<(), Busy> {
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

    /// The call that starts the turn came to nothing. If the worker may have begun it all the same, the thread stays busy
    /// for a while, and the turn is stopped as soon as it is heard of.
    pub(crate) fn refused(&mut self, key: TurnKey, outcome: Outcome, deadline: Instant, errands: &mut Vec<Errand>) {
        let Some(turn) = self.turns.get_mut(&key) else {
            return;
        };
        let may_begin = turn.has_reader && may_begin(&outcome);
        let phase = std::mem::replace(&mut turn.phase, Phase::Refused(Some(outcome)));
        let (thread, listener) = (turn.thread.clone(), turn.listener.take());
        turn.waiting.drain(..).for_each(Waker::wake);
        self.by_thread.remove(&thread);
        if let Some(starter) = turn.starter.take() {
            starter.wake();
        }
        if !turn.has_reader {
            self.turns.remove(&key);
        }
        if may_begin {
            let late = Turn::new(&thread, Naming::FirstEvent, Phase::starting(), 0);
            let late = self.insert(Turn { has_reader: false, listener, ..late });
            self.answered(late, None, deadline + LATE_START_TIMEOUT, errands);
            if let Phase::Starting { held, .. } = phase {
                held.into_iter().for_each(|placed| drop(self.handle(placed, errands)));
            }
        } else {
            errands.extend(listener.map(|listener| Errand::Unlisten { listener }));
        }
    }

    pub(crate) fn first_deadline(&self) -> Option<Instant> {
        self.unnamed.first().into_iter().chain(self.idle.first()).map(|(until, _)| *until).min()
    }

    /// Gives up turns that should have told their name, or their end, by now.
    pub(crate) fn handle_timeout(&mut self, now: Instant, errands: &mut Vec<Errand>) {
        while let Some(key) = pop_due(&mut self.unnamed, now) {
            if matches!(self.turns.get(&key), Some(Turn { phase: Phase::Starting { .. }, .. })) {
                self.refused(key, Outcome::TimedOut(Progress::Sent), now, errands);
            }
        }
        while let Some(key) = pop_due(&mut self.idle, now) {
            self.post(
                key,
                TurnEvent::lost("the thread is idle, and the worker has not told how the turn ended"),
                errands,
            );
        }
    }

    /// Ready when no turn of ours that nobody wants any more keeps the thread busy.
    pub(crate) fn poll_free(&mut self, thread: &str, context: &mut Context<'_>) -> Poll<()> {
        let busy = self.by_thread.get(thread).and_then(|key| self.turns.get_mut(key));
        match busy.filter(|turn| !turn.has_reader) {
            Some(turn) => {
                if !turn.waiting.iter().any(|waiting| waiting.will_wake(context.waker())) {
                    turn.waiting.push(context.waker().clone());
                }
                Poll::Pending
            }
            None => Poll::Ready(()),
        }
    }

    /// The worker says how a thread stands: one that does nothing is not busy with a turn.
    pub(crate) fn handle_status(&mut self, thread: &str, status: &str, now: Instant) {
        let is_idle = matches!(status, "idle" | "not_loaded" | "system_error");
        if is_idle {
            self.others.remove(thread);
        }
        if let Some(&key) = self.by_thread.get(thread)
            && matches!(self.turns.get(&key), Some(Turn { phase: Phase::Running, .. }))
        {
            self.idle.retain(|(_, idle)| *idle != key);
            if is_idle {
                self.idle.insert((now + UNTOLD_END_TIMEOUT, key));
            }
        }
    }

    /// The thread was loaded, and somebody else's turn runs in it.
    pub(crate) fn handle_busy(&mut self, thread: &str) {
        if !self.by_thread.contains_key(thread) && self.others.len() < OTHERS_MAX {
            self.others.entry(thread.into()).or_insert_with(|| "of somebody else".into());
        }
    }

    /// The worker knows nothing of the turn, or does not stop it: unless somebody still reads it, it is over.
    pub(crate) fn give_up_unread(&mut self, thread: &str, turn: &str, errands: &mut Vec<Errand>) {
        if let Some(&key) = self.by_thread.get(thread)
            && let Some(Turn { has_reader: false, id: Some(id), .. }) = self.turns.get(&key)
            && **id == *turn
        {
            self.post(key, TurnEvent::lost("the worker did not stop it"), errands);
        }
    }

    /// Hands a piece of text to its turn; gives it back if it belongs to none of ours.
    pub(crate) fn handle_delta(&mut self, delta: Delta<'_>, errands: &mut Vec<Errand>) -> Option<Placed> {
        if let Some(&key) = self.by_thread.get(&*delta.thread)
            && let Some(Turn { phase: Phase::Running, id: Some(id), has_begun: true, .. }) = self.turns.get(&key)
            && **id == *delta.turn
        {
            self.post(key, delta.event, errands);
            return None;
        }
        self.handle(delta.into(), errands)
    }

    /// Hands an event to its turn; gives it back if it belongs to none of ours.
    pub(crate) fn handle(&mut self, placed: Placed, errands: &mut Vec<Errand>) -> Option<Placed> {
        let Some(&key) = self.by_thread.get(&placed.thread) else {
            self.remember_other(&placed);
            return Some(placed);
        };
        let turn = self.turns.get_mut(&key)?;
        match &mut turn.phase {
            Phase::Starting { held, held_bytes, left_out, .. } => {
                if turn.naming == Naming::FirstEvent && turn.id.is_none() && names_turn(&placed.event) {
                    turn.id.clone_from(&placed.turn);
                }
                let bytes = weight(&placed.event);
                if *held_bytes + bytes <= room(&placed.event, self.mailbox_bytes_max) {
                    *held_bytes += bytes;
                    held.push(placed);
                } else {
                    left_out.0 += 1;
                    left_out.1 += bytes as u64;
                }
                self.run(key, errands);
                None
            }
            Phase::Running if placed.turn.is_some() && placed.turn != turn.id => Some(placed),
            Phase::Running => {
                // A warning of the thread says nothing of the turn.
                if placed.turn.is_some() {
                    errands.extend(turn.begin());
                }
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
        turn.items = Items::default();
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
        let (Phase::Starting { is_answered: true, held, left_out, .. }, Some(id)) = (&mut turn.phase, turn.id.clone())
        else {
            return;
        };
        let (held, left_out) = (std::mem::take(held), *left_out);
        turn.phase = Phase::Running;
        turn.is_cut = left_out.0 > 0;
        if let Some(starter) = turn.starter.take() {
            starter.wake();
        }
        if !turn.has_reader || turn.is_cut {
            errands.extend(turn.interrupt());
        }
        // First, since the last of what was held may be the end.
        turn.mailbox.leave_out(left_out);
        for placed in held {
            if placed.turn.as_ref().is_none_or(|turn| *turn == id) {
                self.handle(placed, errands);
            }
        }
    }

    fn post(&mut self, key: TurnKey, event: TurnEvent, errands: &mut Vec<Errand>) {
        let Some(turn) = self.turns.get_mut(&key).filter(|turn| !matches!(turn.phase, Phase::Over)) else {
            return;
        };
        let TurnEvent::TurnEnded { status, error } = event else {
            errands.extend(turn.tell(event));
            return;
        };
        turn.waiting.drain(..).for_each(Waker::wake);
        for item in turn.items.close(status) {
            turn.mailbox.post(TurnEvent::ItemCompleted { item });
        }
        let error = error.or_else(|| turn.is_cut.then(slow_consumer));
        turn.mailbox.finish_with(TurnEvent::TurnEnded { status, error });
        errands.extend(turn.listener.take().map(|listener| Errand::Unlisten { listener }));
        turn.phase = Phase::Over;
        errands.extend(turn.id.clone().map(|id| Errand::Settle { thread: turn.thread.clone(), turn: id }));
        self.by_thread.remove(&turn.thread);
        self.idle.retain(|(_, idle)| *idle != key);
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

fn pop_due(waiting: &mut BTreeSet<(Instant, TurnKey)>, now: Instant) -> Option<TurnKey> {
    let (until, key) = waiting.first().copied()?;
    (until <= now).then(|| {
        waiting.pop_first();
        key
    })
}
