//! Whose each connection of a legacy caller over HTTP is, and whether anybody still uses it. To know the id of a connection is
//! not enough: it belongs to the key that opened it. One that nobody has used for long is given up; one with an open stream
//! or a call under way is in use, however long nothing is said on it. No key has more than its share of what is under way.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::post::lock;

/// The connections that there are, and what is under way.
#[derive(Debug)]
pub(crate) struct Visits {
    book: Mutex<Book>,
    /// Requests of one key that may be under way, streams among them.
    requests_max: usize,
}

#[derive(Debug, Default)]
struct Book {
    /// By their ids.
    open: HashMap<Box<str>, Visit>,
    /// How many requests of each key are being answered.
    requests: HashMap<Arc<str>, usize>,
}

#[derive(Debug)]
struct Visit {
    /// `None` until whoever opened it was told of it; who left before that does not come back.
    key: Option<Arc<str>>,
    /// Requests that are being answered.
    requests: usize,
    /// When the last of them was over.
    left: Instant,
}

/// One request; over when it is dropped.
#[derive(Debug)]
pub(crate) struct Request {
    visits: Arc<Visits>,
    key: Arc<str>,
    /// The connection that it came for, if there is such a one.
    id: Option<Box<str>>,
}

/// Why a request is not answered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The connection is somebody else's.
    NotTheirs,
    /// Too many requests of its key are under way.
    TooMany,
}

impl Visits {
    pub(crate) fn new(requests_max: usize) -> Self {
        Self { book: Mutex::default(), requests_max }
    }

    /// A connection was made, and nobody has been told of it yet.
    pub(crate) fn begin(&self, id: &str, now: Instant) {
        lock(&self.book).open.insert(id.into(), Visit { key: None, requests: 0, left: now });
    }

    /// A connection was made with this key.
    pub(crate) fn open(&self, id: &str, key: Arc<str>, now: Instant) {
        lock(&self.book).open.insert(id.into(), Visit { key: Some(key), requests: 0, left: now });
    }

    /// A request with the key comes, perhaps for a connection.
    pub(crate) fn enter(self: &Arc<Self>, id: Option<&str>, key: &Arc<str>) -> Result<Request, Refusal> {
        let Book { open, requests } = &mut *lock(&self.book);
        let visit = id.and_then(|id| open.get_mut(id));
        if visit.as_ref().is_some_and(|visit| visit.key.as_ref() != Some(key)) {
            return Err(Refusal::NotTheirs);
        }
        let count = requests.entry(Arc::clone(key)).or_default();
        if *count >= self.requests_max {
            return Err(Refusal::TooMany);
        }
        *count += 1;
        let id = visit.and_then(|visit| {
            visit.requests += 1;
            id.map(Into::into)
        });
        Ok(Request { visits: Arc::clone(self), key: Arc::clone(key), id })
    }

    /// Forgets those that nobody has used for so long, and names them.
    pub(crate) fn give_up(&self, idle_max: Duration, now: Instant) -> Vec<Box<str>> {
        self.take(|visit| visit.requests == 0 && now.saturating_duration_since(visit.left) >= idle_max)
    }

    /// Makes room for another: forgets, of the key that has most, the unused one that was left longest ago, and names it.
    pub(crate) fn make_room(&self) -> Option<Box<str>> {
        let open = &mut lock(&self.book).open;
        let mut counts = HashMap::<Option<&Arc<str>>, usize>::new();
        for visit in open.values() {
            *counts.entry(visit.key.as_ref()).or_default() += 1;
        }
        let unused = open.iter().filter(|(_, visit)| visit.requests == 0);
        let (id, _) = unused.max_by_key(|(_, visit)| (counts.get(&visit.key.as_ref()), Reverse(visit.left)))?;
        let id = id.clone();
        open.remove(&id);
        Some(id)
    }

    /// Forgets those of a key, and names them.
    pub(crate) fn end_of(&self, key: &str) -> Vec<Box<str>> {
        self.take(|visit| visit.key.as_deref() == Some(key))
    }

