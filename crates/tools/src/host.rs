//! The tool host: every tool server with its keeper, and what they offer together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use approvals::Approvals;
use rmcp::ErrorData;
use serde_json::Value;
use store::Store;
use supervise::{Ladder, Owner};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::caller::Caller;
use crate::calling::{Called, Calling};
use crate::catalog::Catalog;
use crate::changes::Change;
use crate::connection::Question;
use crate::diagnosis::diagnose;
use crate::face::Face;
use crate::keeper::{self, Keeper};
use crate::limits::Limits;
use crate::notice::{Notice, Notify};
use crate::offers::Offers;
use crate::parked::Parked;
use crate::post::{Post, Wish, lock};
use crate::settings::Server;
use crate::strays;
use crate::view::{Frames, ServerState, ServerView};

/// What the tool host is made of.
pub struct Plan {
    /// The tool servers, in the order in which they are offered.
    pub servers: Vec<Server>,
    /// How much it may hold.
    pub limits: Limits,
    /// What marks its processes.
    pub owner: Owner,
    /// Where lists and calls are kept; nowhere if there is none.
    pub store: Option<Store>,
    /// Who confirms; without it what needs a confirmation is refused.
    pub approvals: Option<Approvals>,
    /// Who is told what happens.
    pub notify: Notify,
}

/// All tool servers. Clones are the same; with the last one they are killed, unless they were stopped.
#[derive(Clone)]
pub struct Host(Arc<Running>);

struct Running {
    shared: Arc<Shared>,
    /// Aborted on drop, and the servers with them.
    keepers: Mutex<JoinSet<()>>,
}

/// What all parts of the host share.
pub(crate) struct Shared {
    pub(crate) limits: Limits,
    pub(crate) owner: Owner,
    pub(crate) ladder: Ladder,
    pub(crate) store: Option<Store>,
    pub(crate) approvals: Option<Approvals>,
    pub(crate) starts: Arc<Semaphore>,
    /// One for each caller that may be connected.
    pub(crate) listeners: Arc<Semaphore>,
    pub(crate) parked: Parked,
    /// Calls that have not ended.
    pub(crate) under_way: AtomicUsize,
    notify: Notify,
    posts: Mutex<Vec<Arc<Post>>>,
    /// Those that are being stopped.
    leaving: Mutex<Vec<Arc<Post>>>,
    offers: Mutex<Arc<Offers>>,
    offering: Mutex<()>,
    /// The latest change. What it stands for is there before its number is.
    changes: watch::Sender<Change>,
    /// The resources that callers want to be told of, whichever server has them.
    subscribed: Mutex<BTreeMap<String, Subscribed>>,
    /// What must be done though nobody waits for it.
    tasks: Mutex<JoinSet<()>>,
}

/// A resource that callers want to be told of.
#[derive(Debug, Default)]
struct Subscribed {
    callers: usize,
    /// By which change it last became another one, since somebody has wanted to know.
    changed: Change,
}

impl Host {
    /// Begins to start the tool servers and returns at once.
    ///
    /// # Panics
    /// Outside a tokio runtime that drives IO and time.
    #[must_use]
    pub fn start(plan: Plan) -> Self {
        let Plan { servers, limits, owner, store, approvals, notify } = plan;
        let shared = Arc::new(Shared {
            starts: Arc::new(Semaphore::new(limits.starts_max)),
            listeners: Arc::new(Semaphore::new(limits.listeners_max)),
            parked: Parked::new(&limits),
            under_way: AtomicUsize::new(0),
            limits,
            owner,
            ladder: keeper::ladder(),
            store,
            approvals,
            notify,
            posts: Mutex::default(),
            leaving: Mutex::default(),
            offers: Mutex::default(),
            offering: Mutex::default(),
            changes: watch::Sender::default(),
            subscribed: Mutex::default(),
            tasks: Mutex::default(),
        });
        let host = Self(Arc::new(Running { shared, keepers: Mutex::default() }));
        host.0.shared.own(sweep(Arc::downgrade(&host.0.shared)));
        host.apply(servers);
        host
    }

