//! Threads of which nothing is to be kept are forgotten, at their workers and here.

use std::sync::Arc;
use std::time::Instant;

use codex::Thread;
use store::Change;

use crate::notice::At;
use crate::pool::Pool;
use crate::shared::Shared;

impl Pool {
    /// Forgets a thread whose last turn is over. A worker that does not let go of it now does so when it needs the room.
    pub fn forget_thread(&self, thread: &str) {
        self.shared.forget_thread(thread);
    }

    /// Forgets the thread of a turn that nobody goes on from: at once, or when the turn is over, if it waits or runs on.
    pub fn forget_thread_of(&self, at: &At) {
        let is_left = self.shared.parked().leave_nothing(&at.turn);
        // One that still has its place is somebody else's to forget.
        if !is_left && !self.has_turn(&at.turn) {
            self.forget_thread(&at.thread);
        }
    }
}

impl Shared {
    pub(crate) fn forget_thread(self: &Arc<Self>, thread: &str) {
        self.tips().remove(thread);
        self.store.note(Change::ThreadGone { id: thread.into() });
        let slot = self.board().whereabouts(thread);
        let link = slot.and_then(|slot| self.post(slot).link());
        let loaded = link.and_then(|link| link.threads().remove(thread));
        loaded.into_iter().for_each(|loaded| self.unload(loaded.thread));
    }

    /// Lets the worker of a thread go of it.
    pub(crate) fn unload(self: &Arc<Self>, thread: Thread) {
        let shared = Arc::clone(self);
        self.see_to(async move {
            if let Err(error) = thread.unload().await {
                tracing::debug!(thread = thread.id(), %error, "a thread that is forgotten was not unloaded");
            }
            shared.board().evicted(thread.id(), Instant::now());
        });
    }
}
