//! The programs that are measured, each a process that ends with its owner.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::park_timeout;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;

use crate::process;

/// How long a program may take to end by itself, and how often it is looked at meanwhile.
const END_TIMEOUT: Duration = Duration::from_secs(10);
const END_LOOK: Duration = Duration::from_millis(5);

/// A program that runs.
pub(crate) struct Running {
    child: Child,
    _stdout: Option<BufReader<ChildStdout>>,
}

/// What our own servers say when they begin.
#[derive(Deserialize)]
pub(crate) struct Welcome {
    pub(crate) url: String,
    /// If it was given none.
    pub(crate) key: Option<String>,
    /// The process of the tool server behind it, if it has the one.
    pub(crate) tool_server: Option<u32>,
}

impl Running {
    /// Starts one of our own, and reads what it says.
    pub(crate) fn start(mut command: Command) -> Result<(Self, Welcome)> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut stdout = BufReader::new(child.stdout.take().context("no stdout")?);
        let mut line = String::new();
        stdout.read_line(&mut line)?;
        let running = Self { child, _stdout: Some(stdout) };
        let welcome = serde_json::from_str(&line).with_context(|| format!("{command:?} says {line:?}"))?;
        Ok((running, welcome))
    }

    /// Starts one of others, which says nothing that we could read.
    pub(crate) fn start_foreign(mut command: Command, log: File) -> Result<Self> {
        let child = command.stdin(Stdio::null()).stderr(log.try_clone()?).stdout(log).spawn()?;
        Ok(Self { child, _stdout: None })
    }

    /// The CPU time of its process alone; what a process of its own takes is not in it.
    pub(crate) fn cpu_seconds(&self) -> Result<f64> {
        process::cpu_seconds(self.child.id())
    }

    pub(crate) fn resident_kilobytes(&self) -> Result<f64> {
        process::resident_kilobytes(self.child.id())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Its own end takes its processes with it.
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            _ = kill_process(pid, Signal::TERM);
        }
        let deadline = Instant::now() + END_TIMEOUT;
        while self.child.try_wait().is_ok_and(|ended| ended.is_none()) && Instant::now() < deadline {
            park_timeout(END_LOOK);
        }
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// What was built beside this program.
pub(crate) fn beside(name: &str) -> Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name(name);
    ensure!(path.exists(), "{} is not there: run this by `cargo xtask bench`", path.display());
    Ok(path)
}

#[expect(clippy::disallowed_methods, reason = "the benchmark measures whole processes")]
pub(crate) fn program(path: &Path) -> Command {
    Command::new(path)
}
