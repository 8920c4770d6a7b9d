//! A stream that tells a caller which has only finished writing from one that is gone. Both end what is read, and hyper
//! takes either for gone; but a caller that still reads gets its answer.
//!
//! While a request is being answered, the end of what is read is kept from hyper, and something is written that the caller
//! ignores: an interim response (`100 Continue`) before the response has begun, and a comment in a stream of events. If nobody
//! reads any more, the peer's kernel refuses it, and the next write fails. This is for HTTP/1.1 without TLS: older callers know
//! no interim response, and a peer that ends a TLS stream has closed it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{Request, Response, Version, header};
use futures_util::task::AtomicWaker;
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// What no client takes for its answer.
const INTERIM_RESPONSE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// What no reader takes for an event.
const COMMENT: &[u8] = b":\n\n";

/// When to look whether the peer has refused what was written: doubled from the first to the second.
const LOOK_MIN: Duration = Duration::from_millis(10);
const LOOK_MAX: Duration = Duration::from_secs(1);

/// Whether a request of a connection is being received or answered, and whether its caller has finished writing.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResponseProgress(Arc<ProgressState>);

#[derive(Debug, Default)]
struct ProgressState {
    is_answering: AtomicBool,
    has_response: AtomicBool,
    is_half_closed: AtomicBool,
    /// Whether the caller has finished writing before the end of the request's body.
    is_body_truncated: AtomicBool,
    body: AtomicWaker,
}

impl ResponseProgress {
    /// Marks the request as in progress. Call it as soon as hyper has parsed the head: hyper looks for the end of the
    /// input before it polls the handler.
    pub(crate) fn begin(&self, request: Request<Incoming>) -> Request<RequestBody> {
        let state = &self.0;
        state.has_response.store(false, Ordering::Release);
        state.is_body_truncated.store(false, Ordering::Release);
        state.is_answering.store(request.version() == Version::HTTP_11, Ordering::Release);
        request.map(|body| RequestBody { body, progress: self.clone() })
    }

    /// The same response, at whose end the request is answered.
    pub(crate) fn until_end_of(self, response: Response<Body>) -> Response<Body> {
        self.0.has_response.store(true, Ordering::Release);
        let kind = response.headers().get(header::CONTENT_TYPE);
        let is_stream = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        let comments = if is_stream { CommentState::Unsent } else { CommentState::None };
        response.map(|body| Body::new(TrackedBody { body, progress: self, comments }))
    }

    fn is_answering(&self) -> bool {
        self.0.is_answering.load(Ordering::Acquire)
    }

    fn is_body_truncated(&self) -> bool {
        self.0.is_body_truncated.load(Ordering::Acquire)
    }

    fn has_response(&self) -> bool {
        self.0.has_response.load(Ordering::Acquire)
    }

    fn half_close(&self) {
        self.0.is_half_closed.store(true, Ordering::Release);
        self.0.body.wake();
    }
}

/// The body of a request. hyper delivers everything it has read before it reads again, so a body that is still pending
/// after the end of the input is truncated.
pub(crate) struct RequestBody {
    body: Incoming,
    progress: ResponseProgress,
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        let state = &self.progress.0;
        if polled.is_pending() {
            state.body.register(context.waker());
            if state.is_half_closed.load(Ordering::Acquire) && !state.is_body_truncated.swap(true, Ordering::AcqRel) {
                // hyper polls the stream again and now sees the end of the input.
                context.waker().wake_by_ref();
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of a response.
struct TrackedBody {
    body: Body,
    progress: ResponseProgress,
    comments: CommentState,
}

/// Whether the caller is sent a comment when it has finished writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommentState {
    /// It is, once.
    Unsent,
    /// It was, or the body is no stream of events.
    None,
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if polled.is_ready() || self.comments == CommentState::None {
            return polled;
        }
        self.progress.0.body.register(context.waker());
        if !self.progress.0.is_half_closed.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        self.comments = CommentState::None;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(COMMENT)))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        self.progress.0.is_answering.store(false, Ordering::Release);
    }
}

/// A stream that may be half closed.
pub(crate) struct HalfCloseStream<S> {
    stream: S,
    progress: ResponseProgress,
    /// Whether part of a response waits to be written.
    is_write_blocked: bool,
    /// Present once there is nothing more to read.
    look: Option<PeerLook>,
}

struct PeerLook {
    next: Pin<Box<Sleep>>,
    wait: Duration,
}

impl<S: AsyncRead + AsyncWrite + Unpin> HalfCloseStream<S> {
    pub(crate) fn new(stream: S, progress: ResponseProgress) -> Self {
        Self { stream, progress, is_write_blocked: false, look: None }
    }

    /// Whether hyper must not see yet that the caller has finished writing: it would drop what it has not written.
    fn hides_end(&self) -> bool {
        (self.progress.is_answering() || self.is_write_blocked) && !self.progress.is_body_truncated()
    }

    /// Waits for a sign that nobody reads any more.
    fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.look.is_none() {
            if !self.progress.has_response() && !self.is_write_blocked {
                let written = ready!(Pin::new(&mut self.stream).poll_write(context, INTERIM_RESPONSE))?;
                if written < INTERIM_RESPONSE.len() {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
            }
            self.progress.half_close();
            let next = Box::pin(sleep_until(Instant::now() + LOOK_MIN));
            self.look = Some(PeerLook { next, wait: LOOK_MIN });
        }
        loop {
            let look = self.look.as_mut().expect("it was just set");
            ready!(look.next.as_mut().poll(context));
            // Writes nothing, but fails once the peer has refused what was written before.
            ready!(Pin::new(&mut self.stream).poll_write(context, &[]))?;
            look.wait = (look.wait * 2).min(LOOK_MAX);
            look.next.as_mut().reset(Instant::now() + look.wait);
        }
    }

    fn note_write(&mut self, bytes: usize, written: &Poll<io::Result<usize>>) {
        self.is_write_blocked = !matches!(written, Poll::Ready(Ok(written)) if *written == bytes);
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for HalfCloseStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.look.is_none() {
            let before = into.filled().len();
            ready!(Pin::new(&mut this.stream).poll_read(context, into))?;
            if into.filled().len() > before {
                return Poll::Ready(Ok(()));
            }
        }
        if into.remaining() == 0 || !this.hides_end() {
            return Poll::Ready(Ok(()));
        }
        this.poll_gone(context)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for HalfCloseStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note_write(bytes.len(), &written);
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if flushed.is_ready() && self.look.is_some() && !self.hides_end() {
            // hyper waits for input, and does not know that there is none.
            context.waker().wake_by_ref();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.note_write(parts.iter().map(|part| part.len()).sum(), &written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
