//! The examples, each as its own process, against the demo worker; what they must print is the same with the real one.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Output, Stdio};

use tempfile::TempDir;
use testkit::HANG_TIMEOUT;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

/// Where examples run, and the worker that they are told to use.
pub(crate) struct Stage {
    pub(crate) worker: Vec<OsString>,
    pub(crate) codex_home: PathBuf,
    pub(crate) directory: PathBuf,
}

impl Stage {
    /// The demo worker, which keeps its threads in that directory.
    fn demo(home: &TempDir) -> Self {
        let worker = vec![testkit::built::demo_worker().into()];
        Self { worker, codex_home: home.path().into(), directory: home.path().into() }
    }

    /// Runs an example with that on its stdin.
    #[expect(clippy::disallowed_methods, reason = "an example is no worker, and this is no product")]
    async fn run(&self, example: &str, prompts: &[&str], stdin: &str) -> String {
        let mut child = Command::new(testkit::built::example("codex", example))
            .args(prompts)
            .args(&self.worker)
            .env("CODEX_HOME", &self.codex_home)
            .current_dir(&self.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(stdin.as_bytes()).await.unwrap();
        let Output { status, stdout, stderr } = timeout(HANG_TIMEOUT, child.wait_with_output()).await.unwrap().unwrap();
        assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
        String::from_utf8(stdout).unwrap()
    }

    pub(crate) async fn one_turn_streams(&self) {
        let said = self.run("one_turn", &["[[text]]"], "").await;
        assert!(said.starts_with("Hello from mock.\n[") && said.ends_with("[Completed None]\n"), "{said}");
    }

    pub(crate) async fn approvals_are_typed_by_a_person(&self) {
        let said = self.run("approvals", &["[[shell test -d .]]"], "y\n").await;
        assert!(said.contains("[command_execution Some(\"completed\")]"), "{said}");
        let said = self.run("approvals", &["[[shell test -d .]]"], "not today\n").await;
        assert!(said.contains("[command_execution Some(\"declined\")]"), "{said}");
    }

    pub(crate) async fn a_tool_is_called(&self) {
        let said = self.run("tools", &["[[tool port_of {\"service\":\"billing\"}]]"], "").await;
        assert!(said.contains("port_of {\"service\":\"billing\"}") && said.ends_with("[Completed]\n"), "{said}");
    }

    pub(crate) async fn a_thread_goes_on_and_is_listed(&self) {
        let said = self.run("resume", &["[[json {\"n\":1}]]", "[[json {\"n\":2}]]"], "").await;
        assert!(said.starts_with("{\"n\":1}\n") && said.contains("{\"n\":2}"), "{said}");
        let listed = self.run("threads", &[], "").await;
        assert!(listed.contains("[[json {\"n\":1}]]") && listed.contains("the newest was made by"), "{listed}");
    }
}

#[tokio::test]
async fn one_turn_streams() {
    Stage::demo(&TempDir::new().unwrap()).one_turn_streams().await;
}

#[tokio::test]
async fn approvals_are_typed_by_a_person() {
    Stage::demo(&TempDir::new().unwrap()).approvals_are_typed_by_a_person().await;
}

#[tokio::test]
async fn a_tool_is_called() {
    Stage::demo(&TempDir::new().unwrap()).a_tool_is_called().await;
}

#[tokio::test]
async fn a_thread_goes_on_and_is_listed() {
    Stage::demo(&TempDir::new().unwrap()).a_thread_goes_on_and_is_listed().await;
}
