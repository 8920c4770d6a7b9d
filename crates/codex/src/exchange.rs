//! Everything that one connection to a worker decides, and no IO: calls and their outcomes, turns and their events,
//! requests and their answers. The connection's task feeds it bytes and time; handles take from it what is theirs.

mod asked;
mod errands;
mod items;
mod looks;
mod mailbox;
#[cfg(test)]
mod tests;
mod turn;
mod turns;

use std::collections::HashMap;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use wire::{CallId, Connection, Event, Json, JsonRpcField, NotOpen, Outcome, PeerError, Refused, Request, RequestId};

pub use asked::{Asked, Patience};
pub(crate) use turn::Naming;
pub use turns::Busy;
pub(crate) use turns::TurnKey;

use crate::dialect::{Line, Reader};
use crate::event::{ConnectionEvent, Placed, Told, TurnEvent};
use crate::requests;
use crate::tap::Tap;
use asked::OpenRequests;
use errands::{Attempt, Errand, Postponed};
use mailbox::Mailbox;
use turns::Turns;

/// What one connection may hold for its readers.
#[derive(Clone, Debug)]
pub struct Limits {
    /// What may wait for the reader of one turn; at the bound its turn is interrupted. Some thousand pages.
    pub turn_bytes_max: usize,
    /// What may wait for one reader of the connection's own events.
    pub events_bytes_max: usize,
    /// The JSON-RPC below.
    pub wire: wire::Limits,
}

impl Default for Limits {
    fn default() -> Self {
        Self { turn_bytes_max: 8 << 20, events_bytes_max: 1 << 20, wire: wire::Limits::default() }
    }
}

pub(crate) struct Exchange {
    pub(crate) connection: Connection,
    pub(crate) reader: Reader,
    /// Who looks at the bytes that pass.
    pub(crate) tap: Option<Tap>,
    limits: Limits,
    patience: Patience,
    calls: HashMap<CallId, Purpose>,
    turns: Turns,
    requests: OpenRequests,
    events: HashMap<EventsKey, Mailbox<ConnectionEvent>>,
    next_events: u64,
    /// What happens before anybody listens, the handshake above all, is kept for the first who does.
    unclaimed_events: Option<EventsKey>,
    told: Vec<Told>,
    errands: Vec<Errand>,
    postponed: Postponed,
    /// Requests that are otherwise answered at once, and that somebody here wants to answer.
    claimed: Vec<&'static str>,
    /// Why nothing happens any more.
    end: Option<Box<str>>,
}

/// Names a reader of the connection's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EventsKey(u64);

/// What a call was made for.
enum Purpose {
    /// Somebody waits for the outcome.
    Waited { outcome: Option<Outcome>, waiter: Option<Waker> },
    /// To be listened to; then the turn can be started.
    Listen { turn: TurnKey, start: Line, deadline: Instant },
    /// To start a turn.
    Start { turn: TurnKey, deadline: Instant },
    /// For our own order.
    Errand(Attempt),
}

/// How a turn is begun: in v1 the worker must be told to listen first.
#[derive(Clone, Debug)]
pub(crate) struct Beginning {
    pub(crate) naming: Naming,
    pub(crate) listen: Option<Line>,
    pub(crate) start: Line,
}

