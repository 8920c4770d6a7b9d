//! What a worker writes to stderr before it dies may hold secrets, and is for operators alone.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use front::Settings;
use front::keys::Scope;
use tempfile::TempDir;
use testkit::HANG_TIMEOUT;
use tokio::net::TcpListener;
use tokio::time::timeout;
use workers::Plan;

use crate::http::Caller;
use crate::support::{House, plan};

const CANARY: &str = "STDERRSECRET-4711";

/// A worker that says on stderr what it should not, and then is the demo worker or dies at once.
fn talkative(directory: &Path, then: &str) -> Plan {
    let program = directory.join("worker.sh");
    let text = format!("#!/bin/sh\necho 'fatal: token={CANARY} in /home/dev/.codex/auth.json' >&2\n{then}\n");
    fs::write(&program, text).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    let mut plan = plan(directory);
    plan.groups[0].program = program.into();
    plan
}

fn assert_discreet(what: &str, text: &str) {
    for secret in [CANARY, "auth.json", "/home/", "pid ", "worker.sh", "stderr"] {
        assert!(!text.contains(secret), "{what} tells {secret:?}: {text}");
    }
}

#[tokio::test]
async fn callers_are_told_nothing_of_the_stderr_of_a_worker_that_fails() {
    let directory = TempDir::new().unwrap();
    let plan = talkative(directory.path(), "exit 3");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let house = House::of_unready(plan, directory, listener, Settings::default()).await;
    let failed = async {
        while !house.operator.get("/api/workers").await.body.contains("\"failed\"") {
            tokio::task::yield_now().await;
        }
    };
    timeout(HANG_TIMEOUT, failed).await.expect("the worker is given up");
    let anybody = Caller { address: house.operator.address, key: String::new() };
    let ready = anybody.get("/readyz").await;
    assert_eq!(ready.status, 503);
    assert_eq!(house.check(&ready, "Readiness").await["groups"][0]["state"], "failed");
    assert_discreet("/readyz", &ready.body);
    assert_discreet("/healthz", &anybody.get("/healthz").await.body);

    let caller = house.caller(&[Scope::Use]).await;
    for (path, body) in [
        ("/api/turns", r#"{"prompt":"a"}"#),
        ("/v1/chat/completions", r#"{"model":"quiet","messages":[{"role":"user","content":"a"}]}"#),
        ("/v1/responses", r#"{"model":"quiet","input":"a"}"#),
    ] {
        let refused = caller.post(path, body).await;
        assert_eq!(refused.refusal(), "503 worker_not_ready", "{path}: {}", refused.body);
        assert_discreet(path, &refused.body);
    }
    assert_discreet("/v1/models", &caller.get("/v1/models").await.body);
    assert!(house.operator.get("/api/workers").await.body.contains(CANARY), "operators are told why");
    house.stop().await;
}

#[tokio::test]
async fn callers_are_told_nothing_of_the_stderr_of_a_worker_that_dies_in_their_turn() {
    let directory = TempDir::new().unwrap();
    let demo = testkit::built::demo_worker();
    let plan = talkative(directory.path(), &format!("'{}' \"$@\"\nexit 3", demo.display()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let deciding = approvals::Settings::default();
    let house = House::of(plan, directory, listener, Settings::default(), deciding).await;
    let caller = house.caller(&[Scope::Use]).await;
    for (path, body) in [
        ("/v1/chat/completions", r#"{"model":"quiet","messages":[{"role":"user","content":"[[crash 3 kill]]"}]}"#),
        ("/v1/responses", r#"{"model":"quiet","input":"[[crash 3 kill]]"}"#),
    ] {
        let answer = caller.post(path, body).await;
        assert!(answer.body.contains("worker"), "{path}: {}", answer.body);
        assert_discreet(path, &answer.body);
    }
    let started = caller.post("/api/turns", r#"{"prompt":"[[crash 3 kill]]","profile":"quiet"}"#).await;
    if started.status == 201 {
        let events = caller.events(started.json()["events"].as_str().unwrap(), "").await.rest().await;
        assert_discreet("the events of a turn", &format!("{events:?}"));
    }
    assert_discreet("the list of turns", &caller.get("/api/turns").await.body);
    house.stop().await;
}
