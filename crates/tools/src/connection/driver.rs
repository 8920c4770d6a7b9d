//! The one task of a connection: shakes hands, then carries what callers ask and what the server says until one of the two
//! is gone.

mod early;

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rmcp::model::{ErrorCode, ErrorData};
use serde_json::{Map, Value, json};
use supervise::{Exit, Ladder};
use tokio::sync::{Notify, mpsc};

use super::half::Half;
use super::whose::meant;
use super::{Asker, CallError, CallEvent, Dropped, Line, ORDERS_MAX, Order, Question, unanswered};
use crate::deadline::reached;
use crate::dialect::Tongue;
use crate::exchange::{Exchange, Heard, Number};
use crate::far::{self, Arrived, End, Far};
use crate::frame::RingLimits;
use crate::handshake::Era;
use crate::post::lock;
use crate::settings::Dialect;

/// The first of our numbers that a caller's call can have; those below are the handshake's.
pub(super) const FIRST_CALL: Number = 16;
const ANYWAY: Number = FIRST_CALL - 1;
const PROBE: Number = FIRST_CALL - 2;
/// What a server tells of itself and nobody has read yet; more is left out.
const TOLD_MAX: usize = 64;

/// How long a server may still be at a call that was given up, for all we know.
const STILL_AT_IT: Duration = Duration::from_secs(30);
/// Such calls that are remembered, the latest.
const GIVEN_UP_MAX: usize = 64;
/// Orders that are obeyed between two looks at what the server says: one that never pauses must hear them too.
const ORDERS_IN_A_ROW: usize = 16;
/// Questions of a server that may be open: each can keep a person waiting.
const QUESTIONS_MAX: usize = 64;

/// How long a server that has forgotten us may take to say of each request whether it took that.
const PART_TIMEOUT: Duration = Duration::from_millis(500);

/// What a server tells that belongs to no call.
pub(crate) struct Telling {
    /// One of its lists has changed since this was last looked at.
    pub(crate) changed: Arc<Notify>,
    pub(crate) told: mpsc::Receiver<Told>,
}

/// One thing that a server tells.
pub(crate) enum Told {
    ResourceUpdated {
        uri: String,
    },
    /// A question that belongs to no caller, or to one of several that cannot be told apart.
    Asked(Question),
}

pub(crate) struct Driver {
    far: Far,
    exchange: Exchange,
    started: Instant,
    first_byte_at: Option<Duration>,
    /// By number: the latest call is the last.
    lines: BTreeMap<Number, Line>,
    /// Who has given up a call that was sent and not answered, and until when that counts.
    given_up: VecDeque<(Number, Asker, Instant)>,
    /// Those that the server did not take; who waits is told so once the connection is over, and then finds the next one.
    unsent: Vec<Line>,
    /// Requests of the server that are open.
    open: HashSet<String>,
    dropped: Dropped,
    era: Option<Era>,
    orders: mpsc::Receiver<Order>,
    ordering: mpsc::WeakSender<Order>,
    changed: Arc<Notify>,
    told: mpsc::Sender<Told>,
    last_trouble: Option<Arc<str>>,
    inbox: Vec<Heard>,
    /// What was asked in the handshake.
    asked: Vec<(Number, &'static str)>,
}

impl Driver {
    pub(crate) fn new(far: Far, dialect: Dialect, limits: RingLimits) -> (Self, Half) {
        let (sender, orders) = mpsc::channel(ORDERS_MAX);
        let (told, hearing) = mpsc::channel(TOLD_MAX);
        let changed = Arc::<Notify>::default();
        let exchange = Exchange::new(Tongue(dialect), limits);
        let ring = exchange.ring();
        let driver = Self {
            far,
            exchange,
            started: Instant::now(),
            first_byte_at: None,
            lines: BTreeMap::new(),
            given_up: VecDeque::new(),
            dropped: Arc::default(),
            unsent: Vec::new(),
            open: HashSet::new(),
            era: None,
            orders,
            ordering: sender.downgrade(),
            changed: Arc::clone(&changed),
            told,
            last_trouble: None,
            inbox: Vec::new(),
            asked: Vec::new(),
        };
        (driver, Half { orders: sender, ring, telling: Telling { changed, told: hearing } })
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.far.pid()
    }

