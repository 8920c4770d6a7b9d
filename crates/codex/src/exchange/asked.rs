//! What the worker asks and waits for: each request is answered exactly once, by whoever decides, or declined when its
//! deadline passes, when nobody can decide, or when its turn is over.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use serde_json::Value;
use wire::{Json, RequestId};

use crate::event::{Placed, command_in};
use crate::requests::{self, RequestKind};
use crate::waits::bounded;

/// A request of the worker that waits for a decision.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Names it when it is answered.
    pub id: RequestId,
    /// What is to be decided.
    pub kind: RequestKind,
    /// The worker's method.
    pub method: Box<str>,
    /// The thread that waits.
    pub thread: Option<Box<str>>,
    /// The turn that waits.
    pub turn: Option<Box<str>>,
    /// The request as it came.
    pub params: Json,
    /// When it is declined.
    pub deadline: Instant,
}

/// How long a decision may take.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// A person, a rule or a callback that decides.
    pub decision_timeout: Duration,
    /// The caller whose tool is called: it may have to be asked over a connection that comes and goes.
    pub tool_call_timeout: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { decision_timeout: Duration::from_secs(10 * 60), tool_call_timeout: Duration::from_secs(60 * 60) }
    }
}

/// What all open requests together may weigh; the next one is refused.
const OPEN_BYTES_MAX: usize = 64 << 20;

#[derive(Debug, Default)]
pub(crate) struct OpenRequests {
    open: HashMap<RequestId, Asked>,
    /// How many of them each thread has.
    threads: HashMap<Box<str>, usize>,
    bytes: usize,
    /// Those that nobody has looked at.
    fresh: VecDeque<RequestId>,
    /// Those that wait for whoever reads the stream of requests.
    waiting: VecDeque<RequestId>,
    has_reader: bool,
    /// Somebody is about to read the stream: what comes before waits for them.
    expects_reader: bool,
    reader: Option<Waker>,
    /// Callbacks that are at work, to be told when theirs needs no decision any more.
    deciders: HashMap<RequestId, Waker>,
    is_finished: bool,
}

impl OpenRequests {
    /// A request that somebody has to decide; `None` if there is no room for it.
    pub(crate) fn open(&mut self, asked: Asked) -> Option<()> {
        let bytes = asked.bytes();
        if self.bytes + bytes > OPEN_BYTES_MAX {
            return None;
        }
        self.bytes += bytes;
        self.fresh.push_back(asked.id.clone());
        if let Some(thread) = &asked.thread {
            *self.threads.entry(thread.clone()).or_default() += 1;
        }
        if let Some(earlier) = self.open.insert(asked.id.clone(), asked) {
            self.uncount(&earlier);
        }
        Some(())
    }

    /// The next request that nobody has looked at.
    pub(crate) fn next_fresh(&mut self) -> Option<Asked> {
        let id = self.fresh.pop_front()?;
        self.open.get(&id).cloned()
    }

    /// Leaves a request to the reader of the stream; `None` if there is none.
    pub(crate) fn leave_to_reader(&mut self, id: &RequestId) -> Option<()> {
        if !self.has_reader {
            return None;
        }
        self.waiting.push_back(id.clone());
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
        Some(())
    }

    /// Somebody reads the stream from now on; `None` if somebody does already.
    pub(crate) fn attach_reader(&mut self) -> Option<()> {
        let was_expected = std::mem::take(&mut self.expects_reader);
        (!std::mem::replace(&mut self.has_reader, true) || was_expected).then_some(())
    }

    /// Somebody will read the stream in a moment.
    pub(crate) fn expect_reader(&mut self) {
        self.has_reader = true;
        self.expects_reader = true;
    }

    /// Nobody reads the stream any more: what it never handed out is returned.
    pub(crate) fn detach_reader(&mut self) -> Vec<RequestId> {
        self.has_reader = false;
        self.waiting.drain(..).collect()
    }

    pub(crate) fn poll_waiting(&mut self, context: &mut Context<'_>) -> Poll<Option<Asked>> {
        if let Some(asked) = self.waiting.pop_front().and_then(|id| self.open.get(&id)) {
            return Poll::Ready(Some(asked.clone()));
        }
        if self.is_finished {
            return Poll::Ready(None);
        }
        self.reader = Some(context.waker().clone());
        Poll::Pending
    }

