//! A turn of the pool: the stream of its events, with exactly one end. Dropped before it, the turn is interrupted, unless
//! it waits for somebody: then it is parked.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use codex::{CallError, Input, TurnError, TurnEvent, TurnStatus, Usage};
use futures_util::Stream;
use tokio::time::{Instant, Sleep, sleep};

use crate::notice::At;
use crate::parked::{NoSuchCall, ToolResult};
use crate::permit::TurnPermit;
use crate::running::Running;
use crate::shared::Shared;
use crate::stall_clock::StallClock;

/// How often to look whether a request that is not on record yet is still open.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// A turn of the pool.
#[must_use = "a turn that is dropped is interrupted"]
pub struct Turn {
    /// Until its end has been told.
    running: Option<Running>,
    /// What it used that its worker did not report, once its end has been told.
    estimated: Option<Usage>,
    at: At,
    shared: Arc<Shared>,
    clock: StallClock,
    /// Until when an interrupt may take to end it.
    interrupted_until: Option<Instant>,
    timer: Pin<Box<Sleep>>,
}

impl Turn {
    pub(crate) fn new(running: Running, shared: Arc<Shared>) -> Self {
        let at = running.at.clone();
        let timer = Box::pin(sleep(shared.limits().stall_timeout));
        Self {
            running: Some(running),
            estimated: None,
            at,
            shared,
            clock: StallClock::new(Instant::now()),
            interrupted_until: None,
            timer,
        }
    }

    /// Where it runs, and for whom.
    #[must_use]
    pub fn at(&self) -> &At {
        &self.at
    }

    /// The next event; `None` after the end. Cancel-safe. The `request` of an approval is the id that it is decided by.
    pub async fn next(&mut self) -> Option<TurnEvent> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// Asks the worker to stop; the turn's end comes as an event like any other, in time even if the worker never tells it.
    pub fn interrupt(&mut self) {
        if let Some(running) = &self.running {
            running.interrupt();
            let until = Instant::now() + self.shared.limits().interrupt_timeout;
            if self.interrupted_until.is_none() {
                self.interrupted_until = Some(until);
                self.timer.as_mut().reset(until);
            }
        }
    }

    /// Says something more to the agent while it works.
    ///
    /// # Errors
    /// [`CallError`]; `Trap::NoSuchTurn` if the turn has just ended.
    pub async fn steer(&self, input: &[Input]) -> Result<(), CallError> {
        self.steering(input).await
    }

    /// [`Turn::steer`] beside the reading of the turn.
    pub fn steering(&self, input: &[Input]) -> impl Future<Output = Result<(), CallError>> + Send + use<> {
        let steering = self.running.as_ref().map(|running| running.steering(input));
        async move {
            match steering {
                Some(steering) => steering.await,
                None => Ok(()),
            }
        }
    }

    /// Gives a call of the caller's tool, which this turn waits for, its result.
    ///
    /// # Errors
    /// [`NoSuchCall`].
    pub fn answer_call(&self, call: &str, result: ToolResult) -> Result<(), NoSuchCall> {
        self.shared.answer_call_of(&self.at.turn, call, result)
    }

    /// Gives it up: it is interrupted, also if it waits for somebody.
    pub fn cancel(mut self) {
        if let Some(running) = self.running.take() {
            self.shared.close(running);
        }
    }

    /// Leaves it to itself: it goes on waiting, or runs on to its end.
    pub fn leave(mut self) {
        if let Some(running) = self.running.take() {
            self.shared.leave(running);
        }
    }

    /// Its thread is forgotten when it is over, as if it had been ordered so.
    pub fn leave_nothing(&mut self) {
        if let Some(running) = &mut self.running {
            running.leave_nothing();
        }
    }

    /// It runs by this permit from now on, and no more by the one before.
    pub fn set_permit(&mut self, permit: TurnPermit) {
        if let Some(running) = &mut self.running {
            running.set_permit(permit);
        }
    }

    /// What it is thought to have used beside what its worker has reported; if it runs, as if it were cut now.
    #[must_use]
    pub fn estimated(&self) -> Option<Usage> {
        self.running.as_ref().map_or(self.estimated, Running::estimated)
    }

