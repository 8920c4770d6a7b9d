//! The only IO of this crate: a worker's process on one side, the pure connection on the other.

use std::time::Duration;

use supervise::{Child, Exit, Ladder, SendError, StdinEnd};
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, sleep_until, timeout};
use wire::{CallId, Connection, Event, Json, JsonRpcField, Limits, NotOpen, PeerError, Refused, RequestId};

/// How much is read at once.
const READ_BYTES: usize = 64 << 10;
/// How long the last words of a worker may take to arrive after it has ended or has closed its stdin. Something that
/// it started may hold its stdout open, so that the end of the stream alone is no sign to wait for.
const LAST_WORDS_TIMEOUT: Duration = Duration::from_millis(500);
/// How long a worker that has closed its stdout may take to end by itself, before it is stopped and takes the blame.
const EXIT_TIMEOUT: Duration = Duration::from_millis(500);

/// A live connection to one worker over its stdin and stdout.
pub struct Link {
    connection: Connection,
    child: Child,
    /// Read, and not yet taken by the connection.
    unread: Vec<u8>,
    /// A line that stdin had no room for.
    unsent: Option<Vec<u8>>,
    /// Why nothing can be sent any more.
    stdin_end: Option<StdinEnd>,
    /// Set once the worker is known to have ended, or to hear nothing any more: when to stop listening.
    listens_until: Option<Instant>,
}

impl Link {
    /// Speaks JSON-RPC, as codex does it, with a process that has just been started.
    #[must_use]
    pub fn new(child: Child, limits: Limits) -> Self {
        Self {
            connection: Connection::new(limits, JsonRpcField::Omitted),
            child,
            unread: Vec::with_capacity(READ_BYTES),
            unsent: None,
            stdin_end: None,
            listens_until: None,
        }
    }

    /// Makes a call, on its way at once even if nobody asks for events; its outcome comes as an event.
    ///
    /// # Errors
    /// [`Refused`], and then nothing was sent.
    pub fn call(&mut self, method: &str, params: &Json, timeout: Duration) -> Result<CallId, Refused> {
        let deadline = Instant::now() + timeout;
        let call = self.connection.call(method, Some(params), deadline.into_std())?;
        self.transmit();
        Ok(call)
    }

    /// Gives a call up.
    pub fn cancel(&mut self, call: CallId) {
        self.connection.cancel(call);
    }

    /// Sends a notification without parameters.
    ///
    /// # Errors
    /// [`Refused`], and then nothing was sent.
    pub fn notify(&mut self, method: &str) -> Result<(), Refused> {
        self.connection.notify(method, None)?;
        self.transmit();
        Ok(())
    }

    /// Answers a request of the worker.
    ///
    /// # Errors
    /// [`NotOpen`] for a second answer.
    pub fn answer(&mut self, request: &RequestId, outcome: Result<&Json, &PeerError>) -> Result<(), NotOpen> {
        self.connection.answer(request, outcome)?;
        self.transmit();
        Ok(())
    }

    /// The next event; `None` after [`Event::Closed`]. Cancel-safe: nothing is lost when it is dropped.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            self.transmit();
            if let Some(event) = self.next_ready() {
                return Some(event);
            }
            if self.connection.is_closed() {
                return None;
            }
            self.act().await;
        }
    }

    /// Why nothing can be sent any more, if that is so and was not our wish.
    #[must_use]
    pub fn stdin_end(&self) -> Option<StdinEnd> {
        self.stdin_end
    }

    /// Stops the worker and its process group. What is open is dropped: take the events first, if they matter.
    pub async fn stop(mut self, ladder: Ladder) -> Exit {
        if self.connection.is_closed() && self.stdin_end.is_none() {
            // It is on its way out by itself; whoever stops it now would be named as the cause.
            timeout(EXIT_TIMEOUT, self.child.process.wait()).await.ok();
        }
        self.child.stop(ladder).await
    }

    fn next_ready(&mut self) -> Option<Event> {
        self.connection.poll_event().or_else(|| {
            let taken = self.connection.handle_input(&self.unread);
            self.unread.drain(..taken);
            self.connection.poll_event()
        })
    }

    fn transmit(&mut self) {
        while let Some(line) = self.unsent.take().or_else(|| self.connection.poll_transmit()) {
            match self.child.stdin.try_send(&line) {
                Ok(()) => {}
                Err(SendError::Full) => {
                    self.unsent = Some(line);
                    return;
                }
                Err(SendError::Ended(end)) => self.lose_stdin(end),
            }
        }
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

    /// Waits for the one thing that can happen next, and lets it happen.
    async fn act(&mut self) {
        let deadline = self.connection.poll_timeout().map(|(deadline, _)| deadline.into());
        let wake = deadline.into_iter().chain(self.listens_until).min();
        let is_stalled = self.unsent.is_some();
        let is_alive = self.listens_until.is_none();
        let wants_read = self.connection.wants_read() && self.unread.is_empty();
        // Biased: deadlines and writes first, so that a worker that floods cannot starve them.
        tokio::select! {
            biased;
            () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => self.handle_wake(),
            ready = self.child.stdin.ready(), if is_stalled => {
                if let Err(end) = ready {
                    self.lose_stdin(end);
                }
            }
            _ = self.child.process.wait(), if is_alive => self.listen_a_little_longer(),
            read = self.child.stdout.read_buf(&mut self.unread), if wants_read => {
                if !matches!(read, Ok(1..)) {
                    self.connection.handle_eof();
                }
            }
        }
    }

    fn handle_wake(&mut self) {
        let now = Instant::now();
        self.connection.handle_timeout(now.into_std());
        if self.listens_until.is_some_and(|until| until <= now) {
            self.connection.handle_eof();
        }
    }
}
