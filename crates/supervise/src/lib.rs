//! The only crate that spawns a process.
//!
//! A [`Launch`] says what to start and starts it in a process group of its own; the [`Child`] is its stdin, its stdout and
//! its [`Process`], separate so that one select loop can wait for all three. Whatever way a child ends, its stderr is part
//! of the [`Exit`] and nothing that it started is left running: not what left its group, and, where the binary asked to
//! [`adopt_orphans`], not even what wiped its environment. What we leave when we are killed ourselves, the next one finds
//! by the [`Ledger`]; only a [`Detached`] process is meant to go on. [`Restarts`] says when to start again.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use supervise::{Ladder, Launch, Limits, Owner, Rlimits};
//! use tokio::io::AsyncReadExt;
//!
//! let launch = Launch {
//!     program: "codex".into(),
//!     args: vec!["app-server".into()],
//!     cwd: "/srv/project".into(),
//!     env: vec![("CODEX_HOME".into(), "/srv/codex".into())],
//!     owner: Owner::generate(),
//!     rlimits: Rlimits::default(),
//! };
//! let mut child = launch.spawn(Limits::default())?;
//! child.stdin.send(b"{\"method\":\"initialized\"}\n").await?;
//! let mut bytes = Vec::new();
//! tokio::select! {
//!     read = child.stdout.read_buf(&mut bytes) => { read?; }
//!     end = child.stdin.ended() => println!("{end}"),
//!     exit = child.process.wait() => println!("{exit}"),
//! }
//! println!("{}", child.stop(Ladder::default()).await);
//! # Ok(())
//! # }
//! ```

mod adoption;
mod child;
mod detached;
mod environment;
mod escape;
mod exit;
mod groups;
mod identity;
mod ladder;
mod launch;
mod leaders;
mod ledger;
mod leftovers;
mod limits;
mod lineage;
mod log;
mod memory;
mod process;
mod program;
mod reason;
mod restarts;
mod rlimits;
mod socket_holder;
mod socket_path;
mod state_file;
mod stderr;
mod stdin;
mod tail;
mod tree;
mod user;
mod watch;

pub use adoption::{Adoption, adopt_orphans};
pub use child::Child;
pub use detached::Detached;
pub use environment::{CHILD_PLACEHOLDER, CHILD_VARIABLE, OWNER_PLACEHOLDER, OWNER_VARIABLE, Owner};
pub use escape::{escaped, escaped_lines};
pub use exit::{Ending, Exit};
pub use groups::RecordedGroup;
pub use ladder::{Ladder, Rung};
pub use launch::{Launch, SpawnError};
pub use ledger::{DetachedEntry, Ledger, LedgerError, SocketClaim};
pub use leftovers::{Leftovers, Reaped};
pub use limits::Limits;
pub use lineage::{ControlPeerPolicy, PeerRefusal, forbid_inspection};
pub use process::Process;
pub use reason::EndReason;
pub use restarts::{AfterFailure, RestartPolicy, Restarts, Verdict};
pub use rlimits::Rlimits;
pub use socket_holder::{HolderEvidence, SocketHolder};
pub use socket_path::SocketPath;
pub use state_file::{Durability, check_state_directory, read_state_file, replace_state_file};
pub use stdin::{SendError, Stdin, StdinEnd};
pub use tail::StderrTail;
pub use user::{OsUser, RequiredAccess, UserError};
