//! A worker that listens: one message a WebSocket text frame, whatever is below it.
//!
//! All that waits is inside this struct and all is polled in one place, so dropping [`SocketLink::ready`] loses nothing.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, SystemTime};

use futures_util::{Sink as _, SinkExt as _, Stream as _, StreamExt as _};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tokio_tungstenite::tungstenite::{Bytes, Error, Message};
use wire::Connection;

use super::keep_alive::{Due, KeepAlive};
use super::pipe::Pipe;
use super::{Reading, Ready};
use crate::endpoint::{Address, Endpoint};
use crate::tap::Tap;
use crate::waits::bounded;

/// How long the last words of a worker may take to arrive after it has said goodbye or hears nothing any more.
const LAST_WORDS_TIMEOUT: Duration = Duration::from_millis(500);

/// Every limit of a socket, with its reason.
#[derive(Clone, Copy, Debug)]
pub struct SocketLimits {
    /// For reaching the worker, TLS and the upgrade together.
    pub connect_timeout: Duration,
    /// The longest message that is received at all: a longer one ends the link, for it cannot be skipped. One above the
    /// connection's `line_bytes_max` is received, reported and thrown away; real answers have exceeded 128 MB.
    pub message_bytes_max: usize,
    /// What we send is cut into frames of at most so many bytes: the real worker takes 16 MiB in one and then hangs up.
    pub frame_bytes_max: usize,
    /// After so much silence over TCP the worker is asked whether it is there.
    pub ping_interval: Duration,
    /// And then it has so long to say anything at all.
    pub pong_timeout: Duration,
    /// For a goodbye from both sides.
    pub close_timeout: Duration,
}

impl Default for SocketLimits {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            message_bytes_max: 256 << 20,
            frame_bytes_max: 8 << 20,
            ping_interval: Duration::from_secs(15),
            pong_timeout: Duration::from_secs(15),
            close_timeout: Duration::from_secs(2),
        }
    }
}

/// How the link to a listening worker ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SocketEnd {
    /// We closed it.
    Closed,
    /// The worker closed it.
    ClosedByWorker {
        /// The WebSocket close code; 1005 if it gave none.
        code: u16,
        /// In its own words.
        reason: String,
    },
    /// It broke.
    Broken(String),
    /// The worker did not say anything, not even when asked.
    Silent(Duration),
}

impl fmt::Display for SocketEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the connection was closed"),
            Self::ClosedByWorker { code, reason } if reason.is_empty() => {
                write!(f, "the worker closed the connection (code {code})")
            }
            Self::ClosedByWorker { code, reason } => {
                write!(f, "the worker closed the connection (code {code}: {reason})")
            }
            Self::Broken(error) => write!(f, "the connection broke: {error}"),
            Self::Silent(silence) => write!(f, "the worker was silent for {silence:?}, and a ping got no answer"),
        }
    }
}

pub(crate) struct SocketLink {
    socket: WebSocketStream<Pipe>,
    limits: SocketLimits,
    /// Read, and not yet taken by the connection.
    unread: Option<Bytes>,
    /// Frames that there was no room for.
    unsent: VecDeque<Message>,
    is_flushed: bool,
    keep_alive: Option<KeepAlive>,
    /// Why nothing can be sent any more.
    deafness: Option<String>,
    /// The first sign of the end.
    end: Option<SocketEnd>,
    /// Set with it: when to stop listening.
    listens_until: Option<Instant>,
}

impl SocketLink {
    pub(super) fn new(socket: WebSocketStream<Pipe>, endpoint: &Endpoint, limits: SocketLimits) -> Self {
        let keep_alive = match endpoint.address {
            Address::Unix(_) => None,
            Address::Tcp { .. } => {
                let now = Instant::now().into_std();
                Some(KeepAlive::new(bounded(limits.ping_interval), bounded(limits.pong_timeout), now))
            }
        };
        Self {
            socket,
            limits,
            unread: None,
            unsent: VecDeque::new(),
            is_flushed: true,
            keep_alive,
            deafness: None,
            end: None,
            listens_until: None,
        }
    }

    pub(super) fn transmit(&mut self, connection: &mut Connection, mut tap: Option<&mut Tap>) {
        // What cannot be sent at once is polled again, with a true waker, by `ready`.
        let mut context = Context::from_waker(Waker::noop());
        while self.poll_unsent(&mut context).is_ready()
            && let Some(line) = connection.poll_transmit()
        {
            if let Some(tap) = &mut tap {
                tap.handle_sent(&line, SystemTime::now());
            }
            self.unsent.extend(frames(line, self.limits.frame_bytes_max));
        }
        _ = self.poll_flush(&mut context);
    }

    pub(super) fn feed(&mut self, connection: &mut Connection, tap: Option<&mut Tap>) {
        if connection.wants_read()
            && let Some(message) = self.unread.take()
        {
            connection.handle_message(&message);
            if let Some(tap) = tap {
                tap.handle_message(&message, SystemTime::now());
            }
        }
    }

    pub(super) async fn ready(&mut self, reading: Reading) -> Ready {
        if self.listens_until.is_some_and(|until| until <= Instant::now()) {
            return Ready::Ended;
        }
        let wake = self.wake(reading);
        // Biased: what has arrived is read before silence is complained of, so that a pause of ours is not the worker's.
        tokio::select! {
            biased;
            ready = poll_fn(|context| self.poll(context, reading)) => ready,
            () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => self.handle_wake(),
        }
    }

