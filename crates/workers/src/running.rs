//! A turn that has its place: its events, and what is written down of it. It ends exactly once.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Instant, SystemTime};

use approvals::Stamp;
use codex::{CallError, Input, Thread, TurnError, TurnEvent, TurnStatus, Usage};
use futures_util::Stream as _;
use store::Change;

use crate::board::LeaseId;
use crate::meter::Meter;
use crate::notice::{At, Notice, UsageSource};
use crate::permit::{LimitReached, PermitChange, TurnPermit};
use crate::plan::Afterwards;
use crate::post::{Link, Persistence, Post};
use crate::provider::ProviderState;
use crate::shared::Shared;
use crate::view::unix_ms;

/// Items that change nothing, and whose end gives the model nothing: whatever else has begun may have had an effect.
pub(crate) const HARMLESS: [&str; 4] = ["user_message", "agent_message", "reasoning", "plan"];

/// How much of a moment in RFC 3339 is its day.
const DAY_CHARS: usize = "2000-01-01".len();

pub(crate) struct Running {
    turn: codex::Turn,
    pub(crate) at: At,
    pub(crate) post: Arc<Post>,
    pub(crate) link: Arc<Link>,
    record: Box<store::Thread>,
    meter: Meter,
    /// What it used that was not reported, once it has ended.
    estimated: Option<Usage>,
    /// How many items of each kind that may have had an effect have begun.
    begun: BTreeMap<Box<str>, u32>,
    has_ended: bool,
    afterwards: Afterwards,
    /// An event about a request that is not on record yet.
    pub(crate) held: Option<TurnEvent>,
    /// Let go before its place is.
    permit: TurnPermit,
    place: Held,
}

/// A place on a worker; given back when it is dropped.
pub(crate) struct Held {
    shared: Arc<Shared>,
    pub(crate) lease: LeaseId,
    /// The thread, once it is to be forgotten.
    forgotten: Option<Thread>,
}

impl Held {
    pub(crate) fn new(shared: &Arc<Shared>, lease: LeaseId) -> Self {
        Self { shared: Arc::clone(shared), lease, forgotten: None }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shared.board().free(self.lease, Instant::now());
        self.shared.freed.notify_waiters();
        // Only now: a thread in which a turn has its place is not let go of.
        if let Some(thread) = self.forgotten.take() {
            self.shared.unload(thread);
        }
    }
}

impl Running {
    pub(crate) fn new(
        turn: codex::Turn,
        post: Arc<Post>,
        link: Arc<Link>,
        record: store::Thread,
        afterwards: Afterwards,
        meter: Meter,
        place: Held,
    ) -> Self {
        let at = At {
            thread: turn.thread().into(),
            turn: turn.id().into(),
            worker: Arc::clone(&post.name),
            key: record.key.as_str().into(),
        };
        place.shared.board().named(place.lease, &at.turn);
        let record = Box::new(store::Thread { last_turn: Some(at.turn.to_string()), ..record });
        let running = Self {
            turn,
            at,
            post,
            link,
            record,
            meter,
            estimated: None,
            begun: BTreeMap::new(),
            has_ended: false,
            afterwards,
            held: None,
            permit: TurnPermit::default(),
            place,
        };
        running.write_down(store::TurnState::Running);
        running.tell(Notice::TurnStarted { at: running.at.clone() });
        running
    }

