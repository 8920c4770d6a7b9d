//! The events of a response that goes on without its caller: each has its number, and any number of readers follow from any one on.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::body::Bytes;
use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::error::{Code, Error};
use crate::lock::lock;
use crate::openai::chunks::HEARTBEAT;
use crate::openai::responses::output::error_event;

/// How much a reader is given at once, unless a single event is longer.
const PIECE_BYTES_MAX: usize = 64 * 1024;
/// Where an event ends.
const END: &[u8] = b"\n\n";

/// Events as they are sent, by their numbers.
pub(super) struct Log {
    said: Mutex<Said>,
    /// How many bytes of events are kept. Beyond, the oldest are forgotten, but never those that were added last.
    bytes_max: usize,
    news: watch::Sender<()>,
}

#[derive(Default)]
struct Said {
    events: VecDeque<Bytes>,
    /// The number of the first that is kept.
    first: u64,
    bytes: usize,
    end: Option<End>,
}

impl Said {
    fn count(&self) -> u64 {
        self.first + self.events.len() as u64
    }
}

/// Why there are no more events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The last one was told.
    Whole,
    /// The server ends before the response does.
    Stopped,
    /// Whoever made it is no more.
    Lost,
}

/// What a reader gets.
pub(super) type Events = Pin<Box<dyn Stream<Item = Result<Bytes, Infallible>> + Send>>;

impl Log {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { said: Mutex::default(), bytes_max, news: watch::Sender::default() }
    }

    /// Adds events.
    pub(super) fn push(&self, events: &Bytes) {
        let mut said = self.said();
        let before = said.events.len();
        for event in each(events) {
            said.bytes += event.len();
            said.events.push_back(event);
        }
        let added = said.events.len() - before;
        while said.bytes > self.bytes_max && said.events.len() > added {
            let Some(oldest) = said.events.pop_front() else { break };
            said.bytes -= oldest.len();
            said.first += 1;
        }
        drop(said);
        self.news.send_replace(());
    }

    /// There will be no more; the first reason counts.
    pub(super) fn close(&self, end: End) {
        self.said().end.get_or_insert(end);
        self.news.send_replace(());
    }

    pub(super) fn bytes(&self) -> usize {
        self.said().bytes
    }

    /// The number of the first event that is kept.
    pub(super) fn first(&self) -> u64 {
        self.said().first
    }

    /// How many events there have been.
    pub(super) fn count(&self) -> u64 {
        self.said().count()
    }

    /// The events from this number on, to the end. A reader that falls too far behind is told so, and no more; and so is one that
    /// will not hear the end.
    pub(super) fn follow(self: &Arc<Self>, from: u64, heartbeat: Duration) -> Events {
        let reader = (Arc::clone(self), self.news.subscribe(), from);
        Box::pin(unfold(Some(reader), move |reader| async move {
            let (log, mut news, next) = reader?;
            loop {
                news.mark_unchanged();
                match log.read(next) {
                    Read::Some(events, next) => return Some((Ok(events), Some((log, news, next)))),
                    Read::Over => return None,
                    Read::Broken(error, next) => return Some((Ok(error_event(&error, next).into()), None)),
                    Read::Nothing => match timeout(heartbeat, news.changed()).await {
                        Ok(changed) => changed.ok()?,
                        Err(_) => return Some((Ok(Bytes::from_static(HEARTBEAT)), Some((log, news, next)))),
                    },
                }
            }
        }))
    }

    fn read(&self, next: u64) -> Read {
        let said = self.said();
        let Some(skipped) = next.checked_sub(said.first) else { return Read::Broken(too_slow(), next) };
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
        let mut new = Vec::new();
        let mut next = next;
        for event in said.events.iter().skip(skipped) {
            if new.is_empty() && event.len() > PIECE_BYTES_MAX {
                // Readers share a long one.
                return Read::Some(event.clone(), next + 1);
            }
            if !new.is_empty() && new.len() + event.len() > PIECE_BYTES_MAX {
                break;
            }
            new.extend_from_slice(event);
            next += 1;
        }
        match said.end {
            _ if !new.is_empty() => Read::Some(new.into(), next),
            None => Read::Nothing,
            Some(End::Whole) => Read::Over,
            Some(End::Stopped) => Read::Broken(stopped(), said.count()),
            Some(End::Lost) => Read::Broken(lost(), said.count()),
        }
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        lock(&self.said)
    }
}

