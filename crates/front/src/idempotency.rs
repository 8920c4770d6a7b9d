//! Answers to requests with an `Idempotency-Key`: whoever sends the same request again joins the answer that is being given, or
//! gets the one that was given. The answer is read here into memory, and a turn whose callers have all gone is given some time for
//! one of them to come back: a minute, and for as long as a person has to decide something.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt as _;
use ring::digest::{Context, SHA256};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::error::{Code, Error};
use crate::lock::lock;
use crate::openai::chunks::write_error;
use crate::openai::responses::output::error_event;

/// How long a key may be.
const KEY_CHARS_MAX: usize = 255;
/// How many answers are kept, and how much of them.
const ANSWERS_MAX: usize = 1024;
const ANSWERS_BYTES_MAX: usize = 64 * 1024 * 1024;
/// How long one answer may be. A longer one breaks off, as nobody could be given it again.
const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;
/// How many answers are being given at the same time.
const RUNNING_MAX: usize = 256;
/// How many of them for one key: whatever it does, at least three others find room.
const RUNNING_PER_KEY_MAX: usize = RUNNING_MAX / 4;
/// How soon to come back when that many are.
const RUNNING_RETRY: Duration = Duration::from_secs(1);
/// How long an answer goes on that nobody reads.
const ABANDONED_TIMEOUT: Duration = Duration::from_secs(60);

/// All answers that can be joined or had again.
#[derive(Default)]
pub(crate) struct Answers {
    book: Mutex<Book>,
    /// Aborted on drop.
    reading: Mutex<JoinSet<()>>,
}

#[derive(Default)]
struct Book {
    answers: HashMap<Name, Arc<Answer>>,
    /// How many answers each key is being given; a key without any is not listed.
    running: HashMap<Arc<str>, usize>,
    /// Those that are complete, the oldest first.
    complete: VecDeque<(Name, usize)>,
    bytes: usize,
}

/// Whose answer it is: the caller's key, and what the caller calls the request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Name {
    key: Arc<str>,
    called: Box<str>,
}

struct Answer {
    hash: RequestHash,
    said: Mutex<Said>,
    news: watch::Sender<()>,
    readers: watch::Sender<usize>,
}

#[derive(Default)]
struct Said {
    head: Option<(StatusCode, HeaderMap)>,
    pieces: Vec<Bytes>,
    bytes: usize,
    end: Option<Ending>,
}

/// Of a request, so that nobody is given the answer to another one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestHash([u8; 32]);

impl RequestHash {
    pub(crate) fn of(parts: &[&[u8]]) -> Self {
        let mut context = Context::new(&SHA256);
        parts.iter().for_each(|part| context.update(part));
        let mut hash = [0; 32];
        hash.copy_from_slice(context.finish().as_ref());
        Self(hash)
    }
}

/// In the words of which API an answer is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Chat,
    Responses,
}

/// How the reading of an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// With the answer.
    Whole,
    /// Before it, with a reason of ours.
    Broken,
}

impl Name {
    /// The name that a request gives itself, if it does.
    pub(crate) fn of(headers: &HeaderMap, key: &Arc<str>) -> Result<Option<Self>, Error> {
        let Some(called) = headers.get("idempotency-key") else { return Ok(None) };
        let called = called.to_str().ok().filter(|called| (1..=KEY_CHARS_MAX).contains(&called.len()));
        let bad =
            || Error::new(Code::InvalidValue, format!("an Idempotency-Key has 1 to {KEY_CHARS_MAX} plain characters"));
        Ok(Some(Self { key: Arc::clone(key), called: called.ok_or_else(bad)?.into() }))
    }
}

impl Answers {
    /// The answer to this request: what `make` makes of it, unless the same was asked before.
    pub(crate) async fn give<F>(
        self: &Arc<Self>,
        name: Name,
        shape: Shape,
        hash: RequestHash,
        make: impl FnOnce(Progress) -> F,
    ) -> Result<Response, Error>
    where
        F: Future<Output = Response> + Send + 'static,
    {
        let (answer, is_new) = self.find_or_begin(&name, hash)?;
        let reader = Reader::new(Arc::clone(&answer));
        if is_new {
            let (answers, progress) = (Arc::downgrade(self), Progress::default());
            let making = make(progress.clone());
            let giving = Giving { answers, name, shape, answer, progress, ending: Ending::Broken };
            let mut reading = lock(&self.reading);
            while reading.try_join_next().is_some() {}
            reading.spawn(giving.read(making));
        } else {
            // It owns the body, which a reader of the same answer does not need.
            drop(make);
        }
        Ok(reader.into_response().await)
    }

