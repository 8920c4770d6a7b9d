//! `/api/events`: everything that changes, as it changes.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use super::cursor;
use crate::Desk;
use crate::error::Error;
use crate::keys::Caller;
use crate::sse::Reader;

/// From now on, or after the `Last-Event-ID`.
pub(crate) async fn follow(
    State(desk): State<Arc<Desk>>,
    caller: Caller,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let log = Arc::clone(desk.feed.log());
    let cursor = cursor(&headers, &log, log.now())?;
    let reader =
        Reader { cursor, log, heartbeat: desk.heartbeat, revocation: caller.revocation, counted: desk.count_reader() };
    Ok(reader.into_response())
}
