//! What the pool's handle, its keepers and its turns share.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;

use approvals::Approvals;
use store::{SecretHash, Store};
use supervise::Ledger;
use tokio::runtime::Handle;
use tokio::sync::{Notify as Bell, watch};
use tokio::task::JoinSet;

use crate::board::{Board, SlotId};
use crate::limits::Limits;
use crate::notice::{Notice, Notify};
use crate::parked::Parked;
use crate::plan::{Group, Plan};
use crate::post::{Post, lock};
use crate::provider::ProviderState;
use crate::tips::Tips;
use crate::view::WorkerState;
use crate::words::Words;

pub(crate) struct Shared {
    pub(crate) plan: Plan,
    pub(crate) posts: Vec<Arc<Post>>,
    pub(crate) board: Mutex<Board>,
    pub(crate) parked: Mutex<Parked>,
    pub(crate) words: Mutex<Words>,
    /// Whether the tips that were kept are read.
    pub(crate) tips_loaded: watch::Sender<bool>,
    pub(crate) tips: Mutex<Tips>,
    /// Of each group.
    pub(crate) providers: Mutex<Vec<ProviderState>>,
    pub(crate) store: Store,
    pub(crate) approvals: Approvals,
    pub(crate) ledger: Ledger,
    pub(crate) notify: Notify,
    /// Rung whenever a place becomes free, or a worker is in another state.
    pub(crate) freed: Bell,
    pub(crate) runtime: Handle,
    /// Turns that begin, and those that nobody reads, on their way to their end.
    pub(crate) unread: Mutex<JoinSet<()>>,
}

impl Shared {
    /// The board. Nothing is awaited under this lock.
    pub(crate) fn board(&self) -> MutexGuard<'_, Board> {
        lock(&self.board)
    }

    pub(crate) fn parked(&self) -> MutexGuard<'_, Parked> {
        lock(&self.parked)
    }

    pub(crate) fn words(&self) -> MutexGuard<'_, Words> {
        lock(&self.words)
    }

    pub(crate) fn tips(&self) -> MutexGuard<'_, Tips> {
        lock(&self.tips)
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.plan.limits
    }

    pub(crate) fn post(&self, slot: SlotId) -> &Arc<Post> {
        &self.posts[slot.0]
    }

    pub(crate) fn group(&self, post: &Post) -> &Group {
        &self.plan.groups[post.group]
    }

    /// Makes the tokens of detached workers valid: they may call tools before their keepers have found them.
    pub(crate) fn restore_tokens(&self) {
        for entry in self.ledger.detached() {
            let Some(post) = self.posts.iter().find(|post| *post.name == *entry.name) else { continue };
            let group = self.group(post);
            let hash = entry.token_hash.as_deref().and_then(SecretHash::from_hex);
            if let (Some(tools), Some(hash)) = (&group.tools, hash) {
                tools.tokens.restore(&group.name, &post.name, hash);
            }
        }
    }

    /// Makes the token of a worker that has ended invalid.
    pub(crate) fn revoke_token(&self, post: &Post) {
        if let Some(tools) = &self.group(post).tools {
            tools.tokens.revoke(&post.name);
        }
    }

    /// What is known of a thread that is loaded: the store may not know it yet.
    pub(crate) fn record_of_loaded(&self, thread: &str) -> Option<store::Thread> {
        let slot = self.board().whereabouts(thread)?;
        let link = self.post(slot).link()?;
        link.threads().get(thread).map(|loaded| loaded.record.clone())
    }

    /// Sees to a turn that begins, or that nobody reads; there are no more of these than there are places.
    pub(crate) fn see_to(&self, ending: impl Future<Output = ()> + Send + 'static) {
        let mut unread = lock(&self.unread);
        while unread.try_join_next().is_some() {}
        unread.spawn_on(ending, &self.runtime);
    }

    /// What a turn on a worker has shown of the model provider.
    pub(crate) fn set_provider_state(&self, post: &Post, state: ProviderState) {
        let before = std::mem::replace(&mut lock(&self.providers)[post.group], state);
        let group = &*self.group(post).name;
        match (before, state) {
            (ProviderState::Reachable, ProviderState::Unreachable) => {
                tracing::warn!(group, "model provider unreachable");
            }
            (ProviderState::Unreachable, ProviderState::Reachable) => tracing::info!(group, "model provider reachable"),
            _ => {}
        }
    }

    /// A worker is in another state, and everybody is told.
    pub(crate) fn set_state(&self, post: &Post, state: WorkerState, reason: Option<Box<str>>) {
        post.set_status(|status| {
            status.state = state;
            status.reason.clone_from(&reason);
            status.since = SystemTime::now();
            status.retry_at = None;
        });
        let (worker, group) = ((&*post.name).into(), self.group(post).name.clone());
        (self.notify)(Notice::WorkerState { worker, group, state, reason });
        self.freed.notify_waiters();
    }
}
