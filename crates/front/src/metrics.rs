//! What is counted, for Prometheus. Every label has a bounded set of values: routes are matched paths, never what a caller
//! wrote; kinds, states and outcomes are closed lists; groups and tool servers are those of the configuration.

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// All of it.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Request, Counter>,
    connections: Gauge,
    pub connections_refused: Counter,
    pub accept_failures: Counter,
    pub feed_readers: Gauge,
    turns: Family<TurnEnd, Counter>,
    turns_running: Family<Group, Gauge>,
    queue: Gauge,
    workers: Family<WorkerState, Gauge>,
    restarts: Family<Group, Counter>,
    approvals: Family<ApprovalEnd, Counter>,
    continuations: Family<How, Counter>,
    approvals_pending: Gauge,
    tool_servers: Family<ToolServerState, Gauge>,
    tool_restarts: Family<ToolServer, Counter>,
    tool_calls: Family<ToolCallEnd, Counter>,
    tool_seconds: Family<ToolServer, Histogram, fn() -> Histogram>,
    store_healthy: Gauge,
    store_dropped: Gauge,
    request_memory: Gauge,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct Request {
    route: String,
    method: &'static str,
    status: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct Group {
    group: String,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct TurnEnd {
    group: String,
    status: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct WorkerState {
    group: String,
    state: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct ApprovalEnd {
    kind: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct ToolServer {
    server: String,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct ToolServerState {
    server: String,
    state: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct ToolCallEnd {
    server: String,
    outcome: &'static str,
}

/// From a tool that looks something up to one that waits for a person.
const TOOL_SECONDS: [f64; 10] = [0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0, 300.0, 1800.0];

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct How {
    how: &'static str,
}

/// How the turn of a conversation began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Continuation {
    /// Nothing had been answered before.
    Begun,
    /// On the thread that stood at its end.
    Continued,
    /// As the turn that waited for the caller's tools.
    Resumed,
    /// As the turn that waits for a person, whose caller has come back.
    Rejoined,
    /// On a fork, since somebody else goes on with that thread.
    Forked,
    /// On a new thread that was told everything: no thread, or several, stood at its end.
    Retold,
}

/// Counts as one for as long as it lives.
pub(crate) struct Counted(Gauge);

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("switchboard");
        let mut metrics = Self {
            registry: Registry::default(),
            requests: Family::default(),
            connections: Gauge::default(),
            connections_refused: Counter::default(),
            accept_failures: Counter::default(),
            feed_readers: Gauge::default(),
            turns: Family::default(),
            turns_running: Family::default(),
            queue: Gauge::default(),
            workers: Family::default(),
            restarts: Family::default(),
            approvals: Family::default(),
            continuations: Family::default(),
            approvals_pending: Gauge::default(),
            tool_servers: Family::default(),
            tool_restarts: Family::default(),
            tool_calls: Family::default(),
            tool_seconds: Family::new_with_constructor(|| Histogram::new(TOOL_SECONDS)),
            store_healthy: Gauge::default(),
            store_dropped: Gauge::default(),
            request_memory: Gauge::default(),
        };
        registry.register(
            "http_requests",
            "Requests by matched route, method and class of status",
            metrics.requests.clone(),
        );
        registry.register("http_connections", "Open connections", metrics.connections.clone());
        registry.register(
            "http_connections_refused",
            "Connections beyond the cap",
            metrics.connections_refused.clone(),
        );
        registry.register(
            "http_accept_failures",
            "Connections that could not be accepted",
            metrics.accept_failures.clone(),
        );
        registry.register("feed_readers", "Open streams of events", metrics.feed_readers.clone());
        registry.register("turns", "Turns that ended, by group and status", metrics.turns.clone());
        registry.register("turns_running", "Turns that run, by group", metrics.turns_running.clone());
        registry.register("queue_length", "Turns that wait for a place", metrics.queue.clone());
        registry.register("workers", "Workers by group and state", metrics.workers.clone());
        registry.register("worker_restarts", "Restarts of workers, by group", metrics.restarts.clone());
        registry.register("approvals", "Approvals that are over, by kind and outcome", metrics.approvals.clone());
        registry.register("conversations", "Turns of conversations, by how they began", metrics.continuations.clone());
        registry.register("approvals_pending", "Approvals that wait for a decision", metrics.approvals_pending.clone());
        registry.register("tool_servers", "Tool servers: 1 for the state each is in", metrics.tool_servers.clone());
        registry.register("tool_server_restarts", "Restarts of tool servers", metrics.tool_restarts.clone());
        registry.register(
            "tool_calls",
            "Calls of tools that are over, by tool server and outcome",
            metrics.tool_calls.clone(),
        );
        registry.register(
            "tool_call_seconds",
            "How long calls of tools took, waits for decisions included, by tool server",
            metrics.tool_seconds.clone(),
        );
        registry.register("store_healthy", "1 while everything can be written, else 0", metrics.store_healthy.clone());
        registry.register(
            "store_notes_dropped",
            "What was to be written behind and is lost",
            metrics.store_dropped.clone(),
        );
        registry.register(
            "request_memory_bytes",
            "Memory that request bodies, parsed requests, WebSockets and what requests read from the store hold",
            metrics.request_memory.clone(),
        );
        metrics.registry = registry;
        metrics
    }

    pub(crate) fn count_request(&self, route: &str, method: &axum::http::Method, status: axum::http::StatusCode) {
        let class = ["1xx", "2xx", "3xx", "4xx", "5xx"].get(usize::from(status.as_u16() / 100).wrapping_sub(1));
        let labels = Request { route: route.into(), method: known(method), status: class.copied().unwrap_or("other") };
        self.requests.get_or_create(&labels).inc();
    }

    pub(crate) fn count_workers(&self, notice: &workers::Notice) {
        use workers::{Notice, WorkerState};
        match notice {
            // Also one that has failed is started again.
            Notice::WorkerState { group, state: WorkerState::Restarting | WorkerState::Failed, .. } => {
                self.restarts.get_or_create(&Group { group: group.to_string() }).inc();
            }
            Notice::TurnEnded { at, status, .. } => {
                let labels = TurnEnd { group: group_of(&at.worker).into(), status: crate::words::turn_status(*status) };
                self.turns.get_or_create(&labels).inc();
            }
            _ => {}
        }
    }

    pub(crate) fn count_approvals(&self, notice: &approvals::Notice) {
        if let approvals::Notice::ApprovalDecided { approval } = notice {
            let labels = ApprovalEnd { kind: approval.kind.name(), outcome: approval.state.as_str() };
            self.approvals.get_or_create(&labels).inc();
        }
    }

    pub(crate) fn count_tools(&self, notice: &tools::Notice) {
        use tools::{Notice, ServerState};
        match notice {
            Notice::ToolServerState { server, state: ServerState::Restarting, .. } => {
                self.tool_restarts.get_or_create(&ToolServer { server: server.to_string() }).inc();
            }
            Notice::ToolCalled { server, outcome, took, .. } => {
                let labels = ToolCallEnd { server: server.to_string(), outcome };
                self.tool_calls.get_or_create(&labels).inc();
                let labels = ToolServer { server: server.to_string() };
                self.tool_seconds.get_or_create(&labels).observe(took.as_secs_f64());
            }
            Notice::ToolServerState { .. } | Notice::ToolsChanged => {}
        }
    }

    pub(crate) fn count_continuation(&self, continuation: Continuation) {
        let how = match continuation {
            Continuation::Begun => "begun",
            Continuation::Continued => "continued",
            Continuation::Resumed => "resumed",
            Continuation::Rejoined => "rejoined",
            Continuation::Forked => "forked",
            Continuation::Retold => "retold",
        };
        self.continuations.get_or_create(&How { how }).inc();
    }

    /// Takes down how everything is now.
    pub(crate) fn look(&self, desk: &crate::Desk) {
        let crate::Desk { pool, tools, approvals, store, bodies, .. } = desk;
        self.tool_servers.clear();
        for (server, state) in tools.states() {
            let labels = ToolServerState { server: server.to_string(), state: state.name() };
            self.tool_servers.get_or_create(&labels).set(1);
        }
        self.workers.clear();
        self.turns_running.clear();
        for worker in pool.workers() {
            let (group, state) = (worker.group.to_string(), crate::words::worker_state(worker.state));
            self.turns_running
                .get_or_create(&Group { group: group.clone() })
                .inc_by(i64::try_from(worker.turns).unwrap_or(i64::MAX));
            self.workers.get_or_create(&WorkerState { group, state }).inc();
        }
        self.queue.set(i64::try_from(pool.load().waiting).unwrap_or(i64::MAX));
        self.approvals_pending.set(i64::try_from(approvals.pending()).unwrap_or(i64::MAX));
        self.store_healthy.set(i64::from(store.health_now().is_well()));
        self.store_dropped.set(i64::try_from(store.counts().notes_dropped).unwrap_or(i64::MAX));
        self.request_memory.set(i64::try_from(bodies.memory().used()).unwrap_or(i64::MAX));
    }

    pub(crate) fn open_connection(&self) -> Counted {
        Counted::new(&self.connections)
    }

    /// Everything, as Prometheus reads it.
    pub(crate) fn to_text(&self) -> String {
        let mut page = String::new();
        // Writing into a string cannot fail.
        let _ = text::encode(&mut page, &self.registry);
        page
    }
}

impl Counted {
    pub(crate) fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Anybody may invent a method.
fn known(method: &axum::http::Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

/// Workers are named after their group, with a number.
pub(crate) fn group_of(worker: &str) -> &str {
    worker.rsplit_once('-').map_or(worker, |(group, _)| group)
}