    /// Whether it waits for a decision or for the result of a caller's tool.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.running.as_ref().is_some_and(Running::is_waiting)
    }

    /// Holds back what is not on record yet, and gives requests the names that they are decided by. What is not recorded,
    /// because it could not be or because it was over before, is not told at all.
    fn poll_held(&mut self, context: &mut Context<'_>) -> Poll<Option<TurnEvent>> {
        let running = self.running.as_mut().expect("nothing is held after the end");
        let Some(TurnEvent::ApprovalWanted { request, .. } | TurnEvent::ToolWanted { request, .. }) = &mut running.held
        else {
            unreachable!("only requests are held back");
        };
        let mut named = running.link.register().poll_name(&self.at.thread, request, context);
        if named.is_pending() && self.timer.as_mut().poll(context).is_ready() {
            let is_open = running.link.client.open_requests().iter().any(|asked| asked.id.as_raw() == &**request);
            if is_open {
                self.timer.as_mut().reset(Instant::now() + LOOK_INTERVAL);
                _ = self.timer.as_mut().poll(context);
            } else {
                named = Poll::Ready(None);
            }
        }
        let Poll::Ready(name) = named else { return Poll::Pending };
        let due = Instant::now() + self.shared.limits().stall_timeout;
        self.timer.as_mut().reset(self.interrupted_until.map_or(due, |until| until.min(due)));
        let is_on_record = name.is_some();
        name.into_iter().for_each(|name| *request = name);
        // A call that was answered before anybody read of it is over.
        let is_open = |event: &TurnEvent| match event {
            TurnEvent::ToolWanted { call, .. } => self.shared.parked().is_expected(call, &self.at.thread),
            _ => true,
        };
        Poll::Ready(running.held.take().filter(|event| is_on_record && is_open(event)))
    }

    fn told(&mut self, mut event: TurnEvent) -> Option<TurnEvent> {
        let now = Instant::now();
        if let Some(error) = self.clock.handle_event(&event, self.shared.limits(), now) {
            return Some(self.fail(error));
        }
        match &mut event {
            TurnEvent::ApprovalWanted { .. } | TurnEvent::ToolWanted { .. } => {
                self.timer.as_mut().reset(now + LOOK_INTERVAL);
                self.running.as_mut().expect("nothing is told after the end").held = Some(event);
                return None;
            }
            TurnEvent::ApprovalResolved { request } => {
                let running = self.running.as_ref().expect("nothing is told after the end");
                if let Some(name) = running.link.register().name_of(&self.at.thread, request) {
                    *request = name;
                }
            }
            TurnEvent::TurnEnded { .. } => {
                self.estimated = self.estimated();
                self.running = None;
            }
            _ => {}
        }
        Some(event)
    }

    /// Ends a turn that makes no progress for too long although nothing is waited for.
    fn poll_stalled(&mut self, context: &mut Context<'_>) -> Poll<TurnEvent> {
        let stall_timeout = self.shared.limits().stall_timeout;
        while self.timer.as_mut().poll(context).is_ready() {
            let Some(running) = &self.running else { return Poll::Pending };
            let due = self.clock.due(self.shared.limits());
            let due = self.interrupted_until.map_or(due, |until| until.min(due));
            if Instant::now() < due {
                self.timer.as_mut().reset(due);
            } else if self.interrupted_until.is_some_and(|until| until <= Instant::now()) {
                return Poll::Ready(self.give_up());
            } else if running.is_waiting() {
                self.timer.as_mut().reset(Instant::now() + stall_timeout);
            } else {
                return Poll::Ready(self.fail(self.clock.stalled(self.shared.limits())));
            }
        }
        Poll::Pending
    }

    /// Ends a turn that was interrupted, and whose end the worker does not tell.
    fn give_up(&mut self) -> TurnEvent {
        let mut running = self.running.take().expect("only a running turn is interrupted");
        let message = "the worker did not end the turn although it was told to".into();
        let error = TurnError { message, kind: None, http_status: None, details: None };
        let end = running.end(TurnStatus::Lost, Some(error));
        self.estimated = running.estimated();
        self.shared.close(running);
        end
    }

    /// Ends a turn that gets nowhere.
    fn fail(&mut self, error: TurnError) -> TurnEvent {
        let mut running = self.running.take().expect("only a running turn fails");
        let end = running.end(TurnStatus::Failed, Some(error));
        self.estimated = running.estimated();
        self.shared.close(running);
        end
    }
}

impl Stream for Turn {
    type Item = TurnEvent;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<TurnEvent>> {
        let this = &mut *self;
        loop {
            let Some(running) = &mut this.running else {
                return Poll::Ready(None);
            };
            if running.held.is_some() {
                match this.poll_held(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(None) => continue,
                    Poll::Ready(event) => return Poll::Ready(event),
                }
            }
            match running.poll(context) {
                Poll::Ready(None) => this.running = None,
                Poll::Ready(Some(event)) => {
                    if let Some(event) = this.told(event) {
                        return Poll::Ready(Some(event));
                    }
                }
                Poll::Pending => return this.poll_stalled(context).map(Some),
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(running) = self.running.take() else { return };
        if running.is_waiting() {
            self.shared.park(running);
        } else {
            self.shared.close(running);
        }
    }
}
