//! A conversation in which a response is being made. There is one at a time: what each of two would go on from, the other does not know.

use std::sync::Arc;

use super::book::Locked;
use super::conversations::{find, lock, note};
use crate::Desk;
use crate::error::Error;
use crate::openai::responses::conversation::Conversation;

/// Dropped, it is free for the next.
pub(super) struct Talk {
    pub(super) conversation: Conversation,
    /// The id of its last response.
    pub(super) last: Option<String>,
    id: Box<str>,
    key: Arc<str>,
    _locked: Locked,
}

impl Talk {
    pub(super) async fn begin(desk: &Desk, key: &Arc<str>, id: &str) -> Result<Self, Error> {
        let about = |error: Error| error.about("conversation");
        let locked = lock(desk, key, id).map_err(about)?;
        let (conversation, last) = find(desk, key, id).await.map_err(about)?;
        Ok(Self { conversation, last, id: id.into(), key: Arc::clone(key), _locked: locked })
    }

    /// A response of it is complete.
    pub(super) fn go_on(&mut self, desk: &Desk, response: &str) {
        self.last = Some(response.into());
        note(desk, &self.key, &self.id, &self.conversation, self.last.clone());
    }
}
