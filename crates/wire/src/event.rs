//! What a connection tells its owner.

use std::fmt;

use crate::id::{CallId, RequestId};
use crate::json::Json;
use crate::report::{Fault, Report};

/// Something that happened, in the order in which the peer's lines came.
#[derive(Clone, Debug)]
pub enum Event {
    /// A call of ours has its one outcome.
    Settled {
        /// The call.
        call: CallId,
        /// Its outcome.
        outcome: Outcome,
    },
    /// The peer tells something.
    Notification(Notification),
    /// The peer asks something and waits for exactly one answer.
    Request(Request),
    /// A line could not be used.
    Reported(Report),
    /// The connection is over; nothing comes after this.
    Closed {
        /// The peer's requests that were never answered.
        unanswered: Vec<RequestId>,
    },
}

/// How a call ended.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The peer's result.
    Answered(Json),
    /// The peer's error.
    Failed(PeerError),
    /// The deadline passed.
    TimedOut(Progress),
    /// The answer came, in a line above the limit.
    TooLong,
    /// The answer came, in a line that cannot be read.
    Unreadable(Fault),
    /// The connection ended first.
    Closed(Progress),
    /// We gave the call up.
    Cancelled(Progress),
}

/// How far a call had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It had not left us: the peer cannot have begun it.
    Queued,
    /// It had been handed to the transport.
    Sent,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered(_) => f.write_str("it was answered"),
            Self::Failed(error) => write!(f, "{} (code {})", error.message, error.code),
            Self::TimedOut(_) => f.write_str("its deadline passed"),
            Self::TooLong => f.write_str("the answer is longer than a line may be"),
            Self::Unreadable(fault) => write!(f, "the answer cannot be read: {fault}"),
            Self::Closed(_) => f.write_str("the connection ended first"),
            Self::Cancelled(_) => f.write_str("it was given up"),
        }
    }
}

impl Outcome {
    /// Whether the peer may have done, or still be doing, what the call asked.
    ///
    /// An error is an answer: what it means for the work is the method's business.
    #[must_use]
    pub fn work_may_have_run(&self) -> bool {
        match self {
            Self::Answered(_) | Self::Failed(_) | Self::TooLong | Self::Unreadable(_) => true,
            Self::TimedOut(progress) | Self::Closed(progress) | Self::Cancelled(progress) => {
                *progress == Progress::Sent
            }
        }
    }
}

/// The error object of an answer, in either direction.
#[derive(Clone, Debug)]
pub struct PeerError {
    /// The code; 0 where the peer gave none.
    pub code: i64,
    /// The message; the raw error where the peer gave none.
    pub message: Box<str>,
    /// Whatever else the peer said.
    pub data: Option<Json>,
}

/// A message that wants no answer.
#[derive(Clone, Debug)]
pub struct Notification {
    /// What it tells.
    pub method: Box<str>,
    /// Its parameters, as they came.
    pub params: Option<Json>,
    /// When the worker sent it, by its own clock.
    pub emitted_at_ms: Option<u64>,
}

/// A message that wants exactly one answer.
#[derive(Clone, Debug)]
pub struct Request {
    /// Names it when it is answered.
    pub id: RequestId,
    /// What it asks.
    pub method: Box<str>,
    /// Its parameters, as they came.
    pub params: Option<Json>,
}
