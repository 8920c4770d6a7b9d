//! The last events of something, each with its number and ready to be sent: pure, bounded by bytes and by count.
//! Readers are mere cursors, so that no reader can hold anyone up, and one that fell behind is told how much it missed.

use std::collections::VecDeque;

/// How much is kept.
#[derive(Clone, Copy, Debug)]
pub struct RingLimits {
    /// How many bytes of events, as they are sent.
    pub bytes_max: usize,
    /// How many events.
    pub events_max: usize,
    /// How long one event may be; of a longer one only its type and length are kept.
    pub event_bytes_max: usize,
}

/// Events by number, the oldest first.
pub(crate) struct Ring {
    run: Box<str>,
    limits: RingLimits,
    events: VecDeque<Box<[u8]>>,
    bytes: usize,
    /// The number of the newest event ever; the first has number 1.
    newest: u64,
    is_closed: bool,
}

/// Where a reader stands: the number of the last event that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cursor {
    /// It has everything up to this number.
    After(u64),
    /// What it has is of another run, whose numbers mean nothing here.
    OtherRun,
}

/// What a reader gets next.
#[derive(Debug)]
pub(crate) struct Read {
    /// Whole events; empty if there is nothing new.
    pub bytes: Vec<u8>,
    /// Where it stands then.
    pub cursor: Cursor,
    /// Nothing will come after these.
    pub is_last: bool,
}

/// A `Last-Event-ID` that no event of ours ever had.
#[derive(Debug, thiserror::Error)]
#[error("the Last-Event-ID `{0}` is none of ours; send the id of an event as it came, or none")]
pub(crate) struct NotAnId(String);

impl Ring {
    /// An empty ring. `run` tells the ids of this run of the program from those of another.
    pub(crate) fn new(run: &str, limits: RingLimits) -> Self {
        Self { run: run.into(), limits, events: VecDeque::new(), bytes: 0, newest: 0, is_closed: false }
    }

    /// Adds an event, an object of JSON, and forgets the oldest ones beyond the limits.
    pub(crate) fn push(&mut self, json: &str) {
        if self.is_closed {
            return;
        }
        self.newest += 1;
        let event = if json.len() > self.limits.event_bytes_max {
            self.format(self.newest, &left_out(json))
        } else {
            self.format(self.newest, json)
        };
        self.bytes += event.len();
        self.events.push_back(event.into());
        while self.bytes > self.limits.bytes_max || self.events.len() > self.limits.events_max {
            let Some(oldest) = self.events.pop_front() else {
                break;
            };
            self.bytes -= oldest.len();
        }
    }

