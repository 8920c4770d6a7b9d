//! What the clerk holds of one approval that waits: its row, and everybody who wants to hear of it.

use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;

use crate::error::{DecideError, Refused};
use crate::ticket::Ticket;
use crate::verdict::{Decided, Person, Verdict};

pub(crate) type Reply<T, E> = oneshot::Sender<Result<T, E>>;

pub(crate) struct Case {
    /// As it was recorded, pending.
    pub(crate) row: store::Approval,
    /// The decision that is being written.
    pub(crate) deciding: Option<Decided>,
    pub(crate) outcome: watch::Sender<Option<Decided>>,
    /// Who asked and waits for the record; `None` once it is there.
    pub(crate) askers: Option<Vec<Reply<Ticket, Refused>>>,
    /// Who wants to decide while a decision is being written; each is a caller that waits, so callers bound them.
    pub(crate) deciders: Vec<Decider>,
    /// The hash of the link that makes the decision.
    pub(crate) link: Option<String>,
    /// Hooks and posts under way; over with the decision.
    pub(crate) consulted: Vec<AbortHandle>,
}

pub(crate) struct Decider {
    pub(crate) name: String,
    pub(crate) verdict: Verdict,
    pub(crate) is_first: bool,
    pub(crate) reply: Reply<Decided, DecideError>,
}

/// One decision that somebody wants to make.
pub(crate) struct Vote {
    pub(crate) shown_hash: String,
    pub(crate) verdict: Verdict,
    pub(crate) person: Person,
    pub(crate) link: Option<String>,
}

impl Case {
    pub(crate) fn asked(row: store::Approval, asker: Reply<Ticket, Refused>) -> Self {
        Self { askers: Some(vec![asker]), ..Self::loaded(row) }
    }

    pub(crate) fn loaded(row: store::Approval) -> Self {
        Self {
            row,
            deciding: None,
            outcome: watch::Sender::new(None),
            askers: None,
            deciders: Vec::new(),
            link: None,
            consulted: Vec::new(),
        }
    }

    pub(crate) fn ticket(&self) -> Ticket {
        Ticket::new(&self.row.id, self.outcome.subscribe())
    }

    /// Answers all that asked, now or when it is recorded.
    pub(crate) fn join(&mut self, asker: Reply<Ticket, Refused>) {
        match &mut self.askers {
            Some(askers) => askers.push(asker),
            None => drop(asker.send(Ok(self.ticket()))),
        }
    }

    /// Ends hooks and posts that are still under way.
    pub(crate) fn stop_consulting(&mut self) {
        self.consulted.drain(..).for_each(|work| work.abort());
    }

    pub(crate) fn recorded(&mut self) {
        for asker in self.askers.take().unwrap_or_default() {
            asker.send(Ok(self.ticket())).ok();
        }
    }
}
