//! A conversation in which a response is being made. There is one at a time: what each of two would go on from, the other does not know.

use std::sync::Arc;

use store::Change;

use super::book::Locked;
use super::conversations::{change, find, lock, to_json};
use super::stored::LoadedConversation;
use crate::Desk;
use crate::error::Error;
use crate::memory_budget::MemoryLease;

/// Dropped, it is free for the next.
pub(super) struct Talk {
    pub(super) loaded: Arc<LoadedConversation>,
    json: String,
    id: Box<str>,
    key: Arc<str>,
    _locked: Locked,
}

impl Talk {
    /// Takes the conversation of this lease's key for one response. It counts against the lease, which is kept for as long.
    pub(super) async fn begin(desk: &Desk, id: &str, memory: MemoryLease) -> Result<Self, Error> {
        let about = |error: Error| error.about("conversation");
        let key = Arc::clone(memory.key());
        let locked = lock(desk, &key, id).map_err(about)?;
        let mut loaded = find(desk, id, memory).await.map_err(about)?;
        // Here, where large requests are read away from the runtime, and not at the end of the response.
        let json = to_json(&loaded.conversation);
        // What is left to be written is a copy.
        loaded.memory.grow_by(2 * json.len())?;
        Ok(Self { loaded: Arc::new(loaded), json, id: id.into(), key, _locked: locked })
    }

    /// That a response of it is complete: to be written with that response, or it would go on from nothing.
    pub(super) fn gone_on(&self, response: &str) -> Change {
        change(&self.key, &self.id, self.json.clone(), Some(response.into()))
    }

    /// That it is where it was before that response.
    pub(super) fn gone_back(&self) -> Change {
        change(&self.key, &self.id, self.json.clone(), self.loaded.last.clone())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use serde_json::value::RawValue;
    use store::{Limits, Store};
    use tempfile::TempDir;

    use super::*;
    use crate::memory_budget::MemoryBudget;
    use crate::openai::responses::conversation::Conversation;
    use crate::openai::responses::object::{Head, Name, Outcome, Status};
    use crate::responses::book::Book;
    use crate::responses::keeping::{Keeping, Place};
    use crate::responses::limits::ResponseLimits;

    #[tokio::test]
    async fn a_response_that_is_stored_after_the_timeout_leaves_its_conversation_where_it_was() {
        let directory = TempDir::new().unwrap();
        let store = Store::open(directory.path().join("store.db"), Limits::default()).unwrap();
        let (key, memory): (Arc<str>, _) = ("k".into(), Arc::new(MemoryBudget::new(0)));
        let conversation = Conversation { created_at: 0, metadata: json!({}), items: Vec::new() };
        let last = Some("resp_before".into());
        let loaded = Arc::new(LoadedConversation { conversation, last, memory: memory.lease(&key) });
        let book = Arc::new(Book::new(ResponseLimits::default()));
        let locked = book.lock_conversation(&key, "conv_1").unwrap();
        let talk = Talk { loaded, json: "{}".into(), id: "conv_1".into(), key: Arc::clone(&key), _locked: locked };
        let keeping = Keeping {
            store: store.clone(),
            key: Arc::clone(&key),
            previous: Some("resp_before".into()),
            input: RawValue::NULL.to_owned(),
            made_of: "".into(),
            _memory: memory.lease(&key),
        };
        let head = Head::new(Name::new(), 0, &json!({"model": "m"}));
        let object = head.to_json(&Outcome::begun(Status::Completed));
        let id = head.name.id();
        let late = keeping.changes(&head, Status::Completed, &object, Place::default(), Some(talk.gone_on(&id)));
        store.commit(late).await.unwrap();
        keeping.forget(&head, Some(&talk));
        store.flush().await.unwrap();
        let stored = store.read(move |reader| Ok((reader.response(&id, "k")?, reader.response("conv_1", "k")?)));
        let (response, conversation) = stored.await.unwrap();
        assert!(response.is_none());
        assert_eq!(conversation.unwrap().previous.as_deref(), Some("resp_before"));
    }
}
