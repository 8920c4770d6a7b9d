//! What was wrong with a line, and how often.

use std::fmt;

use crate::id::CallId;

/// How much of a faulty line a report carries.
const HEAD_BYTES: usize = 200;

/// A line that could not be used, or not in the usual way. The connection goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What is wrong with it.
    pub fault: Fault,
    /// Its first bytes.
    pub head: Box<[u8]>,
    /// Its whole length.
    pub bytes: u64,
}

impl Report {
    pub(crate) fn new(fault: Fault, line: &[u8]) -> Self {
        Self::of_part(fault, line, line.len() as u64)
    }

    pub(crate) fn of_part(fault: Fault, head: &[u8], bytes: u64) -> Self {
        Self { fault, head: head[..head.len().min(HEAD_BYTES)].into(), bytes }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (a line of {} bytes: ", self.fault, self.bytes)?;
        for &byte in &self.head {
            match byte {
                b' '..=b'~' => write!(f, "{}", char::from(byte))?,
                _ => write!(f, "\\x{byte:02x}")?,
            }
        }
        if self.bytes > self.head.len() as u64 {
            f.write_str("…")?;
        }
        f.write_str(")")
    }
}

/// What can be wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Some byte is not UTF-8.
    #[error("invalid UTF-8")]
    NotUtf8,
    /// It breaks the grammar.
    #[error("not JSON (expected {expected} at byte {at})")]
    NotJson {
        /// What the grammar wants.
        expected: &'static str,
        /// Where it does.
        at: usize,
    },
    /// Brackets nest beyond the limit.
    #[error("nesting too deep")]
    TooDeep,
    /// A key of the envelope stands twice.
    #[error("the key {0:?} twice")]
    DuplicateKey(&'static str),
    /// A JSON array: neither codex nor MCP over lines knows batches.
    #[error("a batch")]
    Batch,
    /// JSON, but neither request, notification nor answer.
    #[error("not a JSON-RPC message ({0})")]
    NotAnEnvelope(&'static str),
    /// An id that is null, a fraction, a boolean or a structure, or longer than 1 KiB.
    #[error("an id that is neither integer nor string, or too long")]
    BadId,
    /// The line is above `line_bytes_max` and was skipped.
    #[error("too long")]
    TooLong,
    /// The stream ended in this line.
    #[error("cut off by the end of the stream")]
    CutOff,
    /// An answer to a call that had already ended in another way.
    #[error("late answer to call {0}")]
    LateAnswer(CallId),
    /// A second answer to a call.
    #[error("second answer to call {0}")]
    SecondAnswer(CallId),
    /// An answer to a call that was never made.
    #[error("answer to an unknown call")]
    UnknownAnswer,
    /// A request under the id of another that is still open; no answer to it could be told from the other's.
    #[error("a request under the id of another")]
    RequestIdInUse,
    /// A request beyond `requests_max`; it is refused with an error, as long as the peer reads such answers.
    #[error("too many open requests")]
    TooManyRequests,
}

impl Fault {
    /// Whether an answer with this fault still names its call beyond doubt, so that the call can fail at once.
    #[must_use]
    pub fn leaves_id_readable(&self) -> bool {
        match self {
            Self::NotUtf8 | Self::TooDeep | Self::NotAnEnvelope(_) => true,
            Self::DuplicateKey(key) => *key != "id",
            _ => false,
        }
    }
}

/// How many lines came, and how many of them were faulty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lines received, blank ones not counted.
    pub lines: u64,
    /// Lines that are not a usable JSON-RPC message.
    pub malformed: u64,
    /// Lines above the limit.
    pub too_long: u64,
    /// Answers to calls that had ended in another way.
    pub late_answers: u64,
    /// Second answers to a call.
    pub second_answers: u64,
    /// Answers to calls never made.
    pub unknown_answers: u64,
    /// Requests that came again while they were open, and were not delivered again.
    pub repeated_requests: u64,
    /// Requests under an id in use, or beyond the limit.
    pub refused_requests: u64,
}

impl Counts {
    pub(crate) fn count(&mut self, fault: &Fault) {
        *match fault {
            Fault::TooLong => &mut self.too_long,
            Fault::LateAnswer(_) => &mut self.late_answers,
            Fault::SecondAnswer(_) => &mut self.second_answers,
            Fault::UnknownAnswer => &mut self.unknown_answers,
            Fault::RequestIdInUse | Fault::TooManyRequests => &mut self.refused_requests,
            Fault::NotUtf8
            | Fault::NotJson { .. }
            | Fault::TooDeep
            | Fault::DuplicateKey(_)
            | Fault::Batch
            | Fault::NotAnEnvelope(_)
            | Fault::BadId
            | Fault::CutOff => &mut self.malformed,
        } += 1;
    }
}
