//! Performs one act of a turn.

use std::time::{Duration, Instant};

use crate::burst;
use crate::deeds;
use crate::faults;
use crate::items::{Body, Item};
use crate::play::{self, Act, Source};
use crate::record::Record;
use crate::speech::{Event, Happening, Model, Stream};
use crate::stage::Stage;
use crate::thread::Thread;
use crate::turn::{self, End, Turn};

/// What comes after an act.
#[derive(Debug)]
pub(crate) enum Flow {
    On,
    Due(Instant),
    Never,
    End(End),
}

/// No pause is longer than this, whatever is asked.
const PAUSE_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

impl Flow {
    fn after(pause: Duration, stage: &Stage) -> Self {
        Self::Due(stage.now.instant + pause.min(PAUSE_MAX))
    }
}

pub(crate) fn perform(thread: &mut Thread, turn: &mut Turn, act: Act, stage: &mut Stage) -> Flow {
    match act {
        Act::Pause(pause) => return Flow::after(pause, stage),
        Act::Open(body) => {
            let item = Item::started(body, stage.now.unix_ms);
            thread.say_in(&turn.id, Happening::ItemStarted(&item), stage);
            turn.open = Some(item);
        }
        Act::Stream { source, pause } => return stream(thread, turn, source, pause, stage),
        Act::SummaryPart { .. } | Act::SummaryText { .. } | Act::ReasoningText(_) => {
            reason(thread, turn, act, stage);
        }
        Act::Propose(lines) => propose(thread, turn, lines, stage),
        Act::Close => close(thread, turn, stage),
        Act::Usage(tokens) => turn::close_answer(thread, turn, tokens, stage),
        Act::RateLimits => thread.say(Event::RateLimits, stage),
        Act::Plan(steps) => thread.say_in(&turn.id, Happening::Plan(&steps), stage),
        Act::Shell(shell) => {
            deeds::choose_command(thread, turn, &shell, stage);
            turn::tell_answer(thread, turn, stage);
            deeds::begin_command(thread, turn, shell, stage);
        }
        Act::Finish(item) => {
            let output = deeds::finish_command(thread, &turn.id, item, stage);
            turn.outputs.extend(output);
        }
        Act::Patch(patch) => deeds::begin_patch(thread, turn, patch, stage),
        Act::Tools(calls) => {
            calls.iter().for_each(|call| deeds::choose_tool(thread, turn, call, stage));
            turn::tell_answer(thread, turn, stage);
            for call in calls {
                deeds::begin_tool_call(thread, turn, call, stage);
            }
        }
        Act::Retry(error) => thread.say_in(&turn.id, Happening::Retry(&error), stage),
        Act::Offline { reports, pause } => {
            let Some(left) = reports.checked_sub(1) else { return Flow::On };
            thread.say_in(&turn.id, Happening::Retry(&play::waiting_for_network()), stage);
            turn.acts.push_front(Act::Offline { reports: left, pause });
            return Flow::after(pause, stage);
        }
        Act::Fail(error) => return Flow::End(End::Failed(error)),
        Act::Overflow => thread.is_full = true,
        Act::Hang => return Flow::Never,
        Act::Fault(fault) => {
            faults::commit(thread, turn, fault, stage);
            // What dies does not end its turn first.
            if fault.ending().is_some() {
                return Flow::Never;
            }
        }
    }
    Flow::On
}

/// Completes the open item, and before it the plan that it proposes.
fn close(thread: &mut Thread, turn: &mut Turn, stage: &mut Stage) {
    if let Some(plan) = turn.proposal.take() {
        complete(thread, &turn.id, plan, stage);
    }
    if let Some(item) = turn.open.take() {
        let item = complete(thread, &turn.id, item, stage);
        thread.say_in(&turn.id, Happening::Model(Model::Item(&item)), stage);
        if matches!(item.body, Body::AgentMessage { .. }) {
            turn.last_message = Some(item);
        }
    }
}

/// Completes an item, keeps it and says so.
pub(crate) fn complete(thread: &mut Thread, turn: &str, item: Item, stage: &mut Stage) -> Item {
    let completed_at_ms = Some(stage.now.unix_ms);
    let item = Item { completed_at_ms, ..item };
    let turn_id = turn.to_owned();
    thread.keep(&Record::Item { turn_id, item: item.clone() }, stage);
    thread.say_in(turn, Happening::ItemCompleted(&item), stage);
    item
}

/// Paced, one delta at a time; at full speed, a slice between two looks at the inbox.
fn stream(thread: &Thread, turn: &mut Turn, mut source: Source, pause: Duration, stage: &mut Stage) -> Flow {
    if pause.is_zero() {
        burst::slice(thread, turn, &mut source, stage);
    } else if let Some(delta) = source.next() {
        say_delta(thread, turn, &delta, stage);
    }
    let is_done = source.is_done();
    if !is_done {
        turn.acts.push_front(Act::Stream { source, pause });
    }
    if is_done && pause.is_zero() { Flow::On } else { Flow::after(pause, stage) }
}

/// A delta of the open message.
pub(crate) fn say_delta(thread: &Thread, turn: &mut Turn, delta: &str, stage: &mut Stage) {
    let Some(item) = &mut turn.open else { return };
    let Body::AgentMessage { id, text, .. } = &mut item.body else {
        return;
    };
    text.push_str(delta);
    let (of, text) = (Stream::Message, delta);
    thread.say_in(&turn.id, Happening::Delta { item: id, of, text }, stage);
}

/// A plan, a line a delta. A turn has one at most: so says its id.
fn propose(thread: &Thread, turn: &mut Turn, lines: &[&str], stage: &mut Stage) {
    let id = format!("{}-plan", turn.id);
    let plan = |text| Item::started(Body::Plan { id: id.clone(), text }, stage.now.unix_ms);
    let (begun, whole) = (plan(String::new()), plan(lines.concat()));
    thread.say_in(&turn.id, Happening::ItemStarted(&begun), stage);
    for text in lines {
        thread.say_in(&turn.id, Happening::Delta { item: &id, of: Stream::Plan, text }, stage);
    }
    turn.proposal = Some(whole);
}

/// A piece of the open reasoning.
fn reason(thread: &Thread, turn: &mut Turn, act: Act, stage: &mut Stage) {
    let Some(item) = &mut turn.open else { return };
    let Body::Reasoning { id, summary, content } = &mut item.body else {
        return;
    };
    let (of, text) = match act {
        Act::SummaryPart { index } => {
            summary.push(String::new());
            return thread.say_in(&turn.id, Happening::SummaryPart { item: id, index }, stage);
        }
        Act::SummaryText { index, text } => {
            summary[index].push_str(&text);
            (Stream::Summary { index }, text)
        }
        Act::ReasoningText(text) => {
            content.resize_with(1, String::new);
            content[0].push_str(&text);
            (Stream::Reasoning, text)
        }
        _ => return,
    };
    let text = &text;
    thread.say_in(&turn.id, Happening::Delta { item: id, of, text }, stage);
}
