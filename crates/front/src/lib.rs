//! Everything HTTP: health, metrics and the operator API; the only crate that knows axum.
//!
//! `routes` is the list of all routes. Each row says what a request needs to be let in; the router and the API's own
//! description are made of these rows. [`serve`] runs them behind our own accept loop.

mod accept;
mod api;
mod attempts;
mod error;
mod feed;
mod guard;
mod health;
mod host;
mod key_store;
pub mod keys;
mod log;
mod metrics;
mod openapi;
mod ring;
mod route;
mod sse;
mod stall;
mod turns;
mod words;

use std::sync::Arc;
use std::time::Duration;

use approvals::Approvals;
use serde::Serialize;
use store::{Health, Store};
use tokio::net::TcpListener;
use workers::{Pool, Profile};

pub use accept::ConnectionLimits;
pub use attempts::AttemptLimits;
pub use feed::Feed;
pub use guard::RequestLimits;
pub use key_store::{KeyError, NewKey};
pub use ring::RingLimits;
pub use turns::TurnLimits;

use api::{approvals as approval, events, threads, turns as turn, workers as worker};
use guard::{Guard, Needs};
use host::Hosts;
use keys::{Keys, Scope};
use metrics::Counted;
use route::{Parameter, Route, get, post};
use turns::Turns;

/// All routes.
fn routes() -> Vec<Route> {
    const OPEN: Needs = Needs::Nothing;
    const USE: Needs = Needs::Key(Scope::Use);
    const OPERATE: Needs = Needs::Key(Scope::Operate);
    vec![
        get("/healthz", OPEN, health::alive, "Whether this process works").answers("Health"),
        get("/readyz", OPEN, health::ready, "Whether every group takes turns, and what is missing")
            .answers("Readiness"),
        get("/metrics", OPERATE, health::metrics, "Counters for Prometheus").writes("application/openmetrics-text"),
        get("/api/openapi.json", USE, openapi::get, "This description").answers("Description"),
        get("/api/events", OPERATE, events::follow, "Everything that changes, from now on or after Last-Event-ID")
            .streams("FeedEvent"),
        get("/api/workers", OPERATE, worker::list, "The workers").answers("Workers"),
        post("/api/workers/{name}/restart", OPERATE, worker::restart, "Start a worker anew; its turns are lost")
            .answers("Restarting"),
        get("/api/wire/{worker}", OPERATE, worker::wire, "The last frames of the connection to a worker")
            .answers("Frames"),
        get("/api/threads", USE, threads::list, "Threads, the newest first").asks(THREADS).answers("Threads"),
        get("/api/threads/{id}", USE, threads::get, "One thread").answers("Thread"),
        get("/api/turns", USE, turn::list, "Turns that run or can still be read, the newest first").answers("Turns"),
        post("/api/turns", USE, turn::start, "Start a turn").takes("TurnOrder").creates("TurnStarted"),
        get("/api/turns/{id}", USE, turn::get, "One turn").answers("Turn"),
        get("/api/turns/{id}/events", USE, turn::events, "What a turn says, from its beginning or after Last-Event-ID")
            .streams("TurnEvent"),
        post("/api/turns/{id}/interrupt", USE, turn::interrupt, "Ask a turn to stop").answers("TurnNamed"),
        post("/api/turns/{id}/steer", USE, turn::steer, "Say something more to a running turn")
            .takes("Said")
            .answers("TurnNamed"),
        get("/api/approvals", OPERATE, approval::list, "Approvals, the newest first")
            .asks(APPROVALS)
            .answers("Approvals"),
        get("/api/approvals/{id}", OPERATE, approval::get, "One approval with its history").answers("Approval"),
        post("/api/approvals/{id}/decide", OPERATE, approval::decide, "Decide an approval as it was shown")
            .takes("Decision")
            .answers("Decided"),
        get("/api/approvals/by-token/{token}", OPEN, approval::read_link, "What a decision link would decide")
            .answers("Link"),
        post("/api/approvals/by-token/{token}", OPEN, approval::use_link, "Decide by a decision link, once")
            .answers("Decided"),
    ]
}

const THREADS: &[Parameter] = &[
    Parameter { name: "group", summary: "of this group of workers" },
    Parameter { name: "archived", summary: "true or false" },
    Parameter { name: "before", summary: "`next` of the page before" },
    Parameter { name: "limit", summary: "how many: 1 to 1000, else 100" },
];

