//! Bytes to lines. A line may arrive over any number of reads, and many lines in one.
//!
//! A line that lies whole inside one read is borrowed from it; only what crosses a read is copied. A line above the
//! limit is skipped to its end: its two ends are kept, for its id stands in one of them.

use memchr::memchr;

/// How much of each end of a too long line is kept.
const EDGE_BYTES: usize = 4096;
/// A buffer that grew beyond this for one long line is given back once the line is done.
const BUFFER_KEPT_BYTES: usize = 1 << 20;

/// Splits a stream of bytes into lines.
#[derive(Debug)]
pub struct Framer {
    line_bytes_max: usize,
    buffer: Vec<u8>,
    skipped: Option<Skipped>,
    /// The line in `buffer` or `skipped` has been handed out and goes with the next step.
    is_delivered: bool,
}

/// What the framer found next.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// One line without its line ending; never blank.
    Line(&'a [u8]),
    /// The line now arriving is above the limit and is being skipped; `head` is how it begins.
    Overflowing {
        /// The first bytes of the line.
        head: &'a [u8],
    },
    /// The end of a skipped line.
    TooLong {
        /// The first bytes of the line.
        head: &'a [u8],
        /// The last bytes of the line.
        tail: &'a [u8],
        /// How long the line was.
        bytes: u64,
    },
}

impl<'a> Frame<'a> {
    /// What a message that arrived whole is as a line; `None` for a blank one. A long one is not announced first, for
    /// there is no wait in it.
    pub(crate) fn of_message(message: &'a [u8], line_bytes_max: usize) -> Option<Self> {
        if message.len() <= line_bytes_max {
            return content(message).map(Self::Line);
        }
        let head = &message[..EDGE_BYTES.min(line_bytes_max)];
        let tail = &message[message.len().saturating_sub(EDGE_BYTES)..];
        Some(Self::TooLong { head, tail, bytes: message.len() as u64 })
    }
}

impl Framer {
    /// A framer that keeps lines of up to `line_bytes_max` bytes.
    #[must_use]
    pub fn new(line_bytes_max: usize) -> Self {
        Self { line_bytes_max, buffer: Vec::new(), skipped: None, is_delivered: false }
    }

    /// Takes the next frame off the front of `input`; `None` when all of `input` is consumed.
    pub fn next<'f, 'i: 'f>(&'f mut self, input: &mut &'i [u8]) -> Option<Frame<'f>> {
        self.forget_delivered();
        while !input.is_empty() {
            let end = memchr(b'\n', input);
            let part = &input[..end.unwrap_or(input.len())];
            if self.skipped.is_none() && self.buffer.len() + part.len() > self.line_bytes_max {
                return Some(self.begin_skipping(part));
            }
            *input = &input[part.len() + usize::from(end.is_some())..];
            if let Some(skipped) = &mut self.skipped {
                skipped.push(part);
                if end.is_some() {
                    return self.end_skipping();
                }
            } else if end.is_some() && self.buffer.is_empty() {
                if let Some(line) = content(part) {
                    return Some(Frame::Line(line));
                }
            } else {
                self.keep(part);
                if end.is_some() {
                    self.is_delivered = true;
                    // Asked twice because a borrow that is only sometimes returned would hold for the whole loop.
                    if content(&self.buffer).is_some() {
                        return content(&self.buffer).map(Frame::Line);
                    }
                    self.forget_delivered();
                }
            }
        }
        None
    }

    /// What the stream ended with, if it ended in mid line.
    pub fn finish(&mut self) -> Option<Frame<'_>> {
        self.forget_delivered();
        if self.skipped.is_some() {
            return self.end_skipping();
        }
        self.is_delivered = true;
        content(&self.buffer).map(Frame::Line)
    }

    fn keep(&mut self, part: &[u8]) {
        let bytes = self.buffer.len() + part.len();
        if bytes > BUFFER_KEPT_BYTES && bytes > self.buffer.capacity() {
            // One reservation for all that may come. Doubling would leave as much memory again behind, and the system
            // provides only the pages that are written to.
            self.buffer.reserve_exact(self.line_bytes_max - self.buffer.len());
        }
        self.buffer.extend_from_slice(part);
    }

    /// The part that overflowed stays in the input: the next step skips it.
    fn begin_skipping(&mut self, part: &[u8]) -> Frame<'_> {
        let begun = std::mem::take(&mut self.buffer);
        // The same length whatever the reads were: any chunking of a line gives the same frames.
        let kept = EDGE_BYTES.min(self.line_bytes_max);
        let head = begun.iter().chain(part).take(kept).copied().collect();
        let mut skipped = Skipped { head, tail: Vec::new(), bytes: 0 };
        skipped.push(&begun);
        Frame::Overflowing { head: &self.skipped.insert(skipped).head }
    }

    fn end_skipping(&mut self) -> Option<Frame<'_>> {
        self.is_delivered = true;
        self.skipped.as_ref().map(|skipped| Frame::TooLong {
            head: &skipped.head,
            tail: &skipped.tail,
            bytes: skipped.bytes,
        })
    }

    fn forget_delivered(&mut self) {
        if std::mem::take(&mut self.is_delivered) {
            self.skipped = None;
            self.buffer.clear();
            if self.buffer.capacity() > BUFFER_KEPT_BYTES {
                self.buffer = Vec::new();
            }
        }
    }
}

