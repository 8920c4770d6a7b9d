//! Everything HTTP: the OpenAI API, the operator API, health and metrics; the only crate that knows axum.
//!
//! `routes` is the list of all routes. Each row says what a request needs to be let in; the router and the API's own
//! description are made of these rows. [`serve`] runs them behind our own accept loop.

mod accept;
mod api;
mod ask;
mod attempts;
mod body;
mod chat;
mod cors;
mod day;
mod error;
mod feed;
#[cfg(test)]
mod golden;
mod guard;
mod half_close;
mod health;
mod hide_paths;
mod host;
mod idempotency;
mod key_store;
pub mod keys;
mod lock;
mod log;
mod mcp;
mod memory_budget;
mod metrics;
mod models;
mod openai;
mod openapi;
mod parsing;
mod quota;
mod request_id;
mod responses;
mod ring;
mod route;
mod sse;
mod stall;
mod tls;
mod turns;
mod words;
mod written;

// The golden tests share the house of the tests over HTTP, which knows the crate by its name.
#[cfg(test)]
extern crate self as front;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use approvals::Approvals;
use store::Store;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use workers::{Pool, Profile};

use accept::ListenerLimits;
pub use accept::{ConnectionLimits, ControlSocket};
pub use api::config::{ConfigAccepted, ConfigConflict, ConfigRequest, ConfigView, PendingServer, config_requests};
pub use attempts::AttemptLimits;
pub use body::RequestLimits;
pub use cors::{NotAnOrigin, Origin};
pub use feed::Feed;
pub use key_store::{KeyError, NewKey, RevokedKey};
#[cfg(any(test, fuzzing))]
pub use openai::fuzz::{chat_request, response_request};
pub use responses::ResponseLimits;
#[cfg(any(test, fuzzing))]
pub use responses::socket::fuzz::websocket_frames;
pub use ring::RingLimits;
pub use tls::{Tls, TlsError, TlsFiles};
pub use turns::TurnLimits;

use api::{
    approvals as approval, config, events, keys as key, threads, tools as tool, turns as turn, usage, workers as worker,
};
use body::BodyReader;
use cors::Origins;
use guard::{Guard, Needs};
use host::Hosts;
use idempotency::Answers;
use keys::{Keys, Scope};
use metrics::Counted;
use quota::Quotas;
use responses::{Book, conversations};
use route::{Condition, Parameter, Route, delete, get, post};
use turns::Turns;

