//! The one task that keeps the book: orders, finished work and deadlines go in; what the book then wants done is done.
//! Writing, hooks and posts run beside it, so that none of them makes another wait.

use std::collections::HashMap;
use std::future::pending;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use store::{ApprovalState, Change, WriteError};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::sleep_until;
use uuid::Uuid;

use crate::audit;
use crate::book::{Asked, Book, NoRoom, NotOpen, Output, Proposal};
use crate::case::{Case, Decider, Reply, Vote};
use crate::consult::Desk;
use crate::error::{DecideError, Refused};
use crate::offers::NotAdmitted;
use crate::record;
use crate::repeats::Repeats;
use crate::rules::Then;
use crate::settings::{Notice, Notify};
use crate::shown::Shown;
use crate::stamp::Stamp;
use crate::ticket::Ticket;
use crate::verdict::{By, Decided, Verdict, Withdrawal};
use crate::view::View;

pub(crate) struct Clerk {
    book: Book,
    cases: HashMap<String, Case>,
    repeats: Repeats,
    desk: Arc<Desk>,
    notify: Notify,
    work: JoinSet<Done>,
}

/// What can be asked of the clerk.
pub(crate) enum Order {
    Ask { shown: Box<Shown>, timeout: Duration, reply: Reply<Ticket, Refused> },
    Decide { id: String, vote: Vote, reply: Reply<Decided, DecideError> },
    Withdraw { id: String, why: Withdrawal, reply: oneshot::Sender<Vec<Ticket>> },
    OrphanUnclaimed { group: String, worker: String, reply: oneshot::Sender<Vec<Ticket>> },
}

/// What comes back from work beside the clerk.
enum Done {
    Recorded { id: String, recorded: Recorded },
    Committed { id: String, committed: Result<(), WriteError> },
    HooksAsked { id: String, said: Option<(String, Verdict)> },
    Posted,
}

enum Recorded {
    New(Option<Decided>),
    /// The very same request was decided before.
    Known(String, Decided),
    Failed(WriteError),
}

impl Clerk {
    pub(crate) fn new(desk: Arc<Desk>, notify: Notify) -> Self {
        let repeats = Repeats::new(desk.settings.limits.repeats_max as usize);
        Self { book: Book::default(), cases: HashMap::new(), repeats, desk, notify, work: JoinSet::new() }
    }

    /// Takes up what an earlier run left: what is pending, and decisions that a worker may not have heard of.
    pub(crate) fn load(&mut self, row: store::Approval) {
        let Some(shown) = record::shown_of(&row) else {
            return self.give_up(&row);
        };
        if row.state != ApprovalState::Pending {
            return self.remember(&row, &shown);
        }
        let deadline = Stamp(row.deadline_at.unwrap_or(row.created_at));
        // A clock that was set back must not make the wait longer than it was meant to be.
        let left = deadline.since(Stamp::now()).min(deadline.since(Stamp(row.created_at)));
        self.book.handle_loaded(&row.id, asked(&shown, now() + left));
        self.cases.insert(row.id.clone(), Case::loaded(row));
        self.count();
    }

    /// What cannot be shown can never be decided.
    fn give_up(&self, row: &store::Approval) {
        if row.state == ApprovalState::Pending {
            let by = By::Withdrawn { why: Withdrawal::WorkerGone };
            let decided = Decided { verdict: Verdict::Cancel, by, at: Stamp::now() };
            self.desk.audit(&row.id, "unreadable", &"open", &"this version cannot show what another one wrote");
            self.desk.store.note(Change::Audit(audit::decision(&row.id, &decided, None)));
            self.desk.store.note(Change::Approval(record::decided_row(row, &decided)));
        }
    }

    fn count(&self) {
        self.desk.pending.store(self.book.len(), Ordering::Relaxed);
    }

    pub(crate) async fn run(mut self, mut orders: mpsc::Receiver<Order>) {
        loop {
            let deadline = self.book.poll_deadline();
            tokio::select! {
                biased;
                Some(done) = self.work.join_next(), if !self.work.is_empty() => self.handle_done(done),
                () = until(deadline) => self.book.handle_deadline(now()),
                order = orders.recv() => match order {
                    Some(order) => self.handle_order(order),
                    None => return,
                },
            }
            // Before anybody is told, so that whoever hears of a change finds it counted.
            self.count();
            while let Some(output) = self.book.poll_output() {
                match output {
                    Output::Opened { id } => self.open(&id),
                    Output::Commit { id, proposal } => self.commit(id, proposal),
                    Output::Decided { id, proposal } => self.close(&id, &proposal),
                }
            }
        }
    }

