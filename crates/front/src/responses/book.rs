//! The responses that are being made, for those who ask for one meanwhile; and those that are made in the background, by tasks that are
//! owned here. Their events can be read from any one on, also for a while after the end.

use std::collections::{HashMap, HashSet, VecDeque};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use futures_util::{FutureExt as _, Stream as _};
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::JoinSet;
use workers::Caller as Orderer;

use super::following::{End, Events, Log, events_gone, not_in_background};
use super::keeping::{Persistence, store_unavailable};
use super::limits::ResponseLimits;
use super::responding::Responding;
use crate::error::{Code, Error};
use crate::lock::lock;
use crate::openai::chunks::{DONE, HEARTBEAT};
use crate::openai::responses::object::Status;

/// How often what is told so far is shown to those who ask.
const SHOW_INTERVAL: Duration = Duration::from_millis(500);

/// All of them.
pub(crate) struct Book {
    pub(super) limits: ResponseLimits,
    pages: Mutex<Pages>,
    /// The conversations in which one is being made.
    conversations: Mutex<HashSet<Held>>,
    /// Aborted on drop: their turns are then interrupted or parked.
    making: Mutex<JoinSet<()>>,
}

#[derive(Default)]
struct Pages {
    /// By the ids of their responses.
    lives: HashMap<Box<str>, Arc<Live>>,
    /// Finished ones that can still be followed, and how long they are; the oldest first.
    finished: VecDeque<(Box<str>, usize)>,
    finished_bytes: usize,
}

/// One that is being made, or was.
pub(crate) struct Live {
    key: Arc<str>,
    object: Mutex<(String, Status)>,
    making: Making,
    /// Its turn, once that has begun.
    turn: OnceLock<Arc<str>>,
    cancelled: Notify,
    /// Whether nobody makes it any more.
    is_over: watch::Sender<bool>,
}

/// Where a response is made.
enum Making {
    /// By whoever reads it.
    Here,
    /// In the background, and whoever wants to can follow its events.
    Background(Arc<Log>),
    /// By nobody here: an earlier run of the server has left it, and has told its events.
    Left,
}

/// That a response is in the book. Dropped, it is over.
pub(super) struct Entry {
    book: Arc<Book>,
    id: Box<str>,
    live: Arc<Live>,
}

/// That a conversation is nobody else's. Dropped, it is free.
pub(super) struct Locked {
    book: Arc<Book>,
    held: Held,
}

/// A conversation of a key.
type Held = (Arc<str>, Box<str>);

impl Drop for Locked {
    fn drop(&mut self) {
        lock(&self.book.conversations).remove(&self.held);
    }
}

impl Book {
    pub(crate) fn new(limits: ResponseLimits) -> Self {
        Self { limits, pages: Mutex::default(), conversations: Mutex::default(), making: Mutex::default() }
    }

    /// Enters a response.
    pub(super) fn enter(self: &Arc<Self>, id: &str, live: Live) -> Entry {
        let live = Arc::new(live);
        lock(&self.pages).lives.insert(id.into(), Arc::clone(&live));
        Entry { book: Arc::clone(self), id: id.into(), live }
    }

    /// Locks a conversation; `None` if another has it.
    pub(super) fn lock_conversation(self: &Arc<Self>, key: &Arc<str>, id: &str) -> Option<Locked> {
        let held = (Arc::clone(key), id.into());
        let is_free = lock(&self.conversations).insert(held.clone());
        is_free.then(|| Locked { book: Arc::clone(self), held })
    }

    /// Whether a response of that key is not over.
    pub(super) fn is_running(&self, id: &str, key: &str) -> bool {
        self.find(id, key).is_some_and(|live| !live.status().is_over())
    }

    /// One of that key.
    pub(super) fn find(&self, id: &str, key: &str) -> Option<Arc<Live>> {
        lock(&self.pages).lives.get(id).filter(|live| *live.key == *key).cloned()
    }

