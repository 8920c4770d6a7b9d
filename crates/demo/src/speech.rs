//! What a thread has to say, before a dialect puts it into words.

use crate::clock::Now;
use crate::items::Item;
use crate::options::Dialect;
use crate::play::PlanStep;
use crate::shapes::{Status, TurnError, TurnShape};
use crate::stage::Stage;
use crate::thread::Thread;
use crate::{v1, v2};

/// Something that happens in a thread. Everything but the first three belongs to its turn.
#[derive(Debug)]
pub(crate) enum Event<'a> {
    Status(Status),
    Warning(&'a str),
    /// A request needs no answer any more.
    Resolved {
        request: u64,
    },
    TurnStarted(&'a TurnShape),
    ItemStarted {
        turn: &'a str,
        item: &'a Item,
    },
    ItemCompleted {
        turn: &'a str,
        item: &'a Item,
    },
    MessageDelta {
        turn: &'a str,
        item: &'a str,
        delta: &'a str,
    },
    SummaryPart {
        turn: &'a str,
        item: &'a str,
        index: usize,
    },
    SummaryDelta {
        turn: &'a str,
        item: &'a str,
        index: usize,
        delta: &'a str,
    },
    ReasoningDelta {
        turn: &'a str,
        item: &'a str,
        delta: &'a str,
    },
    /// A command runs, or a patch is applied.
    Running {
        turn: &'a str,
        item: &'a Item,
        asked: Asked,
    },
    CommandOutput {
        turn: &'a str,
        item: &'a str,
        delta: &'a str,
    },
    Usage {
        turn: &'a str,
    },
    RateLimits,
    Plan {
        turn: &'a str,
        steps: &'a [PlanStep],
    },
    Diff {
        turn: &'a str,
        diff: &'a str,
    },
    Error {
        turn: &'a str,
        error: &'a TurnError,
        will_retry: bool,
    },
    Unread,
    TurnEnded(&'a TurnShape),
}

/// Whether a person allowed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Yes,
    No,
}

/// Says it in the dialect of the worker.
pub(crate) fn say(thread: &Thread, event: &Event<'_>, stage: &mut Stage, now: Now) {
    match stage.dialect {
        Dialect::V1 => v1::say(thread, event, stage),
        Dialect::V2 => v2::say(thread, event, stage, now),
    }
}

/// The line that asks clients about an item: for approval of a command or a patch, or for the result of a tool.
pub(crate) fn ask(
    thread: &Thread,
    turn: &str,
    request: u64,
    item: &Item,
    reason: Option<&str>,
    stage: &mut Stage,
) -> Vec<u8> {
    match stage.dialect {
        Dialect::V1 => v1::ask(thread, turn, request, item, stage),
        Dialect::V2 => v2::ask(thread, turn, request, item, reason),
    }
}
