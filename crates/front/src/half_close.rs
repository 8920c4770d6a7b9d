//! A stream that tells a caller which has only finished writing from one that is gone. Both end what is read, and hyper
//! takes either for gone; but a caller that still reads gets its answer.
//!
//! While a request is being answered, the end of what is read is kept from hyper, and something is written that the caller
//! ignores: an interim response (`100 Continue`) before the response has begun, and a comment in a stream of events. If nobody
//! reads any more, the peer's kernel refuses it, and the next write fails. This is for HTTP/1.1 without TLS: older callers know
//! no interim response, and a peer that ends a TLS stream has closed it.
//!
//! hyper does not read while it holds bytes behind the request that it answers, and would not notice that their sender is gone.
//! Meanwhile we ask the kernel whether the sender is still there.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{Request, Response, Version, header};
use futures_util::task::AtomicWaker;
use hyper::body::{Frame, Incoming, SizeHint};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_rustls::server::TlsStream;

/// What no client takes for its answer.
const INTERIM_RESPONSE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// What no reader takes for an event.
const COMMENT: &[u8] = b":\n\n";

/// How often an interim response is written: the kernel of a peer that is gone refuses it.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);

/// When to look whether the peer has refused what was written: doubled from the first to the second.
const LOOK_MIN: Duration = Duration::from_millis(10);
const LOOK_MAX: Duration = Duration::from_secs(1);

/// Whether a request of a connection is being received or answered, and whether its caller has finished writing.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResponseProgress(Arc<ProgressState>);

#[derive(Debug, Default)]
struct ProgressState {
    is_answering: AtomicBool,
    /// Whether the caller knows interim responses.
    is_http_11: AtomicBool,
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
        state.is_http_11.store(request.version() == Version::HTTP_11, Ordering::Release);
        state.is_answering.store(true, Ordering::Release);
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

    fn is_http_11(&self) -> bool {
        self.0.is_http_11.load(Ordering::Acquire)
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

/// What carries a connection.
pub(crate) trait CallerSocket: AsyncRead + AsyncWrite + Unpin {
    /// Whether a peer that has finished writing may still read.
    const MAY_HALF_CLOSE: bool;

    fn descriptor(&self) -> BorrowedFd<'_>;
}

impl CallerSocket for TcpStream {
    const MAY_HALF_CLOSE: bool = true;

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
}

impl CallerSocket for UnixStream {
    const MAY_HALF_CLOSE: bool = true;

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
}

impl CallerSocket for TlsStream<TcpStream> {
    const MAY_HALF_CLOSE: bool = false;

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.get_ref().0.as_fd()
    }
}

/// What the kernel knows of a peer, whether or not there are bytes of it to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PeerState {
    Writing,
    /// It has finished writing, and may be gone.
    Finished,
    Gone,
}

impl PeerState {
    fn of(socket: BorrowedFd<'_>) -> Self {
        let mut asked = [PollFd::from_borrowed_fd(socket, PollFlags::RDHUP)];
        // A question that fails is asked again.
        if !matches!(poll(&mut asked, Some(&Timespec::default())), Ok(1..)) {
            return Self::Writing;
        }
        let state = asked[0].revents();
        if state.intersects(PollFlags::ERR | PollFlags::HUP) { Self::Gone } else { Self::Finished }
    }
}

/// A stream that may be half closed.
pub(crate) struct HalfCloseStream<S> {
    stream: S,
    progress: ResponseProgress,
    /// Whether part of a response waits to be written.
    is_write_blocked: bool,
    /// Whether hyper waits for something to read, and so for the end too.
    is_read_pending: bool,
    /// Present once there is nothing more to read.
    look: Option<PeerLook>,
    /// Present while a request is answered and hyper reads nothing.
    unread_look: Option<UnreadLook>,
}

struct UnreadLook {
    next: Pin<Box<Sleep>>,
    probe_at: Instant,
    has_peer_finished: bool,
}

struct PeerLook {
    next: Pin<Box<Sleep>>,
    wait: Duration,
    probe_at: Instant,
}

impl<S: CallerSocket> HalfCloseStream<S> {
    pub(crate) fn new(stream: S, progress: ResponseProgress) -> Self {
        Self { stream, progress, is_write_blocked: false, is_read_pending: false, look: None, unread_look: None }
    }

