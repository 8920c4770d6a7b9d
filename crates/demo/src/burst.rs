//! Deltas at full speed: many lines in one buffer, each a frame that is formatted once and a text that is spliced in.

use std::io::Write as _;

use crate::items::{Body, Item};
use crate::options::Dialect;
use crate::perform;
use crate::play::Source;
use crate::stage::{Need, Stage};
use crate::thread::Thread;
use crate::turn::Turn;
use crate::v2;

/// What is made between two looks at the inbox, and written at once.
const SLICE_BYTES: usize = 64 * 1024;
/// A dialect without frames makes so many lines in a slice.
const SLICE_LINES: usize = 256;

/// Says the next deltas of the open message, until a slice is full.
pub(crate) fn slice(thread: &Thread, turn: &mut Turn, source: &mut Source, stage: &mut Stage) {
    match stage.dialect {
        Dialect::V2 => framed(thread, turn, source, stage),
        Dialect::V1 => {
            for delta in std::iter::from_fn(|| source.next()).take(SLICE_LINES) {
                perform::say_delta(thread, turn, &delta, stage);
            }
        }
    }
}

fn framed(thread: &Thread, turn: &mut Turn, source: &mut Source, stage: &mut Stage) {
    let Some(Item { body: Body::AgentMessage { id, text, .. }, .. }) = &mut turn.open else {
        return;
    };
    let frame = v2::DeltaFrame::new(thread.id(), &turn.id, id, stage.now);
    let mut lines = Vec::with_capacity(SLICE_BYTES + 1024);
    while lines.len() < SLICE_BYTES && !source.is_done() {
        let said = text.len();
        match source {
            // The delta is written straight into the text: a million of them allocate nothing.
            Source::Numbered { letter, next, .. } => {
                push_numbered(text, *letter, *next);
                *next += 1;
                frame.write_plain(&text[said..], &mut lines);
            }
            Source::Words(words) => {
                let word = words.pop_front().unwrap_or_default();
                text.push_str(&word);
                frame.write(&word, &mut lines);
            }
        }
    }
    let listening = stage.listening(&thread.subscribers, Need::Nothing, v2::DeltaFrame::METHOD);
    stage.outputs.send_all(&listening, lines);
}

fn push_numbered(text: &mut String, letter: char, number: u64) {
    let mut digits = [0; 20];
    let mut free = &mut digits[..];
    write!(free, "{number}").expect("20 digits hold every u64");
    let unused = free.len();
    text.push(letter);
    text.push_str(std::str::from_utf8(&digits[..20 - unused]).expect("digits are ASCII"));
    text.push(' ');
}
