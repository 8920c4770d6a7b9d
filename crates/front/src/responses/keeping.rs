//! One response in the store.

use std::sync::Arc;

use serde_json::value::RawValue;
use store::{Change, Store, WriteError};
use tokio::time::timeout;

use super::limits::KEEP_TIMEOUT;
use crate::memory_budget::MemoryLease;
use crate::openai::responses::object::{Head, Status};
use crate::openai::responses::record::Record;

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

    /// Done when it is written, with what else is to be true then.
    pub(super) fn commit(
        &self,
        head: &Head,
        status: Status,
        object: &str,
        place: Place<'_>,
        besides: Option<Change>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let row = self.row(head, status, object, place).map(Change::Response);
        let changes: Vec<_> = row.into_iter().chain(besides).collect();
        let (store, id) = (self.store.clone(), head.name.id());
        async move {
            match timeout(KEEP_TIMEOUT, store.commit(changes.clone())).await {
                Ok(Ok(())) => {}
                // No time will make it fit.
                Ok(Err(error @ (WriteError::Rejected(_) | WriteError::TooLarge { .. }))) => {
                    tracing::warn!(response = id, %error, "a response is not kept");
                }
                // Whether it still waits in the line nobody knows; to write it twice is harmless.
                late => {
                    tracing::warn!(response = id, ?late, "a response was told before it was kept");
                    changes.into_iter().for_each(|change| store.note(change));
                }
            }
            // Where its thread stands is left to be written by whoever read its turn.
            timeout(KEEP_TIMEOUT, store.flush()).await.ok();
        }
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use store::{Health, Limits};

    use super::*;
    use crate::memory_budget::MemoryBudget;
    use crate::openai::responses::object::{Name, Outcome};

    const PAGES: u32 = 1_000_000;

    #[tokio::test]
    async fn what_the_disk_does_not_take_is_written_when_it_does() {
        let directory = tempfile::TempDir::new().unwrap();
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
        keeping.commit(&head, Status::Completed, &object, Place::default(), None).await;
        assert_eq!(store.counts().notes_waiting, 1);
        store.set_pages_max(PAGES).await.unwrap();
        store.health().wait_for(Health::is_well).await.unwrap();
        store.flush().await.unwrap();
        let kept = store.read(move |reader| reader.response(&head.name.id(), "k")).await.unwrap();
        assert_eq!(kept.map(|row| row.status).as_deref(), Some("completed"));
    }
}
