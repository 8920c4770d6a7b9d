//! The operator API: what an operator, a console or a program asks of a running Switchboard.

pub(crate) mod approvals;
pub(crate) mod events;
pub(crate) mod threads;
pub(crate) mod turns;
pub(crate) mod workers;

use std::sync::Arc;

use ::workers::{Caller as Orderer, Reach};
use axum::extract::{FromRequestParts, Query};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use store::ReadError;

use crate::Desk;
use crate::error::{Code, Error};
use crate::keys::{Caller, Scope};
use crate::log::Log;
use crate::ring::Cursor;

/// How many rows a page has that does not say, and at most.
const ROWS: u32 = 100;
const ROWS_MAX: u32 = 1000;

/// The parameters of a query, read strictly.
pub(crate) struct Asked<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Error> {
        let asked = Query::<T>::from_request_parts(parts, state).await;
        asked
            .map(|Query(asked)| Self(asked))
            .map_err(|error| Error::new(Code::InvalidValue, format!("the query cannot be used: {}", error.body_text())))
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Error> {
        let nobody =
            || Error::new(Code::Internal, "this route is not set up").caused_by("it needs a caller, but no key");
        parts.extensions.get::<Self>().cloned().ok_or_else(nobody)
    }
}

impl Caller {
    /// As the pool knows it: an operator reaches everything, anybody else its own.
    fn orderer(&self) -> Orderer {
        let reach = if self.scopes.has(Scope::Operate) { Reach::All } else { Reach::Own };
        Orderer { key: (*self.key).into(), reach }
    }
}

/// How many rows a page is to have.
fn rows_max(asked: Option<u32>) -> Result<u32, Error> {
    match asked {
        None => Ok(ROWS),
        Some(1..=ROWS_MAX) => Ok(asked.unwrap_or(ROWS)),
        Some(_) => Err(Error::new(Code::InvalidValue, format!("`limit` must be from 1 to {ROWS_MAX}"))),
    }
}

/// Where a reader goes on that lost its connection; `else_from` for one that is new.
fn cursor(headers: &HeaderMap, log: &Log, else_from: Cursor) -> Result<Cursor, Error> {
    let Some(id) = headers.get("last-event-id") else {
        return Ok(else_from);
    };
    let id = id.to_str().unwrap_or_default();
    log.cursor(id).map_err(|error| Error::new(Code::InvalidValue, error.to_string()))
}

/// Asked before every piece of a stream.
fn key_holds(desk: &Arc<Desk>, caller: &Caller) -> impl Fn() -> bool + Send + 'static {
    let (keys, key) = (Arc::clone(desk.guard.keys()), Arc::clone(&caller.key));
    move || keys.has(&key)
}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Self {
        Self::new(Code::StoreUnavailable, "the store cannot be read at the moment; see /healthz").caused_by(error)
    }
}
