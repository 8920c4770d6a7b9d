//! Whether this process works, what of it is impaired, and what is missing before it can take turns.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use serde::Serialize;
use store::Health as StoreHealth;
use tools::ServerState;
use workers::{GroupView, WorkerState, WorkerView};

use crate::Desk;

#[derive(Serialize)]
struct Health {
    /// `ok` or `degraded`; who answers at all is alive.
    status: &'static str,
    version: Box<str>,
    /// What is impaired.
    reasons: Vec<String>,
}

#[derive(Serialize)]
struct Readiness {
    /// Whether every group takes turns.
    ready: bool,
    groups: Vec<Group>,
    /// What the tool servers are doing. Turns run without them, so that none makes the server unready.
    tools: Vec<ToolServer>,
}

/// A group as anybody may see it: why a worker does not run may quote its stderr, and is for operators.
#[derive(Serialize)]
struct Group {
    name: Box<str>,
    is_ready: bool,
    ready: usize,
    count: usize,
    state: &'static str,
}

#[derive(Serialize)]
struct ToolServer {
    name: Arc<str>,
    state: ServerState,
}

/// Always 200: a process whose disk is full must not be restarted for it.
pub(crate) async fn alive(State(desk): State<Arc<Desk>>) -> impl IntoResponse {
    let mut reasons = match desk.store.health_now() {
        StoreHealth::Well => Vec::new(),
        StoreHealth::Degraded { reason } => vec![format!("store: {reason}")],
    };
    // Why is for operators: it may quote what the server wrote.
    let failed = desk.tools.states().into_iter().filter(|(_, state)| *state == ServerState::Failed);
    reasons.extend(failed.map(|(server, _)| format!("tool server {server}: failed")));
    let status = if reasons.is_empty() { "ok" } else { "degraded" };
    Json(Health { status, version: desk.version.clone(), reasons })
}

/// 503 until every group takes turns, and while draining.
pub(crate) async fn ready(State(desk): State<Arc<Desk>>) -> impl IntoResponse {
    let workers = desk.pool.workers();
    let groups: Vec<_> =
        desk.pool.readiness().into_iter().map(|group| public(group, &workers, desk.pool.is_draining())).collect();
    let ready = groups.iter().all(|group| group.is_ready);
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let tools = desk.tools.states().into_iter().map(|(name, state)| ToolServer { name, state }).collect();
    (status, Json(Readiness { ready, groups, tools }))
}

fn public(group: GroupView, workers: &[WorkerView], is_draining: bool) -> Group {
    let GroupView { name, is_ready, ready, count, .. } = group;
    let mut own = workers.iter().filter(|worker| worker.group == name);
    let state = match is_ready {
        true => "ready",
        false if is_draining => "draining",
        false if own.all(|worker| worker.state == WorkerState::Failed) => "failed",
        false => "starting",
    };
    Group { name, is_ready, ready, count, state }
}

pub(crate) async fn metrics(State(desk): State<Arc<Desk>>) -> impl IntoResponse {
    let metrics = desk.feed.metrics();
    metrics.look(&desk);
    ([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], metrics.to_text())
}
