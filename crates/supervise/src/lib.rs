//! The only crate that spawns a process.
//!
//! A [`Launch`] says what to start and starts it in a process group of its own; the [`Child`] is its stdin, its stdout and
//! its [`Process`], separate so that one select loop can wait for all three. Whatever way a child ends, its stderr is part
//! of the [`Exit`] and nothing of its group is left running.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use supervise::{Ladder, Launch, Limits, Owner};
//! use tokio::io::AsyncReadExt;
//!
//! let launch = Launch {
//!     program: "codex".into(),
//!     args: vec!["app-server".into()],
//!     cwd: "/srv/project".into(),
//!     env: vec![("CODEX_HOME".into(), "/srv/codex".into())],
//!     owner: Owner::generate(),
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

mod child;
mod environment;
mod exit;
mod ladder;
mod launch;
mod limits;
mod process;
mod program;
mod stderr;
mod stdin;
mod tail;
mod watch;

pub use child::Child;
pub use environment::{OWNER_VARIABLE, Owner};
pub use exit::{Ending, Exit};
pub use ladder::{Ladder, Rung};
pub use launch::{Launch, SpawnError};
pub use limits::Limits;
pub use process::Process;
pub use stdin::{SendError, Stdin, StdinEnd};
pub use tail::StderrTail;
