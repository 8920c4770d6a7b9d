//! What whoever asked holds while it waits.

use std::future::pending;

use tokio::sync::watch;

use crate::verdict::Decided;

/// One approval's outcome. Dropped, nothing changes: the approval waits on, and the same request finds it again.
#[derive(Clone, Debug)]
pub struct Ticket {
    id: String,
    outcome: watch::Receiver<Option<Decided>>,
}

impl Ticket {
    pub(crate) fn new(id: &str, outcome: watch::Receiver<Option<Decided>>) -> Self {
        Self { id: id.into(), outcome }
    }

    /// The approval's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Waits for the decision. Cancel-safe, and may be asked again. If every [`Approvals`](crate::Approvals) is dropped
    /// first, it never ends: what is not decided stays pending in the store.
    pub async fn decided(&self) -> Decided {
        match self.decided_or_gone().await {
            Some(decided) => decided,
            None => pending().await,
        }
    }

    /// The same, but `None` when no decision can come any more.
    pub(crate) async fn decided_or_gone(&self) -> Option<Decided> {
        let mut outcome = self.outcome.clone();
        let decided = outcome.wait_for(Option::is_some).await.ok()?;
        decided.clone()
    }
}
