//! What a stream watches for beside its turns: the end of its key, and the time to say that it is still there.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

use super::Answering;

/// Watches. What it watches for can be looked at, so it is waited for only where whoever waits has changed: a stream is polled with
/// every piece of its text.
pub(crate) struct Vigil {
    heartbeat: Duration,
    /// When something was last sent.
    sent: Instant,
    timer: Pin<Box<Sleep>>,
    /// Absent once it is done.
    revoked: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    waiting: Option<Waker>,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The key is no more.
    Revoked,
    /// Nothing was sent for a while.
    Quiet,
}

impl Vigil {
    pub(crate) fn new(answering: &Answering) -> Self {
        let heartbeat = answering.desk.heartbeat;
        Self {
            heartbeat,
            sent: Instant::now(),
            timer: Box::pin(sleep(heartbeat)),
            revoked: Some(Box::pin(answering.permit.revoked())),
            waiting: None,
        }
    }

    /// Something was sent.
    pub(crate) fn handle_sent(&mut self) {
        self.sent = Instant::now();
    }

    /// Waits, once nothing else is to be done.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Woken> {
        let is_waiting = self.waiting.as_ref().is_some_and(|waker| waker.will_wake(context.waker()));
        if !is_waiting {
            self.waiting = Some(context.waker().clone());
        }
        if !is_waiting && self.revoked.as_mut().is_some_and(|revoked| revoked.as_mut().poll(context).is_ready()) {
            self.revoked = None;
            return Poll::Ready(Woken::Revoked);
        }
        // The timer is set anew when it is due, not with every piece.
        let mut is_set = is_waiting && Instant::now() < self.timer.deadline();
        while !is_set {
            if self.timer.as_mut().poll(context).is_pending() {
                is_set = true;
            } else if self.sent + self.heartbeat <= Instant::now() {
                self.handle_sent();
                self.waiting = None;
                self.timer.as_mut().reset(self.sent + self.heartbeat);
                return Poll::Ready(Woken::Quiet);
            } else {
                self.timer.as_mut().reset(self.sent + self.heartbeat);
            }
        }
        Poll::Pending
    }
}
