//! The acts a turn is made of: the smallest things that happen, free of any dialect.

use std::collections::VecDeque;
use std::time::Duration;

use crate::items::{Body, Item};
use crate::play::step::Fault;
use crate::shapes::{Tokens, TurnError};

/// One act.
#[derive(Debug)]
pub(crate) enum Act {
    Pause(Duration),
    /// An item begins: a message or reasoning.
    Open(Body),
    /// Deltas of the open message.
    Stream {
        source: Source,
        pause: Duration,
    },
    SummaryPart {
        index: usize,
    },
    SummaryText {
        index: usize,
        text: String,
    },
    ReasoningText(String),
    /// The open message proposes a plan, in these lines.
    Propose(&'static [&'static str]),
    /// The open item is complete.
    Close,
    /// A response of the model ends and is counted.
    Usage(Tokens),
    /// A response of the model ends uncounted.
    RateLimits,
    Plan(Vec<PlanStep>),
    Shell(Shell),
    /// A command that runs has run.
    Finish(Item),
    Patch(Patch),
    /// Calls of client tools, all at once.
    Tools(Vec<ToolUse>),
    /// The provider failed and is asked again.
    Retry(TurnError),
    /// The provider cannot be reached, and is asked again so often.
    Offline {
        reports: u64,
        pause: Duration,
    },
    /// The provider failed for good.
    Fail(TurnError),
    /// The context window is full from now on.
    Overflow,
    Hang,
    Fault(Fault),
}

/// Where the deltas of a message come from.
#[derive(Debug)]
pub(crate) enum Source {
    Words(VecDeque<String>),
    /// `t0 `, `t1 `, … made as they are sent, so that a million cost nothing.
    Numbered {
        letter: char,
        next: u64,
        count: u64,
    },
}

impl Source {
    pub(crate) fn next(&mut self) -> Option<String> {
        match self {
            Self::Words(words) => words.pop_front(),
            Self::Numbered { letter, next, count } => (*next < *count).then(|| {
                *next += 1;
                format!("{letter}{} ", *next - 1)
            }),
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        match self {
            Self::Words(words) => words.is_empty(),
            Self::Numbered { next, count, .. } => next == count,
        }
    }
}

/// A command to be said to run.
#[derive(Debug)]
pub(crate) struct Shell {
    pub(crate) id: String,
    pub(crate) command: String,
    pub(crate) escalated: bool,
}

/// A patch to be said to be applied.
#[derive(Debug)]
pub(crate) struct Patch {
    pub(crate) id: String,
    pub(crate) path: String,
    pub(crate) text: String,
}

/// A call of a client's tool.
#[derive(Debug)]
pub(crate) struct ToolUse {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
}

/// One step of a plan, and its status in the protocol's words.
#[derive(Debug, serde::Serialize)]
pub(crate) struct PlanStep {
    pub(crate) step: &'static str,
    pub(crate) status: &'static str,
}
