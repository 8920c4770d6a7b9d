//! Turns that wait for somebody who is not connected, and the calls of callers' tools that wait for a result. Waiting
//! costs no task and no time: whoever answers sets a turn going again.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::plan::Caller;
use crate::running::Running;
use crate::shared::Shared;

#[derive(Default)]
pub(crate) struct Parked {
    turns: HashMap<Arc<str>, Running>,
    /// By the model's ids, which are only as different as the model makes them.
    calls: HashMap<Box<str>, Vec<Call>>,
}

/// A call of a caller's tool that waits for its result.
pub(crate) struct Call {
    pub(crate) key: Box<str>,
    pub(crate) thread: Box<str>,
    pub(crate) turn: Box<str>,
    pub(crate) answer: oneshot::Sender<ToolResult>,
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

    fn take_call(&mut self, call: &str, caller: &Caller) -> Option<Call> {
        let calls = self.calls.get_mut(call)?;
        let at = calls.iter().rposition(|waiting| caller.reaches(&waiting.key))?;
        let taken = calls.remove(at);
        if calls.is_empty() {
            self.calls.remove(call);
        }
        Some(taken)
    }
}

impl Shared {
    /// Lets a turn wait without its caller.
    pub(crate) fn park(self: &Arc<Self>, running: Running) {
        let turn = Arc::clone(&running.at.turn);
        self.parked().turns.insert(Arc::clone(&turn), running);
        // The answer may have come just before.
        self.wake(&turn);
    }

    /// Sets a parked turn going again, if it has all its answers.
    pub(crate) fn wake(self: &Arc<Self>, turn: &str) {
        let mut parked = self.parked();
        if parked.turns.get(turn).is_none_or(Running::is_waiting) {
            return;
        }
        let running = parked.turns.remove(turn);
        drop(parked);
        // One whose worker goes on without us is found again with it.
        let running = running.filter(|running| !running.lives_on());
        running.into_iter().for_each(|running| self.run_on(running));
    }

    /// Everything that waits on a worker waits in vain: it is gone.
    pub(crate) fn wake_all(self: &Arc<Self>) {
        let turns: Vec<_> = self.parked().turns.keys().cloned().collect();
        turns.iter().for_each(|turn| self.wake(turn));
    }

    /// Takes a parked turn out, for a caller who reads it again.
    pub(crate) fn claim(&self, turn: &str, caller: &Caller) -> Option<Running> {
        let mut parked = self.parked();
        parked.turns.get(turn).filter(|running| caller.reaches(&running.at.key))?;
        parked.turns.remove(turn)
    }

    /// Takes the parked turn out that waits for the result of a call.
    pub(crate) fn claim_by_call(&self, call: &str, caller: &Caller) -> Option<Running> {
        let turn = self.parked().call(call, caller)?.turn.clone();
        self.claim(&turn, caller)
    }

    /// Gives a call its result.
    pub(crate) fn answer_call(&self, call: &str, caller: &Caller, result: ToolResult) -> Result<(), NoSuchCall> {
        let taken = self.parked().take_call(call, caller);
        let is_taken = taken.is_some_and(|waiting| waiting.answer.send(result).is_ok());
        if is_taken { Ok(()) } else { Err(NoSuchCall(call.into())) }
    }

    /// Lets go of everything that waits or runs: nobody is left to see to it. No worker is told anything: one that
    /// outlives us goes on as it was.
    pub(crate) fn abandon(&self) {
        for post in &self.posts {
            post.link().inspect(|link| link.client.cut());
            post.set_link(None);
        }
        let Parked { turns, calls } = std::mem::take(&mut *self.parked());
        drop((turns, calls));
    }
}