    /// Gives up all that are being read.
    pub(crate) fn end(&self) {
        lock(&self.reading).abort_all();
    }

    fn find_or_begin(&self, name: &Name, hash: RequestHash) -> Result<(Arc<Answer>, bool), Error> {
        let mut book = lock(&self.book);
        match book.answers.get(name) {
            Some(answer) if answer.hash == hash => return Ok((Arc::clone(answer), false)),
            Some(_) => {
                let why = "this Idempotency-Key came with another body before; use a new one for each request";
                return Err(Error::new(Code::IdempotencyReused, why));
            }
            None => book.check_room(&name.key)?,
        }
        let answer = Arc::new(Answer {
            hash,
            said: Mutex::default(),
            news: watch::Sender::new(()),
            readers: watch::Sender::new(0),
        });
        book.answers.insert(name.clone(), Arc::clone(&answer));
        *book.running.entry(Arc::clone(&name.key)).or_default() += 1;
        Ok((answer, true))
    }
}

impl Book {
    /// Whether one more answer may be given to this key.
    fn check_room(&self, key: &Arc<str>) -> Result<(), Error> {
        let refused = |code: Code, why: String| Err(Error::new(code, why).retry_after(RUNNING_RETRY));
        if self.answers.len() - self.complete.len() >= RUNNING_MAX {
            let why = "too many answers with an Idempotency-Key are being given; try again soon";
            return refused(Code::Busy, why.into());
        }
        if self.running.get(key).is_some_and(|running| *running >= RUNNING_PER_KEY_MAX) {
            let why = format!(
                "this key has {RUNNING_PER_KEY_MAX} requests with an Idempotency-Key in progress, the most of one key; \
                 wait for one of them, or send this one without the header"
            );
            return refused(Code::ConcurrencyExceeded, why);
        }
        Ok(())
    }

    /// Keeps an answer in the place of the oldest ones; one that broke off, or before which no turn had begun, is not kept.
    fn complete(&mut self, giving: &Giving) {
        let Giving { name, answer, progress, ending, .. } = giving;
        if let Some(running) = self.running.get_mut(&name.key) {
            *running -= 1;
            if *running == 0 {
                self.running.remove(&name.key);
            }
        }
        let bytes = {
            let said = lock(&answer.said);
            let is_final = said.head.as_ref().is_some_and(|(status, headers)| {
                let is_refused_for_good = headers.get("x-should-retry").is_some_and(|value| value == "false");
                is_refused_for_good || (status.is_success() && progress.has_begun())
            });
            (is_final && *ending == Ending::Whole).then_some(said.bytes)
        };
        let Some(bytes) = bytes else {
            self.answers.remove(name);
            return;
        };
        self.bytes += bytes;
        self.complete.push_back((name.clone(), bytes));
        while self.complete.len() > ANSWERS_MAX || self.bytes > ANSWERS_BYTES_MAX {
            let Some((oldest, bytes)) = self.complete.pop_front() else { break };
            self.answers.remove(&oldest);
            self.bytes -= bytes;
        }
    }
}

/// An answer that is being given. Whatever ends that, the answer has an end then, and its name is kept or free.
struct Giving {
    answers: Weak<Answers>,
    name: Name,
    shape: Shape,
    answer: Arc<Answer>,
    progress: Progress,
    ending: Ending,
}

impl Giving {
    /// Reads it to its end, or until nobody has wanted it for a while.
    async fn read(mut self, making: impl Future<Output = Response>) {
        let answer = &self.answer;
        let reading = async {
            let (head, body) = making.await.into_parts();
            answer.change(|said| said.head = Some((head.status, head.headers)));
            let mut pieces = body.into_data_stream();
            while let Some(Ok(piece)) = pieces.next().await {
                // A copy: the piece may hold memory of the budget until it is dropped, and answers are kept for long.
                let piece = Bytes::copy_from_slice(&piece);
                let bytes = answer.change(|said| {
                    said.bytes += piece.len();
                    said.pieces.push(piece);
                    said.bytes
                });
                if bytes > ANSWER_BYTES_MAX {
                    return Ending::Broken;
                }
            }
            Ending::Whole
        };
        let ending = tokio::select! {
            ending = reading => ending,
            () = abandoned(answer.readers.subscribe(), &self.progress) => Ending::Broken,
        };
        self.ending = ending;
    }
}