    /// Forgets one, and gives it up if it is made in the background; any other is told to the end to whoever reads it.
    pub(super) fn remove(&self, id: &str) {
        let mut pages = lock(&self.pages);
        if let Some(at) = pages.finished.iter().position(|(other, _)| **other == *id) {
            let bytes = pages.finished.remove(at).map_or(0, |(_, bytes)| bytes);
            pages.finished_bytes -= bytes;
        }
        if let Some(live) = pages.lives.remove(id) {
            live.cancelled.notify_one();
        }
    }

    /// Gives up the response in the background that is made by a turn within the caller's reach; whether there is one.
    pub(crate) fn cancel_turn(&self, turn: &str, caller: &Orderer) -> bool {
        let pages = lock(&self.pages);
        let is_meant = |live: &&Arc<Live>| {
            live.turn.get().is_some_and(|its| **its == *turn)
                && live.is_in_background()
                && !live.status().is_over()
                && caller.reaches(&live.key)
        };
        pages.lives.values().find(is_meant).inspect(|live| live.cancel()).is_some()
    }

    /// Makes a response without its caller; done when it is stored that it will be made. What cannot be stored is given up.
    pub(super) fn run(&self, mut responding: Responding) -> oneshot::Receiver<Result<(), Error>> {
        let (stored, is_stored) = oneshot::channel();
        self.see_to(async move {
            if responding.store_queued().await == Persistence::Stored {
                stored.send(Ok(())).ok();
                return make(responding).await;
            }
            let error = store_unavailable("the response cannot be stored at the moment, so it is not made");
            let error = if responding.has_begun() { error.after_work() } else { error };
            responding.give_up();
            drop(responding);
            stored.send(Err(error)).ok();
        });
        is_stored
    }

    /// Sees to a response that is made without its caller.
    pub(super) fn see_to(&self, making: impl Future<Output = ()> + Send + 'static) {
        let mut all = lock(&self.making);
        while let Some(made) = all.try_join_next() {
            if let Err(error) = made.as_ref()
                && error.is_panic()
            {
                tracing::error!(%error, "a response in the background has no end");
            }
        }
        all.spawn(making);
    }

    /// Gives up all that are being made.
    pub(crate) fn end(&self) {
        lock(&self.making).abort_all();
    }
}

impl Pages {
    fn lists(&self, entry: &Entry) -> bool {
        self.lives.get(&entry.id).is_some_and(|live| Arc::ptr_eq(live, &entry.live))
    }
}

async fn make(responding: Responding) {
    let live = Arc::clone(responding.live().expect("what is made in the background is kept"));
    let _closing = Closing(&live);
    // Dropped before the log is closed: whoever finds it over finds nothing of it running.
    let mut responding = responding;
    let mut shown = Instant::now();
    loop {
        let piece = {
            let mut cancelled = std::pin::pin!(live.cancelled().fuse());
            poll_fn(|context| {
                if cancelled.as_mut().poll(context).is_ready() {
                    responding.cancel();
                }
                Pin::new(&mut responding).poll_next(context)
            })
            .await
        };
        let Making::Background(log) = &live.making else { return };
        let is_quiet = match piece {
            Some(Ok(events)) if *events == *HEARTBEAT => true,
            Some(Ok(events)) => {
                log.push(&events);
                false
            }
            None if responding.is_told() => {
                log.push(&Bytes::from_static(DONE));
                return log.close(End::Whole);
            }
            None => return,
        };
        if is_quiet || shown.elapsed() > SHOW_INTERVAL || responding.is_waited_for() {
            responding.show_progress();
            shown = Instant::now();
        }
    }
}

/// Ends the log of a response, whatever ends its making.
struct Closing<'a>(&'a Live);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        if let Making::Background(log) = &self.0.making {
            log.close(if std::thread::panicking() { End::Lost } else { End::Stopped });
        }
        self.0.end();
    }
}

impl Live {
    /// One that is made by whoever reads it.
    pub(super) fn here(key: &Arc<str>, object: String) -> Self {
        Self::new(key, object, Making::Here)
    }

