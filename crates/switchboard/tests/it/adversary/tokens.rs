//! Credentials on the disk: there are none that anybody can use, and a worker that outlives the server keeps its token.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::Value;

use super::control::{DetachedWorkerGuard, fake_codex, free_address};
use crate::command::State;
use crate::served::Served;
use crate::tools_served::{KEY, table, wait_for_state};

/// The shortest text that can be a secret of ours.
const SECRET_CHARS_MIN: usize = 32;

#[test]
fn no_file_of_the_state_directory_holds_a_secret_that_works() {
    let state = State::new();
    for name in ["server.json", "server.json.new", "workers.key"] {
        fs::write(state.path().join(name), format!("{{\"token\":\"sb_local_{}\"}}", "ab".repeat(32))).unwrap();
    }
    let worker = fake_codex(&state, "");
    let tools = table(&state, "shop", "dual", "");
    state.configure(&format!(
        "[[workers]]\ncommand = {worker:?}\ntransport = \"unix\"\n[approvals]\nwebhook = \"http://127.0.0.1:1/\"\n{tools}"
    ));
    let served = Served::start_at(&free_address(), &state, &[], &[]);
    wait_for_state(&served, "shop", "ready");
    let pid = served.json(&["workers"])["workers"][0]["pid"].as_u64().unwrap();
    let _worker = DetachedWorkerGuard(pid);
    assert_eq!(served.command(&["ask", "[[text]]"]).code(), Some(0));
    served.json(&["keys", "add", "somebody"]);
    assert!(!state.path().join("workers.key").exists(), "what an earlier version left is removed");
    let mut files = Vec::new();
    gather(state.path(), &mut files);
    let names: BTreeSet<_> = files.iter().filter_map(|file| file.file_name()?.to_str()).collect();
    assert!(names.is_superset(&["ledger.json", "server.json", "switchboard.db"].into()), "{names:?}");
    for file in files {
        for candidate in candidates(&fs::read(&file).unwrap()) {
            // After many wrong keys 429 takes the place of 401. A key that is valid is admitted even then.
            let answer = served.get_as(&candidate, "/api/keys");
            let is_refused = ["HTTP/1.1 401", "HTTP/1.1 429"].iter().any(|status| answer.starts_with(status));
            assert!(is_refused, "{} holds {candidate}: {answer}", file.display());
        }
    }
    let live = token_of(pid);
    assert!(served.get_as(&live, "/api/keys").starts_with("HTTP/1.1 403"), "a token that works is known by 403");
    served.run.signal(Signal::TERM);
    assert_eq!(served.run.end_beside_others().code(), Some(0));
}

/// Every file below a directory.
fn gather(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            gather(&entry.path(), files);
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
}

/// All that can be a key or the secret part of one.
fn candidates(bytes: &[u8]) -> BTreeSet<String> {
    let is_of_key = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
    let words = bytes.split(|byte| !is_of_key(byte)).filter(|word| word.len() >= SECRET_CHARS_MIN);
    let words = words.map(|word| String::from_utf8(word.to_vec()).unwrap());
    let made = |word: String| ["", "sb_local_", "sb_worker-main_"].map(|prefix| format!("{prefix}{word}"));
    words.flat_map(made).collect()
}

/// The token of a running worker.
fn token_of(pid: u64) -> String {
    let variables = fs::read_to_string(format!("/proc/{pid}/environ")).unwrap();
    let token = variables.split('\0').find_map(|one| one.strip_prefix("SWITCHBOARD_TOOLS_TOKEN="));
    token.expect("a worker has a token").to_owned()
}

/// Whether tools can be called with this token.
fn opens_tools(served: &Served<'_>, token: &str) -> bool {
    // A message without a body gets as far as the endpoint.
    let answer = served.get_as(token, "/mcp");
    assert!(!answer.starts_with("HTTP/1.1 403"), "{answer}");
    !answer.starts_with("HTTP/1.1 401")
}

#[test]
fn a_worker_that_outlives_the_server_keeps_its_token_and_the_next_worker_has_another() {
    let state = State::new();
    let worker = fake_codex(&state, "");
    let tools = table(&state, "shop", "dual", "");
    state.configure(&format!("[[workers]]\ncommand = {worker:?}\ntransport = \"unix\"\n{tools}"));
    let address = free_address();
    let start = || Served::start_at(&address, &state, &[], &[("SWITCHBOARD_KEY", KEY)]);
    let pid = |served: &Served<'_>| -> Option<u64> {
        let workers: Value = served.json(&["workers"]);
        workers["workers"][0]["pid"].as_u64()
    };
    let served = start();
    let first = pid(&served).unwrap();
    let _worker = DetachedWorkerGuard(first);
    let token = token_of(first);
    assert!(opens_tools(&served, &token));
    served.run.signal(Signal::KILL);
    served.run.end_beside_others();
    let served = start();
    assert_eq!(pid(&served), Some(first), "the same worker");
    assert!(opens_tools(&served, &token), "its token is still valid");

    assert_eq!(served.command(&["workers", "restart", "main-0"]).code(), Some(0));
    served.wait_until("another runs", |served| pid(served).is_some_and(|pid| pid != first));
    let second = pid(&served).unwrap();
    let _next = DetachedWorkerGuard(second);
    assert!(!opens_tools(&served, &token), "it is not valid any more");
    assert!(opens_tools(&served, &token_of(second)));
    served.run.signal(Signal::TERM);
    assert_eq!(served.run.end_beside_others().code(), Some(0));
}
