//! The tips of the pool: claimed by whoever goes on with a known history, left by whoever has made one. They are kept with
//! their threads, so that a conversation goes on after a restart.

use std::sync::Arc;
use std::time::Duration;

use store::{Change, TurnState};
use tokio::time::timeout;

use crate::pool::Pool;
use crate::shared::Shared;
use crate::tips::{Found, Place, Stage, TIPS_MAX};

/// How long the tips that were kept may take to be read.
const LOAD_TIMEOUT: Duration = Duration::from_secs(5);

/// What a history leads to.
#[derive(Debug)]
pub enum TipClaim {
    /// Nothing that is known.
    None,
    /// More threads than one: none of them is surely the caller's.
    Several,
    /// The thread that stands there. It is the claimer's alone.
    Free(Tip),
    /// A thread that stood there, and that somebody else goes on with: it can be forked after that turn.
    Taken {
        /// The thread.
        thread: Box<str>,
        /// The turn after which it stood there.
        last_turn: Box<str>,
    },
}

/// A thread that stands at the end of a history, and is claimed. Dropped, it is free again, unless a turn was started or
/// resumed on its thread.
#[must_use = "a tip that is dropped is free again"]
pub struct Tip {
    place: Place,
    number: i64,
    shared: Arc<Shared>,
}

impl Tip {
    /// The thread.
    #[must_use]
    pub fn thread(&self) -> &str {
        &self.place.thread
    }

    /// Its last turn; an [`Order`](crate::Order) that is to go on here names it as `after`.
    #[must_use]
    pub fn last_turn(&self) -> &str {
        &self.place.last_turn
    }

    /// Whether the last turn waits in its middle, for the results of its caller's tools.
    #[must_use]
    pub fn is_parked(&self) -> bool {
        self.place.stage == Stage::Within
    }
}

impl Drop for Tip {
    fn drop(&mut self) {
        self.shared.tips().give_back(&self.place.thread, self.number);
    }
}

impl std::fmt::Debug for Tip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.place.fmt(f)
    }
}

impl Pool {
    /// Claims the thread that stands at the end of a history. Right after the start it waits for what was kept to be read.
    pub async fn claim_tip(&self, history: &str) -> TipClaim {
        let mut are_loaded = self.shared.tips_loaded.subscribe();
        timeout(LOAD_TIMEOUT, are_loaded.wait_for(|are_loaded| *are_loaded)).await.ok();
        let found = self.shared.tips().claim(history);
        match found {
            Found::Nothing => TipClaim::None,
            Found::Several => TipClaim::Several,
            Found::Free(place, number) => TipClaim::Free(Tip { place, number, shared: Arc::clone(&self.shared) }),
            Found::Taken(Place { thread, last_turn, .. }) => TipClaim::Taken { thread, last_turn },
        }
    }

    /// The thread stands at the end of that history now: its turn is over, or waits. It is kept with the thread. Nothing is
    /// left of a thread that goes on already, or that no worker has any more.
    pub fn leave_tip(&self, thread: &str, history: &str) {
        self.shared.leave_tip(thread, history);
    }
}

impl Shared {
    fn leave_tip(&self, thread: &str, history: &str) {
        let goes_on = self.board().lease_of(thread).is_some_and(|(_, lease)| !lease.is_parked());
        if goes_on {
            return;
        }
        let record = self.change_record(thread, |record| record.history_hash = Some(history.into()));
        if let Some(place) = record.and_then(place_of) {
            self.tips().leave(place);
        }
    }

    /// A turn that waited goes on: its thread stands there no more.
    pub(crate) fn spend_tip(&self, thread: &str) {
        // No turn is named, so nothing is refused.
        if let Ok(true) = self.tips().take(thread, None) {
            self.change_record(thread, |record| record.history_hash = None);
        }
    }

    /// Changes what is known of a loaded thread, and what is written down of it.
    pub(crate) fn change_record(&self, thread: &str, change: impl FnOnce(&mut store::Thread)) -> Option<store::Thread> {
        let slot = self.board().whereabouts(thread)?;
        let link = self.post(slot).link()?;
        let mut threads = link.threads();
        let record = &mut threads.get_mut(thread)?.record;
        change(record);
        self.store.note(Change::Thread(record.clone()));
        Some(record.clone())
    }

    /// Takes in the tips that were kept.
    pub(crate) async fn load_tips(self: Arc<Self>) {
        let kept = self.store.read(|reader| reader.threads_with_history(TIPS_MAX)).await;
        match kept {
            Ok(threads) => self.tips().load(threads.into_iter().filter_map(place_of)),
            Err(error) => {
                tracing::error!(%error, "the ends of known histories cannot be read: conversations begin anew");
                self.tips().load([]);
            }
        }
        self.tips_loaded.send_replace(true);
    }
}

fn place_of(record: store::Thread) -> Option<Place> {
    let stage = match record.last_turn_state {
        Some(TurnState::Running) => Stage::Within,
        _ => Stage::Between,
    };
    Some(Place {
        history: record.history_hash?.into(),
        thread: record.id.into(),
        last_turn: record.last_turn?.into(),
        stage,
    })
}
