//! What to start, and the one place that starts it: every argument, variable and directory is named, and nothing else
//! is inherited.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf, absolute};
use std::process::Stdio;

use rustix::fs::{Access, access};
use rustix::io::Errno;
use tokio::process::Command;

use crate::child::Child;
use crate::environment::{self, Owner};
use crate::limits::Limits;
use crate::program;

/// What to start. Without `Debug`, because arguments and variables can be secrets.
#[derive(Clone)]
pub struct Launch {
    /// A path, taken from `cwd` where it is relative, or a bare name that is looked up on the child's `PATH`.
    pub program: OsString,
    /// Its arguments; no shell ever sees them.
    pub args: Vec<OsString>,
    /// The directory it starts in.
    pub cwd: PathBuf,
    /// Variables beside the few that are kept of ours, over which they win.
    pub env: Vec<(OsString, OsString)>,
    /// The Switchboard process that it belongs to.
    pub owner: Owner,
}

impl Launch {
    /// Starts it as the leader of its own process group, with all three streams piped.
    ///
    /// # Panics
    /// Outside a tokio runtime that drives IO and time.
    pub fn spawn(&self, limits: Limits) -> Result<Child, SpawnError> {
        let cwd = usable_directory(&self.cwd)?;
        let environment = environment::of_child(env::vars_os(), &self.env, self.owner);
        let path = environment.get(OsStr::new("PATH")).map_or(OsStr::new(""), OsString::as_os_str);
        let program = program::find(&self.program, path, &cwd)?;
        let leader = self
            .command(&program, &cwd, &environment)
            .spawn()
            .map_err(|error| SpawnError::of_exec(program.clone(), error))?;
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        Ok(Child::new(&name, leader, limits))
    }

    fn command(&self, program: &Path, cwd: &Path, environment: &BTreeMap<OsString, OsString>) -> Command {
        #[expect(clippy::disallowed_methods, reason = "the one place that spawns a process")]
        let mut command = Command::new(program);
        command
            .args(&self.args)
            .current_dir(cwd)
            .env_clear()
            .envs(environment)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
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
}

impl SpawnError {
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