/// All routes.
fn routes() -> Vec<Route> {
    const OPEN: Needs = Needs::Nothing;
    const USE: Needs = Needs::Key(Scope::Use);
    const TOOLS: Needs = Needs::Key(Scope::Tools);
    const OPERATE: Needs = Needs::Key(Scope::Operate);
    const KEYS: Needs = Needs::Key(Scope::Keys);
    const OPERATE_OR_KEYS: Needs = Needs::AnyKey([Scope::Operate, Scope::Keys]);
    vec![
        post("/v1/chat/completions", USE, chat::complete, "Answer a conversation, whole or as a stream")
            .takes("ChatRequest")
            .answers_or_streams("ChatCompletion"),
        post("/chat/completions", USE, chat::complete, "The same")
            .takes("ChatRequest")
            .answers_or_streams("ChatCompletion"),
        post("/v1/responses", USE, responses::create, "Answer as a response, whole, as a stream or in the background")
            .takes("ResponseRequest")
            .answers_or_streams("Response"),
        post("/responses", USE, responses::create, "The same").takes("ResponseRequest").answers_or_streams("Response"),
        get("/v1/responses", USE, responses::open, "A WebSocket for responses, one after the other").upgrades(),
        get("/responses", USE, responses::open, "The same").upgrades(),
        post("/v1/responses/compact", USE, responses::compact, "Make a conversation short")
            .takes("ResponseRequest")
            .answers("Compaction"),
        post("/responses/compact", USE, responses::compact, "The same").takes("ResponseRequest").answers("Compaction"),
        get("/v1/responses/{id}", USE, responses::get, "A response that was made, or is being made")
            .asks(RESPONSE)
            .answers_or_streams("Response"),
        get("/responses/{id}", USE, responses::get, "The same").asks(RESPONSE).answers_or_streams("Response"),
        delete("/v1/responses/{id}", USE, responses::delete, "Forget a response").answers("ResponseDeleted"),
        delete("/responses/{id}", USE, responses::delete, "The same").answers("ResponseDeleted"),
        post("/v1/responses/{id}/cancel", USE, responses::cancel, "Stop a response in the background")
            .answers("Response"),
        post("/responses/{id}/cancel", USE, responses::cancel, "The same").answers("Response"),
        get("/v1/responses/{id}/input_items", USE, responses::input_items, "What a response was asked with")
            .asks(ITEMS)
            .answers("InputItems"),
        get("/responses/{id}/input_items", USE, responses::input_items, "The same").asks(ITEMS).answers("InputItems"),
        post("/v1/conversations", USE, conversations::create, "Begin a conversation")
            .takes("ConversationOrder")
            .answers("Conversation"),
        get("/v1/conversations/{id}", USE, conversations::get, "A conversation").answers("Conversation"),
        post("/v1/conversations/{id}", USE, conversations::update, "Give a conversation other metadata")
            .takes("ConversationOrder")
            .answers("Conversation"),
        delete("/v1/conversations/{id}", USE, conversations::delete, "Forget a conversation; its responses stay")
            .answers("ConversationDeleted"),
        get("/v1/conversations/{id}/items", USE, conversations::items, "What was said in a conversation")
            .asks(ITEMS)
            .answers("InputItems"),
        get("/v1/models", USE, models::list, "The models that there are").answers("Models"),
        get("/models", USE, models::list, "The same").answers("Models"),
        get("/v1/models/{id}", USE, models::get, "One model").answers("Model"),
        get("/models/{id}", USE, models::get, "The same").answers("Model"),
        post("/mcp", TOOLS, mcp::answer, "The tools of all tool servers as one MCP server: a message")
            .takes("McpMessage")
            .answers_or_streams("McpMessage"),
        get("/mcp", TOOLS, mcp::answer, "The same: what the server has to say by itself, to a legacy caller")
            .streams("McpMessage"),
        delete("/mcp", TOOLS, mcp::answer, "The same: the end of a legacy caller's connection"),
        post("/mcp/", TOOLS, mcp::answer, "The same as POST /mcp").takes("McpMessage").answers_or_streams("McpMessage"),
        get("/mcp/", TOOLS, mcp::answer, "The same as GET /mcp").streams("McpMessage"),
        delete("/mcp/", TOOLS, mcp::answer, "The same as DELETE /mcp"),
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
        get("/api/tools", OPERATE, tool::list, "The tool servers, and what is wrong with each").answers("ToolServers"),
        get("/api/tools/{name}", OPERATE, tool::get, "One tool server").answers("ToolServer"),
        get("/api/tools/{name}/frames", OPERATE, tool::frames, "The first and last frames of the connection to it")
            .answers("ToolFrames"),
        post("/api/tools/{name}/restart", OPERATE, tool::restart, "Start a tool server anew; its calls are lost")
            .answers("ToolServerRestarting"),
        get("/api/tool-calls", OPERATE, tool::calls, "Calls of tools that are over, the newest first")
            .asks(TOOL_CALLS)
            .answers("ToolCalls"),
        get("/api/config", OPERATE, config::show, "What the configuration file says that is not in effect")
            .answers("Config"),
        post("/api/config/accept", OPERATE, config::accept, "Accept the tool servers of the content that was shown")
            .takes("ConfigAcceptance")
            .answers("ConfigAccepted"),
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
        get("/api/keys", OPERATE_OR_KEYS, key::list, "The keys, the oldest first").answers("Keys"),
        post("/api/keys", KEYS, key::make, "Make a key; its text is told now and never again")
            .takes("KeyOrder")
            .creates("KeyMade"),
        post("/api/keys/{id}/revoke", KEYS, key::revoke, "Revoke a key and those that it created; their streams end")
            .answers("KeyRevoked"),
        get("/api/usage", USE, usage::list, "What the turns of each key have used, by day, the newest first")
            .asks(USAGE)
            .answers("Usage"),
        get("/api/approvals/by-token/{token}", OPEN, approval::read_link, "What a decision link would decide")
            .answers("Link")
            .only_with(Condition::Webhook),
        post("/api/approvals/by-token/{token}", OPEN, approval::use_link, "Decide by a decision link, once")
            .answers("Decided")
            .only_with(Condition::Webhook),
    ]
}

