//! The processes that are measured, each with its place; they end with their owner.

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use super::load::Load;
use crate::program::{Running, beside, program};

/// How long a server may take to answer its first request, and how often that is tried.
const READY_TIMEOUT: Duration = Duration::from_secs(90);
const READY_LOOK: Duration = Duration::from_millis(50);
/// Turns of one worker: the bar of held streams and some more.
pub(super) const TURNS_MAX: usize = 10_000;

/// A server under measurement.
pub(super) struct Server {
    pub(super) name: &'static str,
    pub(super) url: String,
    pub(super) key: String,
    running: Running,
    _place: TempDir,
}

impl Server {
    /// Switchboard, with a demo worker that writes each line by itself.
    pub(super) fn switchboard() -> Result<Self> {
        let place = tempfile::tempdir()?;
        let worker = place.path().join("worker");
        let bench = std::env::current_exe()?;
        // Switchboard starts workers as codex is started.
        fs::write(&worker, format!("#!/bin/sh\nexec '{}' demo-worker --writes lines\n", bench.display()))?;
        fs::set_permissions(&worker, fs::Permissions::from_mode(0o700))?;
        let home = place.path().join("home");
        fs::create_dir(&home)?;
        let config = place.path().join("switchboard.toml");
        fs::write(&config, configuration(place.path(), &worker, &home))?;
        let mut command = program(&beside("switchboard")?);
        command.args(["serve", "--json", "--config"]).arg(config);
        Self::start("switchboard", command, place)
    }

    /// The bare server.
    pub(super) fn bare() -> Result<Self> {
        Self::ours("bare", "bare-server")
    }

    /// The scripted provider.
    pub(super) fn upstream() -> Result<Self> {
        Self::ours("upstream", "upstream")
    }

    fn ours(name: &'static str, subcommand: &str) -> Result<Self> {
        let place = tempfile::tempdir()?;
        let mut command = program(&std::env::current_exe()?);
        command.arg(subcommand).env("CODEX_HOME", place.path());
        Self::start(name, command, place)
    }

    fn start(name: &'static str, command: Command, place: TempDir) -> Result<Self> {
        let (running, welcome) = Running::start(command)?;
        let key = welcome.key.context("no key")?;
        let server = Self { name, url: welcome.url, key, running, _place: place };
        server.wait_until_ready()?;
        Ok(server)
    }

    /// A server of others, which says nothing of itself.
    pub(super) fn foreign(
        name: &'static str,
        command: Command,
        place: TempDir,
        url: String,
        key: &str,
    ) -> Result<Self> {
        let log = fs::File::create(place.path().join("log"))?;
        let running = Running::start_foreign(command, log)?;
        let server = Self { name, url, key: key.into(), running, _place: place };
        server.wait_until_ready()?;
        Ok(server)
    }

    /// The CPU time of its process alone; what a worker of it takes is not in it.
    pub(super) fn cpu_seconds(&self) -> Result<f64> {
        self.running.cpu_seconds()
    }

    pub(super) fn resident_kilobytes(&self) -> Result<f64> {
        self.running.resident_kilobytes()
    }

    /// Asks until it answers.
    fn wait_until_ready(&self) -> Result<()> {
        let deadline = Instant::now() + READY_TIMEOUT;
        let address = self.url.trim_start_matches("http://");
        while TcpStream::connect(address).is_err() {
            ensure!(Instant::now() < deadline, "nobody answers at {address}");
            std::thread::park_timeout(READY_LOOK);
        }
        while let Err(error) = Load::whole(1, 1).quietly().run(self) {
            ensure!(Instant::now() < deadline, "{} does not become ready: {error:#}", self.name);
        }
        Ok(())
    }
}

fn configuration(place: &Path, worker: &Path, home: &Path) -> String {
    let [state, worker, home] = [&place.join("state"), worker, home].map(|path| path.display().to_string());
    format!(
        r#"
listen = "127.0.0.1:0"
state_dir = "{state}"
drain_grace = "0s"
[[workers]]
name = "main"
command = "{worker}"
codex_home = "{home}"
turns_max = {TURNS_MAX}
threads_loaded_max = {TURNS_MAX}
[limits]
response_grace = "1s"
[log]
level = "warn"
"#
    )
}
