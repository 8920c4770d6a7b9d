//! The book of the peer's open requests: each is answered exactly once.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::id::{RawId, RequestId};

/// The request is not open: it was answered before, or it belongs to another connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("request {0} is not open: it was answered before, or the connection is over")]
pub struct NotOpen(pub RequestId);

#[derive(Debug, Default)]
pub(crate) struct Requests {
    seen: u64,
    open: BTreeMap<Arc<str>, u64>,
}

impl Requests {
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// Opens a request; `None` if one with this id is open.
    pub(crate) fn open(&mut self, id: RawId<'_>) -> Option<RequestId> {
        if self.open.contains_key(id.as_str()) {
            return None;
        }
        self.seen += 1;
        let id = RequestId {
            serial: self.seen,
            raw: id.as_str().into(),
        };
        self.open.insert(Arc::clone(&id.raw), id.serial);
        Some(id)
    }

    pub(crate) fn close(&mut self, id: &RequestId) -> Result<(), NotOpen> {
        if self.open.get(&id.raw) != Some(&id.serial) {
            return Err(NotOpen(id.clone()));
        }
        self.open.remove(&id.raw);
        Ok(())
    }

    /// Closes all, oldest first.
    pub(crate) fn drain(&mut self) -> Vec<RequestId> {
        let open = std::mem::take(&mut self.open);
        let mut ids: Vec<_> = open
            .into_iter()
            .map(|(raw, serial)| RequestId { serial, raw })
            .collect();
        ids.sort_by_key(|id| id.serial);
        ids
    }
}
