//! `switchboard serve`: how it begins, how it ends, and what it leaves behind.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;
use serde_json::Value;

use crate::command::State;
use crate::served::Served;

#[test]
fn the_first_start_shows_a_key_and_no_other_does() {
    let state = State::new();
    let served = Served::start(&state);
    assert!(served.key().starts_with("sb_"));
    assert!(served.get("/api/workers").starts_with("HTTP/1.1 200"));
    assert_eq!(served.stop().code(), Some(0));
    let again = Served::start(&state);
    assert_eq!(again.welcome["key"], Value::Null);
    assert_eq!(again.stop().code(), Some(0));
}

#[test]
fn a_key_of_the_installation_is_the_only_one() {
    let state = State::new();
    let variables = [("SWITCHBOARD_KEY", "a-key-that-nobody-guesses-0123456789")];
    let served = Served::start_with(&state, &["--worker", "demo"], &variables);
    assert_eq!(served.welcome["key"], Value::Null);
    let asked = |variables: &[(&str, &str)]| {
        state.run_with(&["workers", "--server", served.url()], variables).end_beside_others()
    };
    assert_eq!(asked(&variables).code(), Some(0));
    let refused = asked(&[("SWITCHBOARD_KEY", "another")]);
    assert_eq!(
        (refused.code(), refused.stderr.as_str()),
        (Some(1), "switchboard: this key is not valid; it may have been revoked\n")
    );
    let keyless = asked(&[]);
    assert_eq!(
        (keyless.code(), keyless.stderr.as_str()),
        (Some(1), "switchboard: --server needs a key: set SWITCHBOARD_KEY\n")
    );
    served.stop();
}

#[test]
fn without_codex_the_demo_worker_answers_and_the_start_says_so() {
    let state = State::new();
    let served = Served::start_with(&state, &[], &[("PATH", "/nowhere")]);
    assert_eq!(served.welcome["demo_groups"][0], "main");
    let answered = served.command(&["ask", "hello"]);
    assert_eq!(answered.code(), Some(0), "{}", answered.stderr);
    assert!(answered.stdout.contains("demo worker"), "{}", answered.stdout);
    assert!(served.stop().stderr.contains("not on PATH: the demo worker answers in its place"));
}

#[test]
fn the_announcement_is_for_its_user_alone_and_gone_at_the_end() {
    let state = State::new();
    let served = Served::start(&state);
    let file = state.path().join("server.json");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    served.stop();
    assert!(!file.exists());
}

#[test]
fn a_port_that_is_taken_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ended = State::new().run_with(&["serve", "--worker", "demo", "--listen", &address], &[]).end();
    assert_eq!(ended.code(), Some(1));
    assert!(ended.stderr.contains(&format!("another program listens at {address}: stop it")), "{}", ended.stderr);
}

#[test]
fn a_second_server_with_the_same_state_is_refused() {
    let state = State::new();
    let served = Served::start(&state);
    let second = state.run_with(&["serve", "--worker", "demo", "--listen", "127.0.0.1:0"], &[]).end_beside_others();
    assert_eq!(second.code(), Some(1));
    assert!(second.stderr.contains("belongs to the running Switchboard with pid"), "{}", second.stderr);
    assert_eq!(served.stop().code(), Some(0));
}

#[test]
fn a_signal_lets_running_turns_end_and_takes_no_new_ones() {
    let state = State::new();
    let served = Served::start(&state);
    let mut asking = state.run_with(&["ask", "[[slow 40 100]]"], &[]);
    asking.wait_for("s1 ");
    served.run.signal(Signal::TERM);
    served.wait_until("refused", |served| {
        let refused = served.post("/api/turns", r#"{"prompt":"[[text]]"}"#);
        refused.starts_with("HTTP/1.1 503") && refused.contains("retry-after: ") && refused.contains("draining")
    });
    let asked = asking.end_beside_others();
    assert_eq!(asked.code(), Some(0), "{}", asked.stderr);
    assert!(asked.stdout.ends_with("s39 \n"), "{}", asked.stdout);
    assert_eq!(served.run.end().code(), Some(0));
}

#[test]
fn a_turn_that_outlasts_the_grace_is_lost() {
    let state = State::new();
    let served = Served::start_with(&state, &["--worker", "demo"], &[("SWITCHBOARD_DRAIN_GRACE", "1ms")]);
    let mut asking = state.run_with(&["ask", "--json", "[[slow 10000 20]]"], &[]);
    asking.wait_for(r#""type":"text""#);
    assert_eq!(served.stop().code(), Some(0));
    let asked = asking.end();
    let end = asked.end();
    assert_eq!((&end["status"], &end["error"]["kind"]), (&"lost".into(), &"server_stopping".into()), "{end}");
}

#[test]
fn a_second_signal_stops_at_once_and_leaves_nothing() {
    let state = State::new();
    let served = Served::start(&state);
    let mut asking = state.run_with(&["ask", "[[slow 10000 20]]"], &[]);
    asking.wait_for("s1 ");
    served.run.signal(Signal::TERM);
    served.wait_until("draining", |served| served.get("/readyz").starts_with("HTTP/1.1 503"));
    served.run.signal(Signal::INT);
    assert_eq!(served.run.end_beside_others().code(), Some(130));
    assert_ne!(asking.end().code(), Some(0));
}

#[test]
fn after_a_kill_the_next_start_ends_what_was_left_and_serves() {
    let state = State::new();
    let served = Served::start(&state);
    let workers = served.json(&["workers"]);
    let worker = workers["workers"][0]["pid"].as_u64().unwrap();
    served.run.signal(Signal::STOP);
    served.run.signal(Signal::KILL);
    served.run.end_beside_others();
    let again = Served::start(&state);
    assert_ne!(again.json(&["workers"])["workers"][0]["pid"].as_u64(), Some(worker));
    assert_eq!(again.stop().code(), Some(0));
}

#[test]
fn without_json_the_start_is_told_in_words() {
    let state = State::new();
    let mut run = state.run_with(&["serve", "--worker", "demo", "--listen", "127.0.0.1:0"], &[]);
    run.wait_for("serving http://127.0.0.1:");
    run.signal(Signal::TERM);
    let ended = run.end();
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    assert!(ended.stdout.starts_with("key sb_"), "{}", ended.stdout);
    let lines: Vec<Value> = ended.stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().any(|line| line["message"] == "stopped"), "{}", ended.stderr);
}

#[tokio::test]
async fn what_is_old_is_removed_from_the_store_at_the_start() {
    let state = State::new();
    let open = || store::Store::open(state.path().join("switchboard.db"), store::Limits::default()).unwrap();
    let long_ago = store::Approval {
        id: "long-ago".into(),
        group: "main".into(),
        worker: "main-0".into(),
        thread: "th".into(),
        turn: "tu".into(),
        item: None,
        request: "0".into(),
        method: "item/commandExecution/requestApproval".into(),
        kind: "command".into(),
        key: String::new(),
        params: "{}".into(),
        shown_hash: String::new(),
        state: store::ApprovalState::Denied,
        verdict: None,
        reason: None,
        decided_by: None,
        created_at: 0,
        deadline_at: None,
        decided_at: None,
    };
    let before = open();
    before.commit(vec![store::Change::Approval(long_ago)]).await.unwrap();
    before.close().await.unwrap();
    Served::start(&state).stop();
    let after = open();
    assert_eq!(after.read(|reader| reader.approval("long-ago")).await.unwrap(), None);
    after.close().await.unwrap();
}
