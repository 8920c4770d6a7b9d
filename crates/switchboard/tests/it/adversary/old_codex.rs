//! A Codex that cannot confine its agents. The demo worker plays one: in the older dialect it has no permission profiles.

use std::fs;

use serde_json::json;

use super::KEY;
use crate::command::State;
use crate::served::Served;

/// A server whose worker is too old, with more keys for its profile.
fn configured(profile: &str) -> State {
    let state = State::new();
    let worker = state.worker("", "");
    let text = fs::read_to_string(&worker).unwrap();
    fs::write(&worker, text.replace("--script", "--dialect v1 --script")).unwrap();
    state.configure(&format!("[[workers]]\ncommand = {worker:?}\n[profiles.codex]\n{profile}\n"));
    state
}

/// The status of a turn that a caller without the scope `operate` asks for, and of one that an operator does.
fn statuses(served: &Served<'_>) -> [String; 2] {
    let made = served.json(&["keys", "add", "caller"]);
    let body = json!({ "model": "codex", "messages": [{ "role": "user", "content": "[[text]]" }] }).to_string();
    [made["secret"].as_str().unwrap(), KEY].map(|key| {
        let answer = served.post_as(key, "/v1/chat/completions", &body);
        answer.lines().next().unwrap().to_owned()
    })
}

#[test]
fn it_serves_operators_alone_and_says_so() {
    let state = configured("");
    let doctor = state.run_with(&["doctor"], &[("SWITCHBOARD_LISTEN", "127.0.0.1:0")]).end();
    assert!(doctor.stdout.contains("it cannot confine agents"), "{}", doctor.stdout);
    let served = Served::start_with(&state, &[], &[("SWITCHBOARD_KEY", KEY)]);
    assert_eq!(statuses(&served), ["HTTP/1.1 400 Bad Request", "HTTP/1.1 200 OK"]);
    let logged = served.stop().stderr;
    assert!(logged.contains("worker cannot confine agents"), "{logged}");
}

#[test]
fn a_profile_may_accept_it() {
    let state = configured("allow_unconfined = true");
    let served = Served::start_with(&state, &[], &[("SWITCHBOARD_KEY", KEY)]);
    assert_eq!(statuses(&served), ["HTTP/1.1 200 OK"; 2]);
    assert_eq!(served.stop().code(), Some(0));
}
