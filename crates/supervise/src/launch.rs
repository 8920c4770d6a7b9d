//! What to start, and the one place that starts it: every argument, variable and directory is named, and nothing else
//! is inherited.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf, absolute};
use std::process::Stdio;

use rustix::fs::{Access, access};
use rustix::io::Errno;
use tokio::process::Command;

use crate::child::Child;
use crate::detached::Detached;
use crate::environment::{self, Mark, Owner};
use crate::groups::{self, LeaderKind};
use crate::identity::Identity;
use crate::limits::Limits;
use crate::log;
use crate::reason::EndReason;
use crate::rlimits::Rlimits;
use crate::{leaders, program};

/// What to start. Without `Debug`, because arguments and variables can be secrets.
#[derive(Clone)]
pub struct Launch {
    /// A path, taken from `cwd` where it is relative, or a bare name that is looked up on the child's `PATH`.
    pub program: OsString,
    /// Its arguments; no shell ever sees them. [`OWNER_PLACEHOLDER`](crate::OWNER_PLACEHOLDER) and
    /// [`CHILD_PLACEHOLDER`](crate::CHILD_PLACEHOLDER) become the values of the marks.
    pub args: Vec<OsString>,
    /// The directory it starts in.
    pub cwd: PathBuf,
    /// Variables beside the few that are kept of ours, over which they win.
    pub env: Vec<(OsString, OsString)>,
    /// The Switchboard process that it belongs to.
    pub owner: Owner,
    /// What it may use of the machine.
    pub rlimits: Rlimits,
}

impl Launch {
    /// Starts it as the leader of its own process group, with all three streams piped.
    ///
    /// # Panics
    /// Outside a tokio runtime that drives IO and time.
    pub fn spawn(&self, limits: Limits) -> Result<Child, SpawnError> {
        let place = Place::of(self)?;
        let program = place.find(&self.program)?;
        let mut command = place.command(&program);
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(Child::new(self.start(command, &program, LeaderKind::Group)?, limits))
    }

    /// Starts it in a process session of its own, where it outlives us: without stdin and stdout, and with its stderr
    /// appended to the log. Its [`owner`](Self::owner) must be a mark of its own (see
    /// [`Ledger::announce`](crate::Ledger::announce)), or whoever ends all that we left ends it too.
    ///
    /// The program `setsid` must be installed, as it is by every distribution. What descriptors whoever started us left open
    /// for us, the process inherits, like every child; and it keeps them open for longer than we do. Until `setsid` has
    /// run, a moment after this returns, a signal to our process group reaches it too.
    ///
    /// # Panics
    /// Outside a tokio runtime that drives IO and time.
    pub fn spawn_detached(&self, log: &Path, limits: Limits) -> Result<Detached, SpawnError> {
        let place = Place::of(self)?;
        let program = place.find(&self.program)?;
        let unusable = |error| SpawnError::Log { log: log.into(), error };
        let stderr = log::open(log).map_err(unusable)?;
        // Not in a group of its own: `setsid` would fork, and the process would not be the one that we started.
        let mut command = place.command(&place.find_setsid()?);
        command.arg(&program).stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        let mut started = self.start(command, &program, LeaderKind::Session)?;
        let Some(pidfd) = started.identity.open() else {
            // Unreaped it cannot be gone, so it is we who have no descriptor left to hold it by.
            started.leader.start_kill().ok();
            groups::forget(started.identity);
            return Err(SpawnError::Refused { program, error: Errno::MFILE.into() });
        };
        Ok(Detached::started(started, pidfd, self.owner, log, limits))
    }

    fn start(&self, mut command: Command, program: &Path, leads: LeaderKind) -> Result<Started, SpawnError> {
        let mark = Mark::of_new_child();
        let marks = [self.owner.mark(), mark];
        command.args(self.args.iter().map(|argument| environment::marked_argument(argument, marks)));
        command.env_clear().envs(environment::of_child(env::vars_os(), &self.env, marks));
        let (leader, identity) =
            leaders::start(&mut command, mark).map_err(|error| SpawnError::of_exec(program.into(), error))?;
        groups::record(self.owner, identity, leads);
        let name = program.file_name().unwrap_or_default().to_string_lossy().into();
        let mut started = Started { name, leader, identity, mark };
        match self.rlimits.apply(identity.pid) {
            Ok(()) => Ok(started),
            Err(error) => {
                started.leader.start_kill().ok();
                groups::forget(identity);
                Err(SpawnError::Rlimit { program: program.into(), error })
            }
        }
    }
}

/// A process that has just been started.
pub(crate) struct Started {
    /// The file name of its program.
    pub(crate) name: Box<str>,
    pub(crate) leader: tokio::process::Child,
    pub(crate) identity: Identity,
    pub(crate) mark: Mark,
}

