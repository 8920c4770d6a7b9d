//! The server killed at a random moment, with approvals pending: none that anybody saw is lost, and none is executed that
//! nobody allowed.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread::park_timeout;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testkit::faults::{Fault, Rounds};
use testkit::processes;

use super::server::{Server, text};
use super::until;
use crate::command::State;

const TURNS: usize = 4;
/// What stands in the record of a thread for a command that was run, on one line.
const EXECUTED: [&str; 2] = [r#""type":"commandExecution""#, r#""status":"completed""#];

/// One group that asks before every command.
fn config(transport: &str) -> String {
    format!(
        "[[workers]]\nname = \"main\"\ncommand = \"demo\"\ntransport = \"{transport}\"\n\n[profiles.codex]\napproval_policy = \"untrusted\"\n"
    )
}

#[test]
fn with_stdio_every_approval_that_was_shown_is_orphaned() {
    let mut fault = Fault::play("server killed, stdio", Rounds::PerUnit(2));
    for _ in 0..fault.rounds {
        let state = State::new();
        let config = config("stdio");
        let killed = Killed::at_random(&mut fault, &state, &config);
        let workers = processes::with(&home_of(&state));
        let started = Instant::now();
        let server = Server::start(&state, &config);
        let orphaned = || ids(&server.approvals("orphaned"));
        until("what was shown is on record and orphaned", || killed.shown.is_subset(&orphaned()));
        fault.slowest("listed after the start", started.elapsed());
        assert!(server.approvals("pending").is_empty() && server.approvals("allowed").is_empty());
        let gone = until("nothing of it is left", || workers.iter().all(|pid| !processes::is_running(*pid)));
        fault.slowest("gone", gone);
        for turn in &killed.turns {
            let again = server.post("/api/turns", &json!({ "prompt": "[[text]]", "thread": text(&turn["thread"]) }));
            assert_eq!(again.status, 201, "its thread goes on: {}", again.body);
            assert_eq!(server.hear(&again.body).status, "completed");
        }
        assert_eq!(executed(state.path()), 0, "nothing was executed");
        server.stop();
    }
    fault.held();
}

#[test]
fn with_unix_every_approval_that_was_shown_is_pending_again() {
    let mut fault = Fault::play("server killed, unix", Rounds::PerUnit(2));
    for _ in 0..fault.rounds {
        let state = State::new();
        let config = config("unix");
        let killed = Killed::at_random(&mut fault, &state, &config);
        assert_eq!(executed(state.path()), 0, "nothing was executed");
        let started = Instant::now();
        let server = Server::start(&state, &config);
        let pending = || server.approvals("pending");
        until("what was shown is pending again", || killed.shown.is_subset(&ids(&pending())));
        fault.slowest("listed after the start", started.elapsed());
        let mut decided = 0;
        until("all of them are decided, and their turns end", || {
            let again = pending();
            for approval in &again {
                let path = format!("/api/approvals/{}/decide", text(&approval["id"]));
                let verdict = json!({ "verdict": "allow", "shown_hash": approval["shown_hash"] });
                assert_eq!(server.post(&path, &verdict).status, 200);
                assert_eq!(server.post(&path, &verdict).body["error"]["code"], "approval_decided");
                decided += 1;
            }
            again.is_empty() && server.get("/api/workers").body["workers"][0]["turns"] == 0
        });
        assert!(decided >= killed.shown.len());
        assert_eq!(executed(state.path()), decided, "exactly what was allowed was executed");
        fault.count("approvals decided", decided.try_into().unwrap());
        end_for_good(server, &state);
    }
    fault.held();
}

/// What was seen of a server before it was killed.
struct Killed {
    /// The approvals that its operator was shown.
    shown: BTreeSet<String>,
    /// The turns that its callers know of.
    turns: Vec<Value>,
}

impl Killed {
    fn at_random(fault: &mut Fault, state: &State, config: &str) -> Self {
        let server = Server::start(state, config);
        // After so many approvals were shown, and a moment.
        let enough = fault.random.usize(0..=TURNS);
        let moment = Duration::from_millis(fault.random.u64(0..30));
        let (mut shown, mut turns) = (BTreeSet::new(), Vec::new());
        std::thread::scope(|scope| {
            let (tell, told) = std::sync::mpsc::sync_channel(TURNS);
            for number in 0..TURNS {
                let (server, tell) = (&server, tell.clone());
                scope.spawn(move || {
                    let body = json!({ "prompt": format!("[[shell touch file{number}]]") }).to_string();
                    if let Ok(started) = server.try_exchange("POST", "/api/turns", &body)
                        && started.status == 201
                    {
                        tell.send(started.body).unwrap();
                    }
                });
            }
            drop(tell);
            until("enough is shown", || {
                let listed = server.get("/api/approvals?state=pending");
                shown.extend(ids(listed.body["approvals"].as_array().map_or(&[], Vec::as_slice)));
                shown.len() >= enough
            });
            park_timeout(moment);
            server.served.run.signal(Signal::KILL);
            turns.extend(told);
        });
        server.served.run.end_beside_others();
        fault.count("approvals shown", shown.len().try_into().unwrap());
        Self { shown, turns }
    }
}

fn ids(approvals: &[Value]) -> BTreeSet<String> {
    approvals.iter().map(|approval| text(&approval["id"]).to_owned()).collect()
}

fn home_of(state: &State) -> String {
    format!("CODEX_HOME={}", state.path().join("demo").display())
}

/// How many commands the worker has run, by its own record of the threads.
fn executed(directory: &Path) -> usize {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let counts = entries.map(|path| {
        if path.is_dir() {
            executed(&path)
        } else if path.extension().is_some_and(|ending| ending == "jsonl") {
            let record = fs::read_to_string(path).unwrap_or_default();
            record.lines().filter(|line| EXECUTED.iter().all(|piece| line.contains(piece))).count()
        } else {
            0
        }
    });
    counts.sum()
}

/// Stops the server and the workers, which would outlive it.
fn end_for_good(server: Server<'_>, state: &State) {
    server.served.run.signal(Signal::TERM);
    let ended = server.served.run.end_beside_others();
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    let workers = processes::with(&home_of(state));
    assert_eq!(workers.len(), 1, "the worker outlives the server");
    for pid in &workers {
        kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
    }
    until("the worker is gone", || workers.iter().all(|pid| !processes::is_running(*pid)));
}
