//! What the pool is made of, and what a caller orders from it.

mod marks;
mod plain;
mod tools;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use codex::{ApprovalPolicy, Endpoint, Json, Sandbox, ThreadOptions, TurnOptions};

use crate::limits::Limits;
use crate::permit::TurnPermit;
use crate::tokens::WorkerToken;
pub(crate) use marks::COMMAND_VARIABLE;
pub use marks::mark_arguments;
pub use tools::ToolsAccess;

/// Everything that the pool is made of.
#[derive(Clone)]
pub struct Plan {
    /// The groups of workers; the first is the default. There is at least one.
    pub groups: Vec<Group>,
    /// The profiles that there are, for threads that are found again.
    pub profiles: Vec<Profile>,
    /// How much the pool holds, and how long it waits.
    pub limits: Limits,
    /// Where sockets and logs of detached workers are kept.
    pub state_dir: PathBuf,
    /// Paths that no agent may read or write: state, configuration, homes of workers.
    pub private: Vec<PathBuf>,
    /// Our version, as workers are told it.
    pub client_version: String,
}

/// Workers that are alike: one account, one home, any thread of theirs on any of them.
#[derive(Clone)]
pub struct Group {
    /// Its name.
    pub name: Box<str>,
    /// The program of its workers; unused with [`Transport::Ws`].
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// How its workers are reached.
    pub transport: Transport,
    /// How many there are.
    pub count: usize,
    /// Where they keep their configuration, their login and their threads.
    pub codex_home: Option<PathBuf>,
    /// Variables that they see beside the few that every child sees.
    pub env: Vec<(OsString, OsString)>,
    /// The directory that they start in.
    pub cwd: PathBuf,
    /// Turns that one of them runs at once; a real worker multiplexes 64 well.
    pub turns_max: usize,
    /// Threads that one of them keeps loaded; a real worker needs some 2 MB for each.
    pub threads_loaded_max: usize,
    /// The user that they run as, if not ours.
    pub user: Option<supervise::OsUser>,
    /// What the system lets each of them have.
    pub rlimits: supervise::Rlimits,
    /// Where they find the tools of tool servers, if they are to have them.
    pub tools: Option<ToolsAccess>,
}

impl Group {
    /// The command line of its workers.
    pub(crate) fn command_line(&self) -> Vec<OsString> {
        self.args.iter().cloned().chain(self.tools.iter().flat_map(ToolsAccess::args)).collect()
    }

    /// The variables of a worker with this token.
    pub(crate) fn variables(&self, token: Option<&WorkerToken>) -> Vec<(OsString, OsString)> {
        let home = self.codex_home.as_ref().map(|home| ("CODEX_HOME".into(), home.into()));
        self.env.iter().cloned().chain(home).chain(token.map(ToolsAccess::variable)).collect()
    }

    /// A thread as one of its workers is to open it: a plain model has no tools but its caller's.
    pub(crate) fn opened(&self, options: &ThreadOptions) -> ThreadOptions {
        let mut options = options.clone();
        if let (true, Some(tools)) = (options.is_plain, &self.tools) {
            tools.withhold(&mut options);
        }
        options
    }
}

/// How a worker is reached.
#[derive(Clone, Debug)]
pub enum Transport {
    /// It is our child, and ends with us.
    Stdio,
    /// It listens on a unix socket and outlives us.
    Unix,
    /// It listens elsewhere, and is not ours to start or stop.
    Ws(Endpoint),
}

/// A named way to run turns; callers choose one as their model.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Its name.
    pub name: Box<str>,
    /// The group that runs it; the default group if absent.
    pub group: Option<Box<str>>,
    /// Where its threads work, absolute.
    pub cwd: Option<String>,
    /// What their commands may touch.
    pub sandbox: Sandbox,
    /// When their commands need a decision.
    pub approval_policy: ApprovalPolicy,
    /// Their model; the worker's own choice if absent.
    pub model: Option<String>,
    /// How hard it thinks.
    pub effort: Option<String>,
    /// How long a decision may take; the approvals' own deadline if absent.
    pub decision_timeout: Option<Duration>,
    /// Whether it is a plain model, without the tools of an agent.
    pub is_plain: bool,
    /// Whether callers are told what the agent does.
    pub shows_work: bool,
    /// If any, agents see only their workspace, the system's programs and these paths; absolute.
    pub readable: Vec<PathBuf>,
    /// Project directories whose own Codex configuration may be loaded; absolute.
    pub trusted_projects: Vec<PathBuf>,
    /// Whether its commands may use the network.
    pub network: bool,
    /// Whether the operator accepts agents that Codex cannot confine.
    pub allow_unconfined: bool,
}

