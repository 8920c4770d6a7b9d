//! A conversation in which a response is being made. There is one at a time: what each of two would go on from, the other does not know.

use std::sync::Arc;

use store::Change;

use super::book::Locked;
use super::conversations::{change, find, lock};
use crate::Desk;
use crate::error::Error;
use crate::memory_budget::MemoryLease;
use crate::openai::responses::conversation::Conversation;

/// Dropped, it is free for the next.
pub(super) struct Talk {
    pub(super) conversation: Conversation,
    /// The id of its last response.
    pub(super) last: Option<String>,
    id: Box<str>,
    key: Arc<str>,
    _locked: Locked,
    _memory: MemoryLease,
}

impl Talk {
    pub(super) async fn begin(desk: &Desk, key: &Arc<str>, id: &str) -> Result<Self, Error> {
        let about = |error: Error| error.about("conversation");
        let locked = lock(desk, key, id).map_err(about)?;
        let mut memory = desk.bodies.memory().lease(key);
        let (conversation, last) = find(desk, key, id, &mut memory).await.map_err(about)?;
        Ok(Self { conversation, last, id: id.into(), key: Arc::clone(key), _locked: locked, _memory: memory })
    }

    /// That a response of it is complete: to be written with that response, or it would go on from nothing.
    pub(super) fn gone_on(&self, response: &str) -> Change {
        change(&self.key, &self.id, &self.conversation, Some(response.into()))
    }
}