    fn handle_order(&mut self, order: Order) {
        match order {
            Order::Ask { shown, timeout, reply } => self.ask(&shown, timeout, reply),
            Order::Decide { id, vote, reply } => self.decide(&id, vote, reply),
            Order::Withdraw { id, why, reply } => {
                if let (Withdrawal::WorkerGone, Some(case)) = (why, self.cases.get(&id)) {
                    self.repeats.forget(&case.row.group, &case.row.worker);
                }
                self.book.handle_withdrawn(&id, why);
                reply.send(self.tickets([id])).ok();
            }
            Order::OrphanUnclaimed { group, worker, reply } => {
                let orphans = self.book.handle_all_repeated(&group, &worker);
                self.repeats.forget(&group, &worker);
                reply.send(self.tickets(orphans)).ok();
            }
        }
    }

    fn handle_done(&mut self, done: Result<Done, JoinError>) {
        match done {
            Ok(Done::Recorded { id, recorded }) => self.recorded(&id, recorded),
            Ok(Done::Committed { id, committed: Ok(()) }) => self.book.handle_committed(&id),
            Ok(Done::Committed { id, committed: Err(error) }) => self.not_committed(&id, &error),
            Ok(Done::HooksAsked { id, said }) => self.hooks_asked(&id, said),
            Ok(Done::Posted) => {}
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            // Hooks and posts end with the decision that makes them needless.
            Err(_) => {}
        }
    }

    fn ask(&mut self, shown: &Shown, timeout: Duration, reply: Reply<Ticket, Refused>) {
        let identity = shown.identity();
        if let Some(id) = self.book.handle_repeated(&identity) {
            self.desk.audit(&id, "repeated", &shown.origin.worker, &"");
            return self.cases.get_mut(&id).expect("what is in the book has a case").join(reply);
        }
        let limits = &self.desk.settings.limits;
        if let Err(no_room) = self.book.check_room(shown.key.as_deref(), limits) {
            let refused = match no_room {
                NoRoom::ForAnyone => Refused::TooMany(limits.pending_max),
                NoRoom::ForKey => Refused::TooManyOfKey(limits.pending_per_key_max()),
            };
            return drop(reply.send(Err(refused)));
        }
        let id = Uuid::now_v7().to_string();
        let created = Stamp::now();
        let row = record::pending_row(&id, shown, created, created.after(timeout));
        let ruling = self.rule(shown);
        let known = self.repeats.find(&identity).map(str::to_owned);
        self.work.spawn(record_first(Arc::clone(&self.desk), row.clone(), ruling.clone(), known));
        self.book.handle_asked(&id, asked(shown, now() + timeout));
        self.cases.insert(id, Case { deciding: ruling, ..Case::asked(row, reply) });
    }

    fn rule(&self, shown: &Shown) -> Option<Decided> {
        let (number, then) = self.desk.settings.rules.judge(shown)?;
        let verdict = match then {
            Then::Allow if shown.offers.allow => Verdict::Allow,
            Then::Deny => Verdict::deny(format!("rule {number} of the configuration forbids it")),
            Then::Allow | Then::Ask => return None,
        };
        Some(Decided { verdict, by: By::Rule { number }, at: Stamp::now() })
    }

    fn recorded(&mut self, id: &str, recorded: Recorded) {
        let answers = match recorded {
            Recorded::New(ruling) => {
                let ruling = ruling.map(|Decided { verdict, by, .. }| Proposal { verdict, by });
                self.cases.get_mut(id).expect("it is being recorded").recorded();
                return self.book.handle_recorded(id, ruling);
            }
            Recorded::Known(known, decided) => {
                self.desk.audit(&known, "repeated", &"worker", &"answered as it was decided");
                let (_, outcome) = watch::channel(Some(decided));
                Ok(Ticket::new(&known, outcome))
            }
            Recorded::Failed(error) => Err(Refused::Store(error)),
        };
        self.book.handle_not_recorded(id);
        let askers = self.cases.remove(id).and_then(|mut case| case.askers.take()).unwrap_or_default();
        for asker in askers {
            asker.send(answers.clone()).ok();
        }
    }

