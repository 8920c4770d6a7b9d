//! The turns that callers have started, owned here and not by their connections: whoever comes and goes, each runs on, and
//! what it said can be read from the beginning by any number of readers, also for a while after its end.

use std::collections::{HashMap, VecDeque};
use std::future::pending;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};

use approvals::Stamp;
use codex::{CallError, Input, TurnError, TurnEvent, TurnStatus};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use serde::Serialize;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use workers::{At, Turn};

use crate::lock::lock;
use crate::log::Log;
use crate::memory_budget::MemoryLease;
use crate::metrics::group_of;
use crate::quota::Permit;
use crate::ring::RingLimits;
use crate::words;

/// How much of turns is kept.
#[derive(Clone, Debug)]
pub struct TurnLimits {
    /// Of one turn. What is older is forgotten, and a reader that wants it is told.
    pub log: RingLimits,
    /// How many finished turns can still be read.
    pub finished_max: usize,
    /// How many bytes of them.
    pub finished_bytes_max: usize,
    /// How many wishes of callers (interrupt, steer) may wait for one turn, and how many for its worker's answer.
    pub wishes_max: usize,
}

impl Default for TurnLimits {
    fn default() -> Self {
        let log = RingLimits { bytes_max: 1024 * 1024, events_max: 16_384, event_bytes_max: 256 * 1024 };
        Self { log, finished_max: 1024, finished_bytes_max: 64 * 1024 * 1024, wishes_max: 16 }
    }
}

/// All turns that can be read.
pub(crate) struct Turns {
    limits: TurnLimits,
    book: Mutex<Book>,
    /// Whether the pumps are to end.
    ending: watch::Sender<bool>,
    /// Aborted on drop: their turns are then interrupted or parked.
    pumps: Mutex<JoinSet<()>>,
}

#[derive(Default)]
struct Book {
    turns: HashMap<Arc<str>, Arc<Followed>>,
    /// The oldest first.
    finished: VecDeque<Arc<str>>,
    finished_bytes: usize,
}

/// One turn that is read into a log.
pub(crate) struct Followed {
    pub at: At,
    pub log: Arc<Log>,
    started_at: Stamp,
    end: Mutex<Option<End>>,
    wishes: mpsc::Sender<Wish>,
}

struct End {
    status: TurnStatus,
    error: Option<TurnError>,
    at: Stamp,
}

/// What a caller wants of a running turn.
enum Wish {
    Interrupt,
    Steer {
        input: Vec<Input>,
        /// Of the input.
        memory: MemoryLease,
        answer: oneshot::Sender<Result<(), WishError>>,
    },
}

/// Why a wish was not passed on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WishError {
    #[error("the turn is over")]
    Over,
    #[error("too much waits to be said to this turn; try again")]
    TooMany,
    #[error(transparent)]
    Worker(#[from] CallError),
}

/// A turn as callers see it.
#[derive(Debug, Serialize)]
pub(crate) struct TurnSummary {
    pub turn: Arc<str>,
    pub thread: Arc<str>,
    pub group: Box<str>,
    pub worker: Arc<str>,
    pub key: Arc<str>,
    /// `running`, `parked`, `completed`, `interrupted`, `failed` or `lost`.
    pub status: &'static str,
    pub error: Option<TurnError>,
    pub started_at: Stamp,
    pub ended_at: Option<Stamp>,
}

impl TurnSummary {
    /// Whether it waits for somebody, and nobody reads it.
    pub(crate) fn is_parked(&self) -> bool {
        self.status == "parked"
    }
}

impl Turns {
    pub(crate) fn new(limits: TurnLimits) -> Self {
        Self { limits, book: Mutex::default(), ending: watch::Sender::new(false), pumps: Mutex::default() }
    }

    /// Takes a turn over and reads it into a log until its end, or until the key of its permit is revoked.
    pub(crate) fn follow(self: &Arc<Self>, turn: Turn, permit: Option<Permit>) -> Arc<Followed> {
        let (wishes, waiting) = mpsc::channel(self.limits.wishes_max);
        let followed = Arc::new(Followed {
            at: turn.at().clone(),
            log: Arc::new(Log::new(self.limits.log)),
            started_at: Stamp::now(),
            end: Mutex::default(),
            wishes,
        });
        self.book().begin(&followed);
        let (turns, its) = (Arc::downgrade(self), Arc::clone(&followed));
        let (steers_max, ending) = (self.limits.wishes_max, self.ending.subscribe());
        let pump = Pump { turn, permit, wishes: waiting, steers_max, ending };
        let mut pumps = lock(&self.pumps);
        while pumps.try_join_next().is_some() {}
        pumps.spawn(async move {
            pump.run(&its).await;
            if let Some(turns) = turns.upgrade() {
                turns.book().finish(&its, &turns.limits);
            }
        });
        followed
    }