/// What workers may do where they have a listener of their own: call tools.
fn worker_routes() -> Vec<Route> {
    let tools = routes().into_iter().filter(|route| matches!(route.path, "/mcp" | "/mcp/"));
    tools.map(|route| route.needs(Needs::WorkerKey)).collect()
}

const RESPONSE: &[Parameter] = &[
    Parameter { name: "stream", summary: "true: its events, if it is made in the background" },
    Parameter { name: "starting_after", summary: "with `stream`: those after the event of this number" },
];

const ITEMS: &[Parameter] = &[
    Parameter { name: "limit", summary: "how many: 1 to 100, else 20" },
    Parameter { name: "order", summary: "asc or desc, else desc" },
    Parameter { name: "after", summary: "those behind the item of this id" },
    Parameter { name: "before", summary: "those in front of the item of this id" },
];

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
    Parameter { name: "order", summary: "asc, the oldest first, or desc, else desc" },
    Parameter { name: "before", summary: "`next` of the page before, in the order desc" },
    Parameter { name: "after", summary: "`next` of the page before, in the order asc" },
    Parameter { name: "limit", summary: "how many: 1 to 1000, else 100" },
];

const TOOL_CALLS: &[Parameter] = &[
    Parameter { name: "server", summary: "of this tool server" },
    Parameter { name: "tool", summary: "of this tool, by the name that its server has for it" },
    Parameter { name: "key", summary: "of this key" },
    Parameter { name: "outcome", summary: "succeeded, failed, input_required, refused, cancelled, timed_out or lost" },
    Parameter { name: "before", summary: "`next` of the page before" },
    Parameter { name: "limit", summary: "how many: 1 to 1000, else 100" },
];

const USAGE: &[Parameter] = &[
    Parameter { name: "key", summary: "of this key" },
    Parameter { name: "from", summary: "since this day, such as 2026-01-31; else the last 30" },
    Parameter { name: "to", summary: "until this day; else today" },
];

/// What is served.
pub struct Front {
    /// The workers.
    pub pool: Pool,
    /// The tool servers; whoever started them stops them.
    pub tools: tools::Host,
    /// What waits for a decision.
    pub approvals: Approvals,
    /// What survives.
    pub store: Store,
    /// Where pool, tool servers and approvals tell what happens.
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
    /// Whose web pages may ask.
    pub cors_origins: Vec<Origin>,
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
    /// How much of responses is held and read.
    pub responses: ResponseLimits,
    /// How much of turns is kept.
    pub turns: TurnLimits,
    /// Where operators ask for the configuration file; none if nobody follows it.
    pub config_requests: Option<mpsc::Sender<ConfigRequest>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            cors_origins: Vec::new(),
            profiles: Vec::new(),
            version: env!("CARGO_PKG_VERSION").into(),
            heartbeat: Duration::from_secs(10),
            connections: ConnectionLimits::default(),
            requests: RequestLimits::default(),
            responses: ResponseLimits::default(),
            turns: TurnLimits::default(),
            config_requests: None,
        }
    }
}

/// Where callers connect.
pub struct Listeners {
    /// For callers with a key.
    pub tcp: TcpListener,
    /// What they are encrypted with; `None` is clear text.
    pub tls: Option<Tls>,
    /// In clear text, for the tool calls of workers and nothing else: Codex cannot be told to trust a certificate of ours.
    pub workers: Option<TcpListener>,
    /// For the command line of the same user.
    pub control: Option<ControlSocket>,
}

impl From<TcpListener> for Listeners {
    fn from(tcp: TcpListener) -> Self {
        Self { tcp, tls: None, workers: None, control: None }
    }
}

