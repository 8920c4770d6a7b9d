//! What a worker asks: approvals go to the book of approvals, calls of callers' tools are parked. Each is on record before
//! anybody sees it, and the worker is told exactly one answer.

mod tool_call;
mod wanted;

use std::sync::Arc;
use std::time::{Duration, Instant};

use approvals::{Decided, Ticket, Verdict, Withdrawal};
use codex::{Decision, Json, Pending, RequestKind, Requests};
use tokio::task::JoinSet;

use crate::board::LeaseId;
use crate::notice::{At, Notice};
use crate::permit::PermitChange;
use crate::post::{Link, Persistence, Post};
use crate::shared::Shared;

/// Everything that an answer needs to know of where its request came from.
#[derive(Clone)]
pub(crate) struct Desk {
    pub(crate) shared: Arc<Shared>,
    pub(crate) post: Arc<Post>,
    pub(crate) link: Arc<Link>,
}

/// Whom a request is asked for.
struct Asker {
    lease: Option<LeaseId>,
    key: Box<str>,
    thread: Box<str>,
    turn: Box<str>,
    decision_timeout: Option<Duration>,
    /// The place of the request among all that the worker has asked.
    place: u64,
}

/// How an open request came to its end.
enum Ending {
    Decided(Decided),
    /// Nobody waits for an answer any more.
    Settled,
}

impl Desk {
    /// Answers requests until the connection is over and each has its end.
    pub(crate) async fn attend(self, mut requests: Requests) {
        let (mut open, mut asked) = (JoinSet::new(), 0);
        loop {
            tokio::select! {
                request = requests.next() => match request {
                    Some(pending) => {
                        asked += 1;
                        open.spawn(self.clone().answer(pending, asked));
                    }
                    None => break,
                },
                Some(_) = open.join_next() => {}
            }
        }
        while open.join_next().await.is_some() {}
    }

    async fn answer(self, pending: Pending, place: u64) {
        let asker = self.asker(&pending, place);
        self.park(&asker);
        let change = match pending.asked.kind {
            RequestKind::ToolCall => {
                self.park_call(&pending, &asker).await;
                PermitChange::ResumeWithinLimits
            }
            _ => self.ask(&pending, &asker).await,
        };
        if asker.lease.is_none() {
            // Nobody reads a turn that is not ours.
            self.link.register().forget(&asker.thread);
        }
        self.shared.wake(&asker.turn, change);
    }

    /// The turn waits from now on.
    fn park(&self, asker: &Asker) {
        let is_first = asker.lease.is_some_and(|lease| self.shared.board().park(lease, Instant::now()));
        if is_first {
            let at = At {
                thread: (&*asker.thread).into(),
                turn: (&*asker.turn).into(),
                worker: Arc::clone(&self.post.name),
                key: (&*asker.key).into(),
            };
            (self.shared.notify)(Notice::TurnParked { at });
            // Nobody waits for the end of a turn that waits itself.
            self.shared.freed.notify_waiters();
        }
    }

    /// The turn goes on, unless it waits for more. Before the worker is told: what it then does is later than this.
    fn unpark(&self, asker: &Asker) {
        let goes_on = asker.lease.is_some_and(|lease| self.shared.board().unpark(lease));
        // One whose worker is only out of reach stands where it stood.
        if goes_on && !self.is_over() {
            self.shared.spend_tip(&asker.thread);
        }
    }

