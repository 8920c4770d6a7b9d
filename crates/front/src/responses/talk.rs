//! A conversation in which a response is being made. There is one at a time: what each of two would go on from, the other does not know.

use std::sync::Arc;

use store::Change;

use super::book::Locked;
use super::conversations::{change, find, lock};
use super::stored::LoadedConversation;
use crate::Desk;
use crate::error::Error;
use crate::memory_budget::MemoryLease;

/// Dropped, it is free for the next.
pub(super) struct Talk {
    pub(super) loaded: Arc<LoadedConversation>,
    id: Box<str>,
    key: Arc<str>,
    _locked: Locked,
}

impl Talk {
    /// Takes the conversation of this lease's key for one response. It counts against the lease, which is kept for as long.
    pub(super) async fn begin(desk: &Desk, id: &str, memory: MemoryLease) -> Result<Self, Error> {
        let key = &Arc::clone(memory.key());
        let about = |error: Error| error.about("conversation");
        let locked = lock(desk, key, id).map_err(about)?;
        let loaded = find(desk, id, memory).await.map_err(about)?;
        Ok(Self { loaded: Arc::new(loaded), id: id.into(), key: Arc::clone(key), _locked: locked })
    }

    /// That a response of it is complete: to be written with that response, or it would go on from nothing.
    pub(super) fn gone_on(&self, response: &str) -> Change {
        change(&self.key, &self.id, &self.loaded.conversation, Some(response.into()))
    }
}
