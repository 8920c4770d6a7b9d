//! One response in the store.

use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;
use store::{Change, Store};
use tokio::time::timeout;

use super::limits::KEEP_TIMEOUT;
use crate::openai::responses::object::{Head, Status};
use crate::openai::responses::record::Record;

/// Keeps one response.
pub(super) struct Keeping {
    pub(super) store: Store,
    pub(super) key: Arc<str>,
    /// The response that it goes on from.
    pub(super) previous: Option<Box<str>>,
    /// As it is listed.
    pub(super) input: Vec<Value>,
    /// What its thread is made with.
    pub(super) made_of: Box<str>,
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
    ) -> impl Future<Output = ()> + Send + use<> {
        let row = self.row(head, status, object, place);
        let (store, id) = (self.store.clone(), head.name.id());
        async move {
            let changes = row.into_iter().map(Change::Response).collect();
            match timeout(KEEP_TIMEOUT, store.commit(changes)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(response = id, %error, "a response is not kept"),
                Err(_) => tracing::warn!(response = id, "a response was told before it was kept"),
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