    /// It is durable: hooks and people may see it.
    fn open(&mut self, id: &str) {
        let case = self.cases.get_mut(id).expect("what is in the book has a case");
        let (Some(view), Some(shown)) = (View::excerpt_of(&case.row), record::shown_of(&case.row)) else {
            return;
        };
        (self.notify)(Notice::ApprovalWanted { approval: Box::new(view.clone()) });
        let who = shown.kind.who();
        let desk = &self.desk;
        if let Some(webhook) = desk.settings.webhook.clone().filter(|_| who.person) {
            let post = Arc::clone(desk).post(webhook, view.clone(), shown.clone());
            case.consulted.push(self.work.spawn(async {
                post.await;
                Done::Posted
            }));
        }
        if desk.settings.hooks.iter().any(|hook| hook.is_for(shown.kind)) {
            let (id, ask) = (id.to_owned(), Arc::clone(desk).ask_hooks(view, shown));
            case.consulted.push(self.work.spawn(async { Done::HooksAsked { id, said: ask.await } }));
        } else if !who.person {
            self.hooks_asked(id, None);
        }
    }

    fn hooks_asked(&mut self, id: &str, said: Option<(String, Verdict)>) {
        let Some(case) = self.cases.get(id) else {
            return;
        };
        let people_may = record::shown_of(&case.row).is_some_and(|shown| shown.kind.who().person);
        let proposal = match said {
            Some((name, verdict)) => Proposal { verdict, by: By::Hook { name } },
            None if people_may => return,
            None => Proposal { verdict: Verdict::deny("no hook answered, and nobody else may"), by: By::Nobody },
        };
        let (by, verdict) = (proposal.by.to_string(), proposal.verdict.name());
        if self.book.handle_decision(id, proposal).is_err() {
            self.desk.audit(id, "too_late", &by, &verdict);
        }
    }

    fn decide(&mut self, id: &str, vote: Vote, reply: Reply<Decided, DecideError>) {
        let Vote { shown_hash, verdict, person, link } = vote;
        let Some(case) = self.cases.get_mut(id).filter(|case| case.askers.is_none()) else {
            return drop(reply.send(Err(DecideError::NotFound)));
        };
        let shown = record::shown_of(&case.row).expect("only what can be shown is taken up");
        let by = By::Person { name: person.name.clone() };
        // Without a known key, any key may have asked.
        let is_own = person.key.is_some() && (shown.key.is_none() || person.key == shown.key);
        let admitted = match shown.admit(&verdict, person.powers) {
            _ if shown_hash != case.row.shown_hash => Err(DecideError::ShownChanged),
            _ if !shown.kind.who().person => Err(DecideError::NotAllowed("hook")),
            Err(NotAdmitted::NotOffered) => Err(DecideError::NotOffered(verdict.name())),
            Err(NotAdmitted::NeedsSessionScope) => Err(DecideError::NotAllowed("approvals:session")),
            Err(NotAdmitted::NeedsOperator) => Err(DecideError::LiftsRestrictions),
            Ok(()) if is_own && verdict.allows() && !person.powers.own_turns => {
                Err(DecideError::NotAllowed("approvals:own"))
            }
            Ok(()) => Ok(()),
        };
        if let Err(error) = admitted {
            self.desk.audit(id, "refused", &by, &format!("{}: {error}", verdict.name()));
            return drop(reply.send(Err(error)));
        }
        let taken = self.book.handle_decision(id, Proposal { verdict: verdict.clone(), by });
        if taken == Err(NotOpen::Unknown) {
            return drop(reply.send(Err(DecideError::NotFound)));
        }
        let is_first = taken.is_ok();
        if is_first {
            case.link = link;
        }
        case.deciders.push(Decider { name: person.name, verdict, is_first, reply });
    }

    fn commit(&mut self, id: String, proposal: Proposal) {
        let case = self.cases.get_mut(&id).expect("what is in the book has a case");
        let decided = Decided { verdict: proposal.verdict, by: proposal.by, at: Stamp::now() };
        let row = record::decided_row(&case.row, &decided);
        let entry = audit::decision(&id, &decided, case.link.as_deref());
        case.deciding = Some(decided);
        let desk = Arc::clone(&self.desk);
        self.work.spawn(async move {
            let committed = desk.store.commit(vec![Change::Approval(row), Change::Audit(entry)]).await;
            Done::Committed { id, committed }
        });
    }