    pub(crate) fn find(&self, turn: &str) -> Option<Arc<Followed>> {
        self.book().turns.get(turn).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Followed>> {
        self.book().turns.values().cloned().collect()
    }

    /// Ends every stream, after what its turn has said until now: a turn that has ended is always told so.
    pub(crate) fn end(&self) {
        self.ending.send_replace(true);
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        lock(&self.book)
    }
}

impl Book {
    /// A turn that was lost and found again takes the place of what was said of its loss.
    fn begin(&mut self, followed: &Arc<Followed>) {
        let turn = &followed.at.turn;
        if let Some(before) = self.turns.insert(Arc::clone(turn), Arc::clone(followed)) {
            let finished = self.finished.len();
            self.finished.retain(|other| other != turn);
            if self.finished.len() < finished {
                self.finished_bytes -= before.log.bytes();
            }
        }
    }

    /// Keeps a finished turn in the place of the oldest ones.
    fn finish(&mut self, followed: &Followed, limits: &TurnLimits) {
        self.finished.push_back(Arc::clone(&followed.at.turn));
        self.finished_bytes += followed.log.bytes();
        while self.finished.len() > limits.finished_max || self.finished_bytes > limits.finished_bytes_max {
            let Some(oldest) = self.finished.pop_front() else {
                break;
            };
            if let Some(oldest) = self.turns.remove(&oldest) {
                self.finished_bytes -= oldest.log.bytes();
            }
        }
    }
}

impl Followed {
    pub(crate) fn interrupt(&self) -> Result<(), WishError> {
        self.wish(Wish::Interrupt)
    }

    pub(crate) async fn steer(&self, input: Vec<Input>, memory: MemoryLease) -> Result<(), WishError> {
        let (answer, answered) = oneshot::channel();
        self.wish(Wish::Steer { input, memory, answer })?;
        answered.await.unwrap_or(Err(WishError::Over))
    }

    /// Whether its end was told.
    pub(crate) fn is_over(&self) -> bool {
        lock(&self.end).is_some()
    }

    pub(crate) fn summary(&self) -> TurnSummary {
        let At { thread, turn, worker, key } = self.at.clone();
        let end = lock(&self.end);
        TurnSummary {
            group: group_of(&worker).into(),
            turn,
            thread,
            worker,
            key,
            status: end.as_ref().map_or("running", |end| words::turn_status(end.status)),
            error: end.as_ref().and_then(|end| end.error.clone()),
            started_at: self.started_at,
            ended_at: end.as_ref().map(|end| end.at),
        }
    }

    fn wish(&self, wish: Wish) -> Result<(), WishError> {
        self.wishes.try_send(wish).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => WishError::TooMany,
            mpsc::error::TrySendError::Closed(_) => WishError::Over,
        })
    }

    fn tell(&self, event: &TurnEvent) {
        if let TurnEvent::TurnEnded { status, error } = event {
            *lock(&self.end) = Some(End { status: *status, error: error.clone(), at: Stamp::now() });
        }
        match serde_json::to_string(event) {
            Ok(json) => self.log.push(&json),
            Err(error) => tracing::error!(%error, turn = &*self.at.turn, "an event cannot be written and is left out"),
        }
    }
}

/// Closes the log of a turn, whatever ends its pump.
struct Closing<'a>(&'a Log);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Reads one turn into its log, and passes on what callers want of it.
struct Pump {
    turn: Turn,
    permit: Option<Permit>,
    wishes: mpsc::Receiver<Wish>,
    steers_max: usize,
    ending: watch::Receiver<bool>,
}

impl Pump {
    async fn run(mut self, followed: &Followed) {
        let _closing = Closing(&followed.log);
        let mut revoked = pin!(revoked(self.permit.as_ref()).fuse());
        let mut steers = FuturesUnordered::new();
        loop {
            tokio::select! {
                biased;
                Some(wish) = self.wishes.recv() => match wish {
                    Wish::Interrupt => self.turn.interrupt(),
                    Wish::Steer { answer, .. } if steers.len() >= self.steers_max => {
                        answer.send(Err(WishError::TooMany)).ok();
                    }
                    Wish::Steer { input, memory, answer } => {
                        let steering = self.turn.steering(&input);
                        steers.push(async {
                            let steered = steering.await.map_err(WishError::from);
                            drop(memory);
                            answer.send(steered).ok()
                        });
                    }
                },
                Some(_) = steers.next() => {}
                () = &mut revoked => self.turn.interrupt(),
                event = self.turn.next() => match event {
                    Some(event) => followed.tell(&event),
                    None => return,
                },
                // The last in the order: only what has nothing to say ends.
                Ok(_) = self.ending.wait_for(|is_ending| *is_ending) => return,
            }
        }
    }
}

/// Nothing runs on in the name of a key that is no more.
fn revoked(permit: Option<&Permit>) -> impl Future<Output = ()> + Send + use<> {
    let revoked = permit.map(Permit::revoked);
    async move {
        match revoked {
            Some(revoked) => revoked.await,
            None => pending().await,
        }
    }
}
