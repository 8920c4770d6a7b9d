//! Whether this process works, what of it is impaired, and what is missing before it can take turns.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use serde::Serialize;
use store::Health as StoreHealth;
use tokio::sync::watch;
use tools::ServerState;
use workers::{GroupView, WorkerState, WorkerView};

use crate::Desk;
use crate::feed::Feed;
use crate::hide_paths::hide_paths;

#[derive(Serialize)]
struct Health {
    /// `ok`, `degraded` or `draining`. A process that answers at all is alive.
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
        StoreHealth::Degraded { reason } => vec![hide_paths(&format!("store: {reason}"))],
    };
    reasons.extend(impairments(&desk.pool.readiness(), &desk.pool.workers()));
    // Why is for operators: it may quote what the server wrote.
    let failed = desk.tools.states().into_iter().filter(|(_, state)| *state == ServerState::Failed);
    reasons.extend(failed.map(|(server, _)| format!("tool server {server}: failed")));
    let status = if desk.pool.is_draining() {
        "draining"
    } else if reasons.is_empty() {
        "ok"
    } else {
        "degraded"
    };
    Json(Health { status, version: desk.version.clone(), reasons })
}

/// What is wrong with the workers, in words for anybody: why they ended may quote their stderr, and is for operators.
fn impairments(groups: &[GroupView], workers: &[WorkerView]) -> Vec<String> {
    let mut reasons = Vec::new();
    for group in groups {
        let own = || workers.iter().filter(|worker| worker.group == group.name);
        let has_ended = |worker: &WorkerView| match worker.state {
            WorkerState::Failed | WorkerState::Restarting | WorkerState::Retiring => true,
            // The first start is not an impairment.
            WorkerState::Starting => worker.restarts > 0,
            WorkerState::Ready | WorkerState::Stopped => false,
        };
        let failed = own().filter(|worker| worker.state == WorkerState::Failed);
        reasons.extend(failed.map(|worker| format!("worker {}: failed", worker.name)));
        if group.ready == 0 && own().any(has_ended) {
            reasons.push(format!("group {}: no worker is ready", group.name));
        }
        if group.cannot_reach_provider {
            reasons.push(format!("group {}: the model provider cannot be reached", group.name));
        }
    }
    reasons
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

/// Tells the feed whenever the store's health changes; for ever.
pub(crate) async fn follow_store(feed: &Feed, mut health: watch::Receiver<StoreHealth>) {
    #[derive(Serialize)]
    #[serde(tag = "type", rename = "store_health")]
    struct StoreHealthEvent {
        healthy: bool,
        reason: Option<Arc<str>>,
    }
    while health.changed().await.is_ok() {
        let told = match &*health.borrow_and_update() {
            StoreHealth::Well => {
                tracing::info!("store recovered");
                StoreHealthEvent { healthy: true, reason: None }
            }
            StoreHealth::Degraded { reason } => {
                tracing::warn!(%reason, "store cannot be written");
                StoreHealthEvent { healthy: false, reason: Some(Arc::clone(reason)) }
            }
        };
        feed.tell(&told);
    }
    std::future::pending().await
}

pub(crate) async fn metrics(State(desk): State<Arc<Desk>>) -> impl IntoResponse {
    let metrics = desk.feed.metrics();
    metrics.look(&desk);
    ([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], metrics.to_text())
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    /// Tells what is wrong with workers such as `main-0 failed`; a number behind the state says how often it was restarted.
    fn check(workers: &str, expect: &Expect) {
        let workers: Vec<WorkerView> =
            workers.lines().map(str::trim).filter(|line| !line.is_empty()).map(view).collect();
        let ready = workers.iter().filter(|worker| worker.state == WorkerState::Ready).count();
        let group = GroupView {
            name: "main".into(),
            is_ready: ready > 0,
            ready,
            count: workers.len(),
            missing: Vec::new(),
            cannot_reach_provider: false,
        };
        expect.assert_eq(&impairments(&[group], &workers).join("\n"));
    }

    fn view(line: &str) -> WorkerView {
        let mut words = line.split(' ');
        let name = words.next().unwrap().into();
        let states = [WorkerState::Starting, WorkerState::Ready, WorkerState::Restarting, WorkerState::Failed];
        let state = words.next().unwrap();
        WorkerView {
            name,
            group: "main".into(),
            state: states.into_iter().find(|known| crate::words::worker_state(*known) == state).unwrap(),
            reason: Some("stderr of /home/dev".into()),
            since: 0,
            retry_at: None,
            pid: None,
            user_agent: None,
            dialect: None,
            transport: "stdio",
            turns: 0,
            turns_parked: 0,
            turns_max: 1,
            threads_loaded: 0,
            restarts: words.next().map_or(0, |number| number.parse().unwrap()),
        }
    }

    #[test]
    fn a_group_is_impaired_by_ends_and_not_by_its_first_start() {
        check("main-0 starting", &expect![""]);
        check("main-0 ready 7", &expect![""]);
        check("main-0 starting 1", &expect!["group main: no worker is ready"]);
        check("main-0 restarting", &expect!["group main: no worker is ready"]);
        check(
            "main-0 failed 2",
            &expect![[r#"
            worker main-0: failed
            group main: no worker is ready"#]],
        );
        check("main-0 ready\nmain-1 restarting 1", &expect![""]);
        check("main-0 ready\nmain-1 failed 2", &expect!["worker main-1: failed"]);
    }
}