    /// Forgets one.
    pub(crate) fn close(&self, id: &str) {
        lock(&self.book).open.remove(id);
    }

    fn take(&self, is_over: impl Fn(&Visit) -> bool) -> Vec<Box<str>> {
        lock(&self.book).open.extract_if(|_, visit| is_over(visit)).map(|(id, _)| id).collect()
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let Book { open, requests } = &mut *lock(&self.visits.book);
        if let Some(visit) = self.id.as_ref().and_then(|id| open.get_mut(id)) {
            visit.requests -= 1;
            visit.left = Instant::now();
        }
        if let Some(count) = requests.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                requests.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use super::{Refusal, Visits};

    const IDLE_MAX: Duration = Duration::from_secs(60);

    fn visits() -> Arc<Visits> {
        Arc::new(Visits::new(3))
    }

    #[test]
    fn a_connection_is_its_keys_alone() {
        let (visits, mine, another) = (visits(), "mine".into(), "another".into());
        visits.open("one", Arc::clone(&mine), Instant::now());
        assert!(visits.enter(Some("one"), &mine).unwrap().id.is_some());
        assert_eq!(visits.enter(Some("one"), &another).unwrap_err(), Refusal::NotTheirs);
        assert!(visits.enter(Some("unknown"), &another).unwrap().id.is_none());
        assert_eq!(visits.end_of("mine"), ["one".into()]);
        assert!(visits.enter(Some("one"), &mine).unwrap().id.is_none());
    }

    #[test]
    fn a_connection_that_nobody_was_told_of_is_nobodys_and_makes_room() {
        let (visits, mine) = (visits(), "mine".into());
        visits.begin("unheard", Instant::now());
        assert_eq!(visits.enter(Some("unheard"), &mine).unwrap_err(), Refusal::NotTheirs);
        assert_eq!(visits.make_room(), Some("unheard".into()));
        visits.begin("heard", Instant::now());
        visits.open("heard", Arc::clone(&mine), Instant::now());
        assert!(visits.enter(Some("heard"), &mine).unwrap().id.is_some());
    }

    #[test]
    fn no_key_has_more_than_its_share() {
        let (visits, mine, another) = (visits(), "mine".into(), "another".into());
        let mut under_way: Vec<_> = (0..3).map(|_| visits.enter(None, &mine).unwrap()).collect();
        assert_eq!(visits.enter(None, &mine).unwrap_err(), Refusal::TooMany);
        assert!(visits.enter(None, &another).is_ok());
        under_way.pop();
        assert!(visits.enter(None, &mine).is_ok());
    }

    #[test]
    fn room_is_made_by_who_has_most_of_it() {
        let (visits, now) = (visits(), Instant::now());
        assert_eq!(visits.make_room(), None);
        visits.open("modest", "one".into(), now - IDLE_MAX);
        for (id, ago) in [("used", 3), ("old", 2), ("new", 1)] {
            visits.open(id, "greedy".into(), now - Duration::from_secs(ago));
        }
        let _request = visits.enter(Some("used"), &"greedy".into()).unwrap();
        assert_eq!(visits.make_room(), Some("old".into()));
        assert_eq!(visits.make_room(), Some("new".into()));
        assert_eq!(visits.make_room(), Some("modest".into()));
        assert_eq!(visits.make_room(), None);
    }

    #[test]
    fn a_connection_is_given_up_when_nobody_uses_it() {
        let visits = visits();
        visits.open("one", "mine".into(), Instant::now());
        let request = visits.enter(Some("one"), &"mine".into()).unwrap();
        let later = Instant::now() + 2 * IDLE_MAX;
        assert!(visits.give_up(IDLE_MAX, later).is_empty(), "it is in use");
        drop(request);
        assert!(visits.give_up(IDLE_MAX, Instant::now()).is_empty(), "it was used a moment ago");
        assert_eq!(visits.give_up(IDLE_MAX, later), ["one".into()]);
    }
}
