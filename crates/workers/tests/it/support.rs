//! A pool in a directory of its own, over the demo worker.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use approvals::{Approvals, Settings};
use codex::{ApprovalPolicy, Sandbox, ThreadOptions, TurnEvent};
use store::Store;
use supervise::{Ledger, Rlimits};
use tempfile::TempDir;
use testkit::HANG_TIMEOUT;
use tokio::time::{sleep, timeout};
use workers::{
    Afterwards, Caller, Group, Limits, Notice, Order, Plan, Pool, Reach, Refused, ThreadChoice, Transport, Turn,
    TurnPermit, WorkerState,
};

const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// What a pool is made with.
pub(crate) struct Setup {
    pub(crate) count: usize,
    pub(crate) turns_max: usize,
    pub(crate) threads_loaded_max: usize,
    pub(crate) transport: Transport,
    pub(crate) limits: Limits,
    pub(crate) settings: Settings,
    /// What the workers play.
    pub(crate) script: String,
    pub(crate) program: PathBuf,
    /// The home of real workers; demo workers have one of their own, and a script.
    pub(crate) real_home: Option<PathBuf>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            count: 1,
            turns_max: 8,
            threads_loaded_max: 64,
            transport: Transport::Stdio,
            limits: Limits::default(),
            settings: Settings::default(),
            script: String::new(),
            program: testkit::built::demo_worker(),
            real_home: None,
        }
    }
}

/// A running pool and all that it stands on.
pub(crate) struct House {
    pub(crate) pool: Pool,
    pub(crate) approvals: Approvals,
    pub(crate) store: Store,
    pub(crate) notices: Arc<Mutex<Vec<Notice>>>,
    setup: Setup,
    directory: Arc<TempDir>,
}

impl House {
    pub(crate) async fn open(setup: Setup) -> Self {
        Self::open_in(setup, Arc::new(TempDir::new().unwrap())).await
    }

    /// The same directory again, after a restart in the middle of this turn.
    pub(crate) async fn reopen_in_mid_turn(self, turn: Turn) -> Self {
        self.reopen_changed(turn, |_| {}).await
    }

    /// The same directory again, after a restart in the middle of this turn with another configuration.
    pub(crate) async fn reopen_changed(self, turn: Turn, change: impl FnOnce(&mut Setup)) -> Self {
        self.stop().await;
        let Self { pool, approvals, store, mut setup, directory, .. } = self;
        change(&mut setup);
        drop((turn, pool, approvals));
        store.close().await.unwrap();
        Self::open_in(setup, directory).await
    }

    pub(crate) async fn open_in(setup: Setup, directory: Arc<TempDir>) -> Self {
        let path = |name: &str| directory.path().join(name);
        fs::create_dir_all(path("home")).unwrap();
        fs::write(path("script.toml"), &setup.script).unwrap();
        let store = Store::open(path("store.db"), store::Limits::default()).unwrap();
        let approvals = Approvals::open(store.clone(), setup.settings.clone(), Arc::new(|_| {})).await.unwrap();
        let (ledger, leftovers) = until_free(directory.path()).await;
        leftovers.reap().await.unwrap();
        let notices = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&notices);
        let notify = Arc::new(move |notice| told.lock().unwrap().push(notice));
        let pool = Pool::start(plan(&setup, directory.path()), store.clone(), approvals.clone(), ledger, notify);
        Self { pool, approvals, store, notices, setup, directory }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Plays a prompt in a new thread.
    pub(crate) async fn turn(&self, prompt: &str) -> Turn {
        self.try_turn(order("k", prompt)).await.unwrap()
    }

    pub(crate) async fn try_turn(&self, order: Order) -> Result<Turn, Refused> {
        timeout(HANG_TIMEOUT, self.pool.start_turn(order)).await.expect("an order comes to an end")
    }

    pub(crate) async fn until_ready(&self) {
        let is_ready = || self.pool.workers().iter().all(|worker| worker.state == WorkerState::Ready);
        until("all workers are ready", is_ready).await;
    }

    /// The ids of the approvals that wait.
    pub(crate) async fn pending(&self) -> Vec<approvals::View> {
        let filter =
            store::ApprovalFilter { state: Some(store::ApprovalState::Pending), ..store::ApprovalFilter::default() };
        self.approvals.list(filter).await.unwrap()
    }

    /// The one approval that waits, once there is one.
    pub(crate) async fn one_pending(&self) -> approvals::View {
        timeout(HANG_TIMEOUT, async {
            loop {
                if let [one] = &self.pending().await[..] {
                    return one.clone();
                }
                sleep(LOOK_INTERVAL).await;
            }
        })
        .await
        .expect("an approval waits")
    }

