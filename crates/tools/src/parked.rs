//! Calls that wait for their callers to come back with answers. Each is known by a name that only its caller was told.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use uuid::Uuid;

use crate::asking::RequestDigest;
use crate::connection::{Call, Question};
use crate::limits::Limits;
use crate::post::lock;

/// A call that waits. Dropped, its questions are answered with an error and it is given up.
pub(crate) struct ParkedCall {
    /// Who may come back to it.
    pub(crate) owner: Arc<str>,
    pub(crate) digest: RequestDigest,
    pub(crate) call: Call,
    pub(crate) questions: Vec<(String, Question)>,
    /// How often the call has asked its caller something, these questions included.
    pub(crate) rounds: usize,
    pub(crate) until: Instant,
}

pub(crate) struct Parked {
    calls: Mutex<HashMap<String, ParkedCall>>,
    calls_max: usize,
    /// Of one owner, which is a key over HTTP: what one leaves waiting must not keep others from it.
    calls_of_owner_max: usize,
    /// What the names of parked calls begin with: another Switchboard behind this one has names of its own.
    named: String,
}

impl Parked {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            calls: Mutex::default(),
            calls_max: limits.parked_max,
            calls_of_owner_max: (limits.parked_max / 4).max(1),
            named: format!("switchboard-{}-", Uuid::new_v4()),
        }
    }

    /// Whether such a name is given here.
    pub(crate) fn has_named(&self, name: &str) -> bool {
        name.starts_with(&self.named)
    }

    /// Keeps a call and gives it a name; `None` if there is no room.
    pub(crate) fn keep(&self, call: ParkedCall) -> Option<String> {
        let mut calls = lock(&self.calls);
        let theirs = calls.values().filter(|one| one.owner == call.owner).count();
        if calls.len() >= self.calls_max || theirs >= self.calls_of_owner_max {
            return None;
        }
        let name = format!("{}{}", self.named, Uuid::new_v4());
        calls.insert(name.clone(), call);
        Some(name)
    }

    /// The call of that name, if it is this owner's and the same request.
    pub(crate) fn take(&self, name: &str, owner: &str, digest: RequestDigest) -> Option<ParkedCall> {
        let mut calls = lock(&self.calls);
        let is_theirs = calls.get(name).is_some_and(|call| *call.owner == *owner && call.digest == digest);
        if is_theirs { calls.remove(name) } else { None }
    }

    /// Gives up those whose callers did not come back in time.
    pub(crate) fn sweep(&self, now: Instant) {
        let overdue: Vec<ParkedCall> = {
            let mut calls = lock(&self.calls);
            calls.extract_if(|_, call| call.until <= now).map(|(_, call)| call).collect()
        };
        drop(overdue);
    }

    /// Gives up all of them.
    pub(crate) fn clear(&self) {
        let all = std::mem::take(&mut *lock(&self.calls));
        drop(all);
    }
}