    /// One that is made in the background.
    pub(super) fn background(key: &Arc<str>, object: String, log: Log) -> Self {
        Self::new(key, object, Making::Background(Arc::new(log)))
    }

    /// One that an earlier run of the server has left.
    pub(super) fn left(key: &Arc<str>, object: String) -> Self {
        Self::new(key, object, Making::Left)
    }

    fn new(key: &Arc<str>, object: String, making: Making) -> Self {
        Self {
            key: Arc::clone(key),
            object: Mutex::new((object, Status::InProgress)),
            making,
            turn: OnceLock::new(),
            cancelled: Notify::new(),
            is_over: watch::Sender::new(false),
        }
    }

    /// Its turn has begun.
    pub(super) fn begin(&self, turn: &Arc<str>) {
        self.turn.get_or_init(|| Arc::clone(turn));
    }

    /// Nobody makes it any more.
    pub(super) fn end(&self) {
        self.is_over.send_replace(true);
    }

    /// As it is now.
    pub(super) fn object(&self) -> String {
        lock(&self.object).0.clone()
    }

    pub(super) fn status(&self) -> Status {
        lock(&self.object).1
    }

    pub(super) fn change(&self, object: &str, status: Status) {
        *lock(&self.object) = (object.to_owned(), status);
    }

    fn forget_object(&self) {
        lock(&self.object).0 = String::new();
    }

    /// Whether it is made in the background.
    pub(super) fn is_in_background(&self) -> bool {
        !matches!(self.making, Making::Here)
    }

    pub(super) fn cancel(&self) {
        self.cancelled.notify_one();
    }

    /// Waits until somebody wants it to end.
    pub(super) async fn cancelled(&self) {
        self.cancelled.notified().await;
    }

    /// Waits until what is made in the background is over.
    pub(super) async fn over(&self) {
        if self.is_in_background() {
            self.is_over.subscribe().wait_for(|is_over| *is_over).await.ok();
        }
    }

    /// Its events, those after a number alone if one is given.
    pub(super) fn events_after(&self, number: Option<u64>, heartbeat: Duration) -> Result<Events, Error> {
        let log = match &self.making {
            Making::Background(log) => log,
            Making::Here => return Err(not_in_background()),
            Making::Left => return Err(events_gone()),
        };
        let from = number.map_or(0, |number| number.saturating_add(1));
        if from < log.first() {
            let why = format!("the first {} events are not kept any more; retrieve it without `stream`", log.first());
            return Err(Error::new(Code::InvalidValue, why).about("starting_after"));
        }
        if from > log.count() {
            let why = format!("there have been {} events so far; start after one of them", log.count());
            return Err(Error::new(Code::InvalidValue, why).about("starting_after"));
        }
        Ok(log.follow(from, heartbeat))
    }

    /// The bytes of the events that can still be followed.
    fn bytes(&self) -> Option<usize> {
        match &self.making {
            Making::Background(log) if self.status().is_over() => Some(log.bytes()),
            _ => None,
        }
    }
}

impl Entry {
    /// Whether it was not deleted.
    pub(super) fn is_listed(&self) -> bool {
        lock(&self.book.pages).lists(self)
    }

    pub(super) fn live(&self) -> &Arc<Live> {
        &self.live
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut pages = lock(&self.book.pages);
        if !pages.lists(self) {
            return;
        }
        let Some(bytes) = self.live.bytes() else {
            pages.lives.remove(&self.id);
            return;
        };
        // The store has it, and so has its last event.
        self.live.forget_object();
        pages.finished.push_back((self.id.clone(), bytes));
        pages.finished_bytes += bytes;
        let limits = &self.book.limits;
        while pages.finished.len() > limits.finished_max || pages.finished_bytes > limits.finished_bytes_max {
            let Some((oldest, bytes)) = pages.finished.pop_front() else { break };
            pages.lives.remove(&oldest);
            pages.finished_bytes -= bytes;
        }
    }
}
