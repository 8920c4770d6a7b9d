//! The operator API: what an operator, a console or a program asks of a running Switchboard.

pub(crate) mod approvals;
pub(crate) mod config;
pub(crate) mod events;
pub(crate) mod keys;
pub(crate) mod threads;
pub(crate) mod tools;
pub(crate) mod turns;
pub(crate) mod usage;
pub(crate) mod workers;

use std::error::Error as _;

use ::workers::{Caller as Orderer, Reach};
use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequestParts, Query};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use store::{ReadError, WriteError};

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
        // What lies below says which parameter it is.
        let unusable = |rejection: QueryRejection| {
            let why = rejection.source().map_or_else(|| rejection.body_text(), ToString::to_string);
            Error::new(Code::InvalidValue, format!("the query cannot be used: {why}"))
        };
        Query::<T>::from_request_parts(parts, state).await.map(|Query(asked)| Self(asked)).map_err(unusable)
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
    pub(crate) fn orderer(&self) -> Orderer {
        let reach = if self.scopes.has(Scope::Operate) { Reach::All } else { Reach::Own };
        Orderer { key: (*self.key).into(), reach }
    }

    /// Refuses a profile that the key may not use.
    pub(crate) fn check_profile(&self, name: &str) -> Result<(), Error> {
        if self.may_use_profile(name) {
            return Ok(());
        }
        let own = self.profiles.as_deref().unwrap_or_default().join(", ");
        Err(Error::new(Code::ProfileRefused, format!("this key may not use the profile {name:?}; it may use: {own}")))
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

impl From<WriteError> for Error {
    fn from(error: WriteError) -> Self {
        Self::new(Code::StoreUnavailable, "the store cannot be written at the moment; see /healthz").caused_by(error)
    }
}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Self {
        Self::new(Code::StoreUnavailable, "the store cannot be read at the moment; see /healthz").caused_by(error)
    }
}
