//! One connection: bytes or messages, commands and time in; lines, events and the next wake-up out.
//!
//! The owner reads while [`Connection::wants_read`], writes what [`Connection::poll_transmit`] gives, wakes at
//! [`Connection::poll_timeout`], and takes events until there are none. A call ends in exactly one
//! [`Event::Settled`]; a request of the peer is answered exactly once.

use std::collections::VecDeque;
use std::time::Instant;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::calls::Calls;
use crate::edges::{Edges, Kind};
use crate::encode::{JsonRpcField, Line};
use crate::envelope::{Envelope, peek};
use crate::event::{Event, Notification, Outcome, PeerError, Progress, Request};
use crate::framer::{Frame, Framer};
use crate::id::{CallId, RawId, RequestId};
use crate::json::Json;
use crate::limits::Limits;
use crate::outbox::{Kind as LineKind, Outbox};
use crate::report::{Counts, Fault, Report};
use crate::requests::{NotOpen, Opened, Requests};

/// The JSON-RPC state of one link to a peer.
#[derive(Debug)]
pub struct Connection {
    limits: Limits,
    field: JsonRpcField,
    framer: Framer,
    calls: Calls,
    requests: Requests,
    outbox: Outbox,
    events: VecDeque<(Event, usize)>,
    event_bytes: usize,
    counts: Counts,
    is_closed: bool,
}

/// Why a connection wants to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// This call's deadline passes.
    CallDeadline(CallId),
}

/// Why a call or a notification was not accepted. Nothing of it was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Too much waits to be sent.
    #[error("{waiting} bytes wait to be sent, more than {queued_bytes_max} may not: try again later")]
    Full {
        /// What waits.
        waiting: usize,
        /// The limit.
        queued_bytes_max: usize,
    },
    /// This line alone is above the limit.
    #[error("the line has {bytes} bytes, more than {queued_bytes_max} can never be sent")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        queued_bytes_max: usize,
    },
    /// The connection is over.
    #[error("the connection is over")]
    Closed,
}

impl Connection {
    /// A connection on which nothing has happened yet.
    #[must_use]
    pub fn new(limits: Limits, field: JsonRpcField) -> Self {
        Self {
            framer: Framer::new(limits.line_bytes_max),
            limits,
            field,
            calls: Calls::default(),
            requests: Requests::default(),
            outbox: Outbox::default(),
            events: VecDeque::new(),
            event_bytes: 0,
            counts: Counts::default(),
            is_closed: false,
        }
    }

    /// Sends a call, or holds it until fewer than `calls_max` are in flight; its deadline runs from now on.
    ///
    /// # Errors
    /// [`Refused`], and then the call never was.
    pub fn call(&mut self, method: &str, params: Option<&Json>, deadline: Instant) -> Result<CallId, Refused> {
        let call = self.calls.next_id();
        let line = Line::new(self.field).member("id", &call.to_string());
        let line = self.admit(line.method(method, params))?;
        self.calls.open(call, deadline);
        self.outbox.hold(call, line);
        self.release_calls();
        Ok(call)
    }

    /// Sends a notification.
    ///
    /// # Errors
    /// [`Refused`], and then nothing was sent.
    pub fn notify(&mut self, method: &str, params: Option<&Json>) -> Result<(), Refused> {
        let line = self.admit(Line::new(self.field).method(method, params))?;
        self.outbox.push_notification(line);
        Ok(())
    }

    /// Answers a request of the peer. Answers are never refused for want of room, for the peer may be waiting for this
    /// one; a request keeps its place among `requests_max` until its answer has left, which bounds how many can wait.
    ///
    /// # Errors
    /// [`NotOpen`] for a second answer.
    pub fn answer(&mut self, request: &RequestId, outcome: Result<&Json, &PeerError>) -> Result<(), NotOpen> {
        self.requests.close(request)?;
        self.send_answer(request.as_raw(), outcome);
        Ok(())
    }

    /// Lets go of a request that needs no answer any more, because the peer has said so: nothing is sent.
    ///
    /// # Errors
    /// [`NotOpen`] if it was answered or forgotten before.
    pub fn forget(&mut self, request: &RequestId) -> Result<(), NotOpen> {
        self.requests.close(request)
    }

    /// Gives a call up; its outcome is [`Outcome::Cancelled`] unless it has one already.
    pub fn cancel(&mut self, call: CallId) {
        self.give_up(call, Outcome::Cancelled);
    }

