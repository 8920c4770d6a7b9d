//! Who runs where: the workers and their places, the threads that they have loaded, and the orders that wait. Pure: the
//! pool asks it under a lock, and acts on what it says.

mod pace;
mod queue;
mod slot;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use pace::Pace;
use queue::Queue;
pub(crate) use slot::{Slot, Standing};

use crate::refused::Refused;

/// A worker, by its place in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SlotId(pub(crate) usize);

/// A place that is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LeaseId(u64);

/// An order that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WaitId(u64);

pub(crate) struct Board {
    slots: Vec<Slot>,
    queue: Queue<WaitId>,
    queue_max: usize,
    waits: HashMap<WaitId, Wait>,
    leases: BTreeMap<LeaseId, Lease>,
    threads: HashMap<Box<str>, Residence>,
    /// Counts everything that needs an order: leases, waits, and when a thread was last used.
    ticks: u64,
    pace: Pace,
    is_draining: bool,
}

/// What an order needs to know of itself to find its place.
#[derive(Clone, Debug)]
pub(crate) struct Want {
    pub(crate) key: Box<str>,
    pub(crate) group: usize,
    pub(crate) thread: Option<Box<str>>,
    /// A thread that it needs the worker of.
    pub(crate) beside: Option<Box<str>>,
    pub(crate) decision_timeout: Option<Duration>,
}

struct Wait {
    want: Want,
    outcome: Option<Result<Place, Refused>>,
    waker: Option<Waker>,
}

/// A place for one turn.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) lease: LeaseId,
    pub(crate) slot: SlotId,
    /// Whether the thread is loaded there already.
    pub(crate) is_loaded: bool,
    /// Threads to be unloaded first; nobody else gets them until then.
    pub(crate) unload: Vec<Box<str>>,
}

/// A place that is taken, and by what.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) slot: SlotId,
    life: u64,
    pub(crate) key: Box<str>,
    pub(crate) thread: Option<Box<str>>,
    pub(crate) turn: Option<Box<str>>,
    pub(crate) decision_timeout: Option<Duration>,
    pub(crate) since: Instant,
    /// Requests of its turn that wait for an answer.
    waits: usize,
    unloading: Vec<Box<str>>,
}

impl Lease {
    /// Whether its turn waits for a person or a caller.
    pub(crate) fn is_parked(&self) -> bool {
        self.waits > 0
    }
}

/// Where a thread is.
struct Residence {
    slot: SlotId,
    /// Who uses it now.
    lease: Option<LeaseId>,
    is_loaded: bool,
    used: u64,
}

impl Board {
    pub(crate) fn new(slots: impl IntoIterator<Item = Slot>, queue_max: usize) -> Self {
        Self {
            slots: slots.into_iter().collect(),
            queue: Queue::default(),
            queue_max,
            waits: HashMap::new(),
            leases: BTreeMap::new(),
            threads: HashMap::new(),
            ticks: 0,
            pace: Pace::default(),
            is_draining: false,
        }
    }

    /// Takes an order in; [`Self::poll_place`] tells its place.
    pub(crate) fn order(&mut self, want: Want, now: Instant) -> Result<WaitId, Refused> {
        if self.is_draining {
            return Err(Refused::Draining);
        }
        if let Some(reason) = self.failure_of(want.group) {
            return Err(Refused::NotReady { reason });
        }
        let id = WaitId(self.tick());
        self.queue.push(&want.key, id);
        self.waits.insert(id, Wait { want, outcome: None, waker: None });
        self.assign(now);
        if self.queue.len() > self.queue_max {
            // Whoever waits most gives way: it may be the one who has just come.
            let last = self.queue.last_of_the_longest().expect("a full queue is not empty");
            let retry_after = self.retry_after();
            self.settle(last, Err(Refused::Busy { retry_after }));
        }
        Ok(id)
    }

