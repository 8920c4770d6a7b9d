//! A question to a person, a rule or a hook that somebody here waits for. Whoever stops waiting takes it back.

use std::sync::Arc;

use approvals::{Approvals, Decided, Refused, Ticket, Wanted, Withdrawal};
use tokio::sync::oneshot;

use crate::host::Shared;

/// An approval that is waited for. Dropped before it is decided, it is taken back.
pub(crate) struct Waiting {
    shared: Arc<Shared>,
    approvals: Approvals,
    ticket: Ticket,
    is_over: bool,
}

impl Waiting {
    /// Asks for it in a task of the host's: whoever leaves in the middle of that must leave nothing behind.
    pub(crate) async fn begin(shared: &Arc<Shared>, approvals: &Approvals, wanted: Wanted) -> Result<Self, Refused> {
        let (begun, waiting) = oneshot::channel();
        let (owner, shared, approvals) = (Arc::clone(shared), Arc::clone(shared), approvals.clone());
        owner.own(async move {
            let asked = approvals.ask(wanted).await;
            // Unheard, it is dropped, and so taken back.
            _ = begun.send(asked.map(|ticket| Self { shared, approvals, ticket, is_over: false }));
        });
        waiting.await.unwrap_or(Err(Refused::Closed))
    }

    pub(crate) fn id(&self) -> &str {
        self.ticket.id()
    }

    /// Waits for the decision.
    pub(crate) async fn decided(mut self) -> Decided {
        let decided = self.ticket.decided().await;
        self.is_over = true;
        decided
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.is_over {
            let (approvals, ticket) = (self.approvals.clone(), self.ticket.clone());
            self.shared.own(async move { approvals.withdraw(ticket.id(), Withdrawal::TurnOver).await });
        }
    }
}