impl Drop for Giving {
    fn drop(&mut self) {
        // Whoever hears that it broke off may ask again at once.
        if let Some(answers) = self.answers.upgrade() {
            lock(&answers.book).complete(self);
        }
        self.answer.change(|said| {
            if self.ending == Ending::Broken && said.is_stream() {
                let error = Error::new(Code::Internal, "this answer cannot be read to its end").after_work();
                let last = said.last_event(&error, self.shape);
                said.pieces.push(last);
            }
            said.end = Some(self.ending);
        });
    }
}

async fn abandoned(mut readers: watch::Receiver<usize>, progress: &Progress) {
    loop {
        if readers.wait_for(|readers| *readers == 0).await.is_err() {
            return;
        }
        let is_lonely = timeout(ABANDONED_TIMEOUT, readers.wait_for(|readers| *readers > 0)).await.is_err();
        if is_lonely && !progress.is_waiting() {
            return;
        }
    }
}

/// How far an answer is, told by whoever makes it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress(Arc<Steps>);

#[derive(Debug, Default)]
struct Steps {
    has_begun: AtomicBool,
    /// How many decisions of people it waits for. Nobody has to stay connected for as long as that takes.
    waits: AtomicUsize,
}

impl Progress {
    /// A turn has begun, or will also without its caller: to ask again would be to have it done twice.
    pub(crate) fn begin(&self) {
        self.0.has_begun.store(true, Ordering::Relaxed);
    }

    pub(crate) fn begin_wait(&self) {
        self.0.waits.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn end_wait(&self) {
        // More may be told to be over than were told to begin.
        _ = self.0.waits.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |waits| waits.checked_sub(1));
    }

    /// Whether a person has to decide something.
    pub(crate) fn is_waiting(&self) -> bool {
        self.0.waits.load(Ordering::Relaxed) > 0
    }

    fn has_begun(&self) -> bool {
        self.0.has_begun.load(Ordering::Relaxed)
    }
}

impl Said {
    fn is_stream(&self) -> bool {
        let kind = self.head.as_ref().and_then(|(_, headers)| headers.get(header::CONTENT_TYPE));
        kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
    }

    /// An error behind all that was said.
    fn last_event(&self, error: &Error, shape: Shape) -> Bytes {
        let mut last = Vec::new();
        match shape {
            Shape::Chat => write_error(error, &mut last),
            Shape::Responses => {
                let lines = self.pieces.iter().flat_map(|piece| piece.split(|byte| *byte == b'\n'));
                let events = lines.filter(|line| line.starts_with(b"event: ")).count();
                last = error_event(error, events as u64);
            }
        }
        last.into()
    }
}

impl Answer {
    fn change<T>(&self, change: impl FnOnce(&mut Said) -> T) -> T {
        let changed = change(&mut lock(&self.said));
        self.news.send_replace(());
        changed
    }
}

/// One who reads an answer, and counts as its reader.
struct Reader {
    answer: Arc<Answer>,
    news: watch::Receiver<()>,
    next: usize,
}

impl Reader {
    fn new(answer: Arc<Answer>) -> Self {
        answer.readers.send_modify(|readers| *readers += 1);
        Self { news: answer.news.subscribe(), answer, next: 0 }
    }

    async fn into_response(mut self) -> Response {
        let Some((status, headers)) = self.head().await else {
            return Error::new(Code::Internal, "the answer to this request is lost").after_work().into_response();
        };
        let pieces = futures_util::stream::unfold(self, |mut reader| async {
            let piece = reader.piece().await?;
            Some((Ok::<_, Infallible>(piece), reader))
        });
        (status, headers, Body::from_stream(pieces)).into_response()
    }

    async fn head(&mut self) -> Option<(StatusCode, HeaderMap)> {
        self.wait(|said, _| said.head.clone()).await
    }

    async fn piece(&mut self) -> Option<Bytes> {
        let piece = self.wait(|said, next| said.pieces.get(next).cloned()).await?;
        self.next += 1;
        Some(piece)
    }

    /// Waits for something that is said; `None` if it is complete without.
    async fn wait<T>(&mut self, find: impl Fn(&Said, usize) -> Option<T>) -> Option<T> {
        loop {
            self.news.mark_unchanged();
            {
                let said = lock(&self.answer.said);
                let found = find(&said, self.next);
                if found.is_some() || said.end.is_some() {
                    return found;
                }
            }
            self.news.changed().await.ok()?;
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.answer.readers.send_modify(|readers| *readers -= 1);
    }
}

#[cfg(test)]
mod tests;
