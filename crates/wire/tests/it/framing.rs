//! What a peer sends in any pieces gives the same events, and holds no more memory than the limits say.
//! The target `framing` of `fuzz/` is made of this file too.

use std::time::{Duration, Instant};

use allocation_counter::measure;
use serde::de::IgnoredAny;
use wire::{Connection, JsonRpcField, Limits, peek};

use crate::show;

/// How often a peer says the same again, to see whether something grows with it.
const REPEATS: usize = 16;
/// What a connection with [`small_limits`] may hold at once: both ends of a skipped line, and the refusals that wait, each with an
/// id that may be as long as such an end.
const HELD_BYTES_MAX: u64 = 64 << 10;

/// The first byte says how many of the next ones are the sizes of the reads; the rest is what the peer sends.
pub(crate) fn check(input: &[u8]) {
    let (sizes, bytes) = split(input);
    let whole = outcome_of(bytes, &[bytes.len().max(1)]);
    assert_eq!(outcome_of(bytes, &sizes), whole, "read in pieces of {sizes:?}");
    assert_eq!(outcome_of(bytes, &[1]), whole, "read byte by byte");
    bytes.split(|byte| *byte == b'\n').for_each(check_verdict);
    let held = measure(|| say_repeatedly(bytes)).bytes_max;
    assert!(held <= HELD_BYTES_MAX, "a connection held {held} bytes");
}

fn split(input: &[u8]) -> (Vec<usize>, &[u8]) {
    let Some((&count, rest)) = input.split_first() else { return (vec![1], input) };
    let (sizes, bytes) = rest.split_at(usize::from(count % 8).min(rest.len()));
    let sizes: Vec<usize> = sizes.iter().map(|size| usize::from(*size).max(1)).collect();
    (if sizes.is_empty() { vec![1] } else { sizes }, bytes)
}

/// What is taken for an envelope is passed on as JSON unread, so `serde_json` must agree that it is.
fn check_verdict(line: &[u8]) {
    if peek(line, Limits::default().depth_max).is_ok() {
        let text = std::str::from_utf8(line).unwrap();
        assert!(serde_json::from_str::<IgnoredAny>(text).is_ok(), "an envelope that is no JSON: {text}");
    }
}

fn say_repeatedly(bytes: &[u8]) {
    let mut connection = Connection::new(small_limits(), JsonRpcField::Omitted);
    for _ in 0..REPEATS {
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = &rest[connection.handle_input(rest)..];
            while connection.poll_event().is_some() {}
        }
    }
    connection.handle_eof();
    while connection.poll_event().is_some() {}
}

pub(crate) fn small_limits() -> Limits {
    Limits {
        line_bytes_max: 60,
        depth_max: 4,
        calls_max: 3,
        queued_bytes_max: 400,
        requests_max: 3,
        events_max: 4,
        event_bytes_max: 200,
    }
}

#[expect(clippy::disallowed_methods, reason = "any instant will do as zero")]
pub(crate) fn zero() -> Instant {
    Instant::now()
}

/// Everything that comes out of `bytes` when they are read in pieces of the given sizes.
pub(crate) fn outcome_of(bytes: &[u8], pieces: &[usize]) -> String {
    // No call is ever held back: when it leaves would depend on the reads.
    let limits = Limits { calls_max: 8, ..small_limits() };
    let mut connection = Connection::new(limits, JsonRpcField::Omitted);
    let deadline = zero() + Duration::from_secs(1);
    for method in ["a", "b", "c", "d"] {
        connection.call(method, None, deadline).unwrap();
    }
    while connection.poll_transmit().is_some() {}
    let mut events = String::new();
    let mut sizes = pieces.iter().copied().cycle();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (piece, later) = rest.split_at(sizes.next().unwrap_or(rest.len()).min(rest.len()));
        let mut offered = piece;
        while !offered.is_empty() {
            offered = &offered[connection.handle_input(offered)..];
            collect(&mut connection, &mut events);
        }
        rest = later;
    }
    let refusals: Vec<_> = std::iter::from_fn(|| connection.poll_transmit()).collect();
    connection.handle_eof();
    collect(&mut connection, &mut events);
    events + &String::from_utf8_lossy(&refusals.concat())
}

fn collect(connection: &mut Connection, events: &mut String) {
    while let Some(event) = connection.poll_event() {
        events.push_str(&show::event(&event));
        events.push('\n');
    }
}

#[test]
fn the_corpus_of_the_fuzzer_is_read_alike_in_any_pieces() {
    testkit::corpus::replay("framing", check);
}
