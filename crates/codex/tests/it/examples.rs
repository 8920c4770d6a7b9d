//! The examples, each as its own process, against the demo worker.

use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

/// Far beyond anything that an example takes.
const LONG: Duration = Duration::from_secs(60);

struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    /// Runs an example in this home, with that on its stdin.
    #[expect(clippy::disallowed_methods, reason = "an example is no worker, and this is no product")]
    async fn run(&self, example: &str, prompts: &[&str], stdin: &str) -> String {
        let worker: PathBuf = testkit::built::demo_worker();
        let mut child = Command::new(testkit::built::example("codex", example))
            .args(prompts)
            .arg(worker)
            .env("CODEX_HOME", self.0.path())
            .current_dir(self.0.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(stdin.as_bytes()).await.unwrap();
        let Output { status, stdout, stderr } = timeout(LONG, child.wait_with_output()).await.unwrap().unwrap();
        assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
        String::from_utf8(stdout).unwrap()
    }
}

#[tokio::test]
async fn one_turn_streams() {
    let said = Home::new().run("one_turn", &["[[text]]"], "").await;
    assert!(said.starts_with("Hello from mock.\n[") && said.ends_with("[Completed None]\n"), "{said}");
}

#[tokio::test]
async fn approvals_are_typed_by_a_person() {
    let said = Home::new().run("approvals", &["[[shell touch x]]"], "y\n").await;
    assert!(said.contains("[command_execution Some(\"completed\")]"), "{said}");
    let said = Home::new().run("approvals", &["[[shell touch x]]"], "not today\n").await;
    assert!(said.contains("[command_execution Some(\"declined\")]"), "{said}");
}

#[tokio::test]
async fn a_tool_is_called() {
    let said = Home::new().run("tools", &["[[tool port_of {\"service\":\"billing\"}]]"], "").await;
    assert!(said.contains("port_of {\"service\":\"billing\"}") && said.ends_with("[Completed]\n"), "{said}");
}

#[tokio::test]
async fn a_thread_goes_on_and_is_listed() {
    let home = Home::new();
    let said = home.run("resume", &["[[say one]]", "[[say two]]"], "").await;
    assert!(said.starts_with("one") && said.contains("two"), "{said}");
    let listed = home.run("threads", &[], "").await;
    assert!(listed.contains("[[say one]]") && listed.contains("the newest was made by"), "{listed}");
}
