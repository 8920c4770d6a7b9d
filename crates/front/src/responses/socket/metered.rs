//! A stream whose received bytes are counted against the memory budget, because the WebSocket library holds them until
//! a message is complete, and keeps a buffer as long as the longest message.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use crate::memory_budget::MemoryLease;

/// The header of a control frame that a client sends: opcode, length and mask.
const CONTROL_HEADER_BYTES: usize = 6;

/// A stream that fails with `OutOfMemory` when the budget has no room for what it receives.
pub(super) struct MeteredStream<S> {
    stream: S,
    /// How much was received of the message that is not complete.
    received_bytes: usize,
    /// When the first of these bytes came.
    message_began: Option<Instant>,
    /// Of the library's buffer.
    buffer: MemoryLease,
}

impl<S> MeteredStream<S> {
    pub(super) fn new(stream: S, buffer: MemoryLease) -> Self {
        Self { stream, received_bytes: 0, message_began: None, buffer }
    }

    /// The stream itself: what is read of it is not counted.
    pub(super) fn uncounted(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Takes a control frame off the received bytes: it is part of no message, and nothing keeps it.
    pub(super) fn discount_control_frame(&mut self, payload_bytes: usize) {
        self.received_bytes = self.received_bytes.saturating_sub(CONTROL_HEADER_BYTES + payload_bytes);
        self.message_began.take_if(|_| self.received_bytes == 0);
    }

    /// A message was received as a whole, and another begins.
    pub(super) fn begin_message(&mut self) {
        self.received_bytes = 0;
        self.message_began = None;
    }

    /// When the message began that is not complete.
    pub(super) fn message_began(&self) -> Option<Instant> {
        self.message_began
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for MeteredStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, into))?;
        self.received_bytes += into.filled().len() - before;
        self.message_began.get_or_insert_with(Instant::now);
        let received_bytes = self.received_bytes;
        Poll::Ready(self.buffer.grow_to(received_bytes).map_err(|_| io::ErrorKind::OutOfMemory.into()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for MeteredStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
