//! The only IO of this crate: a worker's process on one side, the pure connection on the other.

use std::time::Duration;

use supervise::{Child, Exit, Ladder, SendError};
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, sleep_until};
use wire::{
    CallId, Connection, Event, Json, JsonRpcField, Limits, NotOpen, PeerError, Refused, RequestId,
};

/// How much is read at once.
const READ_BYTES: usize = 64 << 10;

/// A live connection to one worker over its stdin and stdout.
pub struct Link {
    connection: Connection,
    child: Child,
    /// Read, and not yet taken by the connection.
    unread: Vec<u8>,
    /// A line that stdin had no room for.
    unsent: Option<Vec<u8>>,
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
        }
    }

    /// Makes a call; its outcome comes as an event.
    ///
    /// # Errors
    /// [`Refused`], and then nothing was sent.
    pub fn call(
        &mut self,
        method: &str,
        params: &Json,
        timeout: Duration,
    ) -> Result<CallId, Refused> {
        let deadline = Instant::now() + timeout;
        self.connection
            .call(method, Some(params), deadline.into_std())
    }

    /// Sends a notification without parameters.
    ///
    /// # Errors
    /// [`Refused`], and then nothing was sent.
    pub fn notify(&mut self, method: &str) -> Result<(), Refused> {
        self.connection.notify(method, None)
    }

    /// Answers a request of the worker.
    ///
    /// # Errors
    /// [`NotOpen`] for a second answer.
    pub fn answer(
        &mut self,
        request: &RequestId,
        outcome: Result<&Json, &PeerError>,
    ) -> Result<(), NotOpen> {
        self.connection.answer(request, outcome)
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

    /// Stops the worker; what is open ends as closed.
    pub async fn stop(self, ladder: Ladder) -> Exit {
        self.child.stop(ladder).await
    }

    fn next_ready(&mut self) -> Option<Event> {
        let taken = self.connection.handle_input(&self.unread);
        self.unread.drain(..taken);
        self.connection.poll_event()
    }

    fn transmit(&mut self) {
        while let Some(line) = self
            .unsent
            .take()
            .or_else(|| self.connection.poll_transmit())
        {
            match self.child.stdin.try_send(&line) {
                Ok(()) => {}
                Err(SendError::Full) => {
                    self.unsent = Some(line);
                    return;
                }
                // The worker's stdout says whether it had something left to tell.
                Err(SendError::Ended(_)) => {}
            }
        }
    }

    /// Waits for the one thing that can happen next, and lets it happen.
    async fn act(&mut self) {
        let deadline = self
            .connection
            .poll_timeout()
            .map(|(deadline, _)| deadline.into());
        let is_stalled = self.unsent.is_some();
        let wants_read = self.connection.wants_read() && self.unread.is_empty();
        // Biased: deadlines and writes first, so that a worker that floods cannot starve them.
        tokio::select! {
            biased;
            () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                self.connection.handle_timeout(Instant::now().into_std());
            }
            ready = self.child.stdin.ready(), if is_stalled => {
                if ready.is_err() {
                    self.unsent = None;
                }
            }
            read = self.child.stdout.read_buf(&mut self.unread), if wants_read => {
                if !matches!(read, Ok(1..)) {
                    self.connection.handle_eof();
                }
            }
        }
    }
}
