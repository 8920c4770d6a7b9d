//! Turns that nobody reads: those that were given up are interrupted, and keep their place until the worker has told
//! their end, or is restarted because it never does. So is a worker that answers nothing.

use std::sync::Arc;

use codex::{TurnError, TurnStatus};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout, timeout_at};

use crate::parked::{Ask, Asks, Heard};
use crate::post::{Link, Post, Wish};
use crate::running::Running;
use crate::shared::Shared;
use crate::stall_clock::StallClock;
use crate::turn::Turn;

impl Shared {
    /// Interrupts a turn that was given up.
    pub(crate) fn close(self: &Arc<Self>, running: Running) {
        running.interrupt();
        self.see_to(close(Arc::clone(self), running));
    }

    /// Restarts a worker that has left a call unanswered, unless it shows that it is alive.
    pub(crate) fn doubt(self: &Arc<Self>, post: &Arc<Post>, link: &Arc<Link>) {
        self.see_to(doubt(Arc::clone(self), Arc::clone(post), Arc::clone(link)));
    }

    /// Lets a turn run on to its end, until it waits for somebody again, or until somebody asks to read it.
    pub(crate) fn run_on(self: &Arc<Self>, running: Running, asks: Asks) {
        self.see_to(run_on(Arc::clone(self), running, asks));
    }

    /// Gives a turn that ran on without a reader to one; without one again, if that is gone.
    fn hand_over(self: &Arc<Self>, mut running: Running, mut asks: Asks, reader: oneshot::Sender<Turn>) {
        // The reader may let it run on again at once.
        let heard = self.parked().stop(&mut running, &mut asks);
        if heard == Heard::Cancelled {
            return self.close(running);
        }
        if let Err(unread) = reader.send(Turn::new(running, Arc::clone(self))) {
            unread.leave();
        }
    }
}

async fn close(shared: Arc<Shared>, mut running: Running) {
    if timeout(shared.limits().interrupt_timeout, running.finish()).await.is_ok() {
        return;
    }
    let (post, link) = (Arc::clone(&running.post), Arc::clone(&running.link));
    let turn = Arc::clone(&running.at.turn);
    let is_alive = running.link.client.ping(shared.limits().ping_timeout).await.is_ok();
    running.lose("the worker did not end the turn although it was told to");
    // Its thread is of no use in this life of the worker, and the worker of little.
    running.retire_worker();
    drop(running);
    if is_alive {
        shared.set_state(&post, crate::WorkerState::Retiring, Some(format!("turn {turn} does not end").into()));
        timeout(shared.limits().retire_timeout, until_idle(&shared, &post)).await.ok();
    }
    // In its next life it has nothing to do with this.
    if post.link().is_some_and(|now| Arc::ptr_eq(&now, &link)) {
        let state = if is_alive { "did not end a turn" } else { "does not answer" };
        post.wish(Wish::Restart(format!("the worker {state}").into()));
    }
}

async fn doubt(shared: Arc<Shared>, post: Arc<Post>, link: Arc<Link>) {
    let is_alive = link.client.ping(shared.limits().ping_timeout).await.is_ok();
    // Several may doubt the same link: what came after it is not meant.
    let is_current = post.link().is_some_and(|current| Arc::ptr_eq(&current, &link));
    if !is_alive && is_current {
        post.wish(Wish::Restart("the worker does not answer".into()));
    }
}

async fn until_idle(shared: &Shared, post: &Post) {
    loop {
        let mut freed = std::pin::pin!(shared.freed.notified());
        freed.as_mut().enable();
        if shared.board().slot(post.slot).turns() == 0 {
            return;
        }
        freed.await;
    }
}

async fn run_on(shared: Arc<Shared>, mut running: Running, mut asks: Asks) {
    let (turn, thread) = (Arc::clone(&running.at.turn), Arc::clone(&running.at.thread));
    let mut clock = StallClock::new(Instant::now());
    loop {
        let event = std::future::poll_fn(|context| running.poll(context));
        let event = tokio::select! {
            biased;
            Some(ask) = asks.recv() => match ask {
                Ask::Read(reader) => return shared.hand_over(running, asks, reader),
                Ask::LeaveNothing => {
                    running.leave_nothing();
                    continue;
                }
                Ask::Cancel => {
                    shared.close(running);
                    break;
                }
            },
            event = timeout_at(clock.due(shared.limits()), event) => event,
        };
        let failure = match event {
            Ok(None) => break,
            Ok(Some(_)) | Err(_) if running.is_waiting() => return shared.settle(running, asks),
            Ok(Some(event)) => clock.handle_event(&event, shared.limits(), Instant::now()),
            Err(_) => Some(clock.stalled(shared.limits())),
        };
        if let Some(error) = failure {
            running.end(TurnStatus::Failed, Some(error));
            shared.close(running);
            break;
        }
    }
    shared.parked().stopped(&turn);
    // What was asked too late to be heard in the turn is done behind it.
    while let Ok(ask) = asks.try_recv() {
        if matches!(ask, Ask::LeaveNothing) {
            shared.forget_thread(&thread);
        }
    }
}

impl Running {
    /// Ends it as lost, for a reason of ours.
    pub(crate) fn lose(&mut self, reason: &str) {
        if !self.has_ended() {
            let error = TurnError { message: reason.into(), kind: None, http_status: None, details: None };
            self.end(TurnStatus::Lost, Some(error));
        }
    }
}
