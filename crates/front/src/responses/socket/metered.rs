//! A stream whose received bytes are counted against the memory budget, because the WebSocket library holds them until
//! a message is complete.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::memory_budget::MemoryLease;

/// A stream that fails with `OutOfMemory` when the budget has no room for what it receives.
pub(super) struct MeteredStream<S> {
    stream: S,
    received: MemoryLease,
}

impl<S> MeteredStream<S> {
    pub(super) fn new(stream: S, received: MemoryLease) -> Self {
        Self { stream, received }
    }

    /// The stream itself: what is read of it is not counted.
    pub(super) fn uncounted(&mut self) -> &mut S {
        &mut self.stream
    }

    /// What was received has been handled.
    pub(super) fn release(&mut self) {
        self.received.shrink(0);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for MeteredStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, into))?;
        let read = into.filled().len() - before;
        Poll::Ready(self.received.grow(read).map_err(|_| io::ErrorKind::OutOfMemory.into()))
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
