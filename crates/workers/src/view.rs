//! The pool as an operator sees it.

use std::time::SystemTime;

use serde::Serialize;

/// How a worker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerState {
    /// It is being started, or reached, and greeted.
    Starting,
    /// It takes turns.
    Ready,
    /// It takes no more turns and will be restarted: one of its turns never ends.
    Retiring,
    /// It has ended, and is started again after a pause.
    Restarting,
    /// It ended too often, or could not be started. It is tried again after minutes, or when somebody asks for it.
    Failed,
    /// It is left alone: the pool has stopped.
    Stopped,
}

/// One worker.
#[derive(Clone, Debug, Serialize)]
pub struct WorkerView {
    /// Its name.
    pub name: Box<str>,
    /// Its group.
    pub group: Box<str>,
    /// How it is.
    pub state: WorkerState,
    /// Why, if that needs a reason.
    pub reason: Option<Box<str>>,
    /// Since when, in milliseconds of Unix time.
    pub since: u64,
    /// When it is started again, in milliseconds of Unix time, while it waits for that.
    pub retry_at: Option<u64>,
    /// Its process, if it is one of ours.
    pub pid: Option<u32>,
    /// What it says it is.
    pub user_agent: Option<Box<str>>,
    /// The dialect that it is spoken to in.
    pub dialect: Option<&'static str>,
    /// How it is reached.
    pub transport: &'static str,
    /// Turns that it runs.
    pub turns: usize,
    /// Turns beside them that wait for a person or a caller.
    pub turns_parked: usize,
    /// Turns that it may run.
    pub turns_max: usize,
    /// Threads that it has loaded.
    pub threads_loaded: usize,
    /// How often it was started again.
    pub restarts: u64,
}

impl WorkerView {
    /// Why it takes no turns, for whoever waits for it.
    pub(crate) fn lack(&self) -> Box<str> {
        let state = match self.state {
            WorkerState::Starting => "is starting",
            WorkerState::Ready => "is ready",
            WorkerState::Retiring => "is about to be restarted",
            WorkerState::Restarting => "is restarting",
            WorkerState::Failed => "has failed",
            WorkerState::Stopped => "is stopped",
        };
        let reason = self.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
        format!("{} {state}{reason}", self.name).into()
    }
}

/// One group.
#[derive(Clone, Debug, Serialize)]
pub struct GroupView {
    /// Its name.
    pub name: Box<str>,
    /// Whether it takes turns.
    pub is_ready: bool,
    /// Workers that take turns.
    pub ready: usize,
    /// Workers in all.
    pub count: usize,
    /// What is missing: for each worker that is not ready, why.
    pub missing: Vec<Box<str>>,
    /// Whether its last turn that tried the model provider failed to connect.
    pub cannot_reach_provider: bool,
}

/// One turn that has a place.
#[derive(Clone, Debug, Serialize)]
pub struct TurnView {
    /// The turn, once it has a name.
    pub turn: Option<Box<str>>,
    /// Its thread.
    pub thread: Option<Box<str>>,
    /// The worker that runs it.
    pub worker: Box<str>,
    /// The key that it runs for.
    pub key: Box<str>,
    /// Whether it waits for a person or a caller.
    pub is_parked: bool,
    /// For how long it has had its place, in milliseconds.
    pub age_ms: u64,
}

/// How full the pool is.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Load {
    /// Turns that have a place.
    pub turns: usize,
    /// Of these, those that wait for a person or a caller.
    pub parked: usize,
    /// Orders that wait for a place.
    pub waiting: usize,
}

pub(crate) fn unix_ms(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
