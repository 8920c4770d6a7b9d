//! The two ways to a turn: through a pool, and through a client alone.

use std::ffi::OsString;
use std::fs;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ::codex::{Client, Launch, Options, ThreadOptions, TurnEvent};
use anyhow::{Context, Result, ensure};
use approvals::{Approvals, Settings};
use futures_util::{Stream, StreamExt as _};
use store::Store;
use supervise::{Ledger, Owner, Rlimits};
use tempfile::TempDir;
use tokio::sync::Notify;
use tokio::time::timeout;
use workers::{
    Afterwards, Caller, Group, Limits, Notice, Order, Plan, Pool, Reach, ThreadChoice, Transport, TurnPermit,
    WorkerState,
};

const PROMPT: &str = "[[text]]";
const ENDLESS_PROMPT: &str = "[[hang]]";
const TURNS_MAX: usize = 10_000;
const READY_TIMEOUT: Duration = Duration::from_secs(30);

type Events = Pin<Box<dyn Stream<Item = TurnEvent> + Send>>;

/// Where one worker lives.
pub(super) struct Place {
    directory: Arc<TempDir>,
    program: OsString,
}

impl Place {
    pub(super) fn new() -> Result<Self> {
        let directory = TempDir::new()?;
        fs::create_dir(directory.path().join("home"))?;
        fs::create_dir(directory.path().join("work"))?;
        Ok(Self { directory: Arc::new(directory), program: std::env::current_exe()?.into() })
    }

    fn path(&self) -> PathBuf {
        self.directory.path().into()
    }
}

/// A way to a turn.
#[derive(Clone)]
pub(super) struct Way {
    through: Through,
    _place: Arc<TempDir>,
}

#[derive(Clone)]
enum Through {
    Client(Client),
    Pool(Pool),
}

impl Way {
    pub(super) async fn client(place: &Place) -> Result<Self> {
        let launch = Launch {
            program: place.program.clone(),
            args: vec!["demo-worker".into()],
            cwd: place.path(),
            env: vec![("CODEX_HOME".into(), place.path().into())],
            owner: Owner::generate(),
            rlimits: Rlimits::default(),
        };
        let client = Client::start(&launch, Options { experimental_api: true, ..Options::new("bench", "0") }).await?;
        Ok(Self { through: Through::Client(client), _place: Arc::clone(&place.directory) })
    }

    /// A pool that is ready.
    pub(super) async fn pool(place: Place) -> Result<Self> {
        let store = Store::open(place.path().join("store.db"), store::Limits::default())?;
        let approvals = Approvals::open(store.clone(), Settings::default(), Arc::new(|_| {})).await?;
        let (ledger, _) = Ledger::open(&place.path())?;
        let is_ready = Arc::new(Notify::new());
        let bell = Arc::clone(&is_ready);
        let notify = Arc::new(move |notice| {
            if matches!(notice, Notice::WorkerState { state: WorkerState::Ready, .. }) {
                bell.notify_one();
            }
        });
        let pool = Pool::start(plan(&place), store, approvals, ledger, notify);
        timeout(READY_TIMEOUT, is_ready.notified()).await.context("the pool is not ready")?;
        Ok(Self { through: Through::Pool(pool), _place: place.directory })
    }

    /// Plays a turn to its end, in a new thread or in a known one, and names the thread.
    pub(super) async fn turn(&self, thread: Option<&str>) -> Result<String> {
        let (thread, mut events) = self.begin(thread, PROMPT).await?;
        let mut text = String::new();
        while let Some(event) = events.next().await {
            if let TurnEvent::Text { text: more, .. } = event {
                text += &more.to_str();
            }
        }
        ensure!(text == "Hello from mock.", "the worker said {text:?}");
        Ok(thread)
    }

    /// Begins a turn that does not end by itself; what is returned reads it.
    pub(super) async fn open(self) -> Result<impl Future<Output = ()> + Send + 'static> {
        let (_, events) = self.begin(None, ENDLESS_PROMPT).await?;
        Ok(events.for_each(async |_| {}))
    }

    async fn begin(&self, thread: Option<&str>, prompt: &str) -> Result<(String, Events)> {
        Ok(match &self.through {
            Through::Client(client) => {
                let thread = match thread {
                    Some(id) => client.thread(id),
                    None => client.start_thread(ThreadOptions::default()).await?,
                };
                let turn = thread.start_turn(prompt).await?;
                (thread.id().to_owned(), Box::pin(turn))
            }
            Through::Pool(pool) => {
                let turn = pool.start_turn(order(thread, prompt)).await?;
                (turn.at().thread.to_string(), Box::pin(turn))
            }
        })
    }

    pub(super) async fn stop(&self) {
        match &self.through {
            Through::Client(client) => drop(client.clone().stop().await),
            Through::Pool(pool) => pool.stop().await,
        }
    }
}

fn plan(place: &Place) -> Plan {
    let group = Group {
        name: "main".into(),
        program: place.program.clone(),
        args: vec!["demo-worker".into()],
        transport: Transport::Stdio,
        count: 1,
        codex_home: Some(place.path().join("home")),
        env: Vec::new(),
        // No agent may work in a home of workers.
        cwd: place.path().join("work"),
        turns_max: TURNS_MAX,
        // Neither way unloads what it has loaded.
        threads_loaded_max: usize::MAX,
        user: None,
        rlimits: Rlimits::default(),
        tools: None,
    };
    Plan {
        groups: vec![group],
        profiles: Vec::new(),
        limits: Limits::default(),
        state_dir: place.path(),
        private: Vec::new(),
        client_version: "0".into(),
    }
}

fn order(thread: Option<&str>, prompt: &str) -> Order {
    let options = ThreadOptions::default();
    Order {
        caller: Caller { key: "k".into(), reach: Reach::Own },
        group: None,
        profile: None,
        thread: match thread {
            Some(id) => ThreadChoice::Existing(id.into(), options),
            None => ThreadChoice::New(options),
        },
        after: None,
        history: Vec::new(),
        turn: prompt.into(),
        afterwards: Afterwards::Stays,
        queue_timeout: None,
        decision_timeout: None,
        permit: TurnPermit::default(),
        memory: None,
    }
}