    /// Takes bytes that the peer sent, and says how many it took: it stops where the events it holds reach their
    /// limit. Offer the rest again when [`Self::wants_read`] says so.
    #[must_use = "bytes that were not taken must be offered again"]
    pub fn handle_input(&mut self, bytes: &[u8]) -> usize {
        if self.is_closed {
            return bytes.len();
        }
        let mut rest = bytes;
        // Taken out for the loop, because the frames borrow it.
        let mut framer = std::mem::replace(&mut self.framer, Framer::new(0));
        while self.wants_read() {
            let Some(frame) = framer.next(&mut rest) else {
                break;
            };
            self.handle_frame(&frame);
        }
        self.framer = framer;
        bytes.len() - rest.len()
    }

    /// Takes one whole message, such as a WebSocket frame, as [`Self::handle_input`] takes a line. It is always taken, so
    /// offer it while [`Self::wants_read`] says so.
    pub fn handle_message(&mut self, message: &[u8]) {
        if self.is_closed {
            return;
        }
        if let Some(frame) = Frame::of_message(message, self.limits.line_bytes_max) {
            self.handle_frame(&frame);
        }
    }

    /// The peer's stream has ended: whatever is open ends with it.
    pub fn handle_eof(&mut self) {
        if self.is_closed {
            return;
        }
        let mut framer = std::mem::replace(&mut self.framer, Framer::new(0));
        match framer.finish() {
            Some(Frame::Line(line)) if peek(line, self.limits.depth_max).is_err() => {
                self.counts.lines += 1;
                self.report(Report::new(Fault::CutOff, line));
            }
            Some(frame) => self.handle_frame(&frame),
            None => {}
        }
        self.close();
    }

    /// Ends the connection from our side; what was not sent is dropped, and what is open ends as closed.
    pub fn close(&mut self) {
        if self.is_closed {
            return;
        }
        self.is_closed = true;
        while let Some(call) = self.calls.first() {
            self.give_up(call, Outcome::Closed);
        }
        self.outbox.clear();
        let unanswered = self.requests.drain();
        self.emit(Event::Closed { unanswered }, 0);
    }

