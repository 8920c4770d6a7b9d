//! Commits faults: in the middle of a turn, before anyone is connected, or in the handshake.

use serde_json::Value;

use crate::items::{Body, Item};
use crate::lines::Refusal;
use crate::options::Dialect;
use crate::outputs::Output;
use crate::play::{Fault, Rest};
use crate::stage::Stage;
use crate::thread::Thread;
use crate::turn::Turn;
use crate::{v1, v2};

/// Commits a fault of a turn, in the middle of its open message.
pub(crate) fn commit(thread: &Thread, turn: &mut Turn, fault: Fault, stage: &mut Stage) {
    match fault {
        Fault::HalfLine { rest } => half_line(thread, turn, rest, stage),
        Fault::Garbage => raw(thread, b"}{ this is not JSON \x07\n", stage),
        Fault::InvalidUtf8 => {
            raw(thread, b"{\"method\":\"warning\",\"params\":{\"message\":\"\xff\xfe\xc3\x28\"}}\n", stage)
        }
        Fault::LongLine { bytes } => long_line(thread, turn, bytes, stage),
        Fault::DeepJson { depth } => {
            let line = format!("{{\"method\":\"warning\",\"params\":{}{}}}\n", "[".repeat(depth), "]".repeat(depth));
            raw(thread, line.as_bytes(), stage);
        }
        Fault::Noise { bytes } => stage.outputs.push(Output::Noise { bytes }),
        Fault::Leave(grandchild) => stage.outputs.push(Output::Leave(grandchild)),
        Fault::IgnoreTerminate => stage.outputs.push(Output::IgnoreTerminate),
        Fault::Answers(answers) => stage.answers = answers,
        Fault::Overload { every } => stage.overload_every = every,
        Fault::Crash { .. } => {}
    }
    if let Some(ending) = fault.ending() {
        stage.outputs.push(Output::End(ending));
    }
}

fn raw(thread: &Thread, bytes: &[u8], stage: &mut Stage) {
    stage.outputs.send_all(&thread.subscribers, bytes.to_vec());
}

/// A whole delta, sent in two pieces or only by half.
fn half_line(thread: &Thread, turn: &mut Turn, rest: Rest, stage: &mut Stage) {
    const DELTA: &str = "in two pieces; ";
    let Some(Item { body: Body::AgentMessage { id, text, .. }, .. }) = &mut turn.open else {
        return;
    };
    let (head, tail) = delta_halves(thread, &turn.id, id, stage);
    text.push_str(DELTA);
    let second = [DELTA.as_bytes(), &tail].concat();
    raw(thread, &head, stage);
    if let Rest::After(pause) = rest {
        stage.outputs.pause(pause);
        raw(thread, &second, stage);
    }
}

/// A delta whose line has so many bytes. Its text is left out of the item, which would have to be held.
fn long_line(thread: &Thread, turn: &Turn, bytes: u64, stage: &mut Stage) {
    let Some(Item { body: Body::AgentMessage { id, .. }, .. }) = &turn.open else {
        return;
    };
    let (head, tail) = delta_halves(thread, &turn.id, id, stage);
    let filler_bytes = bytes.saturating_sub(u64::try_from(head.len() + tail.len()).unwrap_or(0));
    for connection in thread.subscribers.clone() {
        stage.outputs.push(Output::LongLine { connection, head: head.clone(), filler_bytes, tail: tail.clone() });
    }
}

/// The line of a delta, before and after its text.
fn delta_halves(thread: &Thread, turn: &str, item: &str, stage: &Stage) -> (Vec<u8>, Vec<u8>) {
    match stage.dialect {
        Dialect::V2 => v2::DeltaFrame::new(thread.id(), turn, item, stage.now).halves(),
        Dialect::V1 => v1::DeltaFrame::halves(thread, turn),
    }
}

/// Commits a fault before anyone is connected.
pub(crate) fn commit_at_start(fault: Fault, stage: &mut Stage) {
    match fault {
        Fault::Noise { bytes } => stage.outputs.push(Output::Noise { bytes }),
        Fault::Leave(grandchild) => stage.outputs.push(Output::Leave(grandchild)),
        Fault::IgnoreTerminate => stage.outputs.push(Output::IgnoreTerminate),
        _ => {}
    }
    if let Some(ending) = fault.ending() {
        stage.outputs.push(Output::End(ending));
    }
}

/// How `initialize` is taken.
pub(crate) enum Handshake {
    Right,
    Refused(Refusal),
    Silent,
}

/// What a script wants of the handshake.
pub(crate) fn handshake(stage: &Stage, params: Option<&Value>) -> Handshake {
    let wanted = &stage.script.handshake;
    let says_more = |key: &&str| params.is_some_and(|params| params.get(key).is_some());
    if wanted.silent {
        return Handshake::Silent;
    }
    match ["protocolVersion", "protocol_version", "capabilities"].iter().find(|key| says_more(key)) {
        Some(key) if wanted.reject_v2 => {
            let message = format!("Invalid params: unknown field `{key}`");
            Handshake::Refused(Refusal::of(Refusal::INVALID_PARAMS, message))
        }
        _ => Handshake::Right,
    }
}
