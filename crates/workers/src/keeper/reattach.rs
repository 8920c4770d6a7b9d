//! A worker that was running before us, or before our link to it: its turns are followed again, and what they wait for is
//! asked again under its old id. What is not asked again is orphaned: nothing of it was executed.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use approvals::Withdrawal;
use codex::{ThreadOptions, TurnError, TurnStatus, protocol};
use futures_util::{StreamExt as _, stream};
use store::{
    ApprovalFilter, ApprovalState, Change, ParkedCallFilter, ParkedCallState, ReadError, Reader, ThreadFilter,
    TurnState,
};
use tokio::time::timeout;

use super::Keeper;
use crate::admission::Admission;
use crate::board::Want;
use crate::confinement::NotConfinable;
use crate::meter::Meter;
use crate::notice::{At, Notice};
use crate::plan::{Afterwards, Reach, Transport};
use crate::pool::FLUSH_TIMEOUT;
use crate::post::{Link, Loaded};
use crate::record;
use crate::refused::Refused;
use crate::running::{Held, Running};
use crate::told::LOOK_TIMEOUT;

/// How many threads are resumed at once.
const RESUMES_MAX: usize = 16;

/// A turn that may still run.
struct Open {
    turn: String,
    record: store::Thread,
}

impl Keeper {
    /// Follows the turns that were open.
    pub(super) async fn reattach(&self, link: &Arc<Link>) {
        let open = match self.open_turns().await {
            Ok(open) => open,
            Err(error) => {
                tracing::error!(worker = %self.post.name, %error, "the open turns cannot be read");
                return;
            }
        };
        let following = stream::iter(open.into_values()).for_each_concurrent(RESUMES_MAX, async |open| {
            let (thread, turn) = (open.record.id.clone(), open.turn.clone());
            if let Err(error) = self.follow(link, open).await {
                tracing::warn!(worker = %self.post.name, thread, turn, %error, "a turn is not found again");
            }
        });
        following.await;
    }

    /// Whatever this worker was known to have asked, and has not asked over this link, is over; so are its turns.
    pub(super) async fn orphan_what_is_not_asked(&self, link: Option<&Arc<Link>>) {
        let (group, worker) = (self.shared.group(&self.post).name.to_string(), self.post.name.to_string());
        for approval in self.post.take_left(link.map_or(0, |link| link.number)) {
            self.shared.approvals.withdraw(&approval, Withdrawal::WorkerGone).await;
        }
        self.shared.approvals.orphan_unclaimed(&group, &worker).await;
        let held = self.threads_held();
        // What was noted a moment ago may not be readable yet.
        timeout(FLUSH_TIMEOUT, self.shared.store.flush()).await.ok();
        let left = self.shared.store.read(move |reader| {
            Ok((waiting_calls(reader, &group, &worker)?, reader.threads(&running(&group, &worker))?))
        });
        let (calls, threads) = left.await.unwrap_or_default();
        let held_now = self.threads_held();
        for thread in threads {
            let id = thread.id.as_str();
            let is_loaded = link.is_some_and(|link| link.threads().contains_key(id));
            if !held.contains(id) && !held_now.contains(id) && !is_loaded {
                self.end_unheard(thread);
            }
        }
        for mut call in calls {
            if !self.shared.parked().is_expected(&call.id, &call.thread) {
                call.state = ParkedCallState::Orphaned;
                self.shared.store.note(Change::ParkedCall(call));
            }
        }
    }

    /// The threads whose turns somebody here sees to their end. What may outlive its link is seen to by whoever finds it again.
    fn threads_held(&self) -> HashSet<Box<str>> {
        let ends_with_link = matches!(self.shared.group(&self.post).transport, Transport::Stdio);
        let board = self.shared.board();
        let threads = board.leases().filter_map(|lease| lease.thread.as_ref());
        threads.filter(|thread| ends_with_link || board.lease_of(thread).is_some()).cloned().collect()
    }

    /// A turn has ended, and nobody knows how.
    fn end_unheard(&self, thread: store::Thread) {
        let error = TurnError {
            message: "its end was not heard: the worker or the link to it was gone".into(),
            kind: Some("worker_lost".into()),
            http_status: None,
            details: Some("work may have run".into()),
        };
        self.end_unread(thread, TurnStatus::Lost, Some(error));
    }

    /// A turn has ended while nobody read it.
    fn end_unread(&self, thread: store::Thread, status: TurnStatus, error: Option<TurnError>) {
        let at = At {
            thread: thread.id.as_str().into(),
            turn: thread.last_turn.as_deref().unwrap_or_default().into(),
            worker: Arc::clone(&self.post.name),
            key: thread.key.as_str().into(),
        };
        (self.shared.notify)(Notice::TurnEnded { at, status, error });
        self.shared.tips().remove(&thread.id);
        let ended = store::Thread { last_turn_state: Some(TurnState::Ended), history_hash: None, ..thread };
        self.shared.store.note(Change::Thread(ended));
    }