    /// Ends the calls whose deadline has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((deadline, call)) = self.calls.first_deadline()
            && deadline <= now
        {
            self.give_up(call, Outcome::TimedOut);
        }
    }

    /// When to call [`Self::handle_timeout`], and why.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Instant, Wake)> {
        let (deadline, call) = self.calls.first_deadline()?;
        Some((deadline, Wake::CallDeadline(call)))
    }

    /// The next line to send, with its line ending. Once it is taken, its call counts as sent.
    pub fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        let (kind, line) = self.outbox.pop()?;
        if let LineKind::Call(call) = kind {
            self.calls.send(call);
        }
        Some(line)
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        let (event, bytes) = self.events.pop_front()?;
        self.event_bytes -= bytes;
        Some(event)
    }

    /// Whether there is room for what the peer sends. When there is not, reading should wait: that is the
    /// backpressure.
    #[must_use]
    pub fn wants_read(&self) -> bool {
        !self.is_closed && self.events.len() < self.limits.events_max && self.event_bytes < self.limits.event_bytes_max
    }

    /// Whether the connection is over; events that tell of it may still wait.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// How many lines came so far, and how many of them were faulty.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn handle_frame(&mut self, frame: &Frame<'_>) {
        match *frame {
            Frame::Line(line) => {
                self.counts.lines += 1;
                match peek(line, self.limits.depth_max) {
                    Ok(envelope) => self.handle_envelope(envelope, line),
                    Err(fault) => {
                        if fault.leaves_id_readable() {
                            self.fail_by_edges(line, line, &Outcome::Unreadable(fault.clone()));
                        }
                        self.report(Report::new(fault, line));
                    }
                }
            }
            Frame::Overflowing { head } => self.fail_by_edges(head, &[], &Outcome::TooLong),
            Frame::TooLong { head, tail, bytes } => {
                self.counts.lines += 1;
                self.fail_by_edges(head, tail, &Outcome::TooLong);
                self.refuse_by_edges(head, tail);
                self.report(Report::of_part(Fault::TooLong, head, bytes));
            }
        }
    }

    fn handle_envelope(&mut self, envelope: Envelope<'_>, line: &[u8]) {
        match envelope {
            Envelope::Notification { method, params, emitted_at_ms } => {
                let notification =
                    Notification { method: method.into(), params: params.map(Json::scanned), emitted_at_ms };
                self.emit(Event::Notification(notification), line.len());
            }
            Envelope::Answer { id, outcome } => match self.calls.answer(id.to_call()) {
                Ok(call) => {
                    let outcome = match outcome {
                        Ok(result) => Outcome::Answered(Json::scanned(result)),
                        Err(error) => Outcome::Failed(read_error(error)),
                    };
                    self.emit(Event::Settled { call, outcome }, line.len());
                    self.release_calls();
                }
                Err(fault) => self.report(Report::new(fault, line)),
            },
            Envelope::Request { id, method, params } => match self.open_request(id, &method) {
                Ok(Opened::New(id)) => {
                    let request = Request { id, method: method.into(), params: params.map(Json::scanned) };
                    self.emit(Event::Request(request), line.len());
                }
                Ok(Opened::Again) => self.counts.repeated_requests += 1,
                Ok(Opened::IdInUse) => self.report(Report::new(Fault::RequestIdInUse, line)),
                Err(fault) => self.report(Report::new(fault, line)),
            },
        }
    }

    fn open_request(&mut self, id: RawId<'_>, method: &str) -> Result<Opened, Fault> {
        let is_full = self.requests.len() + self.outbox.answers() >= self.limits.requests_max;
        if is_full && !self.requests.is_open(id) {
            self.refuse(id, -32001, "too many open requests: retry later");
            return Err(Fault::TooManyRequests);
        }
        Ok(self.requests.open(id, method))
    }

    /// Fails the call that an unusable line answered.
    fn fail_by_edges(&mut self, head: &[u8], tail: &[u8], outcome: &Outcome) {
        let edges = Edges::of(head, tail);
        if edges.kind == Some(Kind::Answers)
            && let Some(call) = edges.id.and_then(RawId::to_call)
            && self.calls.is_open(call)
            && self.calls.answer(Some(call)).is_ok()
        {
            let outcome = outcome.clone();
            self.emit(Event::Settled { call, outcome }, 0);
            self.release_calls();
        }
    }

    /// Refuses the request that a skipped line made, so that the peer does not wait for ever.
    fn refuse_by_edges(&mut self, head: &[u8], tail: &[u8]) {
        let edges = Edges::of(head, tail);
        if let (Some(Kind::Asks), Some(id)) = (edges.kind, edges.id) {
            self.refuse(id, -32600, "the request is longer than this side reads");
        }
    }

    /// A peer that asks without end and reads nothing would not read this either, so there is an end to it.
    fn refuse(&mut self, id: RawId<'_>, code: i64, message: &str) {
        if self.outbox.answers() >= 2 * self.limits.requests_max {
            return;
        }
        let error = PeerError { code, message: message.into(), data: None };
        self.send_answer(id.as_str(), Err(&error));
    }

    fn send_answer(&mut self, id: &str, outcome: Result<&Json, &PeerError>) {
        let line = Line::new(self.field).member("id", id);
        let line = match outcome {
            Ok(result) => line.member("result", result.get()),
            Err(error) => line.error(error),
        };
        self.outbox.push_answer(line.finish());
    }

    fn admit(&self, line: Line) -> Result<Vec<u8>, Refused> {
        let queued_bytes_max = self.limits.queued_bytes_max;
        let line = line.finish();
        let waiting = self.outbox.bytes();
        if self.is_closed {
            Err(Refused::Closed)
        } else if line.len() > queued_bytes_max {
            Err(Refused::TooLong { bytes: line.len(), queued_bytes_max })
        } else if waiting + line.len() > queued_bytes_max {
            Err(Refused::Full { waiting, queued_bytes_max })
        } else {
            Ok(line)
        }
    }

    fn release_calls(&mut self) {
        while self.calls.in_flight() < self.limits.calls_max
            && let Some(call) = self.outbox.release()
        {
            self.calls.release(call);
        }
    }

    fn give_up(&mut self, call: CallId, outcome: fn(Progress) -> Outcome) {
        if let Some(progress) = self.calls.give_up(call) {
            self.outbox.withdraw(call);
            let outcome = outcome(progress);
            self.emit(Event::Settled { call, outcome }, 0);
            self.release_calls();
        }
    }

    fn report(&mut self, report: Report) {
        self.counts.count(&report.fault);
        let bytes = report.head.len();
        self.emit(Event::Reported(report), bytes);
    }

    fn emit(&mut self, event: Event, bytes: usize) {
        self.event_bytes += bytes;
        self.events.push_back((event, bytes));
    }
}

/// An error object that lacks its members still fails its call.
fn read_error(error: &str) -> PeerError {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Members<'a> {
        code: i64,
        message: Option<Box<str>>,
        #[serde(borrow)]
        data: Option<&'a RawValue>,
    }
    let members: Members<'_> = serde_json::from_str(error).unwrap_or_default();
    PeerError {
        code: members.code,
        message: members.message.unwrap_or_else(|| error.into()),
        data: members.data.map(|data| Json::scanned(data.get())),
    }
}
