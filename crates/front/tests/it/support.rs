//! A server in a directory of its own, with a pool of demo workers behind it.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use approvals::Approvals;
use codex::{ApprovalPolicy, Sandbox};
use front::keys::{Grant, Keys, Scope, Scopes};
use front::{Feed, Front, Settings};
use serde_json::Value;
use store::Store;
use supervise::{Ledger, Rlimits};
use tempfile::TempDir;
use testkit::HANG_TIMEOUT;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use workers::{Group, Limits, Plan, Pool, Profile, Transport};

use super::http::{Answer, Caller};

/// The key that the installation chose; long enough not to be taken for a guess.
pub(crate) const KEY: &str = "the-key-of-the-tests-0123456789abcdef";

pub(crate) struct House {
    /// One who may do everything.
    pub(crate) operator: Caller,
    pub(crate) keys: Arc<Keys>,
    pub(crate) store: Store,
    pub(crate) pool: Pool,
    pub(crate) tools: tools::Host,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
    pub(crate) directory: TempDir,
}

impl House {
    pub(crate) async fn open() -> Self {
        Self::with(Settings::default(), approvals::Settings::default()).await
    }

    pub(crate) async fn with(settings: Settings, deciding: approvals::Settings) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::at(listener, settings, deciding).await
    }

    pub(crate) async fn at(listener: TcpListener, settings: Settings, deciding: approvals::Settings) -> Self {
        Self::in_directory(TempDir::new().unwrap(), listener, settings, deciding).await
    }

    /// The same house after a stop.
    pub(crate) async fn reopen(directory: TempDir) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::in_directory(directory, listener, Settings::default(), approvals::Settings::default()).await
    }

    async fn in_directory(
        directory: TempDir,
        listener: TcpListener,
        settings: Settings,
        deciding: approvals::Settings,
    ) -> Self {
        let plan = plan(directory.path());
        Self::of(plan, directory, listener, settings, deciding).await
    }

    /// With tool servers of the gallery, by their names, that can be used.
    pub(crate) async fn with_tools(servers: &[&str]) -> Self {
        let house = Self::open().await;
        house.tools.apply(servers.iter().map(|name| tool_server(name)).collect());
        assert!(house.tools.settled(HANG_TIMEOUT).await, "tool servers start");
        house
    }

    /// With workers and profiles of its own.
    pub(crate) async fn of(
        plan: Plan,
        directory: TempDir,
        listener: TcpListener,
        settings: Settings,
        deciding: approvals::Settings,
    ) -> Self {
        let house = Self::build(plan, directory, listener, settings, deciding).await;
        house.until_ready().await;
        house
    }

    /// With workers of its own that never become ready.
    pub(crate) async fn of_unready(plan: Plan, directory: TempDir, listener: TcpListener, settings: Settings) -> Self {
        Self::build(plan, directory, listener, settings, approvals::Settings::default()).await
    }

    async fn build(
        plan: Plan,
        directory: TempDir,
        listener: TcpListener,
        settings: Settings,
        deciding: approvals::Settings,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let store = Store::open(directory.path().join("store.db"), store::Limits::default()).unwrap();
        let feed = Feed::new(Feed::LIMITS);
        let approvals = Approvals::open(store.clone(), deciding, feed.notify_approvals()).await.unwrap();
        let (ledger, leftovers) = Ledger::open(directory.path()).unwrap();
        leftovers.reap().await.unwrap();
        let (profiles, owner) = (plan.profiles.clone(), ledger.owner());
        let pool = Pool::start(plan, store.clone(), approvals.clone(), ledger, feed.notify_workers());
        let (keys, first) = Keys::open(&store, Some(KEY)).await.unwrap();
        assert!(first.is_none(), "a chosen key needs no other");
        let keys = Arc::new(keys);
        let tools = tools::Host::start(tools::Plan {
            servers: Vec::new(),
            limits: tools::Limits::default(),
            owner,
            store: Some(store.clone()),
            approvals: Some(approvals.clone()),
            notify: feed.notify_tools(),
        });
        let front = Front {
            pool: pool.clone(),
            tools: tools.clone(),
            approvals,
            store: store.clone(),
            feed,
            keys: Arc::clone(&keys),
            settings: Settings { profiles, ..settings },
        };
        let (stop, stopped) = oneshot::channel::<()>();
        #[expect(clippy::disallowed_methods, reason = "`serving` keeps its handle")]
        let serving = tokio::spawn(front::serve(listener, front, async {
            let _ = stopped.await;
        }));
        let operator = Caller { address, key: KEY.into() };
        Self { operator, keys, store, pool, tools, stop, serving, directory }
    }

    /// One with a key of their own.
    pub(crate) async fn caller(&self, scopes: &[Scope]) -> Caller {
        self.caller_with(Grant::of(Scopes::of(scopes))).await
    }

    pub(crate) async fn caller_with(&self, grant: Grant) -> Caller {
        let key = self.keys.create(&self.store, "a caller", grant).await.unwrap();
        Caller { address: self.operator.address, key: key.secret.reveal().into() }
    }

    /// Takes a caller's key away.
    pub(crate) async fn revoke(&self, caller: &Caller) {
        let revoked = self.operator.post(&format!("/api/keys/{}/revoke", caller.id()), "").await;
        assert_eq!(revoked.status, 200, "{}", revoked.body);
    }

    /// Starts a turn and gives the path of its events.
    pub(crate) async fn start(&self, prompt: &str) -> String {
        let started = self.operator.post("/api/turns", &serde_json::json!({ "prompt": prompt }).to_string()).await;
        assert_eq!(started.status, 201, "{}", started.body);
        started.json()["events"].as_str().unwrap().into()
    }

    /// Waits until a tool server is so.
    pub(crate) async fn until_state(&self, server: &str, state: &str) {
        let is_so = async {
            while self.operator.get(&format!("/api/tools/{server}")).await.json()["state"] != state {
                tokio::task::yield_now().await;
            }
        };
        timeout(HANG_TIMEOUT, is_so).await.unwrap_or_else(|_| panic!("{server} should be {state}"));
    }

    /// Waits until a tool server was told something.
    pub(crate) async fn until_frames(&self, server: &str, text: &str) {
        let is_told = || {
            self.tools
                .frames(server)
                .unwrap()
                .frames
                .iter()
                .any(|frame| frame.text.contains(&format!("\"{text}\"")) && frame.text.contains("tools/call"))
        };
        let told = async {
            while !is_told() {
                tokio::task::yield_now().await;
            }
        };
        timeout(HANG_TIMEOUT, told).await.unwrap_or_else(|_| panic!("{server} should be told {text}"));
    }

    /// Holds an answer against its schema.
    pub(crate) async fn check(&self, answer: &Answer, schema: &str) -> Value {
        let description = self.operator.get("/api/openapi.json").await.json();
        let schema = serde_json::json!({
            "$ref": format!("#/components/schemas/{schema}"), "components": description["components"],
        });
        let value = answer.json();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let errors: Vec<_> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?} in {value:#}");
        value
    }

    /// Stops it and gives what it leaves.
    pub(crate) async fn stop(self) -> TempDir {
        let _ = self.stop.send(());
        timeout(HANG_TIMEOUT, self.serving).await.expect("a server stops").unwrap();
        timeout(HANG_TIMEOUT, self.pool.stop()).await.expect("a pool stops");
        timeout(HANG_TIMEOUT, self.tools.stop()).await.expect("tool servers stop");
        self.store.close().await.unwrap();
        self.directory
    }

    async fn until_ready(&self) {
        let ready = async {
            while self.operator.get("/readyz").await.status != 200 {
                tokio::task::yield_now().await;
            }
        };
        timeout(HANG_TIMEOUT, ready).await.expect("the workers become ready");
    }
}