/// Serves until `stop` is done. Then no connection is accepted any more, idle ones are closed, streams of events end, and
/// other responses have their grace. Turns are drained by the pool, before: while it drains, new ones are answered with 503.
/// Dropped, it ends at once.
pub async fn serve(listeners: impl Into<Listeners>, front: Front, stop: impl Future<Output = ()>) {
    let Listeners { tcp, tls, workers, control } = listeners.into();
    let ListenerLimits { callers: limits, control: control_limits, workers: worker_limits } =
        front.settings.connections.clone().divide(descriptors_max());
    let address = tcp.local_addr().ok().map(|address| address.ip().to_string());
    let feed = front.feed.clone();
    let health = front.store.health();
    let desk = Arc::new(Desk::new(front, address));
    responses::find_again(&desk).await;
    let stopping = Arc::clone(&desk);
    let grace = limits.grace;
    let (stopped, mut control_stopped) = tokio::sync::watch::channel(());
    let mut workers_stopped = control_stopped.clone();
    let stop = async move {
        stop.await;
        // Calls of tools end before the connections that their results go to.
        stopping.tools.idle(grace).await;
        // Those that have not are told how far they came.
        stopping.tools.stop().await;
        stopping.mcp.answered(grace).await;
        stopping.end_streams();
        stopped.send_replace(());
    };
    let router = route::router(routes(), &desk);
    let control = async {
        if let Some(control) = control {
            let stop = async { _ = control_stopped.changed().await };
            accept::serve(control, router.clone(), control_limits, Arc::clone(feed.metrics()), stop).await;
        }
    };
    let workers = async {
        if let Some(workers) = workers {
            let stop = async { _ = workers_stopped.changed().await };
            let router = route::router(worker_routes(), &desk);
            accept::serve(workers, router, worker_limits, Arc::clone(feed.metrics()), stop).await;
        }
    };
    let certificate = tls.clone();
    let listener = match tls {
        Some(tls) => accept::Listener::Tls(tcp, tls),
        None => tcp.into(),
    };
    let served = accept::serve(listener, router.clone(), limits, Arc::clone(feed.metrics()), stop);
    tokio::select! {
        _ = async { tokio::join!(served, workers, control) } => {}
        () = health::follow_store(&feed, health) => {}
        () = follow(certificate.as_ref()) => {}
    }
    desk.answers.end();
    desk.responses.end();
}

/// Reloads the certificate when its file changes. Never returns.
async fn follow(tls: Option<&Tls>) {
    match tls {
        Some(tls) => tls.follow().await,
        None => std::future::pending().await,
    }
}

/// What every route works with.
struct Desk {
    pool: Pool,
    tools: tools::Host,
    mcp: tools::HttpEndpoint,
    approvals: Approvals,
    store: Store,
    feed: Feed,
    guard: Arc<Guard>,
    bodies: Arc<BodyReader>,
    turns: Arc<Turns>,
    quotas: Quotas,
    answers: Arc<Answers>,
    responses: Arc<Book>,
    config_requests: Option<mpsc::Sender<ConfigRequest>>,
    profiles: Vec<Profile>,
    version: Box<str>,
    heartbeat: Duration,
    /// When it began, in seconds and in milliseconds of Unix time.
    started: u64,
    started_ms: u64,
}

impl Desk {
    fn new(front: Front, address: Option<String>) -> Self {
        let Front { pool, tools, approvals, store, feed, keys, settings } = front;
        let Settings { hosts, cors_origins, profiles, version, heartbeat, requests, responses, turns, .. } = settings;
        let config_requests = settings.config_requests;
        let hosts = Hosts::new(hosts.into_iter().chain(address));
        let mcp = tools::HttpEndpoint::new(&tools, requests.body_bytes_max);
        let quotas = Quotas::new(store.clone(), Arc::clone(&keys), Arc::clone(feed.accounts()));
        let bodies = Arc::new(BodyReader::new(&requests));
        let origins = Origins::new(cors_origins);
        let guard = Arc::new(Guard::new(hosts, origins, keys, requests.attempts, Arc::clone(&bodies)));
        let (turns, answers) = (Arc::new(Turns::new(turns)), Arc::default());
        Self {
            pool,
            tools,
            mcp,
            approvals,
            store,
            feed,
            guard,
            bodies,
            turns,
            quotas,
            answers,
            responses: Arc::new(Book::new(responses)),
            config_requests,
            profiles,
            version,
            heartbeat,
            started: unix_seconds(),
            started_ms: unix_ms(),
        }
    }

    fn count_reader(&self) -> Counted {
        Counted::new(&self.feed.metrics().feed_readers)
    }

    fn end_streams(&self) {
        self.feed.log().close();
        self.turns.end();
        self.mcp.end();
    }
}

fn unix_ms() -> u64 {
    let passed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(passed.as_millis()).unwrap_or(u64::MAX)
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn descriptors_max() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX)
}