/// Where a child starts and where its programs are looked for.
struct Place {
    cwd: PathBuf,
    path: OsString,
}

impl Place {
    fn of(launch: &Launch) -> Result<Self, SpawnError> {
        let cwd = usable_directory(&launch.cwd)?;
        let named = launch.env.iter().rev().find(|(name, _)| name == "PATH").map(|(_, path)| path.clone());
        Ok(Self { cwd, path: named.or_else(|| env::var_os("PATH")).unwrap_or_default() })
    }

    fn find(&self, program: &OsStr) -> Result<PathBuf, SpawnError> {
        program::find(program, &self.path, &self.cwd)
    }

    /// On the child's path, or where it belongs: a path that was named for the child need not lead to the system.
    fn find_setsid(&self) -> Result<PathBuf, SpawnError> {
        let name = OsStr::new("setsid");
        self.find(name).or_else(|error| program::find(name, OsStr::new("/usr/bin:/bin"), &self.cwd).map_err(|_| error))
    }

    fn command(&self, program: &Path) -> Command {
        #[expect(clippy::disallowed_methods, reason = "the one place that spawns a process")]
        let mut command = Command::new(program);
        command.current_dir(&self.cwd);
        command
    }
}

fn usable_directory(cwd: &Path) -> Result<PathBuf, SpawnError> {
    let unusable = |error| SpawnError::CwdUnusable { cwd: cwd.into(), error };
    match cwd.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(SpawnError::CwdMissing(cwd.into())),
        Err(error) => Err(unusable(error)),
        Ok(metadata) if !metadata.is_dir() => Err(unusable(io::ErrorKind::NotADirectory.into())),
        Ok(_) => access(cwd, Access::EXEC_OK).map_err(io::Error::from).and_then(|()| absolute(cwd)).map_err(unusable),
    }
}

/// Why nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The directory to start in is not there.
    #[error("working directory `{}` does not exist: create it or name another", .0.display())]
    CwdMissing(PathBuf),
    /// The directory to start in is no directory, or closed to us.
    #[error("working directory `{}` cannot be used: {error}; name a directory that this user may enter", cwd.display())]
    CwdUnusable {
        /// The directory.
        cwd: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// No directory of the child's `PATH` has a program of that name.
    #[error("`{}` is not on the PATH `{}`: install it or give its full path", program.display(), path.display())]
    NotOnPath {
        /// The name.
        program: OsString,
        /// Where it was looked for.
        path: OsString,
    },
    /// The path leads nowhere.
    #[error("`{}` does not exist: install it or correct the path", .0.display())]
    Missing(PathBuf),
    /// The path leads to a directory.
    #[error("`{}` is a directory: name the program in it", .0.display())]
    IsDirectory(PathBuf),
    /// The file may not be executed by us.
    #[error("`{}` may not be executed by this user: allow it with `chmod +x` or name another program", .0.display())]
    NotExecutable(PathBuf),
    /// The file is there, its interpreter or loader is not.
    #[error("`{}` needs an interpreter that is missing: install what its `#!` line or its ELF header names", .0.display())]
    InterpreterMissing(PathBuf),
    /// The file is neither a binary for this machine nor a script with a `#!` line.
    #[error("`{}` is not a program for this machine: a script needs a `#!` line, a binary the right architecture", .0.display())]
    NotAProgram(PathBuf),
    /// The system would not start it.
    #[error("`{}` could not be started: {error}; check its arguments and this user's limits (`ulimit -a`)", program.display())]
    Refused {
        /// The program.
        program: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A detached process's log cannot be written.
    #[error("log `{}` cannot be opened: {error}; name a file that this user may write", log.display())]
    Log {
        /// The log.
        log: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The system would not limit it; it was killed.
    #[error("`{}` cannot be limited: {error}; name limits that are not above our own (`ulimit -aH`)", program.display())]
    Rlimit {
        /// The program.
        program: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

impl SpawnError {
    /// Whether to try again: what is not there will not appear by itself, but a full machine has room again.
    #[must_use]
    pub fn reason(&self) -> EndReason {
        match self {
            Self::Refused { error, .. } | Self::Log { error, .. } if is_passing(error) => EndReason::StartRefused,
            _ => EndReason::CouldNotStart,
        }
    }

    /// What the system's error means for a program that was found a moment ago.
    fn of_exec(program: PathBuf, error: io::Error) -> Self {
        match Errno::from_io_error(&error) {
            Some(Errno::NOENT) => Self::InterpreterMissing(program),
            Some(Errno::NOEXEC) => Self::NotAProgram(program),
            Some(Errno::ACCESS) => Self::NotExecutable(program),
            _ => Self::Refused { program, error },
        }
    }
}

/// Whether the system lacks something now that it may have again: processes, descriptors, memory, room on the disk, or a
/// program that is not just being replaced.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE | Errno::NOSPC | Errno::TXTBSY)
    )
}