impl Profile {
    /// A new thread of this profile.
    #[must_use]
    pub fn thread_options(&self) -> ThreadOptions {
        let options = ThreadOptions { cwd: self.cwd.clone(), model: self.model.clone(), ..ThreadOptions::default() };
        if self.is_plain {
            return plain::made(options);
        }
        ThreadOptions { sandbox: self.sandbox, approval_policy: self.approval_policy, ..options }
    }
}

/// Who a turn runs for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The id of the key that it came with.
    pub key: Box<str>,
    /// What it may reach.
    pub reach: Reach,
}

/// Whose threads and turns a caller may reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Its own alone.
    Own,
    /// Everybody's: an operator.
    All,
}

impl Caller {
    /// Whether what belongs to this key is within reach.
    #[must_use]
    pub fn reaches(&self, key: &str) -> bool {
        self.reach == Reach::All || *self.key == *key
    }
}

/// What becomes of a thread when a turn is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Afterwards {
    /// It can go on.
    #[default]
    Stays,
    /// It is forgotten: nobody goes on from there.
    Goes,
}

/// One turn that a caller wants.
#[derive(Clone, Debug)]
pub struct Order {
    /// Who wants it.
    pub caller: Caller,
    /// The group to run it; a known thread stays in its own.
    pub group: Option<Box<str>>,
    /// The name of the profile that a new thread is of.
    pub profile: Option<Box<str>>,
    /// The thread that it is a turn of.
    pub thread: ThreadChoice,
    /// The turn that the thread must still stand after, as its [`Tip`](crate::Tip) said; anywhere, if absent.
    pub after: Option<Box<str>>,
    /// Earlier messages, calls and results, as items of the model's own kind: put into the thread before the turn begins.
    pub history: Vec<Json>,
    /// What the turn is given.
    pub turn: TurnOptions,
    /// How long to wait for a place; the pool's own limit if absent.
    pub queue_timeout: Option<Duration>,
    /// What becomes of its thread when it is over.
    pub afterwards: Afterwards,
    /// How long a decision may take in it; the approvals' own deadline if absent.
    pub decision_timeout: Option<Duration>,
    /// What it runs by.
    pub permit: TurnPermit,
    /// Counts the memory of the order, and is dropped with it: the order outlives whoever gives up waiting for its turn.
    pub memory: Option<Arc<dyn fmt::Debug + Send + Sync>>,
}

/// The thread of a turn.
#[derive(Clone, Debug)]
pub enum ThreadChoice {
    /// A new one.
    New(ThreadOptions),
    /// One that there is; the options count if it has to be loaded.
    Existing(Box<str>, ThreadOptions),
    /// A new one that begins as another was after one of its turns. The other may be in use.
    Fork {
        /// The other.
        thread: Box<str>,
        /// The last of its turns that the new one has too.
        last_turn: Box<str>,
        /// What the new one is.
        options: ThreadOptions,
    },
}

impl ThreadChoice {
    /// The id of a thread that there is.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::New(_) | Self::Fork { .. } => None,
            Self::Existing(id, _) => Some(id),
        }
    }

    /// What a thread is to be if it has to be opened.
    pub(crate) fn options(&self) -> &ThreadOptions {
        match self {
            Self::New(options) | Self::Existing(_, options) | Self::Fork { options, .. } => options,
        }
    }

    /// The id of a thread that a new one begins as.
    pub(crate) fn source(&self) -> Option<&str> {
        match self {
            Self::Fork { thread, .. } => Some(thread),
            Self::New(_) | Self::Existing(..) => None,
        }
    }
}