    pub(crate) fn stderr(&self) -> String {
        self.far.stderr()
    }

    pub(crate) fn processor_time(&self) -> Option<Duration> {
        self.far.processor_time()
    }

    /// What last went wrong with the connection.
    pub(crate) fn last_trouble(&self) -> Option<Arc<str>> {
        self.last_trouble.clone()
    }

    pub(crate) fn first_byte_at(&self) -> Option<Duration> {
        self.first_byte_at
    }

    /// How the process has ended, if it has.
    pub(crate) async fn exit(&mut self) -> Option<Exit> {
        self.far.exit().await
    }

    /// Carries everything until the server ends or nobody holds the connection any more.
    pub(crate) async fn run(&mut self) {
        self.see_all();
        let mut parting = None;
        loop {
            if parting.is_some_and(|until| self.lines.is_empty() || Instant::now() >= until) {
                return;
            }
            let has_room = parting.is_none() && self.far.has_room();
            tokio::select! {
                biased;
                arrived = self.far.arrived() => match arrived {
                    Arrived::Ended => return,
                    Arrived::Room => {}
                    Arrived::Undelivered { number, why, may_have_arrived } => {
                        self.undelivered(number, why.into(), may_have_arrived);
                        if number == Some(PROBE) {
                            return;
                        }
                        self.probe();
                    }
                    Arrived::Forgotten { number, why } => {
                        self.unsent.extend(number.and_then(|number| self.lines.remove(&number)));
                        self.last_trouble = Some(why.into());
                        // What was sent with it is most likely not taken either.
                        parting.get_or_insert_with(|| Instant::now() + PART_TIMEOUT);
                    }
                    Arrived::Lines => {
                        self.read();
                        self.see_all();
                    }
                },
                () = reached(parting) => {}
                order = self.orders.recv(), if has_room => match order {
                    Some(order) => self.obey(order),
                    None => return,
                },
            }
            if parting.is_none() {
                self.catch_up();
            }
        }
    }

    /// Does what would never have its turn beside a server that speaks without a pause.
    fn catch_up(&mut self) {
        for _ in 0..ORDERS_IN_A_ROW {
            if !self.far.has_room() {
                break;
            }
            let Ok(order) = self.orders.try_recv() else { break };
            self.obey(order);
        }
        let dropped = std::mem::take(&mut *lock(&self.dropped));
        for id in dropped {
            self.obey(Order::Answer { id, outcome: Err(unanswered()) });
        }
    }

    /// Ends the far end, and tells everybody who waits why.
    pub(crate) async fn stop(self, ladder: Ladder) -> End {
        let Self { far, mut orders, lines, unsent, last_trouble, .. } = self;
        orders.close();
        let end = far.stop(ladder).await;
        let why: Arc<str> = match (&end, last_trouble) {
            (End::Process(exit), None) => exit.to_string().into(),
            (End::Process(exit), Some(trouble)) => format!("{trouble}; {exit}").into(),
            (End::Link, trouble) => trouble.unwrap_or_else(|| "the connection was closed".into()),
        };
        for line in lines.into_values() {
            _ = line.reply.send(Err(CallError::Gone(Arc::clone(&why))));
        }
        for line in unsent {
            _ = line.reply.send(Err(CallError::NotSent(Arc::clone(&why))));
        }
        while let Some(order) = orders.recv().await {
            if let Order::Call { line, .. } = order {
                _ = line.reply.send(Err(CallError::NotSent(Arc::clone(&why))));
            }
        }
        end
    }

