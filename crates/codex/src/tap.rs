//! The last frames of a connection, both ways, for a person who looks into it: a ring that is bounded by its bytes.
//!
//! It stands where the bytes pass, keeps the beginning of each line and does nothing else; what makes a frame readable
//! happens when somebody reads. Without it nothing is done at all.

use std::collections::VecDeque;
use std::mem::size_of;
use std::time::{SystemTime, UNIX_EPOCH};

use memchr::memchr;
use serde::{Serialize, Serializer};

use crate::secrets;

/// How much is kept of one frame: a line can be as long as it likes.
const FRAME_BYTES_MAX: usize = 16 << 10;

/// One line or message as it was on the wire, for a person to read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Frame {
    /// Its number among all frames of its connection, from 1 on; the missing ones are forgotten.
    pub seq: u64,
    /// When its last byte passed; as milliseconds since 1970 when it is written.
    #[serde(rename = "at_ms", serialize_with = "unix_ms")]
    pub at: SystemTime,
    /// Which way it went.
    pub direction: Direction,
    /// How long it was.
    pub bytes: usize,
    /// What it said, with secrets hidden; of a long one the beginning, and that it was cut.
    pub text: String,
}

/// Which way a frame went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// To the worker.
    Sent,
    /// From the worker.
    Received,
}

#[derive(Debug)]
pub(crate) struct Tap {
    bytes_max: usize,
    /// The beginnings of all frames that are kept, one behind the other.
    beginnings: VecDeque<u8>,
    kept: VecDeque<Kept>,
    /// The beginning of the line that is arriving, and how much of it has arrived.
    arriving: (Vec<u8>, usize),
    last_seq: u64,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    seq: u64,
    at: SystemTime,
    direction: Direction,
    bytes: usize,
    kept_bytes: usize,
}

/// A frame as it was kept. To make it readable takes time, and is done when no lock is held.
pub(crate) struct Raw {
    kept: Kept,
    beginning: Vec<u8>,
}

impl Tap {
    /// A tap that keeps so many bytes; `None` for none.
    pub(crate) fn new(bytes_max: usize) -> Option<Self> {
        let empty = Self {
            bytes_max,
            beginnings: VecDeque::new(),
            kept: VecDeque::new(),
            arriving: (Vec::new(), 0),
            last_seq: 0,
        };
        (bytes_max > 0).then_some(empty)
    }

    /// A line that was sent.
    pub(crate) fn handle_sent(&mut self, line: &[u8], at: SystemTime) {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        self.keep(beginning(line), line.len(), Direction::Sent, at);
    }

    /// Bytes that were received, where lines begin and end anywhere.
    pub(crate) fn handle_received(&mut self, mut bytes: &[u8], at: SystemTime) {
        while let Some(end) = memchr(b'\n', bytes) {
            let (mut head, received) = std::mem::take(&mut self.arriving);
            if received == 0 {
                self.handle_message(&bytes[..end], at);
            } else {
                extend(&mut head, &bytes[..end]);
                self.keep(&head, received + end, Direction::Received, at);
            }
            bytes = &bytes[end + 1..];
        }
        extend(&mut self.arriving.0, bytes);
        self.arriving.1 += bytes.len();
    }

    /// A whole message that was received.
    pub(crate) fn handle_message(&mut self, message: &[u8], at: SystemTime) {
        self.keep(beginning(message), message.len(), Direction::Received, at);
    }

    /// All frames that are kept, the oldest first.
    pub(crate) fn frames(&self) -> Vec<Raw> {
        let mut begin = 0;
        let raw = |kept: &Kept| {
            let range = begin..begin + kept.kept_bytes;
            begin = range.end;
            Raw { kept: *kept, beginning: self.beginnings.range(range).copied().collect() }
        };
        self.kept.iter().map(raw).collect()
    }

    fn keep(&mut self, beginning: &[u8], bytes: usize, direction: Direction, at: SystemTime) {
        if beginning.is_empty() {
            return;
        }
        self.last_seq += 1;
        let beginning = &beginning[..beginning.len().min(self.bytes_max.saturating_sub(size_of::<Kept>()))];
        while self.weight() + beginning.len() + size_of::<Kept>() > self.bytes_max {
            let Some(oldest) = self.kept.pop_front() else { return };
            self.beginnings.drain(..oldest.kept_bytes);
        }
        self.beginnings.extend(beginning);
        self.kept.push_back(Kept { seq: self.last_seq, at, direction, bytes, kept_bytes: beginning.len() });
    }

    fn weight(&self) -> usize {
        self.beginnings.len() + self.kept.len() * size_of::<Kept>()
    }
}

