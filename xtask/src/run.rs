//! Runs other programs, each with a time limit that ends the program and all its descendants.
//! The steps stay in this program's process group, so that Ctrl-C reaches all of them.

use std::ffi::OsStr;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;
use std::{env, fmt, io, thread};

use crate::workspace;

mod tree;

/// Why a program did not do its work.
#[derive(Debug)]
pub(crate) enum Failure {
    Start { program: String, cause: io::Error },
    TimedOut { program: String, limit: Duration },
    Exit { program: String, status: std::process::ExitStatus, stderr: String },
}

/// The one place that makes a command; it runs in the workspace's root.
#[expect(
    clippy::disallowed_methods,
    reason = "a development tool runs tools; `supervise` is for the product's workers"
)]
pub(crate) fn program(name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(name);
    command.current_dir(workspace::root()).stdin(Stdio::null());
    command
}

/// The cargo that runs us, with arguments as one would type them. What cargo told us of our own package is not passed on:
/// `ring` would be built anew whenever it differs from what a developer's cargo says.
pub(crate) fn cargo(arguments: &str) -> Command {
    let mut command = program(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments.split_whitespace());
    for (name, _) in env::vars_os().filter(|(name, _)| is_of_a_package(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    command
}

fn is_of_a_package(variable: &str) -> bool {
    variable.starts_with("CARGO_PKG_") || variable.starts_with("CARGO_MANIFEST_")
}

/// Runs a command to its end with our own output streams.
pub(crate) fn to_end(command: &mut Command, limit: Duration) -> Result<(), Failure> {
    wait(command, limit).map(drop)
}

/// Runs a command to its end and returns what it printed; its errors are kept for the failure.
pub(crate) fn stdout_of(command: &mut Command, limit: Duration) -> Result<String, Failure> {
    let output = wait(command.stdout(Stdio::piped()).stderr(Stdio::piped()), limit)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn wait(command: &mut Command, limit: Duration) -> Result<Output, Failure> {
    let program = command.get_program().to_string_lossy().into_owned();
    let child = match command.spawn() {
        Ok(child) => child,
        Err(cause) => return Err(Failure::Start { program, cause }),
    };
    let id = child.id();
    let (sender, receiver) = sync_channel(1);
    thread::spawn(move || sender.send(child.wait_with_output()));
    match receiver.recv_timeout(limit) {
        Ok(Ok(output)) if output.status.success() => Ok(output),
        Ok(Ok(output)) => {
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            Err(Failure::Exit { program, status: output.status, stderr })
        }
        Ok(Err(cause)) => Err(Failure::Start { program, cause }),
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
            tree::kill(id);
            Err(Failure::TimedOut { program, limit })
        }
    }
}

impl Failure {
    /// The last line that the program wrote to its error stream, or else the failure itself.
    pub(crate) fn last_words(&self) -> String {
        let last_line = match self {
            Self::Exit { stderr, .. } => stderr.lines().rfind(|line| !line.trim().is_empty()),
            Self::Start { .. } | Self::TimedOut { .. } => None,
        };
        last_line.map_or_else(|| self.to_string(), str::to_owned)
    }

    /// Whether the program is not installed at all.
    pub(crate) fn is_missing_program(&self) -> bool {
        matches!(self, Self::Start { cause, .. } if cause.kind() == io::ErrorKind::NotFound)
    }
}

impl std::error::Error for Failure {}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start { program, .. } if self.is_missing_program() => {
                write!(f, "{program} was not found: install it or put it on the PATH")
            }
            Self::Start { program, cause } => write!(f, "{program} could not be run: {cause}"),
            Self::TimedOut { program, limit } => {
                write!(
                    f,
                    "{program} was still running after {} s and was killed with all it had started",
                    limit.as_secs()
                )
            }
            Self::Exit { program, status, stderr } if stderr.trim().is_empty() => {
                write!(f, "{program} ended with {status}")
            }
            Self::Exit { program, status, stderr } => write!(f, "{program} ended with {status}: {}", stderr.trim()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{program, stdout_of, to_end};

    const PLENTY: Duration = Duration::from_secs(60);

    #[test]
    fn a_program_that_hangs_is_killed_with_its_children_and_named() {
        let started = Instant::now();
        let mut hang = program("sh");
        // The grandchild holds our pipe: only its death lets the reader below come to an end.
        let (mut reader, writer) = std::io::pipe().unwrap();
        hang.args(["-c", "sleep 600 & sleep 600"]).stdout(writer);
        let failure = to_end(&mut hang, Duration::from_millis(300)).unwrap_err();
        drop(hang);
        std::io::copy(&mut reader, &mut std::io::sink()).unwrap();
        assert!(started.elapsed() < PLENTY);
        assert_eq!(failure.to_string(), "sh was still running after 0 s and was killed with all it had started");
    }

    #[test]
    fn a_failure_carries_what_the_program_said() {
        let failure = stdout_of(program("sh").args(["-c", "echo no such thing >&2; exit 3"]), PLENTY).unwrap_err();
        assert_eq!(failure.to_string(), "sh ended with exit status: 3: no such thing");
        assert_eq!(failure.last_words(), "no such thing");
    }

    #[test]
    fn a_missing_program_is_told_from_a_failing_one() {
        let failure = to_end(&mut program("no-such-program-anywhere"), PLENTY).unwrap_err();
        assert!(failure.is_missing_program(), "{failure}");
    }
}