    fn read(&mut self) {
        let Self { far, exchange, started, inbox, .. } = self;
        far.take(|line| match line {
            far::Line::Whole(line) => inbox.push(exchange.take(line, started.elapsed())),
            far::Line::TooLong { head, tail } => inbox.push(exchange.take_too_long(head, tail, started.elapsed())),
        });
    }

    fn obey(&mut self, order: Order) {
        let at = self.started.elapsed();
        match order {
            // Whoever asked has left before it was sent.
            Order::Call { line, .. } if line.reply.is_closed() => {}
            Order::Call { number, method, mut params, line } => {
                if let Some(fields) = params.as_object_mut() {
                    let meta = fields.entry("_meta").or_insert_with(|| json!({}));
                    meta["progressToken"] = number.into();
                }
                self.give_up_unheard();
                let request = self.exchange.request(number, &method, params, at);
                self.lines.insert(number, line);
                self.far.send(request);
            }
            Order::GiveUp { number, reason } => self.give_up(number, reason),
            Order::Answer { id, outcome } => {
                if self.open.remove(&id.to_string()) {
                    self.reply(&id, outcome);
                }
            }
        }
    }

    fn give_up(&mut self, number: Number, reason: &str) {
        let line = self.lines.remove(&number);
        if !self.exchange.give_up(number) {
            return;
        }
        if let Some(asker) = line.and_then(|line| line.asker) {
            self.given_up.truncate(GIVEN_UP_MAX - 1);
            self.given_up.push_front((number, asker, Instant::now() + STILL_AT_IT));
        }
        let params = json!({ "requestId": number, "reason": reason });
        self.tell("notifications/cancelled", Some(params));
    }

    /// Whoever left while no more orders were taken could not say so.
    fn give_up_unheard(&mut self) {
        let is_left = |(_, line): &(&Number, &Line)| line.reply.is_closed();
        let left: Vec<Number> = self.lines.iter().filter(is_left).map(|(number, _)| *number).collect();
        for number in left {
            self.give_up(number, "the caller gave it up");
        }
    }

    /// Tells a legacy server that its handshake is over.
    pub(crate) fn tell_initialized(&mut self) {
        self.tell("notifications/initialized", None);
    }

    fn tell(&mut self, method: &'static str, params: Option<Value>) {
        if let Some(line) = self.exchange.notification(method, params, self.started.elapsed()) {
            self.far.send(line);
        }
    }

    fn undelivered(&mut self, number: Option<Number>, why: Arc<str>, may_have_arrived: bool) {
        if let Some(line) = number.and_then(|number| self.lines.remove(&number)) {
            number.map(|number| self.exchange.give_up(number));
            let error = if may_have_arrived { CallError::Gone } else { CallError::NotSent };
            _ = line.reply.send(Err(error(Arc::clone(&why))));
        }
        self.last_trouble = Some(why);
    }

    /// Finds out whether the server still knows us, where one message was not for it: one that was started anew elsewhere
    /// knows no session of before, and not every one says so with the right status.
    fn probe(&mut self) {
        if self.era == Some(Era::Legacy) && self.far.pid().is_none() && !self.exchange.awaits(PROBE) {
            let line = self.exchange.request(PROBE, "ping", json!({}), self.started.elapsed());
            self.far.send(line);
        }
    }

    fn see_all(&mut self) {
        for heard in std::mem::take(&mut self.inbox) {
            self.see(heard);
        }
    }