    /// The turns that this worker had: those that wait for something, and those that ran when we last heard of them.
    async fn open_turns(&self) -> Result<BTreeMap<String, Open>, ReadError> {
        let (group, worker) = (self.shared.group(&self.post).name.to_string(), self.post.name.to_string());
        self.shared.store.read(move |reader| open_turns(reader, &group, &worker)).await
    }

    /// Follows first and resumes then, so that nothing is missed.
    async fn follow(&self, link: &Arc<Link>, open: Open) -> Result<(), Refused> {
        let Open { turn, record } = open;
        let thread = link.client.thread(&record.id);
        // Nothing more is told of one that has ended while nobody heard it; and who follows it holds its thread.
        if let Ok(Ok(Some(known))) = timeout(LOOK_TIMEOUT, thread.find_turn(&turn)).await
            && known.status != protocol::TurnStatus::InProgress
        {
            let status = match known.status {
                protocol::TurnStatus::Completed => TurnStatus::Completed,
                protocol::TurnStatus::Interrupted => TurnStatus::Interrupted,
                _ => TurnStatus::Failed,
            };
            self.end_unread(record, status, None);
            return Ok(());
        }
        let options = self.options_of(link, &record).await?;
        let record = store::Thread { cwd: options.cwd.clone().unwrap_or_default(), ..record };
        let followed = thread.follow(&turn)?;
        let want = Want {
            key: record.key.as_str().into(),
            group: self.post.group,
            thread: Some(record.id.as_str().into()),
            beside: None,
            decision_timeout: None,
        };
        let lease = self.shared.board().adopt(self.post.slot, &want, Instant::now());
        let held = Held::new(&self.shared, lease);
        self.shared.board().named(lease, &turn);
        let resumed = link.client.resume_thread(&record.id, options).await?;
        let loaded = Loaded { thread: resumed, record: record.clone(), context_tokens: 0 };
        link.threads().insert(record.id.as_str().into(), loaded);
        let (post, link, meter) = (Arc::clone(&self.post), Arc::clone(link), Meter::found_again());
        let running = Running::new(followed, post, link, record, Afterwards::Stays, meter, held);
        self.shared.park(running);
        Ok(())
    }

    /// As the thread was opened. It runs already, so that nobody is refused: whoever began it was admitted.
    async fn options_of(&self, link: &Link, record: &store::Thread) -> Result<ThreadOptions, NotConfinable> {
        let admission = Admission { post: &self.post, link, profile: record.profile.as_deref(), reach: Reach::All };
        let profiles = &self.shared.plan.profiles;
        let profile = profiles.iter().find(|profile| Some(&*profile.name) == record.profile.as_deref());
        let cwd = Some(record.cwd.clone()).filter(|cwd| !cwd.is_empty());
        let options = profile.map(crate::Profile::thread_options).unwrap_or_default();
        self.shared.admit(&admission, &ThreadOptions { cwd, ..options }).await
    }
}

fn open_turns(reader: &Reader, group: &str, worker: &str) -> Result<BTreeMap<String, Open>, ReadError> {
    let pending = ApprovalFilter {
        state: Some(ApprovalState::Pending),
        group: Some(group.into()),
        worker: Some(worker.into()),
        ..ApprovalFilter::default()
    };
    let asked = reader.approvals(&pending)?.into_iter().map(|row| (row.thread, row.turn, row.key));
    let called = waiting_calls(reader, group, worker)?.into_iter().map(|row| (row.thread, row.turn, row.key));
    let running =
        reader.threads(&running(group, worker))?.into_iter().filter_map(|row| Some((row.id, row.last_turn?, row.key)));
    let mut open = BTreeMap::new();
    for (thread, turn, key) in asked.chain(called).chain(running) {
        if let Entry::Vacant(vacant) = open.entry(thread) {
            // Approvals and calls are kept at once, threads a moment later.
            let known = reader.thread(vacant.key())?;
            let record = known.unwrap_or_else(|| record::fresh(vacant.key(), group, &key));
            vacant.insert(Open { turn, record });
        }
    }
    Ok(open)
}

/// The threads of a worker that have a turn, as far as is known.
fn running(group: &str, worker: &str) -> ThreadFilter {
    ThreadFilter {
        group: Some(group.into()),
        worker: Some(worker.into()),
        last_turn_state: Some(TurnState::Running),
        ..ThreadFilter::default()
    }
}

fn waiting_calls(reader: &Reader, group: &str, worker: &str) -> Result<Vec<store::ParkedCall>, ReadError> {
    let waiting = ParkedCallFilter {
        state: Some(ParkedCallState::Waiting),
        group: Some(group.into()),
        worker: Some(worker.into()),
        ..ParkedCallFilter::default()
    };
    reader.parked_calls(&waiting)
}
