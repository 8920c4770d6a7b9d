//! A stream that tells a caller which has only finished writing from one that is gone. Both end what is read, and hyper
//! takes either for gone; but whoever still reads is to get its answer.
//!
//! While a request is being answered, the end of what is read is kept from hyper. If nothing of the response was written yet,
//! an interim response (`100 Continue`, which every client passes over) is written as a probe: where nobody reads any more,
//! the peer's kernel refuses it, and the next write fails. Over TLS there is no probe: a peer that ends its stream has closed it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// What no client takes for its answer.
const PROBE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// When to look whether the peer has refused what was written: doubled from the first to the second.
const LOOK_MIN: Duration = Duration::from_millis(10);
const LOOK_MAX: Duration = Duration::from_secs(5);

/// Whether a request of a connection is being answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answering(Arc<AtomicBool>);

impl Answering {
    /// A request is being answered, until the guard is dropped with the body of its response.
    pub(crate) fn begin(&self) -> AnsweringGuard {
        self.0.store(true, Ordering::Release);
        AnsweringGuard(self.clone())
    }

    fn is_on(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// See [`Answering::begin`].
#[derive(Debug)]
pub(crate) struct AnsweringGuard(Answering);

impl AnsweringGuard {
    /// The same body, with which the guard is dropped.
    pub(crate) fn until_end_of(self, body: Body) -> Body {
        Body::new(GuardedBody { body, _guard: self })
    }
}

struct GuardedBody {
    body: Body,
    _guard: AnsweringGuard,
}

impl HttpBody for GuardedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for AnsweringGuard {
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::Release);
    }
}

/// A stream that may be half closed.
pub(crate) struct HalfCloseStream<S> {
    stream: S,
    answering: Answering,
    /// Whether something was written since something was read.
    has_written: bool,
    /// Present once there is nothing more to read.
    looking: Option<Looking>,
}

struct Looking {
    next: Pin<Box<Sleep>>,
    wait: Duration,
}

impl<S: AsyncRead + AsyncWrite + Unpin> HalfCloseStream<S> {
    pub(crate) fn new(stream: S, answering: Answering) -> Self {
        Self { stream, answering, has_written: false, looking: None }
    }

    /// Waits for a sign that nobody reads any more.
    fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.looking.is_none() {
            if !self.has_written {
                ready!(Pin::new(&mut self.stream).poll_write(context, PROBE))?;
            }
            let next = Box::pin(sleep_until(Instant::now() + LOOK_MIN));
            self.looking = Some(Looking { next, wait: LOOK_MIN });
        }
        loop {
            let looking = self.looking.as_mut().expect("it was just set");
            ready!(looking.next.as_mut().poll(context));
            // Writes nothing, but fails once the peer has refused what was written before.
            ready!(Pin::new(&mut self.stream).poll_write(context, &[]))?;
            looking.wait = (looking.wait * 2).min(LOOK_MAX);
            looking.next.as_mut().reset(Instant::now() + looking.wait);
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for HalfCloseStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.looking.is_none() {
            let before = into.filled().len();
            ready!(Pin::new(&mut this.stream).poll_read(context, into))?;
            if into.filled().len() > before {
                this.has_written = false;
                return Poll::Ready(Ok(()));
            }
        }
        if into.remaining() > 0 && this.answering.is_on() { this.poll_gone(context) } else { Poll::Ready(Ok(())) }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for HalfCloseStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        self.has_written |= written > 0;
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, parts))?;
        self.has_written |= written > 0;
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
