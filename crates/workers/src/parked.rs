//! Turns that wait for somebody who is not connected, and the calls of callers' tools that wait for a result. Waiting
//! costs no task and no time: whoever answers sets a turn going again.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::permit::PermitChange;
use crate::plan::Caller;
use crate::running::Running;
use crate::shared::Shared;
use crate::turn::Turn;

/// One key may have `parked_max` divided by this, and at least one; beyond it its longest waiting turn is cancelled.
const PARKED_KEY_SHARE_DIVISOR: usize = 4;

/// How much may be asked of a turn that runs on without a reader before it is heard.
const ASKS_MAX: usize = 4;

/// How often a turn is looked for that begins to wait, or goes on, whenever it is asked for.
const CLAIMS_MAX: usize = 8;

#[derive(Default)]
pub(crate) struct Parked {
    turns: HashMap<Arc<str>, ParkedTurn>,
    /// How many turns have been parked so far.
    parked_count: u64,
    /// Those that run on without a reader.
    going: HashMap<Arc<str>, Going>,
    /// By the model's ids, which are only as different as the model makes them.
    calls: HashMap<Box<str>, Vec<Call>>,
}

struct ParkedTurn {
    running: Running,
    /// How many were parked before it.
    order: u64,
}

/// A turn that runs on without a reader, and how to become one.
struct Going {
    key: Arc<str>,
    asks: mpsc::Sender<Ask>,
}

/// What is asked of a turn that runs on without a reader.
pub(crate) enum Ask {
    /// To be read by this one.
    Read(oneshot::Sender<Turn>),
    /// To leave no thread behind.
    LeaveNothing,
    /// To be given up.
    Cancel,
}

/// What was asked of a turn on its way to a reader or to a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Nothing against it.
    GoesOn,
    /// That it be given up.
    Cancelled,
}

pub(crate) type Asks = mpsc::Receiver<Ask>;

/// A call of a caller's tool that waits for its result.
pub(crate) struct Call {
    pub(crate) key: Box<str>,
    pub(crate) thread: Box<str>,
    pub(crate) turn: Box<str>,
    pub(crate) answer: oneshot::Sender<ToolResult>,
    /// Its place among all that its worker has asked: calls of one message may come on record in another order.
    pub(crate) place: u64,
}

/// The result of a caller's tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult {
    /// What the model is shown, as content items of the worker's protocol.
    pub content: Vec<Value>,
    /// Whether the tool did what it was asked.
    pub success: bool,
}

impl ToolResult {
    /// A result that is text.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self { content: vec![json!({"type": "inputText", "text": text})], success: true }
    }

    /// A failure, and why.
    #[must_use]
    pub fn failure(reason: &str) -> Self {
        Self { success: false, ..Self::text(reason) }
    }
}

/// No call of that id waits for this caller's result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no tool call {0:?} of yours waits for a result: it was answered, it expired, or its turn is over")]
pub struct NoSuchCall(pub Box<str>);

impl Parked {
    pub(crate) fn expect(&mut self, call: &str, waiting: Call) {
        self.calls.entry(call.into()).or_default().push(waiting);
    }

    pub(crate) fn set_going(&mut self, running: &Running) -> Asks {
        let (asks, asked) = mpsc::channel(ASKS_MAX);
        self.going.insert(Arc::clone(&running.at.turn), Going { key: Arc::clone(&running.at.key), asks });
        asked
    }

    /// A turn runs on without a reader no more.
    pub(crate) fn stopped(&mut self, turn: &str) {
        self.going.remove(turn);
    }

    /// The same, with what was asked of it and not heard yet. Who asked to read it looks for it anew.
    pub(crate) fn stop(&mut self, running: &mut Running, asks: &mut Asks) -> Heard {
        self.stopped(&running.at.turn);
        let mut heard = Heard::GoesOn;
        while let Ok(ask) = asks.try_recv() {
            match ask {
                Ask::Read(_) => {}
                Ask::LeaveNothing => running.leave_nothing(),
                Ask::Cancel => heard = Heard::Cancelled,
            }
        }
        heard
    }

    /// Lets a turn wait; the turn that has to give way for it, if there are too many.
    fn keep(&mut self, running: Running, turns_max: usize) -> Option<Running> {
        self.stopped(&running.at.turn);
        running.suspend_permit();
        let (turn, key) = (Arc::clone(&running.at.turn), Arc::clone(&running.at.key));
        self.turns.insert(turn, ParkedTurn { running, order: self.parked_count });
        self.parked_count += 1;
        let key_turns = self.turns.values().filter(|parked| parked.running.at.key == key).count();
        if key_turns > (turns_max / PARKED_KEY_SHARE_DIVISOR).max(1) {
            return self.take_longest_waiting_of(&key);
        }
        if self.turns.len() > turns_max { self.take_longest_waiting_of_the_busiest() } else { None }
    }