    /// The next event; `None` after the end.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<TurnEvent>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        let Poll::Ready(event) = Pin::new(&mut self.turn).poll_next(context) else {
            return Poll::Pending;
        };
        Poll::Ready(Some(match event {
            Some(TurnEvent::TurnEnded { status, error }) => self.end(status, without_stderr(status, error)),
            Some(event) => {
                self.see(&event);
                event
            }
            None => self.end(TurnStatus::Lost, None),
        }))
    }

    /// Reads on until the worker tells the end, also of a turn that was ended here before.
    pub(crate) async fn finish(&mut self) {
        loop {
            let (status, error) = match self.turn.next().await {
                Some(TurnEvent::TurnEnded { status, error }) => (status, without_stderr(status, error)),
                Some(event) => {
                    // What an ended turn has used is estimated, and counted.
                    if !self.has_ended {
                        self.see(&event);
                    }
                    continue;
                }
                None => (TurnStatus::Lost, None),
            };
            if !self.has_ended {
                self.end(status, error);
            }
            return;
        }
    }

    /// It runs by this permit from now on.
    pub(crate) fn set_permit(&mut self, permit: TurnPermit) {
        self.permit = permit;
    }

    pub(crate) fn suspend_permit(&self) {
        self.permit.change(PermitChange::Suspend).expect("a permit can always be suspended");
    }

    pub(crate) fn resume_permit(&self, change: PermitChange) -> Result<(), LimitReached> {
        self.permit.change(change)
    }

    /// What it is thought to have used beside what its worker has reported.
    pub(crate) fn estimated(&self) -> Option<Usage> {
        if self.has_ended { self.estimated } else { self.meter.unreported(TurnStatus::Interrupted) }
    }

    /// Its thread is forgotten when it is over.
    pub(crate) fn leave_nothing(&mut self) {
        self.afterwards = Afterwards::Goes;
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Whether it waits for a decision or for the result of a caller's tool.
    pub(crate) fn is_waiting(&self) -> bool {
        self.link.client.is_waiting(&self.at.thread)
    }

    pub(crate) fn interrupt(&self) {
        self.turn.interrupt();
    }

    pub(crate) fn steering(&self, input: &[Input]) -> impl Future<Output = Result<(), CallError>> + Send + use<> {
        self.turn.steering(input)
    }

    /// Its worker takes no more turns.
    pub(crate) fn retire_worker(&self) {
        self.place.shared.board().retire(self.place.lease);
    }

    /// Ends it here, whatever the worker says of it later.
    pub(crate) fn end(&mut self, status: TurnStatus, error: Option<TurnError>) -> TurnEvent {
        self.has_ended = true;
        if status == TurnStatus::Lost && self.lives_on() {
            // Its worker goes on with it, and whoever finds the worker again finds it.
            return TurnEvent::TurnEnded { status, error: Some(self.explained(error)) };
        }
        let error = if status == TurnStatus::Lost { Some(self.explained(error)) } else { error };
        self.record.unsaid = self.place.shared.words().take_json(&self.at.thread);
        self.record.history_hash = None;
        self.place.shared.tips().remove(&self.at.thread);
        match self.afterwards {
            Afterwards::Stays => self.write_down(store::TurnState::Ended),
            Afterwards::Goes => self.forget_thread(),
        }
        self.write_usage(&Usage::default(), UsageSource::Reported, 1);
        self.estimated = self.meter.unreported(status);
        if let Some(usage) = self.estimated {
            self.count(&usage, UsageSource::Estimated);
        }
        if let Some(state) = ProviderState::after_turn(status, error.as_ref()) {
            self.place.shared.set_provider_state(&self.post, state);
        }
        self.permit = TurnPermit::default();
        self.tell(Notice::TurnEnded { at: self.at.clone(), status, error: error.clone() });
        TurnEvent::TurnEnded { status, error }
    }

    /// Whether only the link to its worker is over, and not, as far as we know, the worker.
    pub(crate) fn lives_on(&self) -> bool {
        self.link.persistence == Persistence::BeyondLink && self.link.client.has_ended()
    }

    fn see(&mut self, event: &TurnEvent) {
        if let Some(usage) = self.meter.handle(event) {
            self.count(&usage, UsageSource::Reported);
        }
        match event {
            TurnEvent::ItemStarted { item } => {
                if !HARMLESS.contains(&&*item.kind) {
                    *self.begun.entry(item.kind.clone()).or_default() += 1;
                }
                self.tell(Notice::ItemStarted { at: self.at.clone(), item: item.clone() });
            }
            TurnEvent::ItemCompleted { item } => {
                self.tell(Notice::ItemCompleted { at: self.at.clone(), item: item.clone() });
            }
            _ => {}
        }
    }

    /// What a caller has to know of a turn that was lost: whether it may be run again without harm.
    fn explained(&self, error: Option<TurnError>) -> TurnError {
        let mut details = String::from("work may have run");
        for (at, (kind, count)) in self.begun.iter().enumerate() {
            let lead = if at == 0 { "; begun: " } else { ", " };
            write!(details, "{lead}{count} × {kind}").expect("a string can be written to");
        }
        let (kind, gone) = match self.post.is_stopping() {
            true => ("server_stopping", "the server stopped before the turn ended"),
            false => ("worker_lost", "the worker, or the connection to it, was gone before the turn ended"),
        };
        let message = error.map_or_else(|| gone.into(), |error| error.message);
        TurnError { message, kind: Some(kind.into()), http_status: None, details: Some(details.into()) }
    }

    fn write_down(&self, state: store::TurnState) {
        let used_at = unix_ms(SystemTime::now()).cast_signed();
        let record = store::Thread { last_turn_state: Some(state), used_at, ..(*self.record).clone() };
        if let Some(loaded) = self.link.threads().get_mut(&*self.at.thread) {
            loaded.record = record.clone();
        }
        self.place.shared.store.note(Change::Thread(record));
    }

    /// Nothing goes on from here; its worker is told once the place is free.
    fn forget_thread(&mut self) {
        let loaded = self.link.threads().remove(&*self.at.thread);
        self.place.forgotten = loaded.map(|loaded| loaded.thread);
        self.place.shared.store.note(Change::ThreadGone { id: self.at.thread.to_string() });
    }

    /// Tokens are written down as they are used: a turn may wait for long, or never end.
    fn count(&self, usage: &Usage, source: UsageSource) {
        self.write_usage(usage, source, 0);
        if let (Some(tokens), Some(loaded)) =
            (self.meter.context_tokens(), self.link.threads().get_mut(&*self.at.thread))
        {
            loaded.context_tokens = tokens;
        }
        self.tell(Notice::TokensUsed { at: self.at.clone(), usage: *usage, source });
    }

    fn write_usage(&self, usage: &Usage, source: UsageSource, turns: i64) {
        let tokens = usage.input_tokens.saturating_add(usage.output_tokens);
        let estimated = if source == UsageSource::Estimated { tokens } else { 0 };
        let added = store::UsageAdded {
            key: self.record.key.clone(),
            thread: self.record.id.clone(),
            day: Stamp::now().to_string().chars().take(DAY_CHARS).collect(),
            input: usage.input_tokens.cast_signed(),
            cached: usage.cached_input_tokens.cast_signed(),
            output: usage.output_tokens.cast_signed(),
            reasoning: usage.reasoning_output_tokens.cast_signed(),
            turns,
            estimated: estimated.cast_signed(),
        };
        self.place.shared.store.note(Change::Usage(added));
    }

    fn tell(&self, notice: Notice) {
        (self.place.shared.notify)(notice);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.link.register().forget(&self.at.thread);
    }
}

/// Why a connection was lost may quote the worker's stderr: operators find it with the state of the worker, and no caller does.
fn without_stderr(status: TurnStatus, error: Option<TurnError>) -> Option<TurnError> {
    error.filter(|_| status != TurnStatus::Lost)
}
