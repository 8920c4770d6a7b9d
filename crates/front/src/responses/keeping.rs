//! One response in the store.

use std::sync::Arc;

use serde_json::value::RawValue;
use store::{Change, Health, Store, WriteError};
use tokio::time::timeout;

use super::limits::{KEEP_TIMEOUT, STORE_RECOVERY_TIMEOUT, STORE_RETRY, STORE_TIMEOUT};
use super::talk::Talk;
use crate::error::{Code, Error};
use crate::memory_budget::MemoryLease;
use crate::openai::responses::object::{Head, Status};
use crate::openai::responses::record::Record;

/// Whether what was to be stored is on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Persistence {
    Stored,
    NotStored,
}

/// Keeps one response.
pub(super) struct Keeping {
    pub(super) store: Store,
    pub(super) key: Arc<str>,
    /// The response that it goes on from.
    pub(super) previous: Option<Box<str>>,
    /// The items that it was asked with, as they are listed.
    pub(super) input: Box<RawValue>,
    /// What its thread is made with.
    pub(super) made_of: Box<str>,
    /// Of `input`.
    pub(super) _memory: MemoryLease,
}

/// Where it stands; nowhere, before its turn has begun.
#[derive(Clone, Copy, Default)]
pub(super) struct Place<'a> {
    pub(super) thread: &'a str,
    pub(super) turn: &'a str,
    /// The hash of all that its thread holds then.
    pub(super) history: Option<&'a str>,
}

impl Keeping {
    /// Leaves it to be written soon.
    pub(super) fn note(&self, head: &Head, status: Status, object: &str, place: Place<'_>) {
        self.row(head, status, object, place).into_iter().for_each(|row| self.store.note(Change::Response(row)));
    }

    /// What stores it, with what else is to be true then.
    pub(super) fn changes(
        &self,
        head: &Head,
        status: Status,
        object: &str,
        place: Place<'_>,
        besides: Option<Change>,
    ) -> Vec<Change> {
        let row = self.row(head, status, object, place).map(Change::Response);
        row.into_iter().chain(besides).collect()
    }

    /// Leaves it to be removed, and its conversation to be put back: it was not stored, and what was noted of it before, or is
    /// written after the timeout, must not be found later.
    pub(super) fn forget(&self, head: &Head, talk: Option<&Talk>) {
        self.store.note(Change::ResponseGone { id: head.name.id() });
        talk.into_iter().for_each(|talk| self.store.note(talk.gone_back()));
    }

    fn row(&self, head: &Head, status: Status, object: &str, place: Place<'_>) -> Option<store::Response> {
        let response = RawValue::from_string(object.to_owned()).ok()?;
        let Place { thread, turn, history } = place;
        let (input, made_of) = (self.input.clone(), self.made_of.clone());
        let record = Record { response, input, made_of, history: history.map(Into::into) };
        Some(store::Response {
            id: head.name.id(),
            key: self.key.to_string(),
            thread: thread.into(),
            turn: turn.into(),
            previous: self.previous.as_deref().map(str::to_owned),
            status: status.word().into(),
            body: record.to_json(),
            created_at: i64::try_from(head.created_at).unwrap_or(i64::MAX).saturating_mul(1000),
            expires_at: None,
        })
    }
}

/// Stores a response, or says that it is not stored.
pub(super) async fn commit(store: Store, id: String, changes: Vec<Change>) -> Persistence {
    let failure = match timeout(STORE_TIMEOUT, store.commit(changes)).await {
        Ok(Ok(())) => return flush(&store).await,
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("the store did not answer within {STORE_TIMEOUT:?}"),
    };
    tracing::warn!(response = id, error = failure, "response not persisted");
    Persistence::NotStored
}

/// Stores a background response. While the store cannot be written it waits, at most `STORE_RECOVERY_TIMEOUT`, because it
/// stays in memory meanwhile.
pub(super) async fn commit_when_well(store: Store, id: String, changes: Vec<Change>) -> Persistence {
    match timeout(STORE_RECOVERY_TIMEOUT, commit_after_recovery(&store, &id, changes)).await {
        Ok(Ok(())) => flush(&store).await,
        Ok(Err(error)) => {
            tracing::warn!(response = id, %error, "response not persisted");
            Persistence::NotStored
        }
        Err(_) => {
            let error = format!("the store did not recover within {STORE_RECOVERY_TIMEOUT:?}");
            tracing::warn!(response = id, error, "response not persisted");
            Persistence::NotStored
        }
    }
}

