//! Switchboard as the process that is measured, with tool servers behind it.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread::park_timeout;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use tempfile::TempDir;

use crate::program::{Running, beside, program};

pub(super) const KEY: &str = "the-key-of-this-benchmark-0123456789abcdef";
const READY_TIMEOUT: Duration = Duration::from_secs(60);
const READY_LOOK: Duration = Duration::from_millis(5);

/// A tool server of the configuration.
pub(super) struct ToolServer {
    pub(super) name: String,
    pub(super) command: Vec<String>,
    /// What else stands in its table.
    pub(super) more: String,
}

impl ToolServer {
    /// The one in Rust of our examples.
    pub(super) fn template(name: &str) -> Result<Self> {
        let command = vec![beside("examples/template")?.display().to_string()];
        Ok(Self { name: name.to_owned(), command, more: String::new() })
    }
}

/// One that serves.
pub(super) struct Switchboard {
    pub(super) url: String,
    pub(super) running: Running,
    _place: TempDir,
}

/// What `/api/tools` says.
#[derive(Deserialize)]
struct Told {
    servers: Vec<ToldServer>,
}

#[derive(Debug, Deserialize)]
struct ToldServer {
    #[expect(dead_code, reason = "it is printed if it does not become ready")]
    name: String,
    state: String,
    #[expect(dead_code, reason = "likewise")]
    reason: Option<String>,
    pid: Option<u32>,
}

impl Switchboard {
    /// One of these servers, all of them ready, and how long that took.
    pub(super) fn start(servers: &[ToolServer]) -> Result<(Self, Duration)> {
        let place = tempfile::tempdir()?;
        let config = place.path().join("switchboard.toml");
        let state = place.path().join("state").display().to_string();
        fs::write(&config, configuration(&state, servers)?)?;
        let mut command = program(&beside("switchboard")?);
        command.args(["serve", "--json", "--worker", "demo", "--config"]).arg(config).env("SWITCHBOARD_KEY", KEY);
        let started = Instant::now();
        let (running, welcome) = Running::start(command)?;
        let switchboard = Self { url: welcome.url, running, _place: place };
        switchboard.wait_until_ready(servers.len(), started)?;
        Ok((switchboard, started.elapsed()))
    }

    /// The process of its first tool server.
    pub(super) fn tool_server(&self) -> Result<u32> {
        self.told()?.first().and_then(|server| server.pid).context("no process of a tool server")
    }

    fn wait_until_ready(&self, count: usize, started: Instant) -> Result<()> {
        loop {
            let mut told = self.told()?;
            ensure!(told.len() == count, "{} of {count} tool servers are there", told.len());
            told.retain(|server| server.state != "ready");
            if told.is_empty() {
                return Ok(());
            }
            ensure!(started.elapsed() < READY_TIMEOUT, "not ready: {told:#?}");
            park_timeout(READY_LOOK);
        }
    }

    fn told(&self) -> Result<Vec<ToldServer>> {
        let address = self.url.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(READY_TIMEOUT))?;
        let head =
            format!("GET /api/tools HTTP/1.1\r\nhost: {address}\r\nx-api-key: {KEY}\r\nconnection: close\r\n\r\n");
        stream.write_all(head.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let told: Told = serde_json::from_str(body).with_context(|| format!("/api/tools says {answer}"))?;
        Ok(told.servers)
    }
}

fn configuration(state: &str, servers: &[ToolServer]) -> Result<String> {
    let mut text = format!(
        "listen = \"127.0.0.1:0\"\nstate_dir = {state:?}\ndrain_grace = \"0s\"\n[limits]\nresponse_grace = \"1s\"\n[log]\nlevel = \"warn\"\n"
    );
    for ToolServer { name, command, more } in servers {
        writeln!(text, "[tools.{name}]\ncommand = {command:?}\n{more}")?;
    }
    Ok(text)
}
