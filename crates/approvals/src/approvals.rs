//! The handle: asking, deciding, withdrawing, and looking.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use store::{ApprovalFilter, ApprovalState, Change, DecisionLink, ReadError, Store};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::audit::{self, Step};
use crate::case::Vote;
use crate::clerk::{Clerk, Order};
use crate::consult::Desk;
use crate::error::{DecideError, LinkError, Refused};
use crate::link::{self, TokenError};
use crate::record;
use crate::settings::{Notify, Settings};
use crate::stamp::Stamp;
use crate::ticket::Ticket;
use crate::verdict::{By, Decided, Person, Verdict, Withdrawal};
use crate::view::View;
use crate::wanted::Wanted;

/// All that waits for a decision. Clones are the same; with the last one everything under way ends.
#[derive(Clone)]
pub struct Approvals(Arc<Shared>);

struct Shared {
    orders: mpsc::Sender<Order>,
    desk: Arc<Desk>,
    /// Aborted on drop.
    _clerk: JoinSet<()>,
}

/// What a decision link would do.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkView {
    /// The approval.
    pub approval: View,
    /// The verdict that the link gives.
    pub verdict: Verdict,
}

impl Approvals {
    /// Takes up what an earlier run left pending: it can be decided, and is claimed by the same request when it comes
    /// again. What this version cannot show is orphaned.
    ///
    /// # Panics
    /// Outside a tokio runtime that drives IO and time.
    pub async fn open(store: Store, settings: Settings, notify: Notify) -> Result<Self, ReadError> {
        let pending = ApprovalFilter { state: Some(ApprovalState::Pending), ..ApprovalFilter::default() };
        let latest = ApprovalFilter { rows_max: Some(settings.limits.repeats_max), ..ApprovalFilter::default() };
        let rows = store.read(move |reader| {
            let ended = reader.approvals(&latest)?.into_iter().filter(|row| row.state != ApprovalState::Pending);
            // The oldest first: they are the first to be forgotten.
            Ok(ended.rev().chain(reader.approvals(&pending)?).collect::<Vec<_>>())
        });
        let rows = rows.await?;
        let (orders, waiting) = mpsc::channel(settings.limits.orders_waiting_max);
        let desk = Arc::new(Desk::new(store, settings));
        let mut clerk = Clerk::new(Arc::clone(&desk), notify);
        rows.into_iter().for_each(|row| clerk.load(row));
        let mut tasks = JoinSet::new();
        tasks.spawn(clerk.run(waiting));
        Ok(Self(Arc::new(Shared { orders, desk, _clerk: tasks })))
    }

    /// Records a request and lets rules, hooks, people and the deadline decide it. The same request has the same
    /// approval when it comes again, and its recorded verdict if it was decided meanwhile.
    ///
    /// # Errors
    /// Then nobody has seen it, and whoever brought it declines it.
    pub async fn ask(&self, wanted: Wanted) -> Result<Ticket, Refused> {
        let settings = &self.0.desk.settings;
        let (kind, limits) = (wanted.kind, settings.limits);
        if !kind.who().person && !settings.hooks.iter().any(|hook| hook.is_for(kind)) {
            return Err(Refused::Nobody { kind: kind.name() });
        }
        let timeout = wanted.timeout.unwrap_or(limits.decision_timeout).min(limits.decision_timeout_max);
        let shown = Box::new(wanted.into_shown(&limits)?);
        self.order(|reply| Order::Ask { shown, timeout, reply }).await.unwrap_or(Err(Refused::Closed))
    }

    /// Decides an approval as it was shown. The first decision stands; it is durable when this returns.
    ///
    /// # Errors
    /// Then it changed nothing.
    pub async fn decide(
        &self,
        id: &str,
        shown_hash: &str,
        verdict: Verdict,
        person: Person,
    ) -> Result<Decided, DecideError> {
        self.vote(id, Vote { shown_hash: shown_hash.into(), verdict, person, link: None }).await
    }

    /// Whether there can be decision links: a webhook is configured to send them to.
    #[must_use]
    pub fn has_links(&self) -> bool {
        self.0.desk.settings.webhook.is_some()
    }

    /// What a decision link would do, without doing it: programs open links by themselves, people press buttons.
    pub async fn read_token(&self, token: &str) -> Result<LinkView, LinkError> {
        let (link, verdict) = self.find_link(token).await?;
        let approval = self.get(&link.approval).await.map_err(DecideError::from)?.ok_or(DecideError::NotFound)?;
        Ok(LinkView { approval, verdict })
    }

    /// Decides by the token of a decision link, which works once.
    pub async fn decide_by_token(&self, token: &str) -> Result<Decided, LinkError> {
        let (DecisionLink { approval, hash, shown_hash, .. }, verdict) = self.find_link(token).await?;
        let person = Person { name: "decision link".into(), key: None, powers: link::LINK_POWERS };
        let vote = Vote { shown_hash, verdict, person, link: Some(hash.clone()) };
        match self.vote(&approval, vote).await {
            Err(DecideError::AlreadyDecided { .. }) if self.is_used(&approval, &hash).await? => {
                Err(TokenError::Used.into())
            }
            outcome => Ok(outcome?),
        }
    }

