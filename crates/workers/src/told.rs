//! Turns that nobody here has read to their end: one of an earlier run is found again with a worker that outlived it, and what came of it
//! is on its worker's record.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use codex::protocol::TurnStatus;
use codex::{CallError, protocol};
use tokio::time::{Instant, timeout};

use crate::plan::{Caller, Transport};
use crate::pool::Pool;
use crate::post::Post;
use crate::turn::Turn;
use crate::view::WorkerState;

/// How long a worker may take to look a turn up.
pub(crate) const LOOK_TIMEOUT: Duration = Duration::from_secs(10);
/// How soon to ask again where no worker could say.
const ASK_AGAIN_INTERVAL: Duration = Duration::from_secs(5);

/// What became of a turn of an earlier run.
pub enum Found {
    /// It runs, or waits for somebody: to be read from here on.
    Unread(Box<Turn>),
    /// It is over, and its worker has this on record.
    Over(Box<protocol::Turn>),
    /// Nobody knows it any more.
    Gone,
}

/// What workers have on record of a turn.
#[derive(Debug)]
pub enum Recorded {
    /// This.
    Turn(Box<protocol::Turn>),
    /// None has it.
    Unknown,
    /// None is there to be asked.
    NobodySays,
}

impl Pool {
    /// Finds a turn of the caller's again that an earlier run has left. It waits until its worker is there to be asked, unless that
    /// will not be.
    pub async fn find_again(&self, thread: &str, turn: &str, caller: &Caller) -> Found {
        let (began, unheard_timeout) = (Instant::now(), self.shared.limits().unheard_timeout);
        loop {
            let mut changed = pin!(self.shared.freed.notified());
            changed.as_mut().enable();
            if let Some(unread) = self.shared.claim_unread(turn, caller).await {
                return Found::Unread(Box::new(unread));
            }
            // While it has a place somebody else reads it.
            if !self.has_turn(turn) {
                match self.recorded_turn(thread, turn).await {
                    Recorded::Turn(turn) if turn.status != TurnStatus::InProgress => return Found::Over(turn),
                    Recorded::Unknown => return Found::Gone,
                    Recorded::NobodySays if self.is_given_up(thread, began.elapsed()).await => return Found::Gone,
                    Recorded::Turn(_) | Recorded::NobodySays => {}
                }
            }
            timeout(ASK_AGAIN_INTERVAL.min(unheard_timeout), changed).await.ok();
        }
    }

    /// A turn of the caller's that nobody reads, whether it waits or runs on: to be read from here on.
    pub async fn unread_turn(&self, turn: &str, caller: &Caller) -> Option<Turn> {
        self.shared.claim_unread(turn, caller).await
    }

    /// Whether a worker, and what it runs, goes on when we end.
    #[must_use]
    pub fn outlives_us(&self, worker: &str) -> bool {
        let mut posts = self.shared.posts.iter();
        posts.any(|post| *post.name == *worker && !matches!(self.shared.group(post).transport, Transport::Stdio))
    }

    /// Whether a worker of a group, the first if none is named, is being found again with what waits there, or may still ask again
    /// what it had asked.
    #[must_use]
    pub fn is_finding(&self, group: Option<&str>) -> bool {
        let (plan, settle_timeout) = (&self.shared.plan, self.shared.limits().settle_timeout);
        let wanted = group.unwrap_or(&plan.groups[0].name);
        self.shared.posts.iter().any(|post| {
            let (group, status) = (self.shared.group(post), post.status());
            let is_coming = match status.state {
                WorkerState::Starting => true,
                WorkerState::Ready => status.since.elapsed().is_ok_and(|passed| passed < settle_timeout),
                _ => false,
            };
            is_coming && *group.name == *wanted && !matches!(group.transport, Transport::Stdio)
        })
    }

    /// Whether nobody is to be expected any more who knows the turns of a thread, after so long a wait: its worker has failed, or was
    /// our child, and none takes its place.
    async fn is_given_up(&self, thread: &str, waited: Duration) -> bool {
        if self.is_draining() {
            return false;
        }
        let id = thread.to_owned();
        let Ok(Some(record)) = self.shared.store.read(move |reader| reader.thread(&id)).await else { return false };
        let Some(post) = self.post_of(&record) else { return waited >= self.shared.limits().unheard_timeout };
        match (post.status().state, &self.shared.group(post).transport) {
            (WorkerState::Failed, _) => true,
            (_, Transport::Stdio) => waited >= self.shared.limits().unheard_timeout,
            (_, Transport::Unix | Transport::Ws(_)) => false,
        }
    }

    /// The post of the worker that had a thread last.
    fn post_of(&self, record: &store::Thread) -> Option<&Arc<Post>> {
        self.shared.posts.iter().find(|post| record.worker.as_deref() == Some(&*post.name))
    }

    /// A turn with all its items, as a worker of its thread's group has it on record. No other speaks for one that had it and is only
    /// out of reach.
    pub async fn recorded_turn(&self, thread: &str, turn: &str) -> Recorded {
        let id = thread.to_owned();
        let record = match self.shared.store.read(move |reader| reader.thread(&id)).await {
            Ok(Some(record)) => record,
            Ok(None) => return Recorded::Unknown,
            Err(_) => return Recorded::NobodySays,
        };
        let Ok(group) = self.group_named(&record.group) else { return Recorded::Unknown };
        let own = self.post_of(&record);
        let is_out_of_reach = |post: &Arc<Post>| post.link().is_none() && post.status().state != WorkerState::Failed;
        if self.is_draining() || own.is_some_and(is_out_of_reach) {
            return Recorded::NobodySays;
        }
        let is_other = |post: &&Arc<Post>| own.is_none_or(|own| !Arc::ptr_eq(own, post));
        let others = self.shared.posts.iter().filter(|post| post.group == group).filter(is_other);
        let links = own.into_iter().chain(others).filter_map(|post| post.link());
        let mut is_unknown = false;
        for link in links.collect::<Vec<_>>() {
            match timeout(LOOK_TIMEOUT, link.client.thread(thread).find_turn(turn)).await {
                Ok(Ok(Some(turn))) => return Recorded::Turn(Box::new(turn)),
                Ok(Ok(None) | Err(CallError::Failed { .. } | CallError::Unable(_))) => is_unknown = true,
                Ok(Err(_)) | Err(_) => {}
            }
        }
        if is_unknown { Recorded::Unknown } else { Recorded::NobodySays }
    }

    /// Whether a turn runs or waits on a worker.
    #[must_use]
    pub fn has_turn(&self, turn: &str) -> bool {
        self.shared.board().leases().any(|lease| lease.turn.as_deref() == Some(turn))
    }
}