    /// Has a request decided, and says how its turn goes on.
    async fn ask(&self, pending: &Pending, asker: &Asker) -> PermitChange {
        let group = &self.shared.group(&self.post).name;
        let wanted = wanted::of(&pending.asked, asker, group, &self.post.name, &self.link.client);
        let ticket = match self.shared.approvals.ask(wanted).await {
            Ok(ticket) => ticket,
            Err(refused) => {
                self.name(pending, asker, None);
                self.unpark(asker);
                self.decline(pending, &refused.to_string());
                return PermitChange::ResumeWithinLimits;
            }
        };
        self.post.asked(ticket.id(), &self.link);
        self.name(pending, asker, Some(ticket.id()));
        let ending = tokio::select! {
            biased;
            decided = ticket.decided() => Ending::Decided(decided),
            () = pending.settled() => Ending::Settled,
        };
        self.unpark(asker);
        match ending {
            Ending::Decided(decided) => {
                self.post.settled(ticket.id());
                let is_allowed = decided.verdict.allows();
                self.tell(pending, asker, decided);
                if is_allowed { PermitChange::Resume } else { PermitChange::ResumeWithinLimits }
            }
            Ending::Settled => {
                self.withdraw(&ticket).await;
                PermitChange::ResumeWithinLimits
            }
        }
    }

    /// Tells the worker what was decided.
    fn tell(&self, pending: &Pending, asker: &Asker, decided: Decided) {
        if let Some(reason) = decided.verdict.reason().filter(|_| !hears_reasons(pending.asked.kind)) {
            self.shared.leave_word(&asker.thread, &wanted::denial(&pending.asked, reason));
        }
        let told = match decided.verdict {
            Verdict::Answer(answer) => {
                let answer = Json::of(&answer).expect("a JSON value can be written");
                pending.answer_raw(Ok(&answer)).map_err(Into::into)
            }
            Verdict::Allow => pending.decide(&Decision::Allow),
            Verdict::AllowForSession => pending.decide(&Decision::AllowForSession),
            Verdict::AllowWithAmendment(words) => pending.decide(&Decision::AllowWithAmendment(words)),
            Verdict::Deny { reason } => pending.decide(&Decision::Deny { reason }),
            Verdict::Cancel => pending.decide(&Decision::Cancel),
        };
        if let Err(error) = told {
            tracing::warn!(worker = %self.post.name, thread = %asker.thread, %error, "a decision was not taken");
            self.decline(pending, "the decision cannot be told to the worker");
        }
    }

    /// Nobody waits for the decision any more.
    async fn withdraw(&self, ticket: &Ticket) {
        let why = match (self.is_over(), self.link.persistence) {
            (false, _) => Withdrawal::TurnOver,
            (true, Persistence::WithLink) => Withdrawal::WorkerGone,
            // It is asked again over the next link, and found under its old id, or else the keeper sees to it.
            (true, Persistence::BeyondLink) => return,
        };
        self.shared.approvals.withdraw(ticket.id(), why).await;
        self.post.settled(ticket.id());
    }

    /// Whether the connection itself is over.
    fn is_over(&self) -> bool {
        self.post.link().is_none_or(|link| !Arc::ptr_eq(&link, &self.link)) || self.link.client.has_ended()
    }

    fn decline(&self, pending: &Pending, reason: &str) {
        // If it is not open any more, nobody waits for this.
        _ = pending.decide(&Decision::deny(reason));
    }

    fn name(&self, pending: &Pending, asker: &Asker, name: Option<&str>) {
        // What belongs to no thread is no event of a turn.
        if !asker.thread.is_empty() {
            self.link.register().settle(&asker.thread, pending.asked.id.as_raw(), name);
        }
    }

    /// Whom a request is asked for; one without a turn of ours belongs to nobody but the operators.
    fn asker(&self, pending: &Pending, place: u64) -> Asker {
        let thread = pending.asked.thread.clone().unwrap_or_default();
        let board = self.shared.board();
        let (id, lease) = board.lease_of(&thread).unzip();
        let turn = pending.asked.turn.clone().or_else(|| lease.and_then(|lease| lease.turn.clone()));
        Asker {
            lease: id,
            key: lease.map(|lease| lease.key.clone()).unwrap_or_default(),
            decision_timeout: lease.and_then(|lease| lease.decision_timeout),
            turn: turn.unwrap_or_default(),
            thread,
            place,
        }
    }
}

/// Whether the protocol has a place for the reason of a denial.
fn hears_reasons(kind: RequestKind) -> bool {
    matches!(kind, RequestKind::ToolCall | RequestKind::AuthTokens | RequestKind::Attestation)
}