/// The events one by one, each with its end.
pub(super) fn each(events: &Bytes) -> impl Iterator<Item = Bytes> {
    let mut begin = 0;
    memchr::memmem::find_iter(events, END).map(move |at| {
        let end = at + END.len();
        let event = events.slice(begin..end);
        begin = end;
        event
    })
}

/// Only what goes on without its caller can be followed by another.
pub(super) fn not_in_background() -> Error {
    unfollowed("it was not created with background=true; retrieve it without `stream`")
}

/// The store keeps the response, and only memory its events.
pub(super) fn events_gone() -> Error {
    unfollowed("its events are not kept any more; retrieve it without `stream`")
}

fn too_slow() -> Error {
    let why = "its events were read too slowly, and the next ones are not kept any more; retrieve it without `stream`";
    Error::new(Code::SlowConsumer, why).after_work()
}

fn stopped() -> Error {
    Error::new(Code::Draining, "the server stops before the end of the response; retrieve it again later").after_work()
}

fn lost() -> Error {
    Error::new(Code::Internal, "the response did not come to its end").after_work()
}

fn unfollowed(why: &str) -> Error {
    Error::new(Code::InvalidValue, format!("This response cannot be streamed: {why}.")).about("stream")
}

enum Read {
    Some(Bytes, u64),
    Nothing,
    Over,
    /// There is an end for this reader alone, as the event of that number.
    Broken(Error, u64),
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;

    use super::*;

    const BEAT: Duration = Duration::from_secs(60);

    async fn text(events: Events) -> String {
        let pieces: Vec<_> = events.map(|piece| String::from_utf8(piece.unwrap().to_vec()).unwrap()).collect().await;
        pieces.concat()
    }

    #[tokio::test]
    async fn a_reader_that_will_not_hear_the_end_is_told_why() {
        for (end, code) in [(End::Stopped, "draining"), (End::Lost, "internal")] {
            let log = Arc::new(Log::new(1024));
            log.push(&Bytes::from_static(b"event: a\ndata: 0\n\n"));
            let (all, past) = (log.follow(0, BEAT), log.follow(u64::MAX, BEAT));
            log.close(end);
            log.close(End::Whole);
            let all = text(all).await;
            let told = all.strip_prefix("event: a\ndata: 0\n\n").unwrap();
            assert!(told.starts_with("event: error\ndata: {\"type\":\"error\",\"error\":{\"message\":"), "{told}");
            assert!(told.ends_with(&format!("\"code\":\"{code}\"}},\"sequence_number\":1}}\n\n")), "{told}");
            assert_eq!(text(past).await, told, "also if there is nothing to wait for");
        }
    }

    #[tokio::test]
    async fn a_reader_gets_the_events_from_its_number_on() {
        let log = Arc::new(Log::new(1024));
        log.push(&Bytes::from_static(b"event: a\ndata: 0\n\nevent: b\ndata: 1\n\n"));
        let late = log.follow(1, BEAT);
        let past = log.follow(u64::MAX, BEAT);
        log.push(&Bytes::from_static(b"event: c\ndata: 2\n\n"));
        log.close(End::Whole);
        assert_eq!(text(late).await, "event: b\ndata: 1\n\nevent: c\ndata: 2\n\n");
        assert_eq!(text(past).await, "");
        assert_eq!(text(log.follow(0, BEAT)).await.matches("data").count(), 3);
    }

    #[tokio::test]
    async fn events_that_are_longer_than_all_that_is_kept_are_told() {
        let log = Arc::new(Log::new(16));
        let mut events = log.follow(0, BEAT);
        for count in [1, 2] {
            let added = Bytes::from("event: a\ndata: a long one\n\n".repeat(count));
            log.push(&added);
            assert_eq!(events.next().await, Some(Ok(added)));
        }
    }

    #[tokio::test]
    async fn what_is_kept_is_bounded_and_numbers_stay() {
        let log = Arc::new(Log::new(1024));
        let event = Bytes::from([vec![b'x'; 256], END.to_vec()].concat());
        for _ in 0..10 {
            log.push(&event);
        }
        log.close(End::Whole);
        assert!(log.bytes() <= 1024);
        assert_eq!(log.first(), 7);
        let told: Vec<_> = log.follow(2, BEAT).collect().await;
        let [Ok(error)] = &told[..] else {
            panic!("a reader that is too far behind is told so, and no more: {told:?}")
        };
        let error = std::str::from_utf8(error).unwrap();
        assert!(error.starts_with("event: error\ndata: {\"type\":\"error\",\"error\":{\"message\":"), "{error}");
        assert!(error.ends_with("\"code\":\"slow_consumer\"},\"sequence_number\":2}\n\n"), "{error}");
    }
}
