//! A conversation in which a response is being made. There is one at a time: what each of two would go on from, the other does not know.

use std::sync::Arc;

use store::Change;

use super::book::Locked;
use super::conversations::{find, lock, unix_milliseconds};
use super::stored::LoadedConversation;
use crate::Desk;
use crate::error::Error;
use crate::memory_budget::MemoryLease;

/// Dropped, it is free for the next.
pub(super) struct Talk {
    pub(super) loaded: Arc<LoadedConversation>,
    _locked: Locked,
}

impl Talk {
    /// Takes the conversation of this lease's key for one response. It counts against the lease, which is kept for as long.
    pub(super) async fn begin(desk: &Desk, id: &str, memory: MemoryLease) -> Result<Self, Error> {
        let about = |error: Error| error.about("conversation");
        let locked = lock(desk, memory.key(), id).map_err(about)?;
        let loaded = find(desk, id, memory).await.map_err(about)?;
        Ok(Self { loaded: Arc::new(loaded), _locked: locked })
    }

    /// That a response of it is complete: to be written with that response, or it would go on from nothing.
    pub(super) fn gone_on(&self, response: &str) -> Change {
        self.change(Some(response.into()))
    }

    /// That it is where it was before that response.
    pub(super) fn gone_back(&self) -> Change {
        self.change(self.loaded.row.previous.clone())
    }

    fn change(&self, last: Option<String>) -> Change {
        let row = store::Response { previous: last, created_at: unix_milliseconds(), ..self.loaded.row.clone() };
        Change::Response(row)
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
        let row = store::Response {
            id: "conv_1".into(),
            key: "k".into(),
            thread: String::new(),
            turn: String::new(),
            previous: Some("resp_before".into()),
            status: "conversation".into(),
            body: "{}".into(),
            created_at: 0,
            expires_at: None,
        };
        let conversation = Conversation { created_at: 0, metadata: json!({}), items: Vec::new() };
        let loaded = Arc::new(LoadedConversation { conversation, row, memory: memory.lease(&key) });
        let book = Arc::new(Book::new(ResponseLimits::default()));
        let talk = Talk { loaded, _locked: book.lock_conversation(&key, "conv_1").unwrap() };
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