    /// The place of an order, once there is one; the order is then forgotten.
    pub(crate) fn poll_place(&mut self, id: WaitId, context: &mut Context<'_>) -> Poll<Result<Place, Refused>> {
        let Some(wait) = self.waits.get_mut(&id) else {
            return Poll::Ready(Err(Refused::Draining));
        };
        match wait.outcome.take() {
            Some(outcome) => {
                self.waits.remove(&id);
                Poll::Ready(outcome)
            }
            None => {
                wait.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Forgets an order that nobody waits for any more; a place that it has got meanwhile is free again.
    pub(crate) fn cancel(&mut self, id: WaitId, now: Instant) {
        self.queue.remove(id);
        if let Some(Wait { outcome: Some(Ok(place)), .. }) = self.waits.remove(&id) {
            self.free(place.lease, now);
        }
    }

    /// The thread of a lease is loaded: from now on it is found there.
    pub(crate) fn loaded(&mut self, lease: LeaseId, thread: &str) {
        let Some(held) = self.leases.get_mut(&lease) else { return };
        held.thread = Some(thread.into());
        if self.slots[held.slot.0].life == held.life {
            let residence = Residence { slot: held.slot, lease: Some(lease), is_loaded: true, used: 0 };
            self.threads.insert(thread.into(), residence);
        }
    }

    /// The turn of a lease has a name.
    pub(crate) fn named(&mut self, lease: LeaseId, turn: &str) {
        if let Some(lease) = self.leases.get_mut(&lease) {
            lease.turn = Some(turn.into());
        }
    }

    /// The turn of a lease waits for one answer more; tells whether it had not waited before.
    pub(crate) fn park(&mut self, lease: LeaseId, now: Instant) -> bool {
        let Some(held) = self.leases.get_mut(&lease) else { return false };
        held.waits += 1;
        let slot = &mut self.slots[held.slot.0];
        let is_first = held.waits == 1;
        if is_first && slot.life == held.life {
            slot.turns -= 1;
            slot.parked += 1;
            self.assign(now);
        }
        is_first
    }

    /// The turn of a lease has one of its answers. It goes on, if need be above the number of places, unless it waits for
    /// more; tells whether it does.
    pub(crate) fn unpark(&mut self, lease: LeaseId) -> bool {
        let Some(held) = self.leases.get_mut(&lease).filter(|held| held.is_parked()) else { return false };
        let slot = &mut self.slots[held.slot.0];
        held.waits -= 1;
        let goes_on = !held.is_parked();
        if goes_on && slot.life == held.life {
            slot.turns += 1;
            slot.parked -= 1;
        }
        goes_on
    }

    /// A thread that a place asked to unload is unloaded.
    pub(crate) fn unloaded(&mut self, lease: LeaseId, thread: &str, now: Instant) {
        let Some(held) = self.leases.get_mut(&lease) else { return };
        let is_ours = held.unloading.iter().position(|unloading| **unloading == *thread);
        let Some(at) = is_ours else { return };
        held.unloading.swap_remove(at);
        if self.slots[held.slot.0].life == held.life {
            self.threads.remove(thread);
            self.slots[held.slot.0].threads -= 1;
            self.assign(now);
        }
    }

    /// A worker has unloaded a thread by itself.
    pub(crate) fn evicted(&mut self, thread: &str, now: Instant) {
        if let Some(residence) = self.threads.get(thread).filter(|residence| residence.lease.is_none()) {
            let slot = &mut self.slots[residence.slot.0];
            slot.idle.remove(&residence.used);
            slot.threads -= 1;
            self.threads.remove(thread);
            self.assign(now);
        }
    }

    /// Gives a place back, and to whom it falls next.
    pub(crate) fn free(&mut self, lease: LeaseId, now: Instant) {
        let Some(held) = self.leases.remove(&lease) else { return };
        self.pace.ended(now.saturating_duration_since(held.since));
        if self.slots[held.slot.0].life == held.life {
            let slot = &mut self.slots[held.slot.0];
            if held.is_parked() {
                slot.parked -= 1;
            } else {
                slot.turns -= 1;
            }
            match &held.thread {
                Some(thread) => self.leave(thread, lease),
                None => self.slots[held.slot.0].threads -= 1,
            }
            for thread in &held.unloading {
                self.leave(thread, lease);
            }
        }
        self.assign(now);
    }

    /// A worker takes turns from now on.
    pub(crate) fn ready(&mut self, slot: SlotId, now: Instant) {
        self.slots[slot.0].standing = Standing::Ready;
        self.assign(now);
    }

    /// The worker of a lease takes no more turns, if it still lives the life that the lease is of.
    pub(crate) fn retire(&mut self, lease: LeaseId) {
        let Some(held) = self.leases.get(&lease) else { return };
        let slot = &mut self.slots[held.slot.0];
        if slot.life == held.life {
            slot.standing = Standing::Retiring;
        }
    }

    /// A worker is gone, with everything that it had loaded.
    pub(crate) fn gone(&mut self, slot: SlotId, standing: Standing, now: Instant) {
        let gone = &mut self.slots[slot.0];
        gone.standing = standing;
        gone.life += 1;
        gone.turns = 0;
        gone.parked = 0;
        gone.threads = 0;
        gone.idle.clear();
        self.threads.retain(|_, residence| residence.slot != slot);
        self.refuse_the_hopeless();
        self.assign(now);
    }

    /// Takes a place for a turn that runs already on a worker that was found again.
    pub(crate) fn adopt(&mut self, slot: SlotId, want: &Want, now: Instant) -> LeaseId {
        let place = self.seat(want, slot, now);
        if let Some(thread) = &want.thread {
            self.loaded(place.lease, thread);
        }
        place.lease
    }

    /// No more orders: those that wait are refused.
    pub(crate) fn drain(&mut self) {
        self.is_draining = true;
        let waiting: Vec<WaitId> = self.waits.keys().copied().collect();
        waiting.into_iter().for_each(|id| self.settle(id, Err(Refused::Draining)));
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining
    }

    /// Who uses a thread now.
    pub(crate) fn lease_of(&self, thread: &str) -> Option<(LeaseId, &Lease)> {
        let id = self.threads.get(thread)?.lease?;
        Some((id, self.leases.get(&id)?))
    }

    /// The worker that has a thread.
    pub(crate) fn whereabouts(&self, thread: &str) -> Option<SlotId> {
        self.threads.get(thread).map(|residence| residence.slot)
    }

    pub(crate) fn leases(&self) -> impl Iterator<Item = &Lease> {
        self.leases.values()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn slot(&self, slot: SlotId) -> &Slot {
        &self.slots[slot.0]
    }

    /// When it may be worth while to order again.
    pub(crate) fn retry_after(&self) -> Duration {
        let places = self.slots.iter().filter(|slot| slot.standing == Standing::Ready).map(|slot| slot.turns_max);
        self.pace.retry_after(self.queue.len(), places.sum())
    }

    /// Gives every place that is free to whoever can use it.
    fn assign(&mut self, now: Instant) {
        loop {
            let Self { queue, waits, slots, threads, .. } = self;
            let mut found = None;
            let next = queue.take(|id| {
                found = placement(slots, threads, &waits[&id].want);
                found.is_some()
            });
            let (Some(id), Some(slot)) = (next, found) else { return };
            let want = self.waits[&id].want.clone();
            let place = self.seat(&want, slot, now);
            self.settle(id, Ok(place));
        }
    }

    fn seat(&mut self, want: &Want, at: SlotId, now: Instant) -> Place {
        let lease = LeaseId(self.tick());
        let slot = &mut self.slots[at.0];
        slot.turns += 1;
        let mut is_loaded = false;
        let mut is_new = true;
        if let Some(residence) = want.thread.as_deref().and_then(|thread| self.threads.get_mut(thread)) {
            slot.idle.remove(&residence.used);
            residence.lease = Some(lease);
            (is_loaded, is_new) = (residence.is_loaded, false);
        } else if let Some(thread) = &want.thread {
            let residence = Residence { slot: at, lease: Some(lease), is_loaded: false, used: 0 };
            self.threads.insert(thread.clone(), residence);
        }
        slot.threads += usize::from(is_new);
        let unload = slot.take_surplus();
        for thread in &unload {
            self.threads.get_mut(thread).expect("an idle thread is a resident").lease = Some(lease);
        }
        let held = Lease {
            slot: at,
            life: slot.life,
            key: want.key.clone(),
            thread: want.thread.clone(),
            turn: None,
            decision_timeout: want.decision_timeout,
            since: now,
            waits: 0,
            unloading: unload.clone(),
        };
        self.leases.insert(lease, held);
        Place { lease, slot: at, is_loaded, unload }
    }

    /// A thread is not used any more: it stays loaded, if it ever was.
    fn leave(&mut self, thread: &str, lease: LeaseId) {
        let used = self.tick();
        let Some(residence) = self.threads.get_mut(thread).filter(|residence| residence.lease == Some(lease)) else {
            return;
        };
        let slot = &mut self.slots[residence.slot.0];
        residence.lease = None;
        residence.used = used;
        if residence.is_loaded {
            slot.idle.insert(used, thread.into());
        } else {
            slot.threads -= 1;
            self.threads.remove(thread);
        }
    }

    /// Orders for a group whose workers have all failed would wait for minutes.
    fn refuse_the_hopeless(&mut self) {
        let hopeless = self.waits.iter().filter(|(_, wait)| wait.outcome.is_none());
        let hopeless: Vec<_> =
            hopeless.filter_map(|(id, wait)| Some((*id, self.failure_of(wait.want.group)?))).collect();
        for (id, reason) in hopeless {
            self.settle(id, Err(Refused::NotReady { reason }));
        }
    }

    fn settle(&mut self, id: WaitId, outcome: Result<Place, Refused>) {
        self.queue.remove(id);
        let Some(wait) = self.waits.get_mut(&id) else { return };
        if wait.outcome.is_none() {
            wait.outcome = Some(outcome);
            wait.waker.take().into_iter().for_each(Waker::wake);
        }
    }

    /// Why no worker of a group takes a turn for minutes, if that is so.
    fn failure_of(&self, group: usize) -> Option<Box<str>> {
        let mut failure = None;
        for slot in self.slots.iter().filter(|slot| slot.group == group) {
            match &slot.standing {
                Standing::Failed(reason) => failure = Some(reason.clone()),
                _ => return None,
            }
        }
        failure
    }

    fn tick(&mut self) -> u64 {
        self.ticks += 1;
        self.ticks
    }
}

/// The worker that has the thread, or the least loaded one.
fn placement(slots: &[Slot], threads: &HashMap<Box<str>, Residence>, want: &Want) -> Option<SlotId> {
    if let Some(residence) = want.thread.as_deref().and_then(|thread| threads.get(thread)) {
        let is_free = residence.lease.is_none() && slots[residence.slot.0].has_room();
        return is_free.then_some(residence.slot);
    }
    if let Some(residence) = want.beside.as_deref().and_then(|thread| threads.get(thread)) {
        return slots[residence.slot.0].has_room().then_some(residence.slot);
    }
    let of_group = slots.iter().enumerate().filter(|(_, slot)| slot.group == want.group && slot.has_room());
    of_group.min_by_key(|(_, slot)| slot.turns).map(|(at, _)| SlotId(at))
}