/// Why a turn was not begun.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotBegun {
    #[error(transparent)]
    Busy(#[from] Busy),
    #[error(transparent)]
    Refused(#[from] Refused),
}

impl Exchange {
    pub(crate) fn new(limits: Limits, patience: Patience, claimed: Vec<&'static str>, field: JsonRpcField) -> Self {
        let mut exchange = Self {
            connection: Connection::new(limits.wire.clone(), field),
            reader: Reader::V2,
            tap: None,
            turns: Turns::new(limits.turn_bytes_max),
            limits,
            patience,
            calls: HashMap::new(),
            requests: OpenRequests::default(),
            events: HashMap::new(),
            next_events: 0,
            unclaimed_events: None,
            told: Vec::new(),
            errands: Vec::new(),
            postponed: Postponed::default(),
            claimed,
            end: None,
        };
        exchange.unclaimed_events = Some(exchange.attach_events());
        exchange
    }

    /// Takes what the connection has understood of the worker's bytes, and says how much that was. `unix_seconds` is the
    /// time of day.
    pub(crate) fn advance(&mut self, unix_seconds: u64, now: Instant) -> usize {
        let mut taken = 0;
        while let Some(event) = self.connection.poll_event() {
            taken += 1;
            match event {
                Event::Settled { call, outcome } => self.settle(call, outcome, now),
                Event::Notification(told) => {
                    let params = told.params.unwrap_or_else(requests::nothing);
                    self.handle_notification(&told.method, &params, now);
                }
                Event::Request(request) => self.handle_request(request, unix_seconds, now),
                Event::Reported(report) => {
                    self.publish(&ConnectionEvent::PassedOver { report: report.to_string().into() });
                }
                Event::Closed { .. } => self.requests.finish(),
            }
            self.run_errands(now);
        }
        taken
    }

    /// Makes a call that somebody waits for.
    pub(crate) fn call(&mut self, line: &Line, deadline: Instant) -> Result<CallId, Refused> {
        let call = self.connection.call(&line.method, line.params.as_ref(), deadline)?;
        self.calls.insert(call, Purpose::Waited { outcome: None, waiter: None });
        Ok(call)
    }

    pub(crate) fn poll_outcome(&mut self, call: CallId, context: &mut Context<'_>) -> Poll<Outcome> {
        let Some(Purpose::Waited { outcome, waiter }) = self.calls.get_mut(&call) else {
            unreachable!("a call is kept while somebody waits for it");
        };
        match outcome.take() {
            Some(outcome) => {
                self.calls.remove(&call);
                Poll::Ready(outcome)
            }
            None => {
                *waiter = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Nobody waits for the call any more.
    pub(crate) fn drop_call(&mut self, call: CallId) {
        if self.calls.remove(&call).is_some() {
            self.connection.cancel(call);
        }
    }

    /// Begins a turn in a thread that is not busy.
    pub(crate) fn begin_turn(
        &mut self,
        thread: &str,
        beginning: Beginning,
        deadline: Instant,
    ) -> Result<TurnKey, NotBegun> {
        let Beginning { naming, listen, start } = beginning;
        let turn = self.turns.begin(thread, naming)?;
        let first = listen.as_ref().unwrap_or(&start);
        match self.connection.call(&first.method, first.params.as_ref(), deadline) {
            Ok(call) => {
                let purpose = match listen {
                    Some(_) => Purpose::Listen { turn, start, deadline },
                    None => Purpose::Start { turn, deadline },
                };
                self.calls.insert(call, purpose);
                Ok(turn)
            }
            Err(refused) => {
                self.turns.abandon(turn, &mut self.errands);
                self.turns.refused(turn, Outcome::Closed(wire::Progress::Queued), deadline, &mut self.errands);
                Err(refused.into())
            }
        }
    }

    /// A turn of somebody else runs in a thread that was just loaded.
    pub(crate) fn handle_busy(&mut self, thread: &str) {
        self.turns.handle_busy(thread);
    }

    /// # Errors
    /// [`Busy`], if a turn runs in the thread.
    pub(crate) fn need_idle(&self, thread: &str) -> Result<(), Busy> {
        self.turns.need_idle(thread)
    }

    /// Ready when no turn that was dropped keeps the thread busy.
    pub(crate) fn poll_free(&mut self, thread: &str, context: &mut Context<'_>) -> Poll<()> {
        self.turns.poll_free(thread, context)
    }

    /// Every request that is open.
    pub(crate) fn open_requests(&self) -> Vec<Asked> {
        self.requests.all()
    }

    /// Follows a turn that runs already.
    pub(crate) fn follow_turn(&mut self, thread: &str, turn: &str) -> Result<TurnKey, Busy> {
        let key = self.turns.follow(thread, turn)?;
        if let Some(reason) = &self.end {
            self.turns.lose_all(reason);
        }
        Ok(key)
    }

    pub(crate) fn poll_started(&mut self, turn: TurnKey, context: &mut Context<'_>) -> Poll<Result<Box<str>, Outcome>> {
        self.turns.poll_started(turn, context)
    }

    pub(crate) fn poll_turn(&mut self, turn: TurnKey, context: &mut Context<'_>) -> Poll<Option<TurnEvent>> {
        self.turns.poll_event(turn, context)
    }

    /// Asks the worker to stop a turn. Its end is the truth, not the answer.
    pub(crate) fn interrupt_turn(&mut self, turn: TurnKey, now: Instant) {
        self.errands.extend(self.turns.interrupt(turn));
        self.run_errands(now);
    }

    /// Nobody reads the turn any more.
    pub(crate) fn drop_turn(&mut self, turn: TurnKey, now: Instant) {
        self.turns.abandon(turn, &mut self.errands);
        self.run_errands(now);
    }

    /// The requests that nobody has looked at.
    pub(crate) fn take_asked(&mut self) -> Vec<Asked> {
        std::iter::from_fn(|| self.requests.next_fresh()).collect()
    }

    /// Leaves a request to the reader of the stream of requests, or declines it if there is none.
    pub(crate) fn leave_to_reader(&mut self, request: &RequestId) {
        if self.requests.leave_to_reader(request).is_none() {
            self.decline(request, "nobody is here to decide this");
        }
    }

    pub(crate) fn attach_requests(&mut self) -> Option<()> {
        self.requests.attach_reader()
    }

    pub(crate) fn detach_requests(&mut self) {
        for request in self.requests.detach_reader() {
            self.decline(&request, "nobody is here to decide this");
        }
    }

    pub(crate) fn poll_requests(&mut self, context: &mut Context<'_>) -> Poll<Option<Asked>> {
        self.requests.poll_waiting(context)
    }

    /// Ready when a request needs no decision any more.
    pub(crate) fn poll_moot(&mut self, request: &RequestId, context: &mut Context<'_>) -> Poll<()> {
        self.requests.poll_moot(request, context)
    }

    /// A request that is open.
    pub(crate) fn asked(&self, request: &RequestId) -> Option<Asked> {
        self.requests.get(request).cloned()
    }

    /// Answers a request; the first answer wins.
    pub(crate) fn answer(&mut self, request: &RequestId, answer: Result<&Json, &PeerError>) -> Result<(), NotOpen> {
        self.requests.close(request);
        self.connection.answer(request, answer)
    }

    /// Answers a request as one that nobody will decide.
    pub(crate) fn decline(&mut self, request: &RequestId, reason: &str) {
        if let Some(asked) = self.requests.close(request) {
            let answer = requests::declined(&asked.method, reason);
            // A request that is open here is open below.
            _ = self.connection.answer(request, answer.as_ref());
        }
    }

    /// A reader of the connection's own events.
    pub(crate) fn attach_events(&mut self) -> EventsKey {
        if let Some(unclaimed) = self.unclaimed_events.take() {
            return unclaimed;
        }
        let key = EventsKey(self.next_events);
        self.next_events += 1;
        let mut mailbox = Mailbox::new(self.limits.events_bytes_max);
        if self.end.is_some() {
            mailbox.finish();
        }
        self.events.insert(key, mailbox);
        key
    }

    pub(crate) fn poll_events(&mut self, key: EventsKey, context: &mut Context<'_>) -> Poll<Option<ConnectionEvent>> {
        match self.events.get_mut(&key) {
            Some(mailbox) => mailbox.poll_take(context),
            None => Poll::Ready(None),
        }
    }

    pub(crate) fn detach_events(&mut self, key: EventsKey) {
        self.events.remove(&key);
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let call = self.connection.poll_timeout().map(|(deadline, _)| deadline);
        let ours = [self.requests.first_deadline(), self.turns.first_deadline(), self.postponed.first()];
        call.into_iter().chain(ours.into_iter().flatten()).min()
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.connection.handle_timeout(now);
        for request in self.requests.overdue(now) {
            self.decline(&request, "nobody decided this in time");
        }
        self.turns.handle_timeout(now, &mut self.errands);
        self.run_postponed(now);
        self.run_errands(now);
    }

    /// The connection is over, and this is why: whatever runs is lost.
    pub(crate) fn end(&mut self, reason: &str) {
        self.end.get_or_insert_with(|| reason.into());
        self.turns.lose_all(reason);
        for mailbox in self.events.values_mut() {
            mailbox.finish();
        }
        self.requests.finish();
    }

    fn settle(&mut self, call: CallId, settled: Outcome, now: Instant) {
        match self.calls.remove(&call) {
            Some(Purpose::Waited { waiter, .. }) => {
                self.calls.insert(call, Purpose::Waited { outcome: Some(settled), waiter: None });
                if let Some(waiter) = waiter {
                    waiter.wake();
                }
            }
            Some(Purpose::Listen { turn, start, deadline }) => self.start_listened(turn, &start, deadline, settled),
            Some(Purpose::Start { turn, deadline }) => self.settle_start(turn, deadline, settled),
            Some(Purpose::Errand(attempt)) => self.settle_errand(attempt, &settled, now),
            None => {}
        }
        self.run_errands(now);
    }

    fn settle_start(&mut self, turn: TurnKey, deadline: Instant, settled: Outcome) {
        let name = match &settled {
            Outcome::Answered(_) if self.turns.is_named_later(turn) => Ok(None),
            Outcome::Answered(result) => self.reader.turn_started(result).map(Some).map_err(Outcome::Failed),
            _ => Err(settled),
        };
        match name {
            Ok(name) => self.turns.answered(turn, name, deadline, &mut self.errands),
            Err(outcome) => self.turns.refused(turn, outcome, deadline, &mut self.errands),
        }
    }

    /// The worker listens, so the turn can be started, if anybody still wants it.
    fn start_listened(&mut self, turn: TurnKey, start: &Line, deadline: Instant, settled: Outcome) {
        let listener = match &settled {
            Outcome::Answered(result) => self.reader.listener(result),
            _ => None,
        };
        let Some(listener) = listener else {
            return self.turns.refused(turn, settled, deadline, &mut self.errands);
        };
        self.turns.listen(turn, listener);
        if !self.turns.is_wanted(turn) {
            return self.turns.refused(turn, Outcome::Cancelled(wire::Progress::Queued), deadline, &mut self.errands);
        }
        match self.connection.call(&start.method, start.params.as_ref(), deadline) {
            Ok(call) => {
                self.calls.insert(call, Purpose::Start { turn, deadline });
            }
            Err(_) => self.turns.refused(turn, Outcome::Closed(wire::Progress::Queued), deadline, &mut self.errands),
        }
    }

    fn handle_notification(&mut self, method: &str, params: &Json, now: Instant) {
        if let Some(delta) = self.reader.delta(method, params) {
            let homeless = self.turns.handle_delta(delta, &mut self.errands);
            return homeless.into_iter().for_each(|placed| self.publish_placed(placed));
        }
        let mut told = std::mem::take(&mut self.told);
        self.reader.notification(method, params, &mut told);
        for told in told.drain(..) {
            match told {
                Told::Turn(placed) => self.handle_placed(placed),
                Told::Connection(event) => {
                    if let ConnectionEvent::ThreadStatus { thread, status, .. } = &event {
                        self.turns.handle_status(thread, status, now);
                    }
                    self.publish(&event);
                }
            }
        }
        self.told = told;
    }

    fn handle_placed(&mut self, placed: Placed) {
        if let TurnEvent::ApprovalResolved { request } = &placed.event
            && let Some(request) = self.requests.numbered(&placed.thread, request)
        {
            // Somebody else has answered, or the turn is over: an answer of ours would be ignored.
            self.requests.close(&request);
            _ = self.connection.forget(&request);
        }
        let homeless = self.turns.handle(placed, &mut self.errands);
        homeless.into_iter().for_each(|placed| self.publish_placed(placed));
    }

    fn publish_placed(&mut self, Placed { thread, turn, event }: Placed) {
        self.publish(&ConnectionEvent::Turn { thread, turn, event });
    }

    fn handle_request(&mut self, request: Request, unix_seconds: u64, now: Instant) {
        if !self.claimed.contains(&&*request.method)
            && let Some(answer) = requests::answered_at_once(&request.method, unix_seconds)
        {
            // It has just been opened, so it can be answered.
            _ = self.connection.answer(&request.id, answer.as_ref());
            return;
        }
        let params = request.params.clone().unwrap_or_else(requests::nothing);
        let placed = self.reader.request(request.id.as_raw(), &request.method, &params);
        let asked = Asked::new(request, placed.as_ref(), self.patience, now);
        let (id, method) = (asked.id.clone(), asked.method.clone());
        if self.requests.open(asked).is_none() {
            // Not an error: the oldest workers wait for ever after one.
            let declined = requests::declined(&method, "too much waits for a decision");
            _ = self.connection.answer(&id, declined.as_ref());
            return;
        }
        if let Some(placed) = placed {
            self.turns.handle(placed, &mut self.errands);
        }
    }

    fn publish(&mut self, event: &ConnectionEvent) {
        for mailbox in self.events.values_mut() {
            mailbox.post(event.clone());
        }
    }
}