/// A tool server of the gallery, called as it is there.
pub(crate) fn tool_server(name: &str) -> tools::Server {
    let reach = tools::Reach::Process {
        command: vec![testkit::built::example("tools", "gallery").into(), name.into()],
        env: Vec::new(),
        cwd: std::env::temp_dir(),
        rlimits: Rlimits::default(),
    };
    tools::Server::new(name, reach)
}

/// One worker that is asked before and one that is not.
pub(crate) fn plan(directory: &Path) -> Plan {
    fs::create_dir_all(directory.join("home")).unwrap();
    let group = Group {
        name: "main".into(),
        program: testkit::built::demo_worker().into(),
        args: Vec::new(),
        transport: Transport::Stdio,
        count: 1,
        codex_home: Some(directory.join("home")),
        env: Vec::new(),
        cwd: directory.into(),
        turns_max: 8,
        threads_loaded_max: 64,
        user: None,
        rlimits: Rlimits::default(),
        tools: None,
    };
    let asking = Profile {
        name: "asking".into(),
        group: None,
        cwd: Some(directory.to_str().unwrap().into()),
        sandbox: Sandbox::ReadOnly,
        approval_policy: ApprovalPolicy::Untrusted,
        model: None,
        effort: None,
        decision_timeout: None,
        is_plain: false,
        shows_work: true,
        readable: Vec::new(),
        trusted_projects: Vec::new(),
        network: false,
        allow_unconfined: false,
    };
    let project = directory.join("project");
    fs::create_dir_all(&project).unwrap();
    let quiet = Profile {
        name: "quiet".into(),
        cwd: Some(project.to_str().unwrap().into()),
        sandbox: Sandbox::WorkspaceWrite,
        approval_policy: ApprovalPolicy::Never,
        ..asking.clone()
    };
    Plan {
        groups: vec![group],
        profiles: vec![asking, quiet],
        limits: Limits::default(),
        state_dir: directory.into(),
        private: Vec::new(),
        client_version: "1.0".into(),
    }
}