#[derive(Debug)]
struct Skipped {
    head: Vec<u8>,
    tail: Vec<u8>,
    bytes: u64,
}

impl Skipped {
    fn push(&mut self, part: &[u8]) {
        self.bytes += part.len() as u64;
        let part = &part[part.len().saturating_sub(EDGE_BYTES)..];
        let excess = (self.tail.len() + part.len()).saturating_sub(EDGE_BYTES);
        self.tail.drain(..excess);
        self.tail.extend_from_slice(part);
    }
}

/// The line without the `\r` of a CRLF ending; `None` for a blank line.
fn content(line: &[u8]) -> Option<&[u8]> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let is_blank = line.iter().all(u8::is_ascii_whitespace);
    (!is_blank).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(reads: &[&str], expected: &Expect) {
        let mut framer = Framer::new(20);
        let mut seen = String::new();
        for read in reads {
            let mut input = read.as_bytes();
            while let Some(frame) = framer.next(&mut input) {
                show(&frame, &mut seen);
            }
            assert!(input.is_empty());
        }
        if let Some(frame) = framer.finish() {
            seen.push_str("rest: ");
            show(&frame, &mut seen);
        }
        expected.assert_eq(&seen);
    }

    fn show(frame: &Frame<'_>, seen: &mut String) {
        let text = String::from_utf8_lossy;
        seen.push_str(&match frame {
            Frame::Line(line) => format!("line {:?}\n", text(line)),
            Frame::Overflowing { head } => format!("overflowing {:?}\n", text(head)),
            Frame::TooLong { head, tail, bytes } => {
                format!("too long {bytes}: {:?} … {:?}\n", text(head), text(tail))
            }
        });
    }

    #[test]
    fn lines_cross_reads_and_share_them() {
        check(
            &["one\ntw", "o\nth", "r", "ee\r\nfour\nrest"],
            &expect![[r#"
                line "one"
                line "two"
                line "three"
                line "four"
                rest: line "rest"
            "#]],
        );
    }

    #[test]
    fn blank_lines_are_passed_over() {
        check(
            &["\n\r\n  \n", " ", "\t\nx\n\n"],
            &expect![[r#"
            line "x"
        "#]],
        );
    }

    #[test]
    fn a_line_at_the_limit_is_kept_and_one_above_is_skipped() {
        check(
            &["12345678901234567890\n", "123456789012345678901\nnext\n"],
            &expect![[r#"
                line "12345678901234567890"
                overflowing "12345678901234567890"
                too long 21: "12345678901234567890" … "123456789012345678901"
                line "next"
            "#]],
        );
    }

    #[test]
    fn a_too_long_line_is_announced_before_it_ends() {
        check(
            &["1234567890", "12345678901234567890", "1234567890"],
            &expect![[r#"
                overflowing "12345678901234567890"
                rest: too long 40: "12345678901234567890" … "1234567890123456789012345678901234567890"
            "#]],
        );
    }

    #[test]
    fn a_skipped_line_is_not_buffered() {
        let mut framer = Framer::new(1 << 10);
        let chunk = vec![b'x'; 1 << 16];
        for _ in 0..1600 {
            let mut input = chunk.as_slice();
            while framer.next(&mut input).is_some() {}
        }
        let skipped = framer.skipped.as_ref().unwrap();
        assert_eq!(skipped.bytes, 1600 << 16);
        assert!(framer.buffer.capacity() <= 1 << 10);
        assert!(skipped.tail.capacity() <= 2 * EDGE_BYTES);
    }
}
