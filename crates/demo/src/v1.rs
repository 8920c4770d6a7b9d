//! The dialect of old: conversations and `codex/event/*`.

use serde_json::Value;

use crate::approval::Decision;
use crate::clock::Now;
use crate::incoming::Outcome;
use crate::items::Item;
use crate::lines::Refusal;
use crate::speech::Event;
use crate::stage::{Call, Stage};
use crate::thread::Thread;
use crate::worker::Worker;

/// A line that some workers of old sent unasked.
pub(crate) const READY_LINE: &[u8] = b"{\"event\":\"ready\"}\n";

pub(crate) fn call(
    _: &mut Worker,
    _: &Call,
    _: &str,
    _: Option<Value>,
    _: Now,
) -> Result<(), Refusal> {
    Err(Refusal::invalid("Invalid request"))
}
pub(crate) fn say(_: &Thread, _: &Event<'_>, _: &mut Stage) {}
pub(crate) fn ask(_: &Thread, _: u64, _: &Item) -> Vec<u8> {
    Vec::new()
}
pub(crate) fn decision(_: &Outcome) -> Decision {
    Decision::Invalid
}
pub(crate) fn delta_line(_: &Thread, _: &str, _: &str) -> Vec<u8> {
    Vec::new()
}
pub(crate) fn delta_halves(_: &Thread, _: &str) -> (Vec<u8>, Vec<u8>) {
    (Vec::new(), Vec::new())
}
