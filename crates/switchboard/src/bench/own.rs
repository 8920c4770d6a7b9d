//! A server of our own to measure: this binary with the demo worker, as a process of its own, in a place that is gone afterwards.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::Deserialize;
use supervise::{Child, Ladder, Launch, Limits, Owner, Rlimits};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::time::{Instant, sleep, timeout};

use crate::config::Secret;
use crate::server::Server;

/// How long it may take to be ready, and how often that is looked at.
const READY_TIMEOUT: Duration = Duration::from_secs(30);
const READY_LOOK: Duration = Duration::from_millis(20);

/// More than any load asks for at once.
const CONFIG: &str = r#"
listen = "127.0.0.1:0"
drain_grace = "1s"
[[workers]]
name = "main"
command = "demo"
turns_max = 10000
threads_loaded_max = 20000
[log]
level = "warn"
"#;

/// A running server.
pub(super) struct OwnServer {
    child: Child,
    welcome: Welcome,
    _place: TempDir,
}

/// What a server says when it begins.
#[derive(Deserialize)]
struct Welcome {
    url: String,
    key: String,
}

impl OwnServer {
    pub(super) async fn start() -> Result<Self> {
        let place = tempfile::tempdir().context("cannot make a place for a server")?;
        let config = place.path().join("switchboard.toml");
        fs::write(&config, CONFIG)?;
        let launch = Launch {
            program: std::env::current_exe().context("cannot find this binary")?.into(),
            args: vec![
                "serve".into(),
                "--json".into(),
                "--config".into(),
                config.into(),
                "--state-dir".into(),
                place.path().join("state").into(),
            ],
            cwd: place.path().into(),
            env: Vec::new(),
            owner: Owner::generate(),
            rlimits: Rlimits::default(),
        };
        let mut child = launch.spawn(Limits::default())?;
        let mut line = String::new();
        let mut stdout = BufReader::new(&mut child.stdout);
        timeout(READY_TIMEOUT, stdout.read_line(&mut line)).await.context("the server does not start")??;
        let welcome: Welcome = serde_json::from_str(&line).context("the server says nothing of where it is")?;
        wait_until_ready(&welcome).await?;
        Ok(Self { child, welcome, _place: place })
    }

    pub(super) fn url(&self) -> &str {
        &self.welcome.url
    }

    pub(super) fn key(&self) -> &str {
        &self.welcome.key
    }

    pub(super) async fn stop(self) {
        self.child.stop(Ladder::default()).await;
    }
}

async fn wait_until_ready(welcome: &Welcome) -> Result<()> {
    let server = Server::at(&welcome.url, Secret::new(welcome.key.as_str()))?;
    let deadline = Instant::now() + READY_TIMEOUT;
    loop {
        let (status, _) = server.look::<serde_json::Value>("/readyz").await?;
        if status == 200 {
            return Ok(());
        }
        anyhow::ensure!(Instant::now() < deadline, "the demo worker does not become ready");
        sleep(READY_LOOK).await;
    }
}