const APPROVALS: &[Parameter] = &[
    Parameter { name: "state", summary: "pending, allowed, denied, cancelled, expired, orphaned or resolved" },
    Parameter { name: "group", summary: "of this group of workers" },
    Parameter { name: "worker", summary: "of this worker" },
    Parameter { name: "thread", summary: "of this thread" },
    Parameter { name: "before", summary: "`next` of the page before" },
    Parameter { name: "limit", summary: "how many: 1 to 1000, else 100" },
];

/// What is served.
pub struct Front {
    /// The workers.
    pub pool: Pool,
    /// What waits for a decision.
    pub approvals: Approvals,
    /// What survives.
    pub store: Store,
    /// Where pool and approvals tell what happens.
    pub feed: Feed,
    /// Who may in.
    pub keys: Arc<Keys>,
    /// How it is served.
    pub settings: Settings,
}

/// How it is served.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Hosts that requests may name besides loopback; the address that is listened at is always one.
    pub hosts: Vec<String>,
    /// Ways to run turns; the first is taken where a caller names none.
    pub profiles: Vec<Profile>,
    /// Our own version.
    pub version: Box<str>,
    /// How often streams say that they are alive.
    pub heartbeat: Duration,
    /// What a listener allows.
    pub connections: ConnectionLimits,
    /// What a request may be.
    pub requests: RequestLimits,
    /// How much of turns is kept.
    pub turns: TurnLimits,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            profiles: Vec::new(),
            version: env!("CARGO_PKG_VERSION").into(),
            heartbeat: Duration::from_secs(10),
            connections: ConnectionLimits::default(),
            requests: RequestLimits::default(),
            turns: TurnLimits::default(),
        }
    }
}

/// Serves until `stop` is done. Then no connection is accepted any more, idle ones are closed, streams of events end, and
/// other responses have their grace. Turns are drained by the pool, before: while it drains, new ones are answered with 503.
/// Dropped, it ends at once.
pub async fn serve(listener: TcpListener, front: Front, stop: impl Future<Output = ()>) {
    let limits = front.settings.connections.clone().within(descriptors_max());
    let address = listener.local_addr().ok().map(|address| address.ip().to_string());
    let feed = front.feed.clone();
    let health = front.store.health();
    let desk = Arc::new(Desk::new(front, address));
    let stopping = Arc::clone(&desk);
    let stop = async move {
        stop.await;
        stopping.end_streams();
    };
    let router = route::router(routes(), &desk);
    let served = accept::serve(listener, router, limits, Arc::clone(feed.metrics()), stop);
    tokio::select! {
        () = served => {}
        () = tell_health(&feed, health) => {}
    }
}

/// What every route works with.
struct Desk {
    pool: Pool,
    approvals: Approvals,
    store: Store,
    feed: Feed,
    guard: Arc<Guard>,
    turns: Arc<Turns>,
    profiles: Vec<Profile>,
    version: Box<str>,
    heartbeat: Duration,
}

impl Desk {
    fn new(front: Front, address: Option<String>) -> Self {
        let Front { pool, approvals, store, feed, keys, settings } = front;
        let Settings { hosts, profiles, version, heartbeat, requests, turns, .. } = settings;
        let guard = Arc::new(Guard::new(Hosts::new(hosts.into_iter().chain(address)), keys, requests));
        let turns = Arc::new(Turns::new(turns));
        Self { pool, approvals, store, feed, guard, turns, profiles, version, heartbeat }
    }

    fn count_reader(&self) -> Counted {
        Counted::new(&self.feed.metrics().feed_readers)
    }

    fn end_streams(&self) {
        self.feed.log().close();
        self.turns.end();
    }
}

/// Tells the feed whenever the store's health changes; for ever.
async fn tell_health(feed: &Feed, mut health: tokio::sync::watch::Receiver<Health>) {
    #[derive(Serialize)]
    #[serde(tag = "type", rename = "store_health")]
    struct StoreHealth {
        healthy: bool,
        reason: Option<Arc<str>>,
    }
    while health.changed().await.is_ok() {
        let told = match &*health.borrow_and_update() {
            Health::Well => StoreHealth { healthy: true, reason: None },
            Health::Degraded { reason } => StoreHealth { healthy: false, reason: Some(Arc::clone(reason)) },
        };
        feed.tell(&told);
    }
    std::future::pending().await
}

fn descriptors_max() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX)
}