/// Retries whenever the store has recovered; fails only where a retry cannot help.
async fn commit_after_recovery(store: &Store, id: &str, changes: Vec<Change>) -> Result<(), WriteError> {
    let mut health = store.health();
    loop {
        match store.commit(changes.clone()).await {
            Err(error @ (WriteError::Full(_) | WriteError::Failed(_))) => {
                tracing::warn!(response = id, %error, "response not persisted: it waits for the store");
                if health.wait_for(Health::is_well).await.is_err() {
                    return Err(error);
                }
            }
            ended => return ended,
        }
    }
}

/// Where the thread of a stored response stands is left to be written by whoever read its turn.
async fn flush(store: &Store) -> Persistence {
    timeout(KEEP_TIMEOUT, store.flush()).await.ok();
    Persistence::Stored
}

/// Why a request that needs the store is refused.
pub(super) fn store_unavailable(why: &str) -> Error {
    Error::new(Code::StoreUnavailable, format!("{why}; see /healthz")).retry_after(STORE_RETRY)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use store::Limits;
    use tempfile::TempDir;

    use super::*;
    use crate::memory_budget::MemoryBudget;
    use crate::openai::responses::object::{Name, Outcome};

    const PAGES: u32 = 1_000_000;

    /// A store that is full, and what stores a response there.
    async fn full_store() -> (TempDir, Store, Head, Keeping, Vec<Change>) {
        let directory = TempDir::new().unwrap();
        let soon = Duration::from_millis(10);
        let limits = Limits { retry_min: soon, retry_max: soon, ..Limits::default() };
        let store = Store::open(directory.path().join("store.db"), limits).unwrap();
        let head = Head::new(Name::new(), 0, &json!({"model": "m"}));
        let input = serde_json::value::to_raw_value(&["x".repeat(100_000)]).unwrap();
        let _memory = Arc::new(MemoryBudget::new(0)).lease(&"k".into());
        let keeping =
            Keeping { store: store.clone(), key: "k".into(), previous: None, input, made_of: "".into(), _memory };
        let object = head.to_json(&Outcome::begun(Status::Completed));
        store.set_pages_max(1).await.unwrap();
        let changes = keeping.changes(&head, Status::Completed, &object, Place::default(), None);
        (directory, store, head, keeping, changes)
    }

    async fn status(store: &Store, head: &Head) -> Option<String> {
        let id = head.name.id();
        store.read(move |reader| reader.response(&id, "k")).await.unwrap().map(|row| row.status)
    }

    async fn make_room(store: &Store) {
        store.set_pages_max(PAGES).await.unwrap();
        store.health().wait_for(Health::is_well).await.unwrap();
        store.flush().await.unwrap();
    }

    #[tokio::test]
    async fn what_is_not_stored_is_said_and_not_found_later_either() {
        let (_directory, store, head, keeping, changes) = full_store().await;
        let object = head.to_json(&Outcome::begun(Status::InProgress));
        keeping.note(&head, Status::InProgress, &object, Place::default());
        assert_eq!(commit(store.clone(), head.name.id(), changes).await, Persistence::NotStored);
        keeping.forget(&head, None);
        make_room(&store).await;
        assert_eq!(status(&store, &head).await, None);
    }

    #[tokio::test]
    async fn what_can_wait_is_stored_when_there_is_room_again() {
        let (_directory, store, head, _, changes) = full_store().await;
        let (stored, ()) = tokio::join!(commit_when_well(store.clone(), head.name.id(), changes), async {
            store.health().wait_for(|health| !health.is_well()).await.unwrap();
            make_room(&store).await;
        });
        assert_eq!(stored, Persistence::Stored);
        assert_eq!(status(&store, &head).await.as_deref(), Some("completed"));
    }

    #[tokio::test]
    async fn background_response_is_given_up_when_the_store_stays_full() {
        let (_directory, store, head, _, changes) = full_store().await;
        let mut storing = tokio::task::JoinSet::new();
        storing.spawn(commit_when_well(store.clone(), head.name.id(), changes));
        store.health().wait_for(|health| !health.is_well()).await.unwrap();
        tokio::time::pause();
        tokio::time::advance(STORE_RECOVERY_TIMEOUT / 2).await;
        assert!(storing.try_join_next().is_none(), "it waits for a while");
        let stored = timeout(2 * STORE_RECOVERY_TIMEOUT, storing.join_next()).await.expect("it gives up");
        assert_eq!(stored.unwrap().unwrap(), Persistence::NotStored);
    }

    #[tokio::test]
    async fn what_can_wait_does_not_wait_for_a_store_that_is_closed() {
        let (_directory, store, head, _, changes) = full_store().await;
        store.close().await.ok();
        assert_eq!(commit_when_well(store.clone(), head.name.id(), changes).await, Persistence::NotStored);
    }
}