    fn see(&mut self, heard: Heard) {
        match heard {
            Heard::Nothing => {}
            Heard::Late { number } => self.given_up.retain(|(one, ..)| *one != number),
            Heard::Answer { number, outcome } => {
                if let Some(line) = self.lines.remove(&number) {
                    _ = line.reply.send(outcome.map_err(CallError::Refused));
                }
            }
            Heard::Unreadable { number, why } => {
                if let Some(line) = self.lines.remove(&number) {
                    _ = line.reply.send(Err(CallError::Unreadable(why.into())));
                }
            }
            Heard::Progress { number, params } => {
                if let Some(line) = self.lines.get(&number) {
                    self.far.is_at_work();
                    // Whoever is so far behind needs no more of it.
                    _ = line.events.try_send(CallEvent::Progress(params));
                }
            }
            Heard::Notification { method, params } => self.see_notification(&method, params),
            Heard::Request { id, method, params } => self.see_request(id, method, params),
        }
    }

    fn see_notification(&mut self, method: &str, params: Value) {
        match method {
            "notifications/tools/list_changed"
            | "notifications/resources/list_changed"
            | "notifications/prompts/list_changed" => self.changed.notify_one(),
            "notifications/resources/updated" => {
                let uri = params["uri"].as_str().unwrap_or_default().to_owned();
                _ = self.told.try_send(Told::ResourceUpdated { uri });
            }
            "notifications/message" => {
                if let Some(line) = self.meant() {
                    _ = line.events.try_send(CallEvent::Log(params));
                }
            }
            _ => {}
        }
    }

    /// A question goes to the one caller that has calls here, or to nobody: which of several it belongs to is not on the wire.
    fn see_request(&mut self, id: Value, method: String, mut params: Value) {
        // It counts on this hop alone.
        if let Some(meta) = params.get_mut("_meta").and_then(Value::as_object_mut) {
            meta.remove("progressToken");
        }
        if params["_meta"].as_object().is_some_and(Map::is_empty)
            && let Some(fields) = params.as_object_mut()
        {
            fields.remove("_meta");
        }
        let refusal = match (self.era, method.as_str()) {
            (Some(Era::Modern), _) => {
                // A modern server must not ask, and a modern client must not answer.
                return;
            }
            (_, "ping") => Some(Ok(json!({}))),
            (_, "elicitation/create" | "sampling/createMessage" | "roots/list") => None,
            _ => Some(Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method.clone(), None))),
        };
        if let Some(outcome) = refusal {
            return self.reply(&id, outcome);
        }
        let has_room = match self.meant() {
            Some(line) => line.events.capacity() > 0,
            None => self.told.capacity() > 0,
        };
        let Some(orders) = self.ordering.upgrade() else { return };
        if !has_room || self.open.len() >= QUESTIONS_MAX {
            return self.reply(&id, Err(ErrorData::internal_error("too much was asked at once", None)));
        }
        self.open.insert(id.to_string());
        let dropped = Arc::clone(&self.dropped);
        let question = Question { method, params, id, orders, dropped, is_answered: false };
        // Dropped where nobody takes it any more, it is answered all the same.
        match self.meant() {
            Some(line) => _ = line.events.try_send(CallEvent::Asked(question)),
            None => _ = self.told.try_send(Told::Asked(question)),
        }
    }

    /// Answers the server, unless it leaves more answers unread than can be kept for it.
    fn reply(&mut self, id: &Value, outcome: Result<Value, ErrorData>) {
        if self.far.is_full() {
            tracing::debug!("a tool server does not read what it is answered: an answer is left out");
            return;
        }
        let line = self.exchange.answer(id, outcome, self.started.elapsed());
        self.far.send(line);
    }

    /// The call that a question, or what is logged, belongs to.
    fn meant(&self) -> Option<&Line> {
        let now = Instant::now();
        let of_callers = self.lines.values().rev().filter_map(|line| Some((line.asker.as_ref()?, line)));
        let waiting = of_callers.clone().filter(|(_, line)| !line.reply.is_closed());
        let leaving = of_callers.filter(|(_, line)| line.reply.is_closed()).map(|(asker, _)| asker);
        let left = self.given_up.iter().filter(|(.., until)| now < *until).map(|(_, asker, _)| asker);
        meant(waiting, leaving.chain(left))
    }
}