    /// No event will come any more.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
    }

    /// What is kept.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where a reader stands that wants only what is new.
    pub(crate) fn now(&self) -> Cursor {
        Cursor::After(self.newest)
    }

    /// Where a reader stands that sends this `Last-Event-ID`.
    pub(crate) fn cursor(&self, id: &str) -> Result<Cursor, NotAnId> {
        let (run, number) = id.split_once('-').ok_or_else(|| NotAnId(id.to_owned()))?;
        let number: u64 = number.parse().map_err(|_| NotAnId(id.to_owned()))?;
        Ok(if run == &*self.run && number <= self.newest { Cursor::After(number) } else { Cursor::OtherRun })
    }

    /// The next events for a reader, up to about `bytes_max`, with what it missed said first.
    pub(crate) fn read(&self, cursor: Cursor, bytes_max: usize) -> Read {
        let oldest = self.newest - self.events.len() as u64 + 1;
        let mut bytes = Vec::new();
        let (after, missed) = match cursor {
            Cursor::After(number) if number + 1 >= oldest => (number, None),
            Cursor::After(number) => (oldest - 1, Some(format!(r#"{},"reason":"too_old""#, oldest - 1 - number))),
            Cursor::OtherRun => (oldest - 1, Some(r#"null,"reason":"other_run""#.to_owned())),
        };
        if let Some(missed) = missed {
            bytes.extend(self.format(after, &format!(r#"{{"type":"missed","events":{missed}}}"#)));
        }
        let mut number = after;
        let skipped = usize::try_from(after + 1 - oldest).unwrap_or(usize::MAX);
        for event in self.events.iter().skip(skipped) {
            if !bytes.is_empty() && bytes.len() + event.len() > bytes_max {
                break;
            }
            bytes.extend_from_slice(event);
            number += 1;
        }
        Read { bytes, cursor: Cursor::After(number), is_last: self.is_closed && number == self.newest }
    }

    /// An event as it is sent. Between the tokens of JSON line breaks are mere space, but here they would end the line.
    fn format(&self, number: u64, json: &str) -> Vec<u8> {
        let mut event = format!("id: {}-{number}\ndata: ", self.run).into_bytes();
        event.extend(json.bytes().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }));
        event.extend_from_slice(b"\n\n");
        event
    }
}

/// What is kept of an event that is too long.
fn left_out(json: &str) -> String {
    #[derive(serde::Deserialize)]
    struct Typed<'a> {
        #[serde(rename = "type", borrow)]
        kind: std::borrow::Cow<'a, str>,
    }
    let kind = serde_json::from_str(json).map_or_else(|_| "unknown".into(), |Typed { kind }| kind);
    serde_json::json!({ "type": "too_long", "event": kind, "bytes": json.len() }).to_string()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::{Cursor, Ring, RingLimits};

    const LIMITS: RingLimits = RingLimits { bytes_max: 120, events_max: 3, event_bytes_max: 60 };

    fn ring(events: &[&str]) -> Ring {
        let mut ring = Ring::new("r", LIMITS);
        events.iter().for_each(|event| ring.push(event));
        ring
    }

    fn check(ring: &Ring, cursor: Cursor, expected: &Expect) {
        let read = ring.read(cursor, usize::MAX);
        let text = String::from_utf8(read.bytes).unwrap();
        expected.assert_eq(&format!("{text}{:?} last: {}\n", read.cursor, read.is_last));
    }

    #[test]
    fn a_reader_gets_what_came_after_its_cursor() {
        let mut ring = ring(&[r#"{"a":1}"#, r#"{"a":2}"#]);
        check(
            &ring,
            Cursor::After(0),
            &expect![[r#"
            id: r-1
            data: {"a":1}

            id: r-2
            data: {"a":2}

            After(2) last: false
        "#]],
        );
        check(
            &ring,
            ring.cursor("r-1").unwrap(),
            &expect![[r#"
            id: r-2
            data: {"a":2}

            After(2) last: false
        "#]],
        );
        ring.close();
        ring.push(r#"{"a":3}"#);
        check(
            &ring,
            ring.now(),
            &expect![[r#"
            After(2) last: true
        "#]],
        );
    }

    #[test]
    fn a_reader_that_fell_behind_or_comes_from_another_run_is_told() {
        let ring = ring(&[r#"{"a":1}"#, r#"{"a":2}"#, r#"{"a":3}"#, r#"{"a":4}"#, r#"{"a":5}"#]);
        check(
            &ring,
            Cursor::After(1),
            &expect![[r#"
            id: r-2
            data: {"type":"missed","events":1,"reason":"too_old"}

            id: r-3
            data: {"a":3}

            id: r-4
            data: {"a":4}

            id: r-5
            data: {"a":5}

            After(5) last: false
        "#]],
        );
        for id in ["old-3", "r-6"] {
            assert_eq!(ring.cursor(id).unwrap(), Cursor::OtherRun);
        }
        let read = ring.read(Cursor::OtherRun, 1);
        expect![[r#"
            id: r-2
            data: {"type":"missed","events":null,"reason":"other_run"}

        "#]]
        .assert_eq(&String::from_utf8(read.bytes).unwrap());
        for id in ["", "3", "r-", "r-x", "r--1"] {
            assert!(ring.cursor(id).is_err(), "{id}");
        }
    }

    #[test]
    fn limits_hold_and_what_is_too_long_is_said() {
        let long = format!(r#"{{"type":"text","text":"{}"}}"#, "x".repeat(100));
        let mut ring = ring(&[&long]);
        check(
            &ring,
            Cursor::After(0),
            &expect![[r#"
            id: r-1
            data: {"bytes":125,"event":"text","type":"too_long"}

            After(1) last: false
        "#]],
        );
        for _ in 0..100 {
            ring.push(r#"{"type":"text","text":"some words"}"#);
            assert!(ring.bytes() <= 120 && ring.events.len() <= 3);
        }
    }

    #[test]
    fn a_line_break_between_tokens_does_not_end_the_event() {
        check(
            &ring(&["{\r\"a\":\n1}"]),
            Cursor::After(0),
            &expect![[r#"
            id: r-1
            data: { "a": 1}

            After(1) last: false
        "#]],
        );
    }

    #[test]
    fn pieces_put_together_are_the_whole_whatever_their_size() {
        let ring = ring(&[r#"{"a":1}"#, r#"{"a":2}"#, r#"{"a":3}"#]);
        let whole = ring.read(Cursor::After(0), usize::MAX).bytes;
        for bytes_max in 0..70 {
            let (mut cursor, mut pieces) = (Cursor::After(0), Vec::new());
            loop {
                let read = ring.read(cursor, bytes_max);
                if read.bytes.is_empty() {
                    break;
                }
                pieces.extend(read.bytes);
                cursor = read.cursor;
            }
            assert_eq!(pieces, whole, "{bytes_max}");
        }
    }
}
