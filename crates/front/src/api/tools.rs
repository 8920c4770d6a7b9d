//! `/api/tools` and `/api/tool-calls`: the tool servers with what is wrong with each, what was said to and by one, starting one
//! anew, and who has called which tool.

use std::sync::Arc;

use approvals::Stamp;
use axum::Json;
use axum::extract::{Path, State};
use serde::{Deserialize, Serialize};
use store::{ToolCall, ToolCallFilter, ToolCallOutcome};
use tools::{Frame, Host, ServerView, Speaker, Verdict};

use super::{Asked, rows_max};
use crate::Desk;
use crate::error::{Code, Error};
use crate::written::written;

#[derive(Serialize)]
pub(crate) struct Servers {
    servers: Vec<ServerView>,
}

#[derive(Serialize)]
pub(crate) struct Restarting {
    server: String,
    restarting: bool,
}

#[derive(Serialize)]
pub(crate) struct Frames {
    server: String,
    /// The oldest first: the first of its present life, and the latest.
    frames: Vec<FrameView>,
    /// How many there were between these.
    left_out: u64,
}

#[derive(Serialize)]
struct FrameView {
    /// From the start of the server.
    at_ms: u64,
    from: Speaker,
    bytes: usize,
    text: String,
    #[serde(flatten)]
    verdict: Verdict,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    server: Option<String>,
    tool: Option<String>,
    key: Option<String>,
    outcome: Option<String>,
    before: Option<String>,
    limit: Option<u32>,
}

#[derive(Serialize)]
pub(crate) struct Called {
    calls: Vec<CallView>,
    /// What `before` of the next page is; `null` after the last.
    next: Option<String>,
}

#[derive(Serialize)]
struct CallView {
    id: String,
    at: Stamp,
    key: String,
    caller: String,
    server: String,
    tool: String,
    outcome: &'static str,
    detail: Option<String>,
    approval: Option<String>,
    took_ms: i64,
    request_bytes: i64,
    result_bytes: i64,
}

pub(crate) async fn list(State(desk): State<Arc<Desk>>) -> Result<Json<Servers>, Error> {
    let servers = diagnosed(desk, Host::servers).await?;
    Ok(Json(Servers { servers }))
}

pub(crate) async fn get(State(desk): State<Arc<Desk>>, Path(name): Path<String>) -> Result<Json<ServerView>, Error> {
    let named = name.clone();
    let view = diagnosed(desk, move |host| host.server(&named)).await?;
    view.map(Json).ok_or_else(|| missing(&name))
}

/// Looks at tool servers where that holds nobody up: every schema is looked into.
async fn diagnosed<T: Send + 'static>(
    desk: Arc<Desk>,
    look: impl FnOnce(&Host) -> T + Send + 'static,
) -> Result<T, Error> {
    let looked = tokio::task::spawn_blocking(move || look(&desk.tools)).await;
    looked.map_err(|error| Error::new(Code::Internal, "the tool servers could not be looked at").caused_by(error))
}

pub(crate) async fn frames(State(desk): State<Arc<Desk>>, Path(name): Path<String>) -> Result<Json<Frames>, Error> {
    let kept = desk.tools.frames(&name).ok_or_else(|| missing(&name))?;
    let frames = kept.frames.into_iter().map(FrameView::from).collect();
    Ok(Json(Frames { server: name, frames, left_out: kept.left_out }))
}

pub(crate) async fn restart(
    State(desk): State<Arc<Desk>>,
    Path(name): Path<String>,
) -> Result<Json<Restarting>, Error> {
    if !desk.tools.restart(&name) {
        return Err(missing(&name));
    }
    Ok(Json(Restarting { server: name, restarting: true }))
}

/// Calls that are over, the newest first.
pub(crate) async fn calls(State(desk): State<Arc<Desk>>, Asked(wanted): Asked<Wanted>) -> Result<Json<Called>, Error> {
    let rows_max = rows_max(wanted.limit)?;
    let filter = ToolCallFilter {
        server: wanted.server,
        tool: wanted.tool,
        key: wanted.key,
        outcome: wanted.outcome.as_deref().map(outcome_named).transpose()?,
        before: wanted.before,
        // One more than a page holds tells whether there is another.
        rows_max: Some(rows_max + 1),
    };
    written(&desk.store).await;
    let mut rows = desk.store.read(move |reader| reader.tool_calls(&filter)).await?;
    let is_more = rows.len() > rows_max as usize;
    rows.truncate(rows_max as usize);
    let next = rows.last().filter(|_| is_more).map(|call| call.id.clone());
    Ok(Json(Called { calls: rows.into_iter().map(CallView::from).collect(), next }))
}

fn outcome_named(name: &str) -> Result<ToolCallOutcome, Error> {
    ToolCallOutcome::ALL.iter().find(|outcome| outcome.as_str() == name).copied().ok_or_else(|| {
        let names: Vec<_> = ToolCallOutcome::ALL.iter().map(|outcome| outcome.as_str()).collect();
        Error::new(Code::InvalidValue, format!("`outcome` must be one of {}", names.join(", ")))
    })
}

fn missing(name: &str) -> Error {
    Error::new(Code::ToolServerNotFound, format!("there is no tool server {name:?}; GET /api/tools lists them"))
}

impl From<Frame> for FrameView {
    fn from(frame: Frame) -> Self {
        let Frame { at, from, text, bytes, verdict } = frame;
        Self { at_ms: u64::try_from(at.as_millis()).unwrap_or(u64::MAX), from, bytes, text, verdict }
    }
}

impl From<ToolCall> for CallView {
    fn from(row: ToolCall) -> Self {
        Self {
            id: row.id,
            at: Stamp(row.at),
            key: row.key,
            caller: row.caller,
            server: row.server,
            tool: row.tool,
            outcome: row.outcome.as_str(),
            detail: row.detail,
            approval: row.approval,
            took_ms: row.took_ms,
            request_bytes: row.request_bytes,
            result_bytes: row.result_bytes,
        }
    }
}