    /// Takes out a turn that waits, if it is within the caller's reach.
    fn take(&mut self, turn: &str, caller: &Caller) -> Option<Running> {
        self.turns.get(turn).filter(|parked| caller.reaches(&parked.running.at.key))?;
        self.turns.remove(turn).map(|parked| parked.running)
    }

    /// Leaves no thread behind a turn that nobody reads; whether it is one.
    pub(crate) fn leave_nothing(&mut self, turn: &str) -> bool {
        if let Some(parked) = self.turns.get_mut(turn) {
            parked.running.leave_nothing();
            return true;
        }
        self.going.get(turn).is_some_and(|going| going.asks.try_send(Ask::LeaveNothing).is_ok())
    }

    fn take_longest_waiting_of_the_busiest(&mut self) -> Option<Running> {
        let mut keys: HashMap<&Arc<str>, usize> = HashMap::new();
        for parked in self.turns.values() {
            *keys.entry(&parked.running.at.key).or_default() += 1;
        }
        let busiest = keys.into_iter().max_by_key(|(_, turns)| *turns).map(|(key, _)| Arc::clone(key))?;
        self.take_longest_waiting_of(&busiest)
    }

    fn take_longest_waiting_of(&mut self, key: &str) -> Option<Running> {
        let of_key = self.turns.iter().filter(|(_, parked)| *parked.running.at.key == *key);
        let turn = of_key.min_by_key(|(_, parked)| parked.order).map(|(turn, _)| Arc::clone(turn))?;
        self.turns.remove(&turn).map(|parked| parked.running)
    }

    /// The calls that a turn waits for, in the order in which the worker has asked for them.
    pub(crate) fn of_turn(&self, turn: &str) -> Vec<Box<str>> {
        let calls = self.calls.iter().flat_map(|(id, calls)| calls.iter().map(move |call| (id, call)));
        let mut found: Vec<_> =
            calls.filter(|(_, call)| *call.turn == *turn).map(|(id, call)| (call.place, id.clone())).collect();
        found.sort_unstable();
        found.into_iter().map(|(_, id)| id).collect()
    }

    /// Nobody waits any more for the result of a call.
    pub(crate) fn forget(&mut self, call: &str, thread: &str) {
        if let Some(calls) = self.calls.get_mut(call) {
            calls.retain(|waiting| *waiting.thread != *thread);
            if calls.is_empty() {
                self.calls.remove(call);
            }
        }
    }

    pub(crate) fn is_expected(&self, call: &str, thread: &str) -> bool {
        self.calls.get(call).is_some_and(|calls| calls.iter().any(|waiting| *waiting.thread == *thread))
    }

    /// The newest call of that id that is within the caller's reach.
    fn call(&self, call: &str, caller: &Caller) -> Option<&Call> {
        self.calls.get(call)?.iter().rev().find(|waiting| caller.reaches(&waiting.key))
    }

    fn take_call(&mut self, call: &str, is_meant: impl Fn(&Call) -> bool) -> Option<Call> {
        let calls = self.calls.get_mut(call)?;
        let at = calls.iter().rposition(is_meant)?;
        let taken = calls.remove(at);
        if calls.is_empty() {
            self.calls.remove(call);
        }
        Some(taken)
    }
}

impl Shared {
    /// Gives a call of that turn its result.
    pub(crate) fn answer_call_of(&self, turn: &str, call: &str, result: ToolResult) -> Result<(), NoSuchCall> {
        let taken = self.parked().take_call(call, |waiting| *waiting.turn == *turn);
        let is_taken = taken.is_some_and(|waiting| waiting.answer.send(result).is_ok());
        if is_taken { Ok(()) } else { Err(NoSuchCall(call.into())) }
    }

    /// Gives up every turn of a key that nobody reads.
    pub(crate) fn cancel_unread(self: &Arc<Self>, key: &str) {
        let of_key: Vec<_> = {
            let mut parked = self.parked();
            // One of which so much is asked that it cannot hear this runs on to its end.
            let going = parked.going.values().filter(|going| *going.key == *key);
            going.for_each(|going| _ = going.asks.try_send(Ask::Cancel));
            let turns = parked.turns.extract_if(|_, parked| *parked.running.at.key == *key);
            turns.map(|(_, parked)| parked.running).collect()
        };
        of_key.into_iter().for_each(|running| self.close(running));
    }

    /// Lets a turn wait without its caller.
    pub(crate) fn park(self: &Arc<Self>, running: Running) {
        // One whose worker goes on without us is found again with it, and may have been already.
        if running.lives_on() {
            return;
        }
        let turn = Arc::clone(&running.at.turn);
        let surplus = self.parked().keep(running, self.limits().parked_max);
        self.parked_one(&turn, surplus);
    }

