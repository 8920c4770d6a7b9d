//! A worker that is a process of ours: lines over its stdin and stdout.
//!
//! Its last words count: when it has ended, or hears nothing any more, it is listened to a little longer.

use std::time::{Duration, SystemTime};

use supervise::{Child, Exit, Ladder, SendError, StdinEnd};
use tokio::io::AsyncReadExt as _;
use tokio::time::{Instant, sleep_until, timeout};
use wire::Connection;

use super::{Reading, Ready};
use crate::tap::Tap;

/// How much is read at once.
const READ_BYTES: usize = 64 << 10;
/// How long the last words of a worker may take to arrive after it has ended or has closed its stdin. Something that
/// it started may hold its stdout open, so that the end of the stream alone is no sign to wait for.
const LAST_WORDS_TIMEOUT: Duration = Duration::from_millis(500);
/// How long a worker that has closed its stdout may take to end by itself, before it is stopped and takes the blame.
const EXIT_TIMEOUT: Duration = Duration::from_millis(500);

pub(crate) struct ChildLink {
    child: Child,
    /// Read, and not yet taken by the connection.
    unread: Vec<u8>,
    /// A line that stdin had no room for.
    unsent: Option<Vec<u8>>,
    /// Why nothing can be sent any more.
    stdin_end: Option<StdinEnd>,
    /// Set once the worker is known to have ended, or to hear nothing any more: when to stop listening.
    listens_until: Option<Instant>,
    has_ended: bool,
}

impl ChildLink {
    pub(super) fn new(child: Child) -> Self {
        Self {
            child,
            unread: Vec::with_capacity(READ_BYTES),
            unsent: None,
            stdin_end: None,
            listens_until: None,
            has_ended: false,
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.process.pid()
    }

    pub(super) fn transmit(&mut self, connection: &mut Connection, mut tap: Option<&mut Tap>) {
        while let Some(line) = self.unsent.take().or_else(|| connection.poll_transmit()) {
            match self.child.stdin.try_send(&line) {
                Ok(()) => {
                    if let Some(tap) = &mut tap {
                        tap.handle_sent(&line, SystemTime::now());
                    }
                }
                Err(SendError::Full) => {
                    self.unsent = Some(line);
                    return;
                }
                Err(SendError::Ended(end)) => self.lose_stdin(end),
            }
        }
    }

    pub(super) fn feed(&mut self, connection: &mut Connection, tap: Option<&mut Tap>) {
        let taken = connection.handle_input(&self.unread);
        if let Some(tap) = tap {
            tap.handle_received(&self.unread[..taken], SystemTime::now());
        }
        self.unread.drain(..taken);
    }

    pub(super) async fn ready(&mut self, reading: Reading) -> Ready {
        let is_stalled = self.unsent.is_some();
        let is_alive = self.listens_until.is_none();
        let wants_read = reading == Reading::Wanted && self.unread.is_empty();
        let wake = self.listens_until.unwrap_or_else(Instant::now);
        // Biased: the end and writes first, so that a worker that floods cannot starve them.
        tokio::select! {
            biased;
            () = sleep_until(wake), if !is_alive => self.has_ended = true,
            ready = self.child.stdin.ready(), if is_stalled => {
                if let Err(end) = ready {
                    self.lose_stdin(end);
                }
            }
            _ = self.child.process.wait(), if is_alive => self.listen_a_little_longer(),
            read = self.child.stdout.read_buf(&mut self.unread), if wants_read => {
                self.has_ended = !matches!(read, Ok(1..));
            }
        }
        if self.has_ended { Ready::Ended } else { Ready::Go }
    }

    pub(super) async fn stop(mut self, ladder: Ladder) -> Exit {
        if self.has_ended && self.stdin_end.is_none() {
            // It is on its way out by itself; whoever stops it now would be named as the cause.
            timeout(EXIT_TIMEOUT, self.child.process.wait()).await.ok();
        }
        self.child.stop(ladder).await
    }

    pub(super) fn deafness(&self) -> Option<String> {
        self.stdin_end.map(|end| end.to_string())
    }

    /// No call can be answered any more, but what the worker has already said still counts.
    fn lose_stdin(&mut self, end: StdinEnd) {
        self.unsent = None;
        self.stdin_end.get_or_insert(end);
        self.listen_a_little_longer();
    }

    fn listen_a_little_longer(&mut self) {
        self.listens_until.get_or_insert_with(|| Instant::now() + LAST_WORDS_TIMEOUT);
    }
}