    /// Ready when the request needs no decision any more.
    pub(crate) fn poll_moot(&mut self, id: &RequestId, context: &mut Context<'_>) -> Poll<()> {
        if !self.open.contains_key(id) {
            return Poll::Ready(());
        }
        self.deciders.insert(id.clone(), context.waker().clone());
        Poll::Pending
    }

    pub(crate) fn all(&self) -> Vec<Asked> {
        self.open.values().cloned().collect()
    }

    pub(crate) fn is_waiting(&self, thread: &str) -> bool {
        self.threads.contains_key(thread)
    }

    pub(crate) fn get(&self, id: &RequestId) -> Option<&Asked> {
        self.open.get(id)
    }

    fn uncount(&mut self, asked: &Asked) {
        self.bytes -= asked.bytes();
        if let Some(thread) = &asked.thread
            && let Entry::Occupied(mut count) = self.threads.entry(thread.clone())
        {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// It is answered, or needs no answer any more.
    pub(crate) fn close(&mut self, id: &RequestId) -> Option<Asked> {
        let asked = self.open.remove(id)?;
        self.uncount(&asked);
        self.fresh.retain(|fresh| fresh != id);
        self.waiting.retain(|waiting| waiting != id);
        if let Some(decider) = self.deciders.remove(id) {
            decider.wake();
        }
        Some(asked)
    }

    /// The request of a thread that the worker has numbered so.
    pub(crate) fn numbered(&self, thread: &str, raw: &str) -> Option<RequestId> {
        let is_it = |asked: &&Asked| asked.id.as_raw() == raw && asked.thread.as_deref() == Some(thread);
        self.open.values().find(is_it).map(|asked| asked.id.clone())
    }

    pub(crate) fn of_turn(&self, thread: &str, turn: &str) -> Vec<RequestId> {
        let is_its = |asked: &&Asked| {
            asked.thread.as_deref() == Some(thread) && asked.turn.as_deref().is_none_or(|its| its == turn)
        };
        self.open.values().filter(is_its).map(|asked| asked.id.clone()).collect()
    }

    pub(crate) fn first_deadline(&self) -> Option<Instant> {
        self.open.values().map(|asked| asked.deadline).min()
    }

    pub(crate) fn overdue(&self, now: Instant) -> Vec<RequestId> {
        let overdue = self.open.values().filter(|asked| asked.deadline <= now);
        overdue.map(|asked| asked.id.clone()).collect()
    }

    /// The connection is over: nothing waits any more.
    pub(crate) fn finish(&mut self) {
        self.open.clear();
        self.threads.clear();
        self.bytes = 0;
        self.fresh.clear();
        self.waiting.clear();
        self.is_finished = true;
        self.deciders.drain().for_each(|(_, decider)| decider.wake());
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

impl Asked {
    pub(crate) fn new(request: wire::Request, place: Option<&Placed>, patience: Patience, now: Instant) -> Self {
        let kind = RequestKind::of(&request.method);
        let limit = if kind == RequestKind::ToolCall { patience.tool_call_timeout } else { patience.decision_timeout };
        Self {
            id: request.id,
            kind,
            method: request.method,
            thread: place.map(|place| place.thread.clone()),
            turn: place.and_then(|place| place.turn.clone()),
            params: request.params.unwrap_or_else(requests::nothing),
            deadline: now + bounded(limit),
        }
    }

    fn bytes(&self) -> usize {
        self.params.get().len() + self.method.len() + self.id.as_raw().len()
    }

    /// The command that is asked about, in either dialect; its words are put together where the worker tells them apart.
    #[must_use]
    pub fn command(&self) -> Option<String> {
        command_in(&self.params)
    }

    /// Where the command would run.
    #[must_use]
    pub fn cwd(&self) -> Option<String> {
        self.text("cwd")
    }

    /// Why the agent wants it, where it says so.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        self.text("reason")
    }

    fn text(&self, field: &str) -> Option<String> {
        let params: Value = self.params.parse().ok()?;
        params[field].as_str().map(str::to_owned)
    }

    /// Types the parameters.
    ///
    /// # Errors
    /// They are not of that shape, or the request is another one.
    pub fn typed<R: crate::protocol::Request>(&self) -> Result<R::Params, serde_json::Error> {
        if *self.method != *R::METHOD {
            return Err(serde::de::Error::custom(format!("this is {}, not {}", self.method, R::METHOD)));
        }
        serde_json::from_str(self.params.get())
    }
}
