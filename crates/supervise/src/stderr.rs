//! Stderr, read as long as the pipe is open, because a process blocks once 64 KiB of it lie unread; its end is kept.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::ChildStderr;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::tail::StderrTail;

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
        Self { bytes: VecDeque::new(), bytes_max, total_bytes: 0, starts_mid_line: false }
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
    use super::*;

    /// The tail of the bytes, which no way of chunking them may change.
    fn tail_of(bytes: &[u8], bytes_max: usize) -> StderrTail {
        let pushed = |chunk_bytes| {
            let mut ring = Ring::new(bytes_max);
            bytes.chunks(chunk_bytes).for_each(|chunk| ring.push(chunk));
            ring.tail()
        };
        let whole = pushed(bytes.len());
        assert!((1..bytes.len()).all(|chunk_bytes| pushed(chunk_bytes) == whole));
        assert_eq!(whole.total_bytes, bytes.len() as u64);
        whole
    }

    #[test]
    fn what_fits_is_kept_whole() {
        let tail = tail_of(b"one\ntwo\n", 8);
        assert_eq!(tail.text, "one\ntwo\n");
        assert!(!tail.starts_mid_line);
    }

    #[test]
    fn a_tail_that_starts_in_mid_line_says_so() {
        let tail = tail_of(b"one\ntwo\n", 6);
        assert_eq!(tail.text, "e\ntwo\n");
        assert!(tail.starts_mid_line);
    }

    #[test]
    fn a_tail_that_starts_with_a_line_says_nothing() {
        let tail = tail_of(b"one\ntwo\n", 4);
        assert_eq!(tail.text, "two\n");
        assert!(!tail.starts_mid_line);
    }

    #[test]
    fn invalid_utf8_is_replaced() {
        assert_eq!(tail_of(b"caf\xe9\n\xff", 8).text, "caf\u{fffd}\n\u{fffd}");
    }
}
