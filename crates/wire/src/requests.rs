//! The book of the peer's open requests: each is answered exactly once.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::id::{RawId, RequestId};

/// The request is not open: it was answered before, or its connection is over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("request {0} is not open: it was answered before, or its connection is over")]
pub struct NotOpen(pub RequestId);

#[derive(Debug, Default)]
pub(crate) struct Requests {
    seen: u64,
    open: BTreeMap<Arc<str>, Open>,
}

#[derive(Debug)]
struct Open {
    serial: u64,
    method: Box<str>,
}

/// What a request is to us.
pub(crate) enum Opened {
    New(RequestId),
    /// It is open already: the real worker asks again, under the same id, when its thread is resumed.
    Again,
    /// Another request is open under this id.
    IdInUse,
}

impl Requests {
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn is_open(&self, id: RawId<'_>) -> bool {
        self.open.contains_key(id.as_str())
    }

    pub(crate) fn open(&mut self, id: RawId<'_>, method: &str) -> Opened {
        match self.open.get(id.as_str()) {
            Some(open) if *open.method == *method => return Opened::Again,
            Some(_) => return Opened::IdInUse,
            None => {}
        }
        self.seen += 1;
        let open = Open { serial: self.seen, method: method.into() };
        let id = RequestId { serial: self.seen, raw: id.as_str().into() };
        self.open.insert(Arc::clone(&id.raw), open);
        Opened::New(id)
    }

    pub(crate) fn close(&mut self, id: &RequestId) -> Result<(), NotOpen> {
        if self.open.get(&id.raw).is_none_or(|open| open.serial != id.serial) {
            return Err(NotOpen(id.clone()));
        }
        self.open.remove(&id.raw);
        Ok(())
    }

    /// Closes all, oldest first.
    pub(crate) fn drain(&mut self) -> Vec<RequestId> {
        let open = std::mem::take(&mut self.open).into_iter();
        let mut ids: Vec<_> = open.map(|(raw, open)| RequestId { serial: open.serial, raw }).collect();
        ids.sort_by_key(|id| id.serial);
        ids
    }
}
