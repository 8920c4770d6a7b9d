//! Whose each connection of a legacy caller over HTTP is, and whether anybody still uses it. To know the id of a connection is
//! not enough: it belongs to the key that opened it. One that nobody has used for long is given up; one with an open stream
//! or a call under way is in use, however long nothing is said on it.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::post::lock;

/// The connections that there are, by their ids.
#[derive(Debug, Default)]
pub(crate) struct Visits {
    open: Mutex<HashMap<Box<str>, Visit>>,
}

#[derive(Debug)]
struct Visit {
    key: Arc<str>,
    /// Requests that are being answered.
    requests: usize,
    /// When the last of them was over.
    left: Instant,
}

/// One request of a connection; over when it is dropped.
pub(crate) struct Request {
    visits: Arc<Visits>,
    id: Box<str>,
}

impl Visits {
    /// A connection was made with this key.
    pub(crate) fn open(&self, id: &str, key: Arc<str>, now: Instant) {
        lock(&self.open).insert(id.into(), Visit { key, requests: 0, left: now });
    }

    /// A request with the key comes for the connection; `Err` if that is somebody else's, and nothing if there is none.
    pub(crate) fn enter(self: &Arc<Self>, id: &str, key: &str) -> Result<Option<Request>, ()> {
        let mut open = lock(&self.open);
        let Some(visit) = open.get_mut(id) else { return Ok(None) };
        if *visit.key != *key {
            return Err(());
        }
        visit.requests += 1;
        Ok(Some(Request { visits: Arc::clone(self), id: id.into() }))
    }

    /// Forgets those that nobody has used for so long, and names them.
    pub(crate) fn give_up(&self, idle_max: Duration, now: Instant) -> Vec<Box<str>> {
        self.take(|visit| visit.requests == 0 && now.saturating_duration_since(visit.left) >= idle_max)
    }

    /// Makes room for another: forgets, of the key that has most, the unused one that was left longest ago, and names it.
    pub(crate) fn make_room(&self) -> Option<Box<str>> {
        let mut open = lock(&self.open);
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
        lock(&self.open).remove(id);
    }

    fn take(&self, is_over: impl Fn(&Visit) -> bool) -> Vec<Box<str>> {
        lock(&self.open).extract_if(|_, visit| is_over(visit)).map(|(id, _)| id).collect()
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if let Some(visit) = lock(&self.visits.open).get_mut(&self.id) {
            visit.requests -= 1;
            visit.left = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use super::Visits;

    const IDLE_MAX: Duration = Duration::from_secs(60);

    #[test]
    fn a_connection_is_its_keys_alone() {
        let visits = Arc::new(Visits::default());
        visits.open("one", "mine".into(), Instant::now());
        assert!(matches!(visits.enter("one", "mine"), Ok(Some(_))));
        assert!(visits.enter("one", "another").is_err());
        assert!(matches!(visits.enter("unknown", "another"), Ok(None)));
        assert_eq!(visits.end_of("mine"), ["one".into()]);
        assert!(matches!(visits.enter("one", "mine"), Ok(None)));
    }

    #[test]
    fn room_is_made_by_who_has_most_of_it() {
        let (visits, now) = (Arc::new(Visits::default()), Instant::now());
        assert_eq!(visits.make_room(), None);
        visits.open("modest", "one".into(), now - IDLE_MAX);
        for (id, ago) in [("used", 3), ("old", 2), ("new", 1)] {
            visits.open(id, "greedy".into(), now - Duration::from_secs(ago));
        }
        let _request = visits.enter("used", "greedy").unwrap();
        assert_eq!(visits.make_room(), Some("old".into()));
        assert_eq!(visits.make_room(), Some("new".into()));
        assert_eq!(visits.make_room(), Some("modest".into()));
        assert_eq!(visits.make_room(), None);
    }

    #[test]
    fn a_connection_is_given_up_when_nobody_uses_it() {
        let visits = Arc::new(Visits::default());
        visits.open("one", "mine".into(), Instant::now());
        let request = visits.enter("one", "mine").unwrap();
        let later = Instant::now() + 2 * IDLE_MAX;
        assert!(visits.give_up(IDLE_MAX, later).is_empty(), "it is in use");
        drop(request);
        assert!(visits.give_up(IDLE_MAX, Instant::now()).is_empty(), "it was used a moment ago");
        assert_eq!(visits.give_up(IDLE_MAX, later), ["one".into()]);
    }
}
