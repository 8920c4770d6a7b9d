//! What the worker wants done, in order. The shell drains it after every input, so that it holds what one input causes;
//! only while half a line waits for its rest do answers pile up behind it, and that wait has a limit.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The rest of a line comes after this at the latest, whatever is asked.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// One client's link to the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// Something for the shell to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Output {
    /// Bytes for one connection: whole lines, unless a fault wants otherwise.
    Bytes {
        /// Who gets them.
        connection: ConnectionId,
        /// What they get.
        bytes: Vec<u8>,
    },
    /// One line that never stands in memory: `head`, then `x` so many times, then `tail`.
    LongLine {
        /// Who gets it.
        connection: ConnectionId,
        /// How it begins.
        head: Vec<u8>,
        /// How many `x` follow.
        filler_bytes: u64,
        /// How it ends, newline included.
        tail: Vec<u8>,
    },
    /// One line for standard error.
    Log(String),
    /// So many bytes of noise on standard error.
    Noise {
        /// How many.
        bytes: u64,
    },
    /// Leave a process behind.
    Leave(Grandchild),
    /// Ignore SIGTERM from now on.
    IgnoreTerminate,
    /// End the process; nothing after it is done.
    End(Ending),
}

/// Where a process that is left behind belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grandchild {
    /// In the worker's own process group.
    InGroup,
    /// In a session of its own.
    Apart,
}

/// How the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With an exit code.
    Exit(u8),
    /// By SIGABRT.
    Abort,
    /// By SIGKILL.
    Kill,
}

#[derive(Debug)]
enum Entry {
    Ready(Output),
    Pause(Duration),
}

/// The queue between the worker and its shell.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    entries: VecDeque<Entry>,
    paused_until: Option<Instant>,
}

impl Outputs {
    pub(crate) fn push(&mut self, output: Output) {
        self.entries.push_back(Entry::Ready(output));
    }

    pub(crate) fn send(&mut self, connection: ConnectionId, bytes: Vec<u8>) {
        self.push(Output::Bytes { connection, bytes });
    }

    /// The same bytes for several, copied no more often than needed.
    pub(crate) fn send_all(&mut self, connections: &[ConnectionId], bytes: Vec<u8>) {
        if let Some((last, others)) = connections.split_last() {
            others.iter().for_each(|connection| self.send(*connection, bytes.clone()));
            self.send(*last, bytes);
        }
    }

    /// Holds back everything that is pushed later, so that nothing lands in the middle of half a line.
    pub(crate) fn pause(&mut self, pause: Duration) {
        self.entries.push_back(Entry::Pause(pause.min(PAUSE_MAX)));
    }

    pub(crate) fn pop(&mut self, now: Instant) -> Option<Output> {
        if self.paused_until.is_some_and(|until| now < until) {
            return None;
        }
        self.paused_until = None;
        match self.entries.pop_front()? {
            Entry::Ready(output) => Some(output),
            Entry::Pause(pause) => {
                self.paused_until = Some(now + pause);
                None
            }
        }
    }

    pub(crate) fn paused_until(&self) -> Option<Instant> {
        self.paused_until
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.paused_until.is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{ConnectionId, Output, Outputs, PAUSE_MAX};

    #[test]
    fn no_pause_is_longer_than_its_limit() {
        let (mut outputs, start) = (Outputs::default(), Instant::now());
        outputs.pause(Duration::MAX);
        outputs.send(ConnectionId(0), b"rest\n".to_vec());
        assert_eq!(outputs.pop(start), None);
        assert_eq!(outputs.paused_until(), Some(start + PAUSE_MAX));
        let rest = Output::Bytes { connection: ConnectionId(0), bytes: b"rest\n".to_vec() };
        assert_eq!(outputs.pop(start + PAUSE_MAX), Some(rest));
    }
}