    /// What allows nothing stands all the same, and is written when there is room again.
    fn not_committed(&mut self, id: &str, error: &WriteError) {
        let case = self.cases.get_mut(id).expect("it is being decided");
        let decided = case.deciding.clone().expect("it is being decided");
        self.desk.audit(id, "not_recorded", &decided.by, error);
        if decided.verdict.allows() {
            case.deciding = None;
            case.link = None;
            for decider in case.deciders.drain(..) {
                decider.reply.send(Err(DecideError::Store(error.clone()))).ok();
            }
        } else {
            let store = &self.desk.store;
            store.note(Change::Audit(audit::decision(id, &decided, case.link.as_deref())));
            store.note(Change::Approval(record::decided_row(&case.row, &decided)));
        }
        self.book.handle_not_committed(id);
    }

    /// Tells everybody who waits.
    fn close(&mut self, id: &str, proposal: &Proposal) {
        let mut case = self.cases.remove(id).expect("what is in the book has a case");
        let decided = case.deciding.take().expect("its decision was written");
        case.stop_consulting();
        debug_assert_eq!((&decided.verdict, &decided.by), (&proposal.verdict, &proposal.by));
        for decider in case.deciders.drain(..) {
            let answer = if decider.is_first {
                Ok(decided.clone())
            } else {
                self.desk.audit(id, "too_late", &By::Person { name: decider.name }, &decider.verdict.name());
                Err(DecideError::AlreadyDecided { by: decided.by.clone(), verdict: decided.verdict.without_content() })
            };
            decider.reply.send(answer).ok();
        }
        let row = record::decided_row(&case.row, &decided);
        if let Some(shown) = record::shown_of(&row) {
            self.remember(&row, &shown);
        }
        if let Some(view) = View::excerpt_of(&row) {
            (self.notify)(Notice::ApprovalDecided { approval: Box::new(view) });
        }
        case.outcome.send_replace(Some(decided));
    }

    fn remember(&mut self, row: &store::Approval, shown: &Shown) {
        if record::repeatable(row).is_some() {
            self.repeats.insert(shown.identity(), &row.id, &shown.origin);
        }
    }

    fn tickets(&self, ids: impl IntoIterator<Item = String>) -> Vec<Ticket> {
        ids.into_iter().filter_map(|id| self.cases.get(&id)).map(Case::ticket).collect()
    }
}

/// Records a request, with its ruling if there is one, unless the approval that is known for it can answer it.
async fn record_first(desk: Arc<Desk>, row: store::Approval, ruling: Option<Decided>, known: Option<String>) -> Done {
    let id = row.id.clone();
    if let Some((known, decided)) = find_decided(&desk, known).await {
        return Done::Recorded { id, recorded: Recorded::Known(known, decided) };
    }
    let mut changes = vec![Change::Audit(audit::entry(&id, "asked", &row.worker, &row.method))];
    match &ruling {
        Some(ruling) => {
            changes.push(Change::Approval(record::decided_row(&row, ruling)));
            changes.push(Change::Audit(audit::decision(&id, ruling, None)));
        }
        None => changes.push(Change::Approval(row)),
    }
    let recorded = match desk.store.commit(changes).await {
        Ok(()) => Recorded::New(ruling),
        Err(error) => Recorded::Failed(error),
    };
    Done::Recorded { id, recorded }
}

/// If the store cannot be read, the request is asked about anew: nothing is allowed by that.
async fn find_decided(desk: &Desk, known: Option<String>) -> Option<(String, Decided)> {
    let known = known?;
    let row = desk.store.read(move |reader| reader.approval(&known)).await.ok()??;
    let decided = record::repeatable(&row)?;
    Some((row.id, decided))
}

fn asked(shown: &Shown, deadline: Instant) -> Asked {
    let (identity, likeness) = (shown.identity(), shown.likeness());
    Asked { origin: shown.origin.clone(), identity, likeness, key: shown.key.clone(), deadline }
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline.into()).await,
        None => pending().await,
    }
}
