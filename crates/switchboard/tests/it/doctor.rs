//! `switchboard doctor`: what it finds, and what it says to do.

use std::fs;

use serde_json::Value;

use crate::command::{Ended, State};
use crate::served::Served;

fn findings(ended: &Ended) -> Vec<(String, String, String)> {
    let findings: Vec<Value> = serde_json::from_str(&ended.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    findings.iter().map(|one| (text(&one["check"]), text(&one["state"]), text(&one["what"]))).collect()
}

fn state_of(ended: &Ended, check: &str) -> (String, String) {
    let found = findings(ended).into_iter().find(|(name, ..)| name == check);
    found.map(|(_, state, what)| (state, what)).unwrap_or_else(|| panic!("no {check} in {}", ended.stdout))
}

fn examine(state: &State, variables: &[(&str, &str)]) -> Ended {
    let free = [("SWITCHBOARD_LISTEN", "127.0.0.1:0")];
    state.run_with(&["doctor", "--json"], &[&free, variables].concat()).end()
}

#[test]
fn a_demo_worker_is_healthy() {
    let state = State::new();
    let ended = examine(&state, &[("SWITCHBOARD_WORKERS_MAIN_COMMAND", "demo")]);
    assert_eq!(ended.code(), Some(0), "{}", ended.stdout);
    for (check, state, what) in findings(&ended) {
        assert_eq!(state, "ok", "{check}: {what}");
    }
    assert!(state_of(&ended, "main: worker").1.contains("speaks v2"));
}

#[test]
fn a_missing_codex_is_a_warning_because_the_demo_worker_answers() {
    let ended = examine(&State::new(), &[("PATH", "/nowhere")]);
    assert_eq!(ended.code(), Some(0), "{}", ended.stdout);
    let (state, what) = state_of(&ended, "main: binary");
    assert_eq!(state, "warning");
    assert!(what.contains("not on the PATH"), "{what}");
}

#[test]
fn what_keeps_a_server_from_starting_is_a_problem() {
    let state = State::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    fs::write(state.path().join("switchboard.db"), "no database").unwrap();
    let worker = state.worker("exit 7", "");
    let ended = examine(&state, &[("SWITCHBOARD_LISTEN", &address), ("SWITCHBOARD_WORKERS_MAIN_COMMAND", &worker)]);
    assert_eq!(ended.code(), Some(1), "{}", ended.stdout);
    for (check, part) in
        [("port", "another program listens"), ("store", "is not a store"), ("main: handshake", "code 7")]
    {
        let (state, what) = state_of(&ended, check);
        assert_eq!(state, "problem", "{check}: {what}");
        assert!(what.contains(part), "{check}: {what}");
    }
    assert_eq!(fs::read_to_string(state.path().join("switchboard.db")).unwrap(), "no database");
}

#[test]
fn a_wrong_configuration_is_a_problem_with_its_lines() {
    let state = State::new();
    state.configure("listn = 1\n");
    let ended = examine(&state, &[]);
    assert_eq!(ended.code(), Some(1));
    assert!(state_of(&ended, "configuration").1.contains("switchboard.toml:1"), "{}", ended.stdout);
}

#[test]
fn a_running_server_is_asked_and_its_port_is_its_own() {
    let state = State::new();
    let served = Served::start(&state);
    let ended = served.command(&["doctor"]);
    assert!(ended.stdout.contains("and is ready"), "{}", ended.stdout);
    assert!(!ended.stdout.contains("another program"), "{}", ended.stdout);
    served.stop();
}

#[test]
fn a_worker_of_a_running_server_that_has_failed_is_told_with_the_command_that_restarts_it() {
    let state = State::new();
    let worker = state.worker(&format!("test -e '{}' && exit 7", state.path().join("broken").display()), "");
    let served = Served::start_with(&state, &["--worker", &worker], &[]);
    fs::write(state.path().join("broken"), "").unwrap();
    assert_eq!(served.command(&["workers", "restart", "main-0"]).code(), Some(0));
    served.wait_until("failed", |served| served.get("/healthz").contains("worker main-0: failed"));
    let ended = served.command(&["doctor"]);
    assert_eq!(ended.code(), Some(1), "{}", ended.stdout);
    assert!(ended.stdout.contains("is not ready"), "{}", ended.stdout);
    for part in ["worker main-0", "code 7", "next attempt at ", "`switchboard workers restart main-0`"] {
        assert!(ended.stdout.contains(part), "{part} in {}", ended.stdout);
    }
    let listed = served.command(&["workers"]).stdout;
    assert!(listed.contains("main-0: next attempt at "), "{listed}");
    fs::remove_file(state.path().join("broken")).unwrap();
    assert_eq!(served.command(&["workers", "restart", "main-0"]).code(), Some(0));
    served.wait_until("well again", |served| served.get("/healthz").contains("\"status\":\"ok\""));
    served.stop();
}

#[test]
fn a_model_provider_that_a_running_server_cannot_reach_is_told() {
    let state = State::new();
    let served = Served::start(&state);
    served.command(&["ask", "[[offline 1 1]]"]);
    let ended = served.command(&["doctor", "--json"]);
    let (state, what) = state_of(&ended, "main: model provider");
    assert_eq!((&*state, &*what), ("warning", "the model provider cannot be reached"));
    served.stop();
}