    /// Whether hyper must not see yet that the caller has finished writing: it would drop what it has not written.
    fn hides_end(&self) -> bool {
        let is_answering = self.progress.is_answering() && self.progress.is_http_11();
        S::MAY_HALF_CLOSE && (is_answering || self.is_write_blocked) && !self.progress.is_body_truncated()
    }

    /// Waits for a sign that nobody reads any more.
    fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.look.is_none() {
            ready!(self.poll_probe(context))?;
            self.progress.half_close();
            let now = Instant::now();
            let next = Box::pin(sleep_until(now + LOOK_MIN));
            self.look = Some(PeerLook { next, wait: LOOK_MIN, probe_at: now + PROBE_INTERVAL });
        }
        loop {
            let look = self.look.as_mut().expect("it was just set");
            ready!(look.next.as_mut().poll(context));
            // Writes nothing, but fails once the peer has refused what was written before.
            ready!(Pin::new(&mut self.stream).poll_write(context, &[]))?;
            let now = Instant::now();
            look.wait = (look.wait * 2).min(LOOK_MAX);
            look.next.as_mut().reset(now + look.wait);
            if now >= look.probe_at {
                look.probe_at = now + PROBE_INTERVAL;
                ready!(self.poll_probe(context))?;
            }
        }
    }

    /// Writes an interim response. Clients skip any number of them, and the kernel of a peer that is gone refuses it.
    fn poll_probe(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.progress.has_response() || self.is_write_blocked {
            return Poll::Ready(Ok(()));
        }
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, INTERIM_RESPONSE))?;
        Poll::Ready(if written < INTERIM_RESPONSE.len() { Err(io::ErrorKind::WriteZero.into()) } else { Ok(()) })
    }

    /// Waits until the peer is gone, while hyper reads nothing.
    fn poll_unread_gone(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        let now = Instant::now();
        let mut look = self.unread_look.take().unwrap_or_else(|| UnreadLook {
            next: Box::pin(sleep_until(now + LOOK_MAX)),
            probe_at: now + PROBE_INTERVAL,
            has_peer_finished: false,
        });
        let gone = self.poll_unread_look(&mut look, context);
        self.unread_look = Some(look);
        gone
    }

    fn poll_unread_look(&mut self, look: &mut UnreadLook, context: &mut Context<'_>) -> Poll<io::Error> {
        let may_half_close = S::MAY_HALF_CLOSE && self.progress.is_http_11();
        loop {
            ready!(look.next.as_mut().poll(context));
            let now = Instant::now();
            look.next.as_mut().reset(now + LOOK_MAX);
            match PeerState::of(self.stream.descriptor()) {
                PeerState::Finished if may_half_close => {
                    if !look.has_peer_finished {
                        look.has_peer_finished = true;
                        look.probe_at = now;
                    }
                }
                PeerState::Finished | PeerState::Gone => return Poll::Ready(io::ErrorKind::ConnectionReset.into()),
                // What it has sent may fill the buffers, so that its end does not arrive.
                PeerState::Writing => {}
            }
            if now >= look.probe_at && self.progress.is_http_11() {
                look.probe_at = now + PROBE_INTERVAL;
                if let Err(error) = ready!(self.poll_probe(context)) {
                    return Poll::Ready(error);
                }
            }
        }
    }

    fn note_write(&mut self, bytes: usize, written: &Poll<io::Result<usize>>) {
        self.is_write_blocked = !matches!(written, Poll::Ready(Ok(written)) if *written == bytes);
    }
}

impl<S: CallerSocket> HalfCloseStream<S> {
    fn poll_read_or_end(&mut self, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.look.is_none() {
            let before = into.filled().len();
            ready!(Pin::new(&mut self.stream).poll_read(context, into))?;
            if into.filled().len() > before {
                return Poll::Ready(Ok(()));
            }
        }
        if into.remaining() == 0 || !self.hides_end() {
            return Poll::Ready(Ok(()));
        }
        self.poll_gone(context)
    }
}

impl<S: CallerSocket> AsyncRead for HalfCloseStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = self.poll_read_or_end(context, into);
        self.is_read_pending = read.is_pending();
        read
    }
}

impl<S: CallerSocket> AsyncWrite for HalfCloseStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note_write(bytes.len(), &written);
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if self.is_read_pending || !self.progress.is_answering() {
            self.unread_look = None;
        } else if let Poll::Ready(gone) = self.poll_unread_gone(context) {
            return Poll::Ready(Err(gone));
        }
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
