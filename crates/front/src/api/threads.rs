//! `/api/threads`: the threads that Switchboard knows, the newest first, page by page.

use std::sync::Arc;

use approvals::Stamp;
use axum::Json;
use axum::extract::{Path, State};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use store::ThreadFilter;

use super::{Asked, rows_max};
use crate::Desk;
use crate::error::{Code, Error};
use crate::keys::{Caller, Scope};
use crate::written::written;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    group: Option<String>,
    archived: Option<bool>,
    before: Option<String>,
    limit: Option<u32>,
}

#[derive(Serialize)]
pub(crate) struct Threads {
    threads: Vec<ThreadView>,
    /// What `before` of the next page is; `null` after the last.
    next: Option<String>,
}

/// A thread as callers see it.
#[derive(Serialize)]
pub(crate) struct ThreadView {
    id: String,
    group: String,
    worker: Option<String>,
    cwd: String,
    key: String,
    profile: Option<String>,
    model: Option<String>,
    last_turn: Option<String>,
    last_turn_state: Option<&'static str>,
    /// Reasons of denials that its next turn is told.
    unsaid: Option<Box<RawValue>>,
    created_at: Stamp,
    used_at: Stamp,
    archived: bool,
}

pub(crate) async fn list(
    State(desk): State<Arc<Desk>>,
    caller: Caller,
    Asked(wanted): Asked<Wanted>,
) -> Result<Json<Threads>, Error> {
    let rows_max = rows_max(wanted.limit)?;
    let filter = ThreadFilter {
        key: (!caller.scopes.has(Scope::Operate)).then(|| caller.key.to_string()),
        group: wanted.group,
        archived: wanted.archived,
        before: wanted.before,
        // One more than a page holds tells whether there is another.
        rows_max: Some(rows_max + 1),
        ..ThreadFilter::default()
    };
    written(&desk.store).await;
    let mut rows = desk.store.read(move |reader| reader.threads(&filter)).await?;
    let is_more = rows.len() > rows_max as usize;
    rows.truncate(rows_max as usize);
    let next = rows.last().filter(|_| is_more).map(|row| row.id.clone());
    Ok(Json(Threads { threads: rows.into_iter().map(ThreadView::from).collect(), next }))
}

pub(crate) async fn get(
    State(desk): State<Arc<Desk>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<ThreadView>, Error> {
    let wanted = id.clone();
    written(&desk.store).await;
    let row = desk.store.read(move |reader| reader.thread(&wanted)).await?;
    let is_reached = |row: &store::Thread| caller.orderer().reaches(&row.key);
    let missing = || Error::new(Code::ThreadNotFound, format!("there is no thread {id:?} of yours"));
    row.filter(is_reached).map(|row| Json(row.into())).ok_or_else(missing)
}

impl From<store::Thread> for ThreadView {
    fn from(row: store::Thread) -> Self {
        Self {
            id: row.id,
            group: row.group,
            worker: row.worker,
            cwd: row.cwd,
            key: row.key,
            profile: row.profile,
            model: row.model,
            last_turn: row.last_turn,
            last_turn_state: row.last_turn_state.map(store::TurnState::as_str),
            unsaid: serde_json::from_str(&row.unsaid).ok(),
            created_at: Stamp(row.created_at),
            used_at: Stamp(row.used_at),
            archived: row.archived,
        }
    }
}