    /// Says goodbye, and waits a moment for the other side's.
    pub(super) async fn stop(mut self) -> SocketEnd {
        if let Some(end) = self.end {
            return end;
        }
        let goodbye = async {
            let frame = CloseFrame { code: CloseCode::Normal, reason: "".into() };
            if self.socket.send(Message::Close(Some(frame))).await.is_ok() {
                while let Some(Ok(_)) = self.socket.next().await {}
            }
        };
        timeout(self.limits.close_timeout, goodbye).await.ok();
        SocketEnd::Closed
    }

    pub(super) fn deafness(&self) -> Option<String> {
        self.deafness.clone()
    }

    fn poll(&mut self, context: &mut Context<'_>, reading: Reading) -> Poll<Ready> {
        let had_to_wait = !self.is_flushed || !self.unsent.is_empty();
        if had_to_wait && self.poll_unsent(context).is_ready() && self.poll_flush(context).is_ready() {
            return Poll::Ready(Ready::Go);
        }
        if reading == Reading::Paused {
            return Poll::Pending;
        }
        if self.unread.is_none() {
            match ready!(Pin::new(&mut self.socket).poll_next(context)) {
                Some(Ok(message)) => self.take(message),
                Some(Err(error)) => return Poll::Ready(self.break_off(&error.to_string())),
                None => return Poll::Ready(self.break_off("the stream ended")),
            }
        }
        Poll::Ready(Ready::Go)
    }

    fn break_off(&mut self, error: &str) -> Ready {
        self.end.get_or_insert_with(|| SocketEnd::Broken(error.into()));
        Ready::Ended
    }

    /// A binary frame is offered too: if it is no message, the connection reports it.
    fn take(&mut self, message: Message) {
        match message {
            Message::Text(text) => self.unread = Some(text.into()),
            Message::Binary(bytes) => self.unread = Some(bytes),
            Message::Close(frame) => {
                let (code, reason) =
                    frame.map_or((1005, String::new()), |frame| (frame.code.into(), frame.reason.to_string()));
                self.end.get_or_insert(SocketEnd::ClosedByWorker { code, reason });
                self.listen_a_little_longer();
            }
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
        }
    }

    /// Ready when nothing waits outside the socket's own buffer.
    fn poll_unsent(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.deafness.is_none() && !self.unsent.is_empty() {
            match Pin::new(&mut self.socket).poll_ready(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => self.lose_hearing(&error),
                Poll::Ready(Ok(())) => {
                    let Some(frame) = self.unsent.pop_front() else { break };
                    self.is_flushed = false;
                    if let Err(error) = Pin::new(&mut self.socket).start_send(frame) {
                        self.lose_hearing(&error);
                    }
                }
            }
        }
        self.unsent.clear();
        Poll::Ready(())
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.is_flushed {
            match Pin::new(&mut self.socket).poll_flush(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => self.lose_hearing(&error),
            }
            self.is_flushed = true;
        }
        Poll::Ready(())
    }

    /// Nothing can be sent any more, but what the worker has already said still counts.
    fn lose_hearing(&mut self, error: &Error) {
        self.deafness.get_or_insert_with(|| error.to_string());
        self.break_off(&error.to_string());
        self.listen_a_little_longer();
    }

    fn listen_a_little_longer(&mut self) {
        self.listens_until.get_or_insert_with(|| Instant::now() + LAST_WORDS_TIMEOUT);
    }

    fn wake(&mut self, reading: Reading) -> Option<Instant> {
        match (&mut self.keep_alive, reading) {
            _ if self.listens_until.is_some() => self.listens_until,
            (Some(keep_alive), Reading::Wanted) => Some(keep_alive.wake().into()),
            (Some(keep_alive), Reading::Paused) => {
                keep_alive.start_over(Instant::now().into_std());
                None
            }
            (None, _) => None,
        }
    }

    fn handle_wake(&mut self) -> Ready {
        let now = Instant::now().into_std();
        let heard_bytes = self.socket.get_ref().heard_bytes();
        let due = self.keep_alive.as_mut().map(|keep_alive| keep_alive.handle_wake(heard_bytes, now));
        match due {
            Some(Due::Ping) => self.unsent.push_back(Message::Ping(Bytes::new())),
            Some(Due::GiveUp) => {
                let silence = self.limits.ping_interval.saturating_add(self.limits.pong_timeout);
                self.end.get_or_insert(SocketEnd::Silent(silence));
                return Ready::Ended;
            }
            Some(Due::Nothing) | None => {}
        }
        Ready::Go
    }
}

/// A line as a text message without its line ending: in one frame, or in several where it is long.
fn frames(line: Vec<u8>, frame_bytes_max: usize) -> Vec<Message> {
    let mut rest = Bytes::from(line);
    if rest.ends_with(b"\n") {
        rest.truncate(rest.len() - 1);
    }
    let mut frames = Vec::new();
    let mut kind = Data::Text;
    loop {
        let part = rest.split_to(rest.len().min(frame_bytes_max.max(1)));
        frames.push(Message::Frame(Frame::message(part, OpCode::Data(kind), rest.is_empty())));
        if rest.is_empty() {
            return frames;
        }
        kind = Data::Continue;
    }
}

#[cfg(test)]
mod tests {
    use super::frames;

    #[test]
    fn a_limit_of_nothing_still_lets_a_byte_pass() {
        assert_eq!(frames(b"{}\n".to_vec(), 0).len(), 2);
    }
}
