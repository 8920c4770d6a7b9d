//! A connection to one tool server: the handle that callers share, and the one task behind it. The task owns the far end and
//! the book of what was asked; it never waits for a caller.

mod driver;
mod half;
mod whose;

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use rmcp::model::ErrorData;
use serde_json::Value;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use crate::exchange::Number;
use crate::handshake::Agreement;
use crate::post::lock;

pub(crate) use driver::{Driver, Telling, Told};
pub(crate) use half::Broken;
pub(crate) use whose::Asker;

/// Orders that may wait for the task.
const ORDERS_MAX: usize = 256;
/// What may wait to be told to one caller; progress beyond it is left out.
const EVENTS_MAX: usize = 64;

/// How long an answer may wait to be sent: a server that reads nothing for so long will not read it either.
const ANSWER_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);

/// A connection that stands.
#[derive(Clone)]
pub(crate) struct Connection {
    orders: mpsc::Sender<Order>,
    numbers: Arc<AtomicI64>,
    agreement: Arc<Agreement>,
}

/// What the task is asked to do.
pub(crate) enum Order {
    Call { number: Number, method: Box<str>, params: Value, line: Line },
    GiveUp { number: Number, reason: &'static str },
    Answer { id: Value, outcome: Result<Value, ErrorData> },
}

/// The way from the task to whoever has called.
pub(crate) struct Line {
    /// Whose call it is, if not our own: a server's question goes to nobody else.
    pub(crate) asker: Option<Asker>,
    pub(crate) reply: oneshot::Sender<Result<Value, CallError>>,
    pub(crate) events: mpsc::Sender<CallEvent>,
}

/// What happens to a call before its end.
pub(crate) enum CallEvent {
    Progress(Value),
    Log(Value),
    /// The server asks something meanwhile.
    Asked(Question),
}

/// What a legacy server asks in the middle of a call. Dropped, it is answered with an error.
pub(crate) struct Question {
    pub(crate) method: String,
    pub(crate) params: Value,
    id: Value,
    orders: mpsc::Sender<Order>,
    dropped: Dropped,
    is_answered: bool,
}

/// The ids of questions that were dropped when no more orders were taken.
type Dropped = Arc<Mutex<Vec<Value>>>;

/// What a server is told whose question nobody has answered.
fn unanswered() -> ErrorData {
    ErrorData::internal_error("nobody answered in time", None)
}

impl Question {
    /// Waits until whoever asked is gone.
    pub(crate) async fn is_moot(&self) {
        self.orders.closed().await;
    }

    /// Answers it.
    pub(crate) async fn answer(mut self, outcome: Result<Value, ErrorData>) {
        self.is_answered = true;
        // If the task is gone, so is whoever asked.
        _ = self.orders.send_timeout(Order::Answer { id: self.id.take(), outcome }, ANSWER_TIMEOUT).await;
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        if !self.is_answered {
            let order = Order::Answer { id: self.id.take(), outcome: Err(unanswered()) };
            if let Err(TrySendError::Full(Order::Answer { id, .. })) = self.orders.try_send(order) {
                lock(&self.dropped).push(id);
            }
        }
    }
}

/// Why a call has no result.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// The server said so.
    #[error("{}", .0.message)]
    Refused(ErrorData),
    /// The server ended while it was under way.
    #[error("the tool server ended during the call: {0}")]
    Gone(Arc<str>),
    /// There was nobody to send it to.
    #[error("the tool server is not there: {0}")]
    NotSent(Arc<str>),
    /// The server answered with what nobody can read.
    #[error("the answer of the tool server cannot be read: {0}")]
    Unreadable(Box<str>),
    /// The server was silent for too long.
    #[error("the tool server did not answer within {0:?}")]
    TimedOut(std::time::Duration),
}

impl CallError {
    /// Whether the server may have done what it was asked.
    pub(crate) fn work_may_have_run(&self) -> bool {
        matches!(self, Self::Gone(_) | Self::Unreadable(_) | Self::TimedOut(_))
    }
}

/// A call under way. Dropped, it is given up and the server is told.
pub(crate) struct Call {
    asker: Option<Asker>,
    number: Number,
    orders: mpsc::Sender<Order>,
    reply: oneshot::Receiver<Result<Value, CallError>>,
    events: mpsc::Receiver<CallEvent>,
    is_over: bool,
}

/// What comes of a call next.
pub(crate) enum Next {
    Event(CallEvent),
    End(Result<Value, CallError>),
}

impl Call {
    /// It waits for its caller to come back.
    pub(crate) fn park(&self) {
        self.asker.iter().for_each(Asker::park);
    }

    /// Its caller has come back.
    pub(crate) fn unpark(&self) {
        self.asker.iter().for_each(Asker::unpark);
    }

    /// Waits for what comes next. Cancel-safe. What happened before the end is told before it.
    pub(crate) async fn next(&mut self) -> Next {
        tokio::select! {
            biased;
            Some(event) = self.events.recv() => Next::Event(event),
            end = &mut self.reply => {
                self.is_over = true;
                Next::End(end.unwrap_or_else(|_| Err(CallError::Gone("the connection is closed".into()))))
            }
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.is_over {
            let order = Order::GiveUp { number: self.number, reason: "the caller gave it up" };
            _ = self.orders.try_send(order);
        }
    }
}

impl Connection {
    /// What was agreed on.
    pub(crate) fn agreement(&self) -> &Agreement {
        &self.agreement
    }

    /// Whether the task behind it has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.orders.is_closed()
    }

    /// Calls a method, for a caller or for ourselves.
    pub(crate) async fn call(&self, asker: Option<Asker>, method: &str, params: Value) -> Result<Call, CallError> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let (reply, answer) = oneshot::channel();
        let (events, happened) = mpsc::channel(EVENTS_MAX);
        let line = Line { asker: asker.clone(), reply, events };
        let order = Order::Call { number, method: method.into(), params, line };
        let sent = self.orders.send(order).await;
        sent.map_err(|_| CallError::NotSent("the connection is closed".into()))?;
        Ok(Call { asker, number, orders: self.orders.clone(), reply: answer, events: happened, is_over: false })
    }

    /// Calls a method of ours and waits for its result alone.
    pub(crate) async fn ask(
        &self,
        method: &str,
        params: Value,
        timeout: std::time::Duration,
    ) -> Result<Value, CallError> {
        let end = async {
            let mut call = self.call(None, method, params).await?;
            loop {
                if let Next::End(end) = call.next().await {
                    return end;
                }
            }
        };
        tokio::time::timeout(timeout, end).await.unwrap_or(Err(CallError::TimedOut(timeout)))
    }
}
