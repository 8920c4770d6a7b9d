//! The one task of a connection: shakes hands, then carries what callers ask and what the server says until one of the two
//! is gone.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rmcp::model::{ErrorCode, ErrorData};
use serde_json::{Map, Value, json};
use supervise::{Exit, Ladder};
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout_at;

use super::half::{Broken, Half};
use super::{CallError, CallEvent, Line, ORDERS_MAX, Order, Question};
use crate::dialect::Tongue;
use crate::exchange::{Exchange, Heard, Number};
use crate::far::{self, Arrived, End, Far};
use crate::frame::RingLimits;
use crate::handshake::{Agreement, Era, Failure, Handshake, Step};
use crate::settings::Dialect;

/// The first of our numbers that a caller's call can have; those below are the handshake's.
pub(super) const FIRST_CALL: Number = 16;
const ANYWAY: Number = FIRST_CALL - 1;
const PROBE: Number = FIRST_CALL - 2;
/// What a server tells of itself and nobody has read yet; more is left out.
const TOLD_MAX: usize = 64;

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
    /// Those that the server did not take; who waits is told so once the connection is over, and then finds the next one.
    unsent: Vec<Line>,
    /// Requests of the server that are open.
    open: HashSet<String>,
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

    /// Hears for so long what the server says unasked.
    pub(crate) async fn listen(&mut self, lasting: Duration) {
        let until = tokio::time::Instant::now() + lasting;
        // One that speaks without a pause leaves no time to run out.
        while tokio::time::Instant::now() < until
            && let Ok(arrived) = timeout_at(until, self.far.arrived()).await
        {
            match arrived {
                Arrived::Ended => return,
                Arrived::Lines => {
                    self.first_byte_at.get_or_insert(self.started.elapsed());
                    self.read();
                    self.see_all();
                }
                Arrived::Room | Arrived::Undelivered { .. } | Arrived::Forgotten { .. } => {}
            }
        }
    }

    /// Asks a server for a list whether or not hands were shaken.
    pub(crate) async fn ask_anyway(&mut self, method: &str, timeout: Duration) -> Option<Value> {
        let line = self.exchange.request(ANYWAY, method, json!({}), self.started.elapsed());
        self.far.send(line);
        let until = tokio::time::Instant::now() + timeout;
        while tokio::time::Instant::now() < until
            && let Ok(arrived) = timeout_at(until, self.far.arrived()).await
        {
            match arrived {
                Arrived::Ended => return None,
                Arrived::Lines => self.read(),
                Arrived::Room | Arrived::Undelivered { .. } | Arrived::Forgotten { .. } => {}
            }
            for heard in std::mem::take(&mut self.inbox) {
                match heard {
                    Heard::Answer { number: ANYWAY, outcome } => return outcome.ok(),
                    Heard::Unreadable { number: ANYWAY, .. } => return None,
                    other => self.see(other),
                }
            }
        }
        None
    }

    /// Finds out how the server is to be spoken to.
    pub(crate) async fn shake_hands(&mut self, mut handshake: Handshake) -> Result<Agreement, Broken> {
        let mut step = handshake.poll(Instant::now());
        loop {
            let wait_until = match step {
                Step::Ask { method, params } => {
                    self.ask_early(method, params);
                    step = handshake.poll(Instant::now());
                    continue;
                }
                Step::Agreed(agreement) => {
                    if agreement.era == Era::Legacy {
                        self.tell_initialized();
                    }
                    self.era = Some(agreement.era);
                    return Ok(*agreement);
                }
                Step::Failed(failure) => return Err(Broken::Handshake(failure)),
                Step::WaitUntil(at) => at,
            };
            step = tokio::select! {
                biased;
                arrived = self.far.arrived() => self.heard_early(arrived, &mut handshake)?,
                () = tokio::time::sleep_until(wait_until.into()) => handshake.poll(Instant::now()),
            };
        }
    }

    /// Sends a request of the handshake; what was asked before is late from now on.
    fn ask_early(&mut self, method: &'static str, params: Value) {
        if let Some((asked, _)) = self.asked.last() {
            self.exchange.mark_overdue(*asked);
        }
        let number = Number::try_from(self.asked.len()).unwrap_or_default() + 1;
        self.asked.push((number, method));
        let line = self.exchange.request(number, method, params, self.started.elapsed());
        self.far.send(line);
    }

    fn heard_early(&mut self, arrived: Arrived, handshake: &mut Handshake) -> Result<Step, Broken> {
        match arrived {
            Arrived::Ended => return Err(Broken::Ended(handshake.phase())),
            Arrived::Room => {}
            Arrived::Undelivered { number, why, .. } | Arrived::Forgotten { number, why } => {
                let is_probe = |asked: &(Number, &str)| Some(asked.0) == number && asked.1 == "server/discover";
                if !self.asked.iter().any(is_probe) {
                    return Err(Broken::Handshake(Failure::Unreachable(why)));
                }
                self.far.reopen();
                let refused = ErrorData::new(ErrorCode::INTERNAL_ERROR, why, None);
                return Ok(handshake.handle_discovered(Err(refused), Instant::now()));
            }
            Arrived::Lines => {
                if self.first_byte_at.is_none() {
                    self.first_byte_at = Some(self.started.elapsed());
                    handshake.handle_first_byte(Instant::now());
                }
                self.read();
            }
        }
        let mut inbox = std::mem::take(&mut self.inbox).into_iter();
        while let Some(heard) = inbox.next() {
            let (number, outcome) = match heard {
                Heard::Answer { number, outcome } => (number, outcome),
                Heard::Unreadable { number, why } => (number, Err(ErrorData::internal_error(why, None))),
                other => {
                    self.see(other);
                    continue;
                }
            };
            let asked = self.asked.iter().find(|(asked, _)| *asked == number).map(|(_, method)| *method);
            let step = match asked {
                Some("initialize") => handshake.handle_initialized(outcome),
                _ => handshake.handle_discovered(outcome, Instant::now()),
            };
            if !matches!(step, Step::WaitUntil(_)) {
                // What came in the same read is not lost: a server may go on in one breath.
                self.inbox = inbox.collect();
                return Ok(step);
            }
        }
        Ok(handshake.poll(Instant::now()))
    }

    /// Carries everything until the server ends or nobody holds the connection any more.
    pub(crate) async fn run(&mut self) {
        self.see_all();
        let mut parting = None;
        loop {
            if parting.is_some_and(|until| self.lines.is_empty() || tokio::time::Instant::now() >= until) {
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
                        parting.get_or_insert_with(|| tokio::time::Instant::now() + PART_TIMEOUT);
                    }
                    Arrived::Lines => {
                        self.read();
                        self.see_all();
                    }
                },
                () = tokio::time::sleep_until(parting.unwrap_or_else(tokio::time::Instant::now)), if parting.is_some() => {}
                order = self.orders.recv(), if has_room => match order {
                    Some(order) => self.obey(order),
                    None => return,
                },
            }
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
                let request = self.exchange.request(number, &method, params, at);
                self.lines.insert(number, line);
                self.far.send(request);
            }
            Order::GiveUp { number, reason } => {
                self.lines.remove(&number);
                if self.exchange.give_up(number) {
                    let params = json!({ "requestId": number, "reason": reason });
                    self.tell("notifications/cancelled", Some(params));
                }
            }
            Order::Answer { id, outcome } => {
                if self.open.remove(&id.to_string()) {
                    self.reply(&id, outcome);
                }
            }
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
                if let Some(line) = self.only_caller() {
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
        let has_room = match self.only_caller() {
            Some(line) => line.events.capacity() > 0,
            None => self.told.capacity() > 0,
        };
        let Some(orders) = self.ordering.upgrade() else { return };
        if !has_room || self.open.len() >= QUESTIONS_MAX {
            return self.reply(&id, Err(ErrorData::internal_error("too much was asked at once", None)));
        }
        self.open.insert(id.to_string());
        let question = Question { method, params, id, orders, is_answered: false };
        // Dropped where nobody takes it any more, it is answered all the same.
        match self.only_caller() {
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

    /// The latest call, if all calls are one caller's.
    fn only_caller(&self) -> Option<&Line> {
        // Who has left is none of them, told or not.
        let is_waiting = |line: &&Line| line.caller.is_some() && !line.reply.is_closed();
        let mut of_callers = self.lines.values().rev().filter(is_waiting);
        let latest = of_callers.next()?;
        of_callers.all(|line| line.caller == latest.caller).then_some(latest)
    }
}
