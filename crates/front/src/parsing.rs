//! Threads for parsing what would hold up the runtime: a bounded number, and half of it for one key.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tracing::{Instrument as _, Span};

use crate::error::{Code, Error};
use crate::lock::lock;

/// Longer texts are parsed away from the runtime: to parse this one takes about a millisecond.
pub(crate) const LARGE_BYTES: usize = 64 << 10;

/// How many threads parse at once: one may take 200 MB meanwhile, and others wait for a few milliseconds.
const THREADS_MAX: usize = 4;

/// How many of them parse for one key.
const THREADS_PER_KEY_MAX: usize = THREADS_MAX / 2;

pub(crate) struct ParsingThreads {
    places: Arc<Semaphore>,
    /// The places of the keys that have texts here.
    by_key: Mutex<HashMap<Arc<str>, Weak<Semaphore>>>,
}

impl ParsingThreads {
    pub(crate) fn new() -> Self {
        Self { places: Arc::new(Semaphore::new(THREADS_MAX)), by_key: Mutex::default() }
    }

    /// Runs work on so many bytes of this key; more than `LARGE_BYTES` get a thread of their own.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        key: &Arc<str>,
        bytes: usize,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        if bytes <= LARGE_BYTES {
            return work.await;
        }
        let failed = |error: &dyn std::fmt::Display| {
            Error::new(Code::Internal, "the request could not be read").caused_by(error)
        };
        // The key's first: what waits for that takes no place of others.
        let of_key = self.places_of(key).acquire_owned().await.map_err(|closed| failed(&closed))?;
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|closed| failed(&closed))?;
        let (runtime, work) = (Handle::current(), work.instrument(Span::current()));
        let worked = tokio::task::spawn_blocking(move || {
            let _places = (of_key, place);
            runtime.block_on(work)
        });
        worked.await.map_err(|error| failed(&error))?
    }

    fn places_of(&self, key: &Arc<str>) -> Arc<Semaphore> {
        let mut by_key = lock(&self.by_key);
        if let Some(places) = by_key.get(key).and_then(Weak::upgrade) {
            return places;
        }
        by_key.retain(|_, places| places.strong_count() > 0);
        let places = Arc::new(Semaphore::new(THREADS_PER_KEY_MAX));
        by_key.insert(Arc::clone(key), Arc::downgrade(&places));
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn large_texts_are_parsed_away_from_the_runtime() {
        let (threads, key) = (ParsingThreads::new(), "k".into());
        let thread = async || Ok(std::thread::current().id());
        let here = std::thread::current().id();
        assert_eq!(threads.run(&key, LARGE_BYTES, thread()).await.unwrap(), here);
        assert_ne!(threads.run(&key, LARGE_BYTES + 1, thread()).await.unwrap(), here);
    }

    #[tokio::test]
    async fn one_key_leaves_half_of_the_threads_to_others() {
        let threads = Arc::new(ParsingThreads::new());
        let key: Arc<str> = "greedy".into();
        let mut tasks = tokio::task::JoinSet::new();
        let begun = Arc::new(Semaphore::new(0));
        let mut ends = Vec::new();
        for _ in 0..THREADS_MAX {
            let (threads, key, begun) = (Arc::clone(&threads), Arc::clone(&key), Arc::clone(&begun));
            let (end, ended) = tokio::sync::oneshot::channel::<()>();
            ends.push(end);
            let work = async move {
                begun.add_permits(1);
                ended.await.ok();
                Ok(())
            };
            tasks.spawn(async move { threads.run(&key, LARGE_BYTES + 1, work).await });
        }
        drop(begun.acquire_many(u32::try_from(THREADS_PER_KEY_MAX).unwrap()).await.unwrap());
        assert_eq!(threads.run(&"other".into(), LARGE_BYTES + 1, async { Ok(1) }).await.unwrap(), 1);
        assert_eq!(begun.available_permits(), THREADS_PER_KEY_MAX, "the rest of the first key waits");
        let short = threads.run(&key, LARGE_BYTES, async { Ok(2) }).await;
        assert_eq!(short.unwrap(), 2, "a short text needs no place");
        drop(ends);
        while let Some(done) = tasks.join_next().await {
            done.unwrap().unwrap();
        }
        threads.run(&"last".into(), LARGE_BYTES + 1, async { Ok(()) }).await.unwrap();
        assert_eq!(lock(&threads.by_key).len(), 1, "keys without texts are forgotten");
    }
}
