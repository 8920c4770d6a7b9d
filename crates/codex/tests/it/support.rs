//! A place for a demo worker: its home, its script, and what it was sent.

use std::fs;
use std::path::PathBuf;

use codex::{Client, Options, Thread, TurnEvent};
use supervise::{Launch, Owner, Rlimits};
use tempfile::TempDir;
use testkit::HANG_TIMEOUT;
use tokio::time::timeout;

pub(crate) struct Place {
    directory: TempDir,
    dialect: &'static str,
}

impl Place {
    pub(crate) fn new() -> Self {
        let directory = TempDir::new().unwrap();
        fs::create_dir(directory.path().join("home")).unwrap();
        fs::write(directory.path().join("script.toml"), "").unwrap();
        Self { directory, dialect: "v2" }
    }

    pub(crate) fn with_script(self, script: &str) -> Self {
        fs::write(self.directory.path().join("script.toml"), script).unwrap();
        self
    }

    pub(crate) fn of_old(self) -> Self {
        Self { dialect: "v1", ..self }
    }

    pub(crate) fn launch(&self) -> Launch {
        let path = |name| self.directory.path().join(name);
        let mut args = vec!["--dialect".into(), self.dialect.into(), "--script".into(), path("script.toml").into()];
        args.extend(["--capture".into(), self.capture().into()]);
        Launch {
            program: testkit::built::demo_worker().into(),
            args,
            cwd: self.directory.path().into(),
            env: vec![("CODEX_HOME".into(), path("home").into())],
            owner: Owner::generate(),
            rlimits: Rlimits::default(),
        }
    }

    pub(crate) async fn start(&self, options: Options) -> Client {
        Client::start(&self.launch(), options).await.unwrap()
    }

    /// The lines that the worker was sent.
    pub(crate) fn captured(&self) -> Vec<String> {
        fs::read_to_string(self.capture()).unwrap().lines().map(str::to_owned).collect()
    }

    fn capture(&self) -> PathBuf {
        self.directory.path().join("captured")
    }
}

/// Plays a turn, and says how the item of that kind ended.
pub(crate) async fn item_status(thread: &Thread, prompt: &str, kind: &str) -> String {
    let mut turn = thread.start_turn(prompt).await.unwrap();
    let mut status = "nothing".into();
    while let Some(event) = timeout(HANG_TIMEOUT, turn.next()).await.expect("the turn ends") {
        if let TurnEvent::ItemCompleted { item } = event
            && *item.kind == *kind
        {
            status = item.status.unwrap_or_default().into();
        }
    }
    status
}
