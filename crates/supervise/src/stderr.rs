//! Stderr, read as long as the pipe is open, because a process blocks once 64 KiB of it lie unread; its end is kept for
//! failure reports.

use std::collections::VecDeque;
use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::ChildStderr;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// The end of what a process wrote to stderr. Its `Display` is one line that is safe to show on a terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StderrTail {
    /// The text; bytes that are no UTF-8 are replaced.
    pub text: String,
    /// How much it wrote in all.
    pub total_bytes: u64,
    /// Whether the first line of the text has lost its beginning.
    pub starts_mid_line: bool,
}

/// How much of a tail a report shows: its last lines, where the cause stands.
const SHOWN_CHARS_MAX: usize = 1_000;

impl fmt::Display for StderrTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text.trim_end();
        if text.is_empty() {
            return f.write_str("nothing on stderr");
        }
        let cut = text
            .char_indices()
            .rev()
            .nth(SHOWN_CHARS_MAX - 1)
            .map_or(0, |(at, _)| at);
        f.write_str("last stderr: ")?;
        if cut > 0 || self.starts_mid_line {
            f.write_char('…')?;
        }
        for (number, line) in text[cut..].lines().enumerate() {
            f.write_str(if number > 0 { " | " } else { "" })?;
            line.chars().try_for_each(|char| write_visibly(char, f))?;
        }
        Ok(())
    }
}

/// Control, bidirectional and zero-width characters could make a terminal show something else than what was written.
fn write_visibly(char: char, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match char {
        '"' | '\'' | '\\' => f.write_char(char),
        _ => write!(f, "{}", char.escape_debug()),
    }
}

/// Reads a process's stderr in a task of its own.
pub(crate) struct Stderr {
    ring: Arc<Mutex<Ring>>,
    reader: JoinSet<()>,
}

impl Stderr {
    pub(crate) fn new(pipe: ChildStderr, bytes_max: usize) -> Self {
        let ring = Arc::new(Mutex::new(Ring::new(bytes_max)));
        let mut reader = JoinSet::new();
        reader.spawn(read(pipe, Arc::clone(&ring)));
        Self { ring, reader }
    }

    pub(crate) fn tail(&self) -> StderrTail {
        lock(&self.ring).tail()
    }

    /// Waits for the end of stderr, but not for ever: a process that left the group may hold the pipe open.
    pub(crate) async fn drained(&mut self, within: Duration) {
        timeout(within, self.reader.join_next()).await.ok();
    }
}

async fn read(mut pipe: ChildStderr, ring: Arc<Mutex<Ring>>) {
    let mut chunk = [0; 8 << 10];
    while let Ok(length @ 1..) = pipe.read(&mut chunk).await {
        lock(&ring).push(&chunk[..length]);
    }
}

fn lock(ring: &Mutex<Ring>) -> MutexGuard<'_, Ring> {
    ring.lock().expect("nothing panics while it holds the ring")
}

/// The last bytes of a stream.
struct Ring {
    bytes: VecDeque<u8>,
    bytes_max: usize,
    total_bytes: u64,
    starts_mid_line: bool,
}

impl Ring {
    fn new(bytes_max: usize) -> Self {
        Self {
            bytes: VecDeque::new(),
            bytes_max,
            total_bytes: 0,
            starts_mid_line: false,
        }
    }

    fn push(&mut self, chunk: &[u8]) {
        self.total_bytes += chunk.len() as u64;
        self.bytes.extend(chunk);
        let excess = self.bytes.len().saturating_sub(self.bytes_max);
        if let Some(last_dropped) = self.bytes.drain(..excess).next_back() {
            self.starts_mid_line = last_dropped != b'\n';
        }
    }

    fn tail(&self) -> StderrTail {
        let (head, rest) = self.bytes.as_slices();
        StderrTail {
            text: String::from_utf8_lossy(&[head, rest].concat()).into_owned(),
            total_bytes: self.total_bytes,
            starts_mid_line: self.starts_mid_line,
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn tail_of(bytes: &[u8], bytes_max: usize, chunk_bytes: usize) -> StderrTail {
        let mut ring = Ring::new(bytes_max);
        bytes.chunks(chunk_bytes).for_each(|chunk| ring.push(chunk));
        ring.tail()
    }

    /// Any chunking of the same bytes has the same tail.
    fn check(bytes: &[u8], bytes_max: usize, expect: &Expect) {
        let whole = tail_of(bytes, bytes_max, bytes.len());
        for chunk_bytes in 1..bytes.len() {
            assert_eq!(tail_of(bytes, bytes_max, chunk_bytes), whole);
        }
        expect.assert_eq(&format!("{whole:?}\n{whole}\n"));
    }

    #[test]
    fn what_fits_is_kept_whole() {
        check(
            b"one\ntwo\n",
            8,
            &expect![[r#"
            StderrTail { text: "one\ntwo\n", total_bytes: 8, starts_mid_line: false }
            last stderr: one | two
        "#]],
        );
    }

    #[test]
    fn a_tail_that_starts_in_mid_line_says_so() {
        check(
            b"one\ntwo\n",
            6,
            &expect![[r#"
            StderrTail { text: "e\ntwo\n", total_bytes: 8, starts_mid_line: true }
            last stderr: …e | two
        "#]],
        );
    }

    #[test]
    fn a_tail_that_starts_with_a_line_says_nothing() {
        check(
            b"one\ntwo\n",
            4,
            &expect![[r#"
            StderrTail { text: "two\n", total_bytes: 8, starts_mid_line: false }
            last stderr: two
        "#]],
        );
    }

    #[test]
    fn invalid_utf8_is_replaced_and_control_characters_are_shown() {
        check(
            b"\xff \x1b[31m \"q\" \xe2\x80\xae\xc3\xa9\r\nend",
            100,
            &expect![[r#"
                StderrTail { text: "� \u{1b}[31m \"q\" \u{202e}é\r\nend", total_bytes: 22, starts_mid_line: false }
                last stderr: � \u{1b}[31m "q" \u{202e}é | end
            "#]],
        );
    }

    #[test]
    fn a_report_shows_the_last_thousand_characters() {
        let report = tail_of("é".repeat(5_000).as_bytes(), 64 << 10, 4096).to_string();
        assert_eq!(report, format!("last stderr: …{}", "é".repeat(1_000)));
    }
}
