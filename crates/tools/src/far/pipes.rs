//! A process of ours: lines to its stdin, lines from its stdout.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use supervise::{Child, Exit, Ladder, SendError};
use tokio::io::AsyncReadExt;
use tokio::time::timeout;
use wire::{Frame, Framer};

use super::{Arrived, Line};
use crate::deadline::reached;

/// What is read at once.
const READ_BYTES: usize = 64 << 10;
/// What may wait for a process that does not read.
const UNSENT_BYTES_MAX: usize = 16 << 20;
/// How long what a process said last may take to be read once it is gone, or takes nothing more.
const LAST_WORDS_TIMEOUT: Duration = Duration::from_millis(500);

pub(crate) struct Pipes {
    child: Child,
    framer: Framer,
    read: Vec<u8>,
    unsent: VecDeque<Vec<u8>>,
    unsent_bytes: usize,
    /// Until when some of that must have been read, and how long it may take: a process that hangs is of no more use.
    stalled_at: Option<Instant>,
    read_timeout: Duration,
    /// Set once it is gone, or cannot be told anything any more.
    last_words_until: Option<Instant>,
    is_over: bool,
}

impl Pipes {
    pub(super) fn new(child: Child, line_bytes_max: usize, read_timeout: Duration) -> Self {
        let framer = Framer::new(line_bytes_max);
        Self {
            child,
            framer,
            read: Vec::with_capacity(READ_BYTES),
            unsent: VecDeque::new(),
            unsent_bytes: 0,
            stalled_at: None,
            read_timeout,
            last_words_until: None,
            is_over: false,
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.process.pid()
    }

    /// How it has ended, if it has, or is just about to.
    pub(super) async fn exit(&mut self) -> Option<Exit> {
        timeout(LAST_WORDS_TIMEOUT, self.child.process.wait()).await.ok()
    }

    pub(super) fn processor_time(&self) -> Option<Duration> {
        self.child.process.processor_time()
    }

    pub(super) fn stderr(&self) -> String {
        self.child.process.stderr().text
    }

    pub(super) fn has_room(&self) -> bool {
        self.unsent.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.unsent_bytes >= UNSENT_BYTES_MAX
    }

    pub(super) fn send(&mut self, line: Vec<u8>) {
        self.unsent_bytes += line.len();
        self.unsent.push_back(line);
        self.flush();
    }

    pub(super) fn is_at_work(&mut self) {
        if let Some(stalled_at) = &mut self.stalled_at {
            *stalled_at = Instant::now() + self.read_timeout;
        }
    }

    /// Reads on even if nothing can be written: a server that waits for us to read would otherwise wait for ever.
    pub(super) async fn arrived(&mut self) -> Arrived {
        if self.is_over {
            return Arrived::Ended;
        }
        let (is_parting, until) = (self.last_words_until.is_some(), self.last_words_until);
        let stalled_at = self.stalled_at;
        let Self { child, read, unsent, .. } = self;
        tokio::select! {
            biased;
            // Before what it says: what it has left behind may say something for ever.
            _ = child.process.wait(), if !is_parting => {
                self.part();
                Arrived::Room
            }
            () = reached(until) => self.last_words(),
            _ = child.stdin.ended(), if !is_parting => {
                self.part();
                Arrived::Room
            }
            () = reached(stalled_at) => {
                self.is_over = true;
                let why = format!("it has read nothing of what it was told for {:?}", self.read_timeout);
                Arrived::Undelivered { number: None, why, may_have_arrived: true }
            }
            count = child.stdout.read_buf(read) => match count {
                Ok(count) if count > 0 => Arrived::Lines,
                _ => self.last_words(),
            },
            ready = child.stdin.ready(), if !unsent.is_empty() => {
                if ready.is_ok() {
                    self.flush();
                } else {
                    self.part();
                }
                Arrived::Room
            }
        }
    }

    pub(super) fn take(&mut self, mut each: impl FnMut(Line<'_>)) {
        let mut input = &self.read[..];
        while let Some(frame) = self.framer.next(&mut input) {
            give(&frame, &mut each);
        }
        self.read.clear();
        // One that speaks without a pause may read too.
        self.flush();
        if self.is_over
            && let Some(frame) = self.framer.finish()
        {
            give(&frame, &mut each);
        }
    }

    pub(super) async fn stop(mut self, ladder: Ladder) -> Exit {
        if self.is_over {
            // One that has just ended by itself was not stopped by us.
            self.exit().await;
        }
        self.child.stop(ladder).await
    }

    fn last_words(&mut self) -> Arrived {
        self.is_over = true;
        Arrived::Lines
    }

    fn flush(&mut self) {
        while let Some(line) = self.unsent.front() {
            match self.child.stdin.try_send(line) {
                Ok(()) => {
                    self.unsent_bytes -= line.len();
                    self.unsent.pop_front();
                    self.stalled_at = None;
                }
                Err(SendError::Full) => {
                    self.stalled_at.get_or_insert_with(|| Instant::now() + self.read_timeout);
                    return;
                }
                Err(SendError::Ended(_)) => return self.part(),
            }
        }
    }

    /// Nothing that it is told arrives any more: it has a moment for what it has to say, and then it is over.
    fn part(&mut self) {
        self.unsent.clear();
        (self.unsent_bytes, self.stalled_at) = (0, None);
        self.last_words_until.get_or_insert_with(|| Instant::now() + LAST_WORDS_TIMEOUT);
    }
}

fn give(frame: &Frame<'_>, each: &mut impl FnMut(Line<'_>)) {
    match frame {
        Frame::Line(line) => each(Line::Whole(line)),
        Frame::TooLong { head, tail, .. } => each(Line::TooLong { head, tail }),
        Frame::Overflowing { .. } => {}
    }
}