impl Raw {
    pub(crate) fn readable(self) -> Frame {
        let Kept { seq, at, direction, bytes, kept_bytes } = self.kept;
        let mut text = secrets::hide(&String::from_utf8_lossy(&self.beginning));
        if kept_bytes < bytes {
            text += &format!("… (the first {kept_bytes} of {bytes} bytes)");
        }
        Frame { seq, at, direction, bytes, text }
    }
}

fn beginning(line: &[u8]) -> &[u8] {
    &line[..line.len().min(FRAME_BYTES_MAX)]
}

fn extend(head: &mut Vec<u8>, part: &[u8]) {
    let room = FRAME_BYTES_MAX - head.len();
    head.extend_from_slice(&part[..part.len().min(room)]);
}

fn unix_ms<S: Serializer>(at: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    serializer.serialize_u64(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const AT: SystemTime = UNIX_EPOCH;

    fn texts(tap: &Tap) -> Vec<String> {
        tap.frames().into_iter().map(|raw| raw.readable().text).collect()
    }

    #[test]
    fn frames_of_both_ways_are_kept_in_order_with_their_secrets_hidden() {
        let mut tap = Tap::new(1 << 20).unwrap();
        tap.handle_sent(b"{\"id\":1,\"token\":\"abc\"}\n", AT);
        tap.handle_received(b"{\"id\":1}\n\n{\"n\":", AT);
        tap.handle_sent(b"{\"id\":2}\n", AT);
        tap.handle_received(b"7}\n", AT + Duration::from_millis(1500));
        let frames: Vec<Frame> = tap.frames().into_iter().map(Raw::readable).collect();
        assert_eq!(frames.iter().map(|frame| frame.seq).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert_eq!(frames[0].text, r#"{"id":1,"token":"[hidden]"}"#);
        let last = serde_json::to_string(&frames[3]).unwrap();
        assert_eq!(last, r#"{"seq":4,"at_ms":1500,"direction":"received","bytes":7,"text":"{\"n\":7}"}"#);
    }

    #[test]
    fn any_chunking_of_the_same_bytes_gives_the_same_frames() {
        let long = "x".repeat(3 * FRAME_BYTES_MAX);
        let bytes = format!("{{\"a\":1}}\n\n{long}\n{{\"b\":\"é\"}}\nopen");
        let whole = {
            let mut tap = Tap::new(1 << 20).unwrap();
            tap.handle_received(bytes.as_bytes(), AT);
            texts(&tap)
        };
        assert_eq!(whole.len(), 3);
        for size in [1, 2, 3, 7, 1000, FRAME_BYTES_MAX, FRAME_BYTES_MAX + 1] {
            let mut tap = Tap::new(1 << 20).unwrap();
            bytes.as_bytes().chunks(size).for_each(|chunk| tap.handle_received(chunk, AT));
            assert_eq!(texts(&tap), whole, "in chunks of {size}");
        }
    }

    #[test]
    fn a_line_of_any_length_costs_no_more_than_its_cut_and_says_so() {
        let mut tap = Tap::new(1 << 20).unwrap();
        let part = vec![b'x'; 1 << 20];
        for _ in 0..100 {
            tap.handle_received(&part, AT);
        }
        tap.handle_received(b"\n", AT);
        assert!(tap.beginnings.capacity() + tap.arriving.0.capacity() <= 4 * FRAME_BYTES_MAX);
        let frame = tap.frames().remove(0).readable();
        assert_eq!(frame.bytes, 100 << 20);
        assert!(frame.text.ends_with("… (the first 16384 of 104857600 bytes)"), "{}", &frame.text[16380..]);
    }

    #[test]
    fn the_oldest_frames_make_way_and_the_bound_holds() {
        let mut tap = Tap::new(4096).unwrap();
        for n in 0..10_000 {
            tap.handle_sent(format!("{{\"id\":{n}}}\n").as_bytes(), AT);
            assert!(tap.weight() <= 4096);
        }
        assert_eq!(texts(&tap).last().unwrap(), r#"{"id":9999}"#);
        assert_eq!(tap.frames().last().unwrap().kept.seq, 10_000);
        assert_eq!(tap.frames().len(), tap.kept.len());
        assert!(tap.kept.len() > 20);
        tap.handle_received(&[b'y'; 9000], AT);
        tap.handle_received(b"\n", AT);
        assert_eq!(tap.kept.len(), 1, "one long frame is all that fits");
        assert!(Tap::new(0).is_none());
        let mut tiny = Tap::new(1).unwrap();
        tiny.handle_sent(b"{}\n", AT);
        assert!(tiny.frames().is_empty(), "there is no room for any");
    }
}