    /// Says that an approval needs no decision any more, and waits until that is recorded.
    pub async fn withdraw(&self, id: &str, why: Withdrawal) {
        let id = id.to_owned();
        self.settle(|reply| Order::Withdraw { id, why, reply }).await;
    }

    /// Says that a worker waits for nothing that was not asked again: a new process of it has started, or one that was
    /// found again has repeated all its requests. What nobody claimed is orphaned, and no earlier decision is repeated
    /// to it.
    pub async fn orphan_unclaimed(&self, group: &str, worker: &str) {
        let (group, worker) = (group.to_owned(), worker.to_owned());
        self.settle(|reply| Order::OrphanUnclaimed { group, worker, reply }).await;
    }

    /// How many wait for a decision.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.0.desk.pending.load(Ordering::Relaxed)
    }

    /// How many approvals there are on all pages of a list.
    pub async fn count(&self, filter: ApprovalFilter) -> Result<u32, ReadError> {
        self.0.desk.store.read(move |reader| reader.approvals_count(&filter)).await
    }

    /// Approvals with long texts shortened, the newest first unless the filter says otherwise.
    pub async fn list(&self, filter: ApprovalFilter) -> Result<Vec<View>, ReadError> {
        let rows = self.0.desk.store.read(move |reader| reader.approvals(&filter)).await?;
        Ok(rows.iter().filter_map(View::excerpt_of).collect())
    }

    /// One approval with all its text.
    pub async fn get(&self, id: &str) -> Result<Option<View>, ReadError> {
        Ok(self.row(id).await?.as_ref().and_then(View::whole_of))
    }

    /// Every step that an approval has taken, in their order.
    pub async fn history(&self, id: &str) -> Result<Vec<Step>, ReadError> {
        let id = id.to_owned();
        let entries = self.0.desk.store.read(move |reader| reader.audit(&id)).await?;
        Ok(entries.into_iter().map(Step::from).collect())
    }

    /// The link of a token that holds, and what it decides.
    async fn find_link(&self, token: &str) -> Result<(DecisionLink, Verdict), LinkError> {
        let hash = link::lookup_hash(token).filter(|_| self.has_links()).ok_or(TokenError::Invalid)?;
        let found = self.0.desk.store.read(move |reader| reader.decision_link(&hash)).await;
        let row = found.map_err(DecideError::from)?.ok_or(TokenError::Invalid)?;
        let verdict = link::verdict_of(&row, Stamp::now())?;
        Ok((row, verdict.verdict()))
    }

    async fn vote(&self, id: &str, vote: Vote) -> Result<Decided, DecideError> {
        let (bytes, bytes_max) = (record::json(&vote.verdict).len(), self.0.desk.settings.limits.verdict_bytes_max);
        if bytes > bytes_max {
            return Err(DecideError::TooLarge { bytes, bytes_max });
        }
        let (by, verdict) = (By::Person { name: vote.person.name.clone() }, vote.verdict.name());
        let order = |reply| Order::Decide { id: id.to_owned(), vote, reply };
        match self.order(order).await.unwrap_or(Err(DecideError::Closed)) {
            Err(DecideError::NotFound) => {
                let row = self.row(id).await?.ok_or(DecideError::NotFound)?;
                let entry = audit::entry(id, "too_late", &by, &verdict);
                self.0.desk.store.note(Change::Audit(entry));
                let Decided { verdict, by, .. } = record::decided_of(&row).unwrap_or_else(unwritten);
                Err(DecideError::AlreadyDecided { by, verdict: verdict.without_content() })
            }
            outcome => outcome,
        }
    }

    async fn row(&self, id: &str) -> Result<Option<store::Approval>, ReadError> {
        let id = id.to_owned();
        self.0.desk.store.read(move |reader| reader.approval(&id)).await
    }

    async fn is_used(&self, approval: &str, link: &str) -> Result<bool, DecideError> {
        let approval = approval.to_owned();
        let entries = self.0.desk.store.read(move |reader| reader.audit(&approval)).await?;
        Ok(entries.iter().any(|entry| audit::is_by_link(entry, link)))
    }

    async fn settle(&self, order: impl FnOnce(oneshot::Sender<Vec<Ticket>>) -> Order) {
        for ticket in self.order(order).await.unwrap_or_default() {
            ticket.decided_or_gone().await;
        }
    }

    /// `None` if the clerk is gone.
    async fn order<T>(&self, order: impl FnOnce(oneshot::Sender<T>) -> Order) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.0.orders.send(order(reply)).await.ok()?;
        answer.await.ok()
    }
}

/// What is pending in the store and unknown to the clerk was refused while the store was full.
fn unwritten() -> Decided {
    Decided { verdict: Verdict::deny("refused while the store was full"), by: By::Deadline, at: Stamp::now() }
}
