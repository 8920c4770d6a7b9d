//! Whose each connection of a legacy caller over HTTP is, and whether anybody still uses it. To know the id of a connection is
//! not enough: it belongs to the key that opened it. One that nobody has used for long is given up; one with an open stream
//! or a call under way is in use, however long nothing is said on it. No key has more than its share of connections, nor of
//! what is under way.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::limits::Limits;
use crate::post::lock;

/// The connections that there are, and what is under way.
#[derive(Debug)]
pub(crate) struct Visits {
    book: Mutex<Book>,
    /// Requests of one key that may be under way, streams among them.
    requests_max: usize,
    /// Connections of one key.
    connections_max: usize,
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
    key: Arc<str>,
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
    /// The shares of one key in what callers may have: however much one has, others find room.
    pub(crate) fn new(limits: &Limits) -> Self {
        let connections_max = (limits.listeners_max / 4).max(1);
        Self { book: Mutex::default(), requests_max: (limits.listeners_max / 2).max(1), connections_max }
    }

    /// A connection was made with this key. If the key has too many, it is none; then the place of another one may be free in
    /// the time that is returned.
    pub(crate) fn open(&self, id: &str, key: Arc<str>, idle_max: Duration, now: Instant) -> Result<(), Duration> {
        let open = &mut lock(&self.book).open;
        let theirs = || open.values().filter(|visit| visit.key == key);
        if theirs().count() >= self.connections_max {
            let unused = theirs().filter(|visit| visit.requests == 0);
            let left = unused.map(|visit| visit.left).min().unwrap_or(now);
            return Err(idle_max.saturating_sub(now.saturating_duration_since(left)));
        }
        open.insert(id.into(), Visit { key, requests: 0, left: now });
        Ok(())
    }

    /// A request with the key comes, perhaps for a connection.
    pub(crate) fn enter(self: &Arc<Self>, id: Option<&str>, key: &Arc<str>) -> Result<Request, Refusal> {
        let Book { open, requests } = &mut *lock(&self.book);
        let visit = id.and_then(|id| open.get_mut(id));
        if visit.as_ref().is_some_and(|visit| visit.key != *key) {
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
        let mut counts = HashMap::<&str, usize>::new();
        for visit in open.values() {
            *counts.entry(&visit.key).or_default() += 1;
        }
        let unused = open.iter().filter(|(_, visit)| visit.requests == 0);
        let (id, _) = unused.max_by_key(|(_, visit)| (counts.get(&*visit.key), Reverse(visit.left)))?;
        let id = id.clone();
        open.remove(&id);
        Some(id)
    }

    /// Forgets those of a key, and names them.
    pub(crate) fn end_of(&self, key: &str) -> Vec<Box<str>> {
        self.take(|visit| *visit.key == *key)
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
    use crate::limits::Limits;

    const IDLE_MAX: Duration = Duration::from_secs(60);

    fn visits() -> Arc<Visits> {
        Arc::new(Visits::new(&Limits { listeners_max: 16, ..Limits::default() }))
    }

    fn open(visits: &Visits, id: &str, key: &str, now: Instant) {
        visits.open(id, key.into(), IDLE_MAX, now).unwrap();
    }

    #[test]
    fn a_connection_is_its_keys_alone() {
        let (visits, mine, another) = (visits(), "mine".into(), "another".into());
        open(&visits, "one", "mine", Instant::now());
        assert!(visits.enter(Some("one"), &mine).unwrap().id.is_some());
        assert_eq!(visits.enter(Some("one"), &another).unwrap_err(), Refusal::NotTheirs);
        assert!(visits.enter(Some("unknown"), &another).unwrap().id.is_none());
        assert_eq!(visits.end_of("mine"), ["one".into()]);
        assert!(visits.enter(Some("one"), &mine).unwrap().id.is_none());
    }

    #[test]
    fn no_key_has_more_than_its_share() {
        let (visits, mine, another) = (visits(), "mine".into(), "another".into());
        let mut under_way: Vec<_> = (0..8).map(|_| visits.enter(None, &mine).unwrap()).collect();
        assert_eq!(visits.enter(None, &mine).unwrap_err(), Refusal::TooMany);
        assert!(visits.enter(None, &another).is_ok());
        under_way.pop();
        assert!(visits.enter(None, &mine).is_ok());
    }

    #[test]
    fn a_key_with_its_quarter_of_the_connections_waits_for_the_first_that_may_be_given_up() {
        let (visits, now) = (visits(), Instant::now());
        for (id, ago) in [("a", 40), ("b", 30), ("c", 20), ("d", 10)] {
            open(&visits, id, "greedy", now - Duration::from_secs(ago));
        }
        let beyond = |key: &str| visits.open("e", key.into(), IDLE_MAX, now);
        assert_eq!(beyond("greedy"), Err(Duration::from_secs(20)));
        let _request = visits.enter(Some("a"), &"greedy".into()).unwrap();
        assert_eq!(beyond("greedy"), Err(Duration::from_secs(30)), "one that is used is not given up");
        assert_eq!(beyond("modest"), Ok(()));
        visits.close("b");
        visits.open("f", "greedy".into(), IDLE_MAX, now).unwrap();
    }

    #[test]
    fn room_is_made_by_who_has_most_of_it() {
        let (visits, now) = (visits(), Instant::now());
        assert_eq!(visits.make_room(), None);
        open(&visits, "modest", "one", now - IDLE_MAX);
        for (id, ago) in [("used", 3), ("old", 2), ("new", 1)] {
            open(&visits, id, "greedy", now - Duration::from_secs(ago));
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
        open(&visits, "one", "mine", Instant::now());
        let request = visits.enter(Some("one"), &"mine".into()).unwrap();
        let later = Instant::now() + 2 * IDLE_MAX;
        assert!(visits.give_up(IDLE_MAX, later).is_empty(), "it is in use");
        drop(request);
        assert!(visits.give_up(IDLE_MAX, Instant::now()).is_empty(), "it was used a moment ago");
        assert_eq!(visits.give_up(IDLE_MAX, later), ["one".into()]);
    }
}
