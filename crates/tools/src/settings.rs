//! What is configured of one tool server. Two servers with the same hash are started and spoken to alike.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use ring::digest::{Context, SHA256};
use supervise::{RestartPolicy, Rlimits};

/// One tool server, as it is configured.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// What people and the names of its tools call it: small letters, digits and `-`.
    pub name: Box<str>,
    /// How it is reached.
    pub reach: Reach,
    /// Its tools that are offered, by the names that it has for them; all of them if empty.
    pub enabled: Vec<String>,
    /// What stands before `__` in the names of its tools and prompts; nothing stands there if it is empty.
    pub prefix: Box<str>,
    /// How long each phase may take.
    pub timeouts: Timeouts,
    /// What becomes of it when it ends.
    pub restart: Restart,
    /// Which of its tools wait for a person, a rule or a hook before they are called.
    pub confirm: Confirm,
    /// Tools that wait in any case, by the names that it has for them.
    pub confirm_tools: Vec<String>,
    /// How much of a result is passed on.
    pub result_bytes_max: usize,
    /// What it speaks.
    pub dialect: Dialect,
}

/// How a tool server is reached.
#[derive(Clone, PartialEq)]
pub enum Reach {
    /// A process of ours, over its stdin and stdout.
    Process {
        /// The program and its arguments.
        command: Vec<OsString>,
        /// Variables beside the few that every child of ours has.
        env: Vec<(OsString, OsString)>,
        /// Where it starts.
        cwd: PathBuf,
        /// What it may use of the machine.
        rlimits: Rlimits,
    },
    /// Streamable HTTP.
    Http {
        /// Its endpoint.
        url: String,
        /// Headers of every request; their values can be secrets.
        headers: Vec<(String, String)>,
    },
}

/// How long each phase may take; a phase's time begins with the phase, not with the start of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the system has started the process, or the connection stands.
    pub spawn: Duration,
    /// From there to its first byte: a Python server imports for nine seconds where thirteen start together.
    pub first_byte: Duration,
    /// For an answer to `server/discover`; a server that is silent for so long is taken for one that wants `initialize`.
    pub discover: Duration,
    /// For an answer to `initialize`, from its first byte on if that came later.
    pub initialize: Duration,
    /// For each page of a list.
    pub list: Duration,
    /// For a call without a sign of progress.
    pub call: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        const SECOND: Duration = Duration::from_secs(1);
        Self {
            spawn: 10 * SECOND,
            first_byte: 30 * SECOND,
            discover: 5 * SECOND,
            initialize: 10 * SECOND,
            list: 15 * SECOND,
            call: 120 * SECOND,
        }
    }
}

/// What becomes of a server that has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Restart {
    /// It is started again, as patiently as the policy says.
    #[default]
    Always,
    /// It stays as it is until somebody asks.
    Never,
}

impl Restart {
    /// How patient to be.
    #[must_use]
    pub fn policy(self) -> RestartPolicy {
        match self {
            Self::Always => RestartPolicy::TOOL_SERVER,
            Self::Never => RestartPolicy { ends_max: 1, ..RestartPolicy::TOOL_SERVER },
        }
    }
}

/// Which tools wait for a decision before they are called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Confirm {
    /// Those that their server marks as destructive, or as wanting it.
    #[default]
    Marked,
    /// All of them.
    Always,
    /// None, whatever they are marked as.
    Never,
}

/// What a server speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// MCP, of either era.
    #[default]
    Mcp,
    /// What LocalCowork's servers speak in its place.
    LocalCowork,
}

impl Server {
    /// A server with every default.
    #[must_use]
    pub fn new(name: &str, reach: Reach) -> Self {
        Self {
            name: name.into(),
            reach,
            enabled: Vec::new(),
            prefix: name.into(),
            timeouts: Timeouts::default(),
            restart: Restart::default(),
            confirm: Confirm::default(),
            confirm_tools: Vec::new(),
            result_bytes_max: 1 << 20,
            dialect: Dialect::default(),
        }
    }

    /// Names how it is reached and what it speaks: a tool list is kept under it. In hex.
    #[must_use]
    pub fn hash(&self) -> String {
        let mut context = Context::new(&SHA256);
        let mut field = |bytes: &[u8]| {
            context.update(&(bytes.len() as u64).to_le_bytes());
            context.update(bytes);
        };
        match &self.reach {
            Reach::Process { command, env, cwd, .. } => {
                command.iter().for_each(|word| field(word.as_encoded_bytes()));
                field(b"env");
                for (name, value) in env {
                    field(name.as_encoded_bytes());
                    field(value.as_encoded_bytes());
                }
                field(cwd.as_os_str().as_encoded_bytes());
            }
            Reach::Http { url, headers } => {
                field(url.as_bytes());
                for (name, value) in headers {
                    field(name.as_bytes());
                    field(value.as_bytes());
                }
            }
        }
        field(format!("{:?}", self.dialect).as_bytes());
        context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Without variables, headers and the query of an address, which can be secrets.
impl fmt::Debug for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process { command, cwd, .. } => {
                f.debug_struct("Process").field("command", command).field("cwd", cwd).finish_non_exhaustive()
            }
            Self::Http { url, .. } => {
                let address = url.split(['?', '#']).next();
                f.debug_struct("Http").field("url", &address.unwrap_or_default()).finish_non_exhaustive()
            }
        }
    }
}
