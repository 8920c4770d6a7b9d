//! One call under way. Dropped before it has an outcome, it is given up and leaves its place to the next.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::time::Instant;
use wire::{CallId, Outcome, Refused};

use crate::dialect::Line;
use crate::driver::Shared;

pub(super) struct Calling {
    shared: Arc<Shared>,
    call: CallId,
    is_open: bool,
}

impl Calling {
    /// Makes the call; it is on its way even if nobody waits for it.
    pub(super) fn start(shared: &Arc<Shared>, line: &Line, deadline: Instant) -> Result<Self, Refused> {
        let call = shared.change(|exchange| exchange.call(line, deadline.into_std()))?;
        Ok(Self { shared: Arc::clone(shared), call, is_open: true })
    }
}

impl Future for Calling {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let outcome = self.shared.exchange().poll_outcome(self.call, context);
        self.is_open = outcome.is_pending();
        outcome
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        if self.is_open {
            self.shared.change(|exchange| exchange.drop_call(self.call));
        }
    }
}
