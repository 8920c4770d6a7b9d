//! What a thread has to say, before a dialect puts it into words.

use serde_json::Value;

use crate::items::Item;
use crate::options::Dialect;
use crate::play::PlanStep;
use crate::shapes::{Status, Tokens, TurnError, TurnShape};
use crate::stage::Stage;
use crate::thread::Thread;
use crate::{v1, v2};

/// Something that happens to a thread.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Event<'a> {
    Status(Status),
    Warning(&'a str),
    /// A request needs no answer any more.
    Resolved {
        request: u64,
    },
    RateLimits,
    Unread,
    TurnStarted(&'a TurnShape),
    TurnEnded(&'a TurnShape),
}

/// Something that happens in a turn.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Happening<'a> {
    ItemStarted(&'a Item),
    ItemCompleted(&'a Item),
    /// A command runs, or a patch is applied.
    Running(&'a Item, Asked),
    SummaryPart {
        item: &'a str,
        index: usize,
    },
    /// A piece of text of an item.
    Delta {
        item: &'a str,
        of: Stream,
        text: &'a str,
    },
    Usage,
    Plan(&'a [PlanStep]),
    Diff(&'a str),
    /// The model itself says something.
    Model(Model<'a>),
    /// The provider failed and is asked again.
    Retry(&'a TurnError),
    Failed(&'a TurnError),
}

/// What passes between the worker and its model.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Model<'a> {
    /// A message or reasoning, from either.
    Item(&'a Item),
    /// It wants a tool to be called.
    Call { id: &'a str, namespace: Option<&'a str>, name: &'a str, arguments: &'a str },
    /// It is told what a tool said.
    Output { call: &'a str, output: &'a Value },
    /// Its answer is complete.
    Answered(Tokens),
}

/// What a piece of text belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Message,
    Plan,
    Summary { index: usize },
    Reasoning,
    CommandOutput,
}

/// Whether a person allowed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Yes,
    No,
}

/// Says it in the dialect of the worker.
pub(crate) fn say(thread: &Thread, event: Event<'_>, stage: &mut Stage) {
    match stage.dialect {
        Dialect::V1 => v1::say(thread, event, stage),
        Dialect::V2 => v2::say(thread, event, stage),
    }
}

/// The same for what happens in a turn.
pub(crate) fn say_in(thread: &Thread, turn: &str, what: Happening<'_>, stage: &mut Stage) {
    match stage.dialect {
        Dialect::V1 => v1::say_in(thread, turn, what, stage),
        Dialect::V2 => v2::say_in(thread, turn, what, stage),
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