    /// Makes the servers those of the list: what is the same goes on untouched, what changed is started anew, what is not in
    /// it is stopped.
    pub fn apply(&self, servers: Vec<Server>) {
        let shared = &self.0.shared;
        {
            let (mut posts, mut leaving) = (lock(&shared.posts), lock(&shared.leaving));
            leaving.retain(|post| !post.over.is_cancelled());
            let is_wanted = |post: &mut Arc<Post>| servers.contains(&post.server);
            let mut before: Vec<Arc<Post>> = std::mem::take(&mut *posts);
            leaving.extend(before.extract_if(.., |post| !is_wanted(post)).inspect(|post| post.wish(Wish::Stop)));
            for server in servers {
                let same = before.iter().position(|post| *post.server == server);
                posts.push(match same {
                    Some(place) => before.swap_remove(place),
                    None => self.employ(server, &leaving),
                });
            }
        }
        shared.offer_anew();
    }

    /// Every server, in the configured order.
    #[must_use]
    pub fn servers(&self) -> Vec<ServerView> {
        self.0.shared.posts().iter().map(|post| self.0.shared.view(post)).collect()
    }

    /// What every server is doing, in the configured order.
    #[must_use]
    pub fn states(&self) -> Vec<(Arc<str>, ServerState)> {
        self.0.shared.posts().iter().map(|post| (Arc::clone(&post.name), post.status().state)).collect()
    }

    /// One server.
    #[must_use]
    pub fn server(&self, name: &str) -> Option<ServerView> {
        self.0.shared.post(name).map(|post| self.0.shared.view(&post))
    }

    /// The frames of the connection to a server that are kept.
    #[must_use]
    pub fn frames(&self, name: &str) -> Option<Frames> {
        let post = self.0.shared.post(name)?;
        let ring = post.status().remains.ring.clone();
        Some(ring.map_or(Frames { frames: Vec::new(), left_out: 0 }, |ring| {
            let ring = lock(&ring);
            Frames { frames: ring.frames().cloned().collect(), left_out: ring.left_out() }
        }))
    }

    /// Starts a server anew, also one that was given up; says whether there is one of that name.
    #[must_use]
    pub fn restart(&self, name: &str) -> bool {
        let post = self.0.shared.post(name);
        post.inspect(|post| post.wish(Wish::Restart)).is_some()
    }

    /// Calls a tool by the name that it is offered under, for somebody who cannot be asked anything.
    ///
    /// # Errors
    /// There is no such tool, or its server refused the call itself. What goes wrong with the tool is a result that says so.
    pub async fn call(&self, caller: &Caller, tool: &str, arguments: Value) -> Result<Value, ErrorData> {
        let offers = self.0.shared.offers();
        let way = offers.tool(tool).ok_or_else(|| self.0.shared.unknown_tool(tool))?;
        let face = Face::mute(Uuid::new_v4().to_string().into());
        let calling = Calling {
            shared: &self.0.shared,
            caller,
            face: &face,
            way,
            arguments: arguments.into(),
            answers: None,
            state: None,
        };
        let result = match calling.call().await? {
            Called::Complete(result) => serde_json::to_value(result),
            Called::InputRequired(required) => serde_json::to_value(required),
        };
        result.map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }

    /// Waits until no server is starting any more, at most for so long; says whether that came to be.
    pub async fn settled(&self, within: Duration) -> bool {
        const LOOK: Duration = Duration::from_millis(20);
        let all_settled = async {
            loop {
                let posts = self.0.shared.posts();
                if posts.iter().all(|post| post.status().state != ServerState::Starting) {
                    return;
                }
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::time::timeout(within, all_settled).await.is_ok()
    }

    /// Waits until no call is under way, at most for so long.
    pub async fn idle(&self, within: Duration) {
        const LOOK: Duration = Duration::from_millis(20);
        let all_over = async {
            while self.0.shared.under_way.load(Ordering::Relaxed) > 0 {
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::time::timeout(within, all_over).await.ok();
    }

    /// Stops every server and waits for their ends.
    pub async fn stop(&self) {
        for post in self.0.shared.posts() {
            post.wish(Wish::Stop);
        }
        self.0.shared.parked.clear();
        let mut keepers = std::mem::take(&mut *lock(&self.0.keepers));
        while keepers.join_next().await.is_some() {}
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }

    fn employ(&self, server: Server, leaving: &[Arc<Post>]) -> Arc<Post> {
        let shared = &self.0.shared;
        let post = Arc::new(Post::new(server, &shared.limits));
        let before = leaving.iter().filter(|one| one.name == post.name).cloned().collect();
        let keeper = Keeper { shared: Arc::clone(shared), post: Arc::clone(&post), before };
        let mut keepers = lock(&self.0.keepers);
        while keepers.try_join_next().is_some() {}
        keepers.spawn(keeper.keep());
        post
    }
}

impl Shared {
    pub(crate) fn posts(&self) -> Vec<Arc<Post>> {
        lock(&self.posts).clone()
    }

    pub(crate) fn post(&self, name: &str) -> Option<Arc<Post>> {
        lock(&self.posts).iter().find(|post| *post.name == *name).cloned()
    }

    /// All that is offered now.
    pub(crate) fn offers(&self) -> Arc<Offers> {
        Arc::clone(&lock(&self.offers))
    }

    /// Why there is no tool of that name.
    pub(crate) fn unknown_tool(&self, name: &str) -> ErrorData {
        let offers = self.offers();
        let why = self.posts().iter().find_map(|post| {
            let own = name.strip_prefix(&*post.server.prefix)?.strip_prefix("__")?;
            let status = post.status();
            let server = &post.name;
            if let Some(one) = status.catalog.quarantined.iter().find(|one| one.name == own) {
                return Some(format!("the tool `{name}` cannot be used: {} at {}", one.why, one.path));
            }
            if !status.state.is_usable() {
                let reason = status.reason.as_deref().unwrap_or("it has not listed its tools yet");
                return Some(format!("the tool server {server} is {}: {reason}", status.state.name()));
            }
            Some(format!("the tool server {server} has no tool `{name}`: it has {}", few(&offers.tools_of(server))))
        });
        let unknown = || format!("unknown tool `{name}`: `tools/list` names those that there are");
        ErrorData::invalid_params(why.unwrap_or_else(unknown), None)
    }

    /// Wakes for every change.
    pub(crate) fn changes(&self) -> watch::Receiver<Change> {
        self.changes.subscribe()
    }

    pub(crate) fn latest_change(&self) -> Change {
        *self.changes.borrow()
    }

    pub(crate) fn offer_anew(&self) {
        // Held from the look to the replacement: an older look must not replace a newer one.
        let offering = lock(&self.offering);
        let servers: Vec<(Arc<Server>, Arc<Catalog>)> =
            self.posts().iter().map(|post| (Arc::clone(&post.server), Arc::clone(&post.status().catalog))).collect();
        let mut offers = Offers::of(&servers);
        let before = self.offers();
        let has_changed = {
            // Its lock gives changes their order.
            let _subscribed = lock(&self.subscribed);
            let change = self.latest_change() + 1;
            let has_changed = offers.note_changes(&before, change);
            *lock(&self.offers) = Arc::new(offers);
            if has_changed {
                self.changes.send_replace(change);
            }
            has_changed
        };
        drop(offering);
        if has_changed {
            self.tell(Notice::ToolsChanged);
        }
    }

    pub(crate) fn resource_updated(&self, uri: &str) {
        let mut subscribed = lock(&self.subscribed);
        if let Some(resource) = subscribed.get_mut(uri) {
            let change = self.latest_change() + 1;
            resource.changed = change;
            self.changes.send_replace(change);
        }
    }

    /// Those of these resources that have changed after this change.
    pub(crate) fn updated_since(&self, seen: Change, uris: &BTreeSet<String>) -> Vec<String> {
        let subscribed = lock(&self.subscribed);
        let is_news = |uri: &&String| subscribed.get(*uri).is_some_and(|resource| resource.changed > seen);
        uris.iter().filter(is_news).cloned().collect()
    }

    /// One more caller wants to be told of this resource.
    pub(crate) fn subscribe(&self, uri: &str) {
        lock(&self.subscribed).entry(uri.to_owned()).or_default().callers += 1;
        self.resubscribe(uri);
    }

    /// One caller less.
    pub(crate) fn unsubscribe(&self, uri: &str) {
        {
            let mut subscribed = lock(&self.subscribed);
            if let Some(resource) = subscribed.get_mut(uri) {
                resource.callers -= 1;
                if resource.callers == 0 {
                    subscribed.remove(uri);
                }
            }
        }
        self.resubscribe(uri);
    }

    fn resubscribe(&self, uri: &str) {
        let post = self.offers().resource(uri).and_then(|server| self.post(server));
        if let Some(post) = post {
            post.resubscribe.notify_one();
        }
    }

    /// The resources of a server that somebody wants to be told of.
    pub(crate) fn subscribed_of(&self, server: &str) -> Vec<String> {
        let offers = self.offers();
        let is_theirs = |uri: &&String| offers.resource(uri).is_some_and(|one| **one == *server);
        lock(&self.subscribed).keys().filter(is_theirs).cloned().collect()
    }

    pub(crate) fn set_state(&self, post: &Post, state: ServerState, reason: Option<Arc<str>>) {
        {
            let mut status = post.status();
            status.state = state;
            status.reason.clone_from(&reason);
        }
        self.tell(Notice::ToolServerState { server: Arc::clone(&post.name), state, reason });
    }

    /// Leaves a question to somebody else than a caller.
    pub(crate) fn answer_stray(self: &Arc<Self>, server: &Arc<str>, question: Question) {
        self.own(strays::answer(Arc::clone(self), Arc::clone(server), question));
    }

    /// Does something that must be done though nobody waits for it. Without a runtime nothing can be done any more.
    pub(crate) fn own(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let mut tasks = lock(&self.tasks);
            while tasks.try_join_next().is_some() {}
            tasks.spawn_on(task, &runtime);
        }
    }

    pub(crate) fn tell(&self, notice: Notice) {
        (self.notify)(notice);
    }

    fn view(&self, post: &Post) -> ServerView {
        let findings = diagnose(&post.evidence());
        let status = post.status();
        // After the state: what is ready is offered already.
        let tools = self.offers().tools_of(&post.name);
        ServerView {
            name: post.server.name.clone(),
            state: status.state,
            reason: status.reason.clone(),
            last_end: status.last_end.clone(),
            era: status.era,
            protocol: status.protocol.clone(),
            implementation: status.implementation.clone(),
            pid: status.pid,
            restarts: status.restarts,
            ready_after_ms: status.ready_after.map(|after| u64::try_from(after.as_millis()).unwrap_or(u64::MAX)),
            tools,
            resources: status.catalog.resources.len() + status.catalog.templates.len(),
            prompts: status.catalog.prompts.len(),
            is_from_memory: status.is_from_memory,
            quarantined: status.catalog.quarantined.clone(),
            findings,
        }
    }
}

/// Gives up, for as long as the host is there, what waits for callers that do not come back.
async fn sweep(shared: std::sync::Weak<Shared>) {
    const LOOK: Duration = Duration::from_secs(1);
    loop {
        tokio::time::sleep(LOOK).await;
        match shared.upgrade() {
            Some(shared) => shared.parked.sweep(std::time::Instant::now()),
            None => return,
        }
    }
}

/// The first names of a list that may be long.
fn few(names: &[String]) -> String {
    const NAMES_MAX: usize = 12;
    let more = names.len().saturating_sub(NAMES_MAX);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    names.iter().take(NAMES_MAX).map(String::as_str).collect::<Vec<_>>().join(", ") + &more
}

pub(crate) fn unix_ms() -> i64 {
    let passed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(passed.as_millis()).unwrap_or(i64::MAX)
}