    /// Lets a turn that ran on without a reader wait.
    pub(crate) fn settle(self: &Arc<Self>, mut running: Running, mut asks: Asks) {
        let turn = Arc::clone(&running.at.turn);
        let surplus = {
            let mut parked = self.parked();
            match parked.stop(&mut running, &mut asks) {
                Heard::Cancelled => Some(running),
                Heard::GoesOn => parked.keep(running, self.limits().parked_max),
            }
        };
        self.parked_one(&turn, surplus);
    }

    fn parked_one(self: &Arc<Self>, turn: &str, surplus: Option<Running>) {
        surplus.into_iter().for_each(|running| self.close(running));
        // The answer may have come just before.
        self.wake(turn, PermitChange::Resume);
    }

    /// Lets a turn go on without its caller.
    pub(crate) fn leave(self: &Arc<Self>, running: Running) {
        if running.is_waiting() || running.lives_on() {
            return self.park(running);
        }
        let asks = self.parked().set_going(&running);
        self.run_on(running, asks);
    }

    /// Sets a parked turn going again, if it has all its answers; interrupts it, if its permit is refused.
    pub(crate) fn wake(self: &Arc<Self>, turn: &str, change: PermitChange) {
        let mut parked = self.parked();
        if parked.turns.get(turn).is_none_or(|parked| parked.running.is_waiting()) {
            return;
        }
        let Some(ParkedTurn { mut running, .. }) = parked.turns.remove(turn) else { return };
        // One whose worker goes on without us is found again with it.
        let asks = (!running.lives_on()).then(|| parked.set_going(&running));
        drop(parked);
        let Some(mut asks) = asks else { return };
        if running.resume_permit(change).is_ok() {
            return self.run_on(running, asks);
        }
        // It is given up, whatever was asked of it meanwhile.
        self.parked().stop(&mut running, &mut asks);
        tracing::info!(turn, key = %running.at.key, reason = "a limit of its key is reached", "turn interrupted");
        self.close(running);
    }

    /// Everything that waits on a worker waits in vain: it is gone.
    pub(crate) fn wake_all(self: &Arc<Self>) {
        let turns: Vec<_> = self.parked().turns.keys().cloned().collect();
        turns.iter().for_each(|turn| self.wake(turn, PermitChange::Resume));
    }

    /// Takes a parked turn out, for a caller who reads it again.
    pub(crate) fn claim(&self, turn: &str, caller: &Caller) -> Option<Running> {
        self.parked().take(turn, caller)
    }

    /// Takes a turn out that nobody reads, whether it waits or runs on.
    pub(crate) async fn claim_unread(self: &Arc<Self>, turn: &str, caller: &Caller) -> Option<Turn> {
        for _ in 0..CLAIMS_MAX {
            let asks = {
                let mut parked = self.parked();
                if let Some(running) = parked.take(turn, caller) {
                    drop(parked);
                    return Some(Turn::new(running, Arc::clone(self)));
                }
                parked.going.get(turn).filter(|going| caller.reaches(&going.key))?.asks.clone()
            };
            let (reader, read) = oneshot::channel();
            asks.send(Ask::Read(reader)).await.ok();
            drop(asks);
            if let Ok(turn) = read.await {
                return Some(turn);
            }
            // It has come to wait for somebody just then, or to its end.
        }
        None
    }

    /// Takes the parked turn out that waits for the result of a call.
    pub(crate) fn claim_by_call(&self, call: &str, caller: &Caller) -> Option<Running> {
        let turn = self.parked().call(call, caller)?.turn.clone();
        self.claim(&turn, caller)
    }

    /// Gives a call its result.
    pub(crate) fn answer_call(&self, call: &str, caller: &Caller, result: ToolResult) -> Result<(), NoSuchCall> {
        let taken = self.parked().take_call(call, |waiting| caller.reaches(&waiting.key));
        let is_taken = taken.is_some_and(|waiting| {
            self.spend_tip(&waiting.thread);
            waiting.answer.send(result).is_ok()
        });
        if is_taken { Ok(()) } else { Err(NoSuchCall(call.into())) }
    }

    /// Lets go of everything that waits or runs: nobody is left to see to it. No worker is told anything: one that
    /// outlives us goes on as it was.
    pub(crate) fn abandon(&self) {
        for post in &self.posts {
            post.link().inspect(|link| link.client.cut());
            post.set_link(None);
        }
        let Parked { turns, calls, .. } = std::mem::take(&mut *self.parked());
        drop((turns, calls));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_answered_in_the_order_they_were_asked_in_whichever_is_on_record_first() {
        let mut parked = Parked::default();
        for (id, turn, place) in [("b", "t", 2), ("c", "another", 3), ("a", "t", 1)] {
            let (answer, _) = oneshot::channel();
            parked.expect(id, Call { key: "k".into(), thread: "th".into(), turn: turn.into(), answer, place });
        }
        assert_eq!(parked.of_turn("t").iter().map(|id| &**id).collect::<Vec<_>>(), ["a", "b"]);
    }
}
