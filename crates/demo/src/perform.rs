//! Performs one act of a turn.

use std::time::{Duration, Instant};

use crate::burst;
use crate::clock::Now;
use crate::deeds;
use crate::faults;
use crate::items::{Body, Item};
use crate::play::{Act, Source};
use crate::record::Record;
use crate::speech::Event;
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

pub(crate) fn perform(
    thread: &mut Thread,
    turn: &mut Turn,
    act: Act,
    stage: &mut Stage,
    now: Now,
) -> Flow {
    match act {
        Act::Pause(pause) => return Flow::Due(now.instant + pause),
        Act::Open(body) => {
            let item = Item::started(body, now.unix_ms);
            thread.say(
                &Event::ItemStarted {
                    turn: &turn.id,
                    item: &item,
                },
                stage,
                now,
            );
            turn.open = Some(item);
        }
        Act::Stream { source, pause } => return stream(thread, turn, source, pause, stage, now),
        Act::SummaryPart { index } => {
            if let Some(Item {
                body: Body::Reasoning { id, summary, .. },
                ..
            }) = &mut turn.open
            {
                summary.push(String::new());
                thread.say(
                    &Event::SummaryPart {
                        turn: &turn.id,
                        item: id,
                        index,
                    },
                    stage,
                    now,
                );
            }
        }
        Act::SummaryText { index, text } => {
            if let Some(Item {
                body: Body::Reasoning { id, summary, .. },
                ..
            }) = &mut turn.open
            {
                summary[index].push_str(&text);
                thread.say(
                    &Event::SummaryDelta {
                        turn: &turn.id,
                        item: id,
                        index,
                        delta: &text,
                    },
                    stage,
                    now,
                );
            }
        }
        Act::ReasoningText(text) => {
            if let Some(Item {
                body: Body::Reasoning { id, content, .. },
                ..
            }) = &mut turn.open
            {
                if content.is_empty() {
                    content.push(String::new());
                }
                content[0].push_str(&text);
                thread.say(
                    &Event::ReasoningDelta {
                        turn: &turn.id,
                        item: id,
                        delta: &text,
                    },
                    stage,
                    now,
                );
            }
        }
        Act::Close => {
            if let Some(item) = turn.open.take() {
                let item = complete(thread, &turn.id, item, stage, now);
                if matches!(item.body, Body::AgentMessage { .. }) {
                    turn.last_message = Some(item);
                }
            }
        }
        Act::Usage(tokens) => turn::count(thread, turn, tokens, stage, now),
        Act::RateLimits => thread.say(&Event::RateLimits, stage, now),
        Act::Plan(steps) => thread.say(
            &Event::Plan {
                turn: &turn.id,
                steps: &steps,
            },
            stage,
            now,
        ),
        Act::Shell(shell) => deeds::begin_command(thread, turn, shell, stage, now),
        Act::Finish(item) => deeds::finish_command(thread, &turn.id, item, stage, now),
        Act::Patch(patch) => deeds::begin_patch(thread, turn, patch, stage, now),
        Act::Tools(calls) => calls
            .into_iter()
            .for_each(|call| deeds::begin_tool_call(thread, turn, call, stage, now)),
        Act::Retry(error) => thread.say(
            &Event::Error {
                turn: &turn.id,
                error: &error,
                will_retry: true,
            },
            stage,
            now,
        ),
        Act::Fail(error) => return Flow::End(End::Failed(error)),
        Act::Overflow => thread.is_full = true,
        Act::Hang => return Flow::Never,
        Act::Fault(fault) => {
            faults::commit(thread, turn, fault, stage, now);
            // What dies does not end its turn first.
            if fault.ending().is_some() {
                return Flow::Never;
            }
        }
    }
    Flow::On
}

/// Completes an item, keeps it and says so.
pub(crate) fn complete(
    thread: &mut Thread,
    turn: &str,
    item: Item,
    stage: &mut Stage,
    now: Now,
) -> Item {
    let item = Item {
        completed_at_ms: Some(now.unix_ms),
        ..item
    };
    thread.keep(
        &Record::Item {
            turn_id: turn.to_owned(),
            item: item.clone(),
        },
        stage,
    );
    thread.say(&Event::ItemCompleted { turn, item: &item }, stage, now);
    item
}

/// Paced, one delta at a time; at full speed, a slice between two looks at the inbox.
fn stream(
    thread: &Thread,
    turn: &mut Turn,
    mut source: Source,
    pause: Duration,
    stage: &mut Stage,
    now: Now,
) -> Flow {
    if pause.is_zero() {
        burst::slice(thread, turn, &mut source, stage, now);
    } else if let Some(delta) = source.next() {
        say_delta(thread, turn, &delta, stage, now);
    }
    if !source.is_done() {
        turn.acts.push_front(Act::Stream { source, pause });
        return Flow::Due(now.instant + pause);
    }
    if pause.is_zero() {
        Flow::On
    } else {
        Flow::Due(now.instant + pause)
    }
}

/// A delta of the open message.
pub(crate) fn say_delta(
    thread: &Thread,
    turn: &mut Turn,
    delta: &str,
    stage: &mut Stage,
    now: Now,
) {
    if let Some(Item {
        body: Body::AgentMessage { id, text, .. },
        ..
    }) = &mut turn.open
    {
        text.push_str(delta);
        thread.say(
            &Event::MessageDelta {
                turn: &turn.id,
                item: id,
                delta,
            },
            stage,
            now,
        );
    }
}
