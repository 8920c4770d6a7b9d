//! Where those who write leave their changes and the one writer takes them: commits in a line with a bounded number of
//! places, notes in the book. The lock is held only to put down or to pick up, never during a write.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::behind::{Book, Noted};
use crate::change::Change;
use crate::clock::ClockReading;
use crate::error::WriteError;
use crate::limits::Limits;
use crate::sweep::Slice;

pub(crate) struct Desk {
    state: Mutex<State>,
    wake: Condvar,
    places: Arc<Semaphore>,
    limits: Limits,
}

struct State {
    requests: VecDeque<Request>,
    book: Book,
    /// When the oldest note of the book was left.
    noted_at: Option<Instant>,
    /// Commits and notes are numbered together, so that the later of two changes to a row is known.
    next_number: u64,
    counts: Counts,
    is_closing: bool,
}

/// What the store has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Transactions that were made durable.
    pub transactions: u64,
    /// Commits that were done.
    pub commits: u64,
    /// Notes that were written behind.
    pub notes_written: u64,
    /// Notes that wait.
    pub notes_waiting: u64,
    /// Notes lost at a bound, because they contradicted what is there, or because they came after the end.
    pub notes_dropped: u64,
}

/// Something that waits for the writer, and where its outcome goes.
pub(crate) struct Request {
    pub(crate) number: u64,
    pub(crate) work: Work,
    pub(crate) answer: oneshot::Sender<Result<u64, WriteError>>,
    _place: OwnedSemaphorePermit,
}

pub(crate) enum Work {
    /// All or nothing; the answer is 0.
    Commit(Vec<Change>),
    /// Notes that were left before this number; the answer is how many of them still wait.
    Flush { before: u64 },
    /// The answer is how many rows were removed.
    Sweep(Slice),
    /// The answer is the time that retention goes by.
    ObserveClock(ClockReading),
    /// Another bound of the file; the answer is the bound that holds.
    PagesMax(u32),
}

/// What the writer does next.
pub(crate) struct Round {
    /// Left before all the requests.
    pub(crate) notes: Vec<Noted>,
    pub(crate) requests: Vec<Request>,
    /// Whether the time has come to see if a degraded store can be written again.
    pub(crate) retry: Retry,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retry {
    NotNow,
    Due,
}

impl Desk {
    pub(crate) fn new(limits: Limits) -> Self {
        let state = State {
            requests: VecDeque::new(),
            book: Book::new(limits.notes_max, limits.notes_bytes_max),
            noted_at: None,
            next_number: 0,
            counts: Counts::default(),
            is_closing: false,
        };
        let places = Arc::new(Semaphore::new(limits.commits_waiting_max));
        Self { state: Mutex::new(state), wake: Condvar::new(), places, limits }
    }

    /// Waits for a place in the line and then for the outcome.
    pub(crate) async fn request(&self, work: Work) -> Result<u64, WriteError> {
        let outcome = self.place(work).await?;
        outcome.await.unwrap_or(Err(WriteError::Closed))
    }

    /// The number that the next request or note will have.
    pub(crate) fn next_number(&self) -> u64 {
        self.lock().next_number
    }

    pub(crate) async fn place(&self, work: Work) -> Result<oneshot::Receiver<Result<u64, WriteError>>, WriteError> {
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| WriteError::Closed)?;
        let (answer, outcome) = oneshot::channel();
        let mut state = self.lock();
        if state.is_closing {
            return Err(WriteError::Closed);
        }
        let number = state.number();
        state.requests.push_back(Request { number, work, answer, _place: place });
        drop(state);
        self.wake.notify_one();
        Ok(outcome)
    }

    pub(crate) fn note(&self, change: Change) {
        let mut state = self.lock();
        if state.is_closing {
            state.counts.notes_dropped += 1;
            return;
        }
        let number = state.number();
        state.book.note(number, change);
        let is_first = state.noted_at.is_none();
        state.noted_at.get_or_insert_with(Instant::now);
        let is_worth_a_transaction = state.book.len() == self.limits.notes_per_transaction_max;
        drop(state);
        if is_first || is_worth_a_transaction {
            self.wake.notify_one();
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        let state = self.lock();
        let (waiting, dropped) = (state.book.len() as u64, state.book.dropped());
        Counts { notes_waiting: waiting, notes_dropped: state.counts.notes_dropped + dropped, ..state.counts }
    }

    /// Takes nothing more; what is here is still written.
    pub(crate) fn close(&self) {
        self.lock().is_closing = true;
        self.places.close();
        self.wake.notify_one();
    }

    /// Waits for something to do; `None` when the desk is closed and empty. While `retry_at` is set, notes wait for it,
    /// unless a flush asks for them.
    pub(crate) fn next_round(&self, retry_at: Option<Instant>) -> Option<Round> {
        let mut state = self.lock();
        loop {
            let now = Instant::now();
            let due_at = retry_at.or_else(|| state.notes_due_at(&self.limits));
            let is_due = due_at.is_some_and(|due_at| due_at <= now);
            if is_due || !state.requests.is_empty() || (state.is_closing && !state.book.is_empty()) {
                return Some(state.round(retry_at, now, &self.limits));
            }
            if state.is_closing {
                return None;
            }
            state = match due_at {
                None => self.wake.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(due_at) => {
                    let waited = self.wake.wait_timeout(state, due_at - now);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.lock().is_closing
    }

    pub(crate) fn take_back(&self, notes: Vec<Noted>) {
        if notes.is_empty() {
            return;
        }
        let mut state = self.lock();
        state.book.take_back(notes);
        state.noted_at.get_or_insert_with(Instant::now);
    }

    /// Notes of rows that a commit has written since are not to be written over it.
    pub(crate) fn supersede(&self, changes: &[Change], number: u64) {
        let mut state = self.lock();
        for change in changes {
            state.book.supersede(change, number);
        }
    }

    pub(crate) fn notes_before(&self, number: u64) -> u64 {
        self.lock().book.count_before(number) as u64
    }

    pub(crate) fn count(&self, add: impl FnOnce(&mut Counts)) {
        add(&mut self.lock().counts);
    }

    /// Loses all that waits: the writer is gone.
    pub(crate) fn abandon(&self) {
        self.close();
        let mut state = self.lock();
        let lost = state.book.take(usize::MAX, u64::MAX).len() as u64;
        state.counts.notes_dropped += lost;
        state.requests.clear();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }

    /// When the notes are to be written: soon, or at once if they fill a transaction.
    fn notes_due_at(&self, limits: &Limits) -> Option<Instant> {
        let is_worth_a_transaction = self.book.len() >= limits.notes_per_transaction_max;
        let delay = if is_worth_a_transaction { Duration::ZERO } else { limits.note_delay };
        self.noted_at.map(|noted_at| noted_at + delay)
    }

    fn round(&mut self, retry_at: Option<Instant>, now: Instant, limits: &Limits) -> Round {
        let requests: Vec<_> = self.requests.drain(..).collect();
        let before = requests.first().map_or(u64::MAX, |request| request.number);
        let retry = if retry_at.is_some_and(|at| at <= now) { Retry::Due } else { Retry::NotNow };
        let is_asked_for = requests.iter().any(|request| matches!(request.work, Work::Flush { .. }));
        let notes = if retry_at.is_none() || retry == Retry::Due || is_asked_for || self.is_closing {
            self.book.take(limits.notes_per_transaction_max, before)
        } else {
            Vec::new()
        };
        if self.book.is_empty() {
            self.noted_at = None;
        }
        Round { notes, requests, retry }
    }
}
