//! One worker of the pool, as its keeper and everybody else see it: its state, the link to it while there is one, and what
//! is wished of it.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use codex::{Client, ModelSummary, Thread};
use tokio::sync::{OnceCell, watch};

use crate::board::SlotId;
use crate::register::Register;
use crate::view::WorkerState;

pub(crate) struct Post {
    pub(crate) slot: SlotId,
    pub(crate) group: usize,
    /// Such as `main-0`.
    pub(crate) name: Arc<str>,
    status: Mutex<Status>,
    link: Mutex<Option<Arc<Link>>>,
    wish: watch::Sender<Wish>,
    /// Approvals that were asked for over a link, by its number, and have no end yet.
    asked: Mutex<BTreeMap<String, u64>>,
}

/// How a worker is.
#[derive(Clone, Debug)]
pub(crate) struct Status {
    pub(crate) state: WorkerState,
    pub(crate) reason: Option<Box<str>>,
    pub(crate) since: SystemTime,
    /// When it is started again, if that is known.
    pub(crate) retry_at: Option<SystemTime>,
    pub(crate) pid: Option<u32>,
    pub(crate) restarts: u64,
}

/// What is wished of a keeper.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Wish {
    /// That it keeps its worker.
    #[default]
    Keep,
    /// That it starts its worker anew, and why.
    Restart(Box<str>),
    /// That it ends.
    Stop,
}

/// The connection to a worker in one of its lives.
pub(crate) struct Link {
    pub(crate) client: Client,
    pub(crate) persistence: Persistence,
    /// No other has it.
    pub(crate) number: u64,
    register: Mutex<Register>,
    /// What its worker offers, once it has said so.
    pub(crate) models: OnceCell<Vec<ModelSummary>>,
    /// Those that are loaded.
    threads: Mutex<HashMap<Box<str>, Loaded>>,
}

/// What becomes of turns and of what they wait for when a link ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Persistence {
    /// They are gone with the worker.
    WithLink,
    /// The worker may outlive the link, and asks again.
    BeyondLink,
}

/// A thread that is loaded, and what is known of it.
#[derive(Clone)]
pub(crate) struct Loaded {
    pub(crate) thread: Thread,
    pub(crate) record: store::Thread,
    /// How many tokens the model has read and written in it, as its worker last reported.
    pub(crate) context_tokens: u64,
}

impl Post {
    pub(crate) fn new(slot: SlotId, group: usize, name: &str) -> Self {
        let status = Status {
            state: WorkerState::Starting,
            reason: None,
            since: SystemTime::now(),
            retry_at: None,
            pid: None,
            restarts: 0,
        };
        Self {
            slot,
            group,
            name: name.into(),
            status: Mutex::new(status),
            link: Mutex::new(None),
            wish: watch::Sender::new(Wish::Keep),
            asked: Mutex::default(),
        }
    }

    pub(crate) fn status(&self) -> Status {
        lock(&self.status).clone()
    }

    pub(crate) fn set_status(&self, change: impl FnOnce(&mut Status)) {
        change(&mut lock(&self.status));
    }

    /// The link, while there is one.
    pub(crate) fn link(&self) -> Option<Arc<Link>> {
        lock(&self.link).clone()
    }

    pub(crate) fn set_link(&self, link: Option<Arc<Link>>) {
        *lock(&self.link) = link;
    }

    /// The worker has asked for an approval over a link.
    pub(crate) fn asked(&self, approval: &str, link: &Link) {
        lock(&self.asked).insert(approval.into(), link.number);
    }

    /// An approval has its end.
    pub(crate) fn settled(&self, approval: &str) {
        lock(&self.asked).remove(approval);
    }

    /// Takes the approvals that the worker has asked for over another link, and not again over this.
    pub(crate) fn take_left(&self, link: u64) -> Vec<String> {
        let mut asked = lock(&self.asked);
        asked.extract_if(.., |_, number| *number != link).map(|(approval, _)| approval).collect()
    }

    /// Wishes something of the keeper; nothing is wished after a stop.
    pub(crate) fn wish(&self, wish: Wish) {
        self.wish.send_if_modified(|wished| {
            let is_new = *wished != Wish::Stop;
            if is_new {
                *wished = wish;
            }
            is_new
        });
    }

    /// Whether the pool stops, and its worker with it.
    pub(crate) fn is_stopping(&self) -> bool {
        *self.wish.borrow() == Wish::Stop
    }

    /// Waits for a wish, and takes it; a stop stays. Cancel-safe.
    pub(crate) async fn wished(&self) -> Wish {
        let mut wishes = self.wish.subscribe();
        let wish = wishes.wait_for(|wish| *wish != Wish::Keep).await.expect("the sender is in self").clone();
        if wish != Wish::Stop {
            self.wish.send_if_modified(|wished| {
                if *wished == wish {
                    *wished = Wish::Keep;
                }
                false
            });
        }
        wish
    }
}

impl Link {
    pub(crate) fn new(client: Client, persistence: Persistence) -> Self {
        static LINKS: AtomicU64 = AtomicU64::new(1);
        let number = LINKS.fetch_add(1, Ordering::Relaxed);
        Self {
            client,
            persistence,
            number,
            register: Mutex::default(),
            models: OnceCell::new(),
            threads: Mutex::default(),
        }
    }

    pub(crate) fn register(&self) -> MutexGuard<'_, Register> {
        lock(&self.register)
    }

    pub(crate) fn threads(&self) -> MutexGuard<'_, HashMap<Box<str>, Loaded>> {
        lock(&self.threads)
    }
}

/// Nothing here is left half changed by a panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