    /// Waits until an approval is in a state.
    pub(crate) async fn until_state(&self, id: &str, state: store::ApprovalState) {
        let come = timeout(HANG_TIMEOUT, async {
            loop {
                let id = id.to_owned();
                let row = self.store.read(move |reader| reader.approval(&id)).await.unwrap().unwrap();
                if row.state == state {
                    return;
                }
                sleep(LOOK_INTERVAL).await;
            }
        });
        come.await.unwrap_or_else(|_| panic!("the approval should be {state}"));
    }

    pub(crate) async fn stop(&self) {
        timeout(HANG_TIMEOUT, self.pool.stop()).await.expect("a pool stops");
    }
}

/// The lock of a state directory is free once everything that held it is dropped, which takes a moment.
async fn until_free(state_dir: &Path) -> (Ledger, supervise::Leftovers) {
    timeout(HANG_TIMEOUT, async {
        loop {
            if let Ok(opened) = Ledger::open(state_dir) {
                return opened;
            }
            sleep(LOOK_INTERVAL).await;
        }
    })
    .await
    .expect("the state directory is free")
}

fn plan(setup: &Setup, directory: &Path) -> Plan {
    let (args, home) = match &setup.real_home {
        Some(home) => (vec!["app-server".into()], home.clone()),
        None => (vec!["--script".into(), directory.join("script.toml").into()], directory.join("home")),
    };
    let group = Group {
        name: "main".into(),
        program: setup.program.clone().into(),
        args,
        transport: setup.transport.clone(),
        count: setup.count,
        codex_home: Some(home),
        env: Vec::new(),
        cwd: directory.into(),
        turns_max: setup.turns_max,
        threads_loaded_max: setup.threads_loaded_max,
        user: None,
        rlimits: Rlimits::default(),
        tools: None,
    };
    Plan {
        groups: vec![group],
        profiles: Vec::new(),
        limits: setup.limits.clone(),
        state_dir: directory.into(),
        private: Vec::new(),
        client_version: "1.0".into(),
    }
}

pub(crate) fn caller(key: &str) -> Caller {
    Caller { key: key.into(), reach: Reach::Own }
}

/// A prompt in a new thread that asks before every command.
pub(crate) fn order(key: &str, prompt: &str) -> Order {
    let options = ThreadOptions {
        sandbox: Sandbox::ReadOnly,
        approval_policy: ApprovalPolicy::Untrusted,
        ..ThreadOptions::default()
    };
    Order {
        caller: caller(key),
        group: None,
        profile: None,
        thread: ThreadChoice::New(options),
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

/// A prompt in a thread that there is.
pub(crate) fn order_in(key: &str, thread: &str, prompt: &str) -> Order {
    let options = ThreadOptions::default();
    Order { thread: ThreadChoice::Existing(thread.into(), options), ..order(key, prompt) }
}

/// Waits for a fact, and names it if it never comes to be.
pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    let waited = timeout(HANG_TIMEOUT, async {
        while !is_so() {
            sleep(LOOK_INTERVAL).await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("it should be that {what}"));
}

/// Waits for something, and names it if it never comes to be.
pub(crate) async fn until_some<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let waited = timeout(HANG_TIMEOUT, async {
        loop {
            match look().await {
                Some(found) => return found,
                None => sleep(LOOK_INTERVAL).await,
            }
        }
    });
    waited.await.unwrap_or_else(|_| panic!("it should be that {what}"))
}

/// Ends a process as the system does when it has no memory left.
pub(crate) fn kill(pid: u32) {
    let process = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
}

/// The next event.
pub(crate) async fn next(turn: &mut Turn) -> Option<TurnEvent> {
    timeout(HANG_TIMEOUT, turn.next()).await.expect("a turn goes on or ends")
}

/// Reads on until an event is as wanted.
pub(crate) async fn until_event<T>(turn: &mut Turn, mut wanted: impl FnMut(&TurnEvent) -> Option<T>) -> T {
    loop {
        let event = next(turn).await.expect("the turn has not ended");
        if let Some(found) = wanted(&event) {
            return found;
        }
    }
}

/// Reads to the end: all text, how it ended, and how many ends there were.
pub(crate) async fn finish(turn: &mut Turn) -> (String, String, usize) {
    let (mut text, mut status, mut ends) = (String::new(), String::new(), 0);
    while let Some(event) = next(turn).await {
        match event {
            TurnEvent::Text { text: more, .. } => text += &more.to_str(),
            TurnEvent::TurnEnded { status: ended, error } => {
                ends += 1;
                status = match error {
                    Some(error) => format!("{ended:?} ({}): {}", error.kind.unwrap_or_default(), error.message),
                    None => format!("{ended:?}"),
                };
            }
            _ => {}
        }
    }
    (text, status, ends)
}
