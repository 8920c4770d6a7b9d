//! `switchboard record` and `switchboard replay`: what was recorded is what was said, and a replay says it again.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use codex::{Client, Launch, Options, Owner, ThreadOptions};
use expect_test::expect;
use serde_json::Value;
use testkit::HANG_TIMEOUT;

use crate::command::State;

const BINARY: &str = env!("CARGO_BIN_EXE_switchboard");

/// A program of that name which becomes `switchboard` with these arguments.
fn program(state: &State, name: &str, arguments: &str) -> String {
    let path = state.path().join(name);
    fs::write(&path, format!("#!/bin/sh\nexec '{BINARY}' {arguments}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().into()
}

/// A program that records a worker, and one that replays what it recorded.
pub(crate) fn pair(state: &State, worker: &str) -> (String, String) {
    let file = state.path().join("recording.jsonl");
    let recorder = program(state, "recorder", &format!("record '{}' -- {worker}", file.display()));
    (recorder, program(state, "replayer", &format!("replay '{}'", file.display())))
}

/// The command line of a demo worker with a home of its own.
fn demo_worker(state: &State) -> String {
    let home = state.path().join("home");
    fs::create_dir_all(&home).unwrap();
    format!("env 'CODEX_HOME={}' '{BINARY}' demo-worker", home.display())
}

/// How many pieces a text comes in depends on how fast it is read.
pub(crate) fn joined(events: Vec<Value>) -> Vec<Value> {
    let mut joined: Vec<Value> = Vec::new();
    for event in events {
        match (joined.last_mut(), event["text"].as_str()) {
            (Some(last), Some(text)) if last["type"] == event["type"] && last["item"] == event["item"] => {
                last["text"] = (last["text"].as_str().unwrap().to_owned() + text).into();
            }
            _ => joined.push(event),
        }
    }
    joined
}

fn entries(file: &Path) -> Vec<Value> {
    fs::read_to_string(file).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn run(arguments: &[&str], stdin: &[u8]) -> Output {
    #[expect(clippy::disallowed_methods, reason = "the test plays the user's shell")]
    let mut command = Command::new(BINARY);
    let mut child =
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let stdin = stdin.to_vec();
    let writer = std::thread::spawn(move || input.write_all(&stdin));
    let output = child.wait_with_output().unwrap();
    _ = writer.join().unwrap();
    output
}

#[test]
fn a_replay_tells_ask_the_events_that_were_recorded() {
    for prompt in ["[[reason]]", "[[shell touch file]]", "[[deltas 500]]", "[[http 500]]"] {
        let state = State::new();
        let (recorder, replayer) = pair(&state, &demo_worker(&state));
        let recorded = state.ask(&["--json", "--worker", &recorder, prompt]).end();
        let replayed = state.ask(&["--json", "--worker", &replayer, prompt]).end();
        assert!(recorded.events().len() > 3, "{prompt}: {}", recorded.stderr);
        assert_eq!(joined(replayed.events()), joined(recorded.events()), "{prompt}");
        assert_eq!(replayed.code(), recorded.code(), "{prompt}");
    }
}

#[tokio::test]
async fn a_replay_tells_the_client_the_events_that_were_recorded() {
    async fn events(program: &str, directory: &Path) -> (String, Vec<Value>) {
        let launch = Launch {
            program: program.into(),
            args: Vec::new(),
            cwd: directory.into(),
            env: Vec::new(),
            owner: Owner::generate(),
            rlimits: supervise::Rlimits::default(),
        };
        let client = Client::start(&launch, Options::new("tests", "1.0")).await.unwrap();
        let thread = client.start_thread(ThreadOptions::default()).await.unwrap();
        let mut told = Vec::new();
        for prompt in ["[[reason]]", "[[tool lookup {}]]"] {
            let mut turn = thread.start_turn(prompt).await.unwrap();
            while let Some(event) = tokio::time::timeout(HANG_TIMEOUT, turn.next()).await.unwrap() {
                told.push(serde_json::to_value(&event).unwrap());
            }
            // Something that belongs to no thread, in the middle of the exchange.
            client.ping(HANG_TIMEOUT).await.unwrap();
        }
        let id = thread.id().to_owned();
        client.stop().await;
        (id, joined(told))
    }
    let state = State::new();
    let (recorder, replayer) = pair(&state, &demo_worker(&state));
    let recorded = events(&recorder, state.path()).await;
    assert_eq!(events(&replayer, state.path()).await, recorded);
    assert!(recorded.1.len() > 10);
}

#[test]
fn a_replayed_thread_takes_the_name_that_the_client_gives_it_and_what_is_missing_is_said() {
    let state = State::new();
    let file = state.path().join("recording.jsonl");
    let text = r#"
        {"t":0,"dir":"c2s","msg":{"id":7,"method":"thread/resume","params":{"threadId":"old"}}}
        {"t":0,"dir":"s2c","msg":{"id":7,"result":{"thread":{"id":"old"}}}}
        {"t":0,"dir":"c2s","msg":{"id":8,"method":"turn/start","params":{"threadId":"old"}}}
        {"t":0,"dir":"c2s","msg":{"id":9,"method":"model/list"}}
        {"t":0,"dir":"s2c","msg":{"method":"turn/started","params":{"threadId":"old"}}}
        {"t":0,"dir":"s2c","raw":"noise"}
        {"t":0,"dir":"s2c","msg":{"error":{"code":1,"message":"no"},"id":8}}
    "#;
    fs::write(&file, text).unwrap();
    let calls = concat!(
        r#"{"id":"a","method":"thread/resume","params":{"threadId":"new"}}"#,
        "\n",
        r#"{"id":"b","method":"turn/start","params":{"threadId":"new"}}"#,
        "\n",
        r#"{"id":"c","method":"turn/start","params":{"threadId":"new"}}"#,
        "\n",
    );
    let output = run(&["replay", file.to_str().unwrap()], calls.as_bytes());
    assert!(output.status.success());
    expect![[r#"
        {"id":"a","result":{"thread":{"id":"new"}}}
        {"method":"turn/started","params":{"threadId":"new"}}
        {"id":"b","error":{"code":1,"message":"no"}}
        {"error":{"code":-32601,"message":"the recording has no further call of turn/start"},"id":"c"}
    "#]]
    .assert_eq(&String::from_utf8(output.stdout).unwrap());
    expect![[r#"
        replay: the recording has no further call of turn/start
        replay: the client left out what was recorded: call of model/list
    "#]]
    .assert_eq(&String::from_utf8(output.stderr).unwrap());
}

#[test]
fn every_byte_passes_and_the_code_is_the_workers() {
    let state = State::new();
    let file = state.path().join("recording.jsonl");
    let mut bytes: Vec<u8> = (0..=255).cycle().take(3 << 20).collect();
    bytes.extend(b"\n{\"id\":1,\"params\":{\"password\":\"secret\"}}\nno line ending");
    let echo = run(&["record", file.to_str().unwrap(), "--", "sh", "-c", "cat; echo last words >&2; exit 7"], &bytes);
    assert_eq!(echo.status.code(), Some(7), "{}", String::from_utf8_lossy(&echo.stderr));
    assert!(echo.stdout == bytes, "{} bytes", echo.stdout.len());
    assert_eq!(String::from_utf8_lossy(&echo.stderr), "last words\n");
    let entries = entries(&file);
    for dir in ["c2s", "s2c"] {
        let of_dir: Vec<&Value> = entries.iter().filter(|entry| entry["dir"] == dir).collect();
        assert_eq!(of_dir[of_dir.len() - 2]["msg"]["params"]["password"], "[hidden]");
        assert_eq!(of_dir[of_dir.len() - 1]["raw"], "no line ending");
    }
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_file_that_is_there_is_left_alone_unless_forced() {
    let state = State::new();
    let file = state.path().join("recording.jsonl");
    let path = file.to_str().unwrap();
    fs::write(&file, "precious").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let refused = run(&["record", path, "--", "cat"], b"{}\n");
    assert_eq!(refused.status.code(), Some(1));
    let stderr = String::from_utf8(refused.stderr).unwrap();
    assert!(stderr.ends_with("is there already: name another file, or add --force\n"), "{stderr}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    let forced = run(&["record", "--force", "--keep-secrets", path, "--", "cat"], b"{\"token\":\"abc\"}\n");
    assert!(forced.status.success());
    assert_eq!(entries(&file)[0]["msg"]["token"], "abc");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_full_disk_ends_the_recording_and_never_the_conversation() {
    let lines = "{\"method\":\"hello\"}\n".repeat(100_000);
    let output = run(&["record", "--force", "/dev/full", "--", "cat"], lines.as_bytes());
    assert!(output.status.success());
    assert!(output.stdout == lines.as_bytes());
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("the recording ends here, /dev/full cannot be written"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn a_worker_that_is_missing_or_killed_is_told_as_such() {
    let state = State::new();
    let path = |name: &str| state.path().join(name).to_str().unwrap().to_owned();
    let missing = run(&["record", &path("a"), "--", "no-such-worker"], b"");
    assert_eq!(missing.status.code(), Some(1));
    let stderr = String::from_utf8(missing.stderr).unwrap();
    assert!(stderr.contains("cannot start the worker: `no-such-worker` is not on the PATH"), "{stderr}");
    let killed = run(&["record", &path("b"), "--", "sh", "-c", "kill -9 $$"], b"");
    assert_eq!(killed.status.code(), Some(137));
}

#[test]
fn a_bad_recording_is_refused_with_its_line() {
    let state = State::new();
    let file = state.path().join("bad.jsonl");
    let call = r#"{"t":0,"dir":"c2s","msg":{"id":1,"method":"a"}}"#;
    let mut said = String::new();
    for text in [
        String::new(),
        format!("{call}\nnot JSON\n"),
        format!("{call}\n\n{{\"dir\":\"up\",\"msg\":{{}}}}\n"),
        format!("{call}\n{{\"dir\":\"s2c\"}}\n"),
        format!("{call}\n{{\"t\":0,\"msg\":1}}\n"),
    ] {
        fs::write(&file, text).unwrap();
        let output = run(&["replay", file.to_str().unwrap()], b"");
        assert_eq!(output.status.code(), Some(1));
        said += &String::from_utf8(output.stderr).unwrap().replace(file.to_str().unwrap(), "FILE");
    }
    expect![[r#"
        switchboard: FILE: line 0: the file ends, and no client spoke
        switchboard: FILE: line 2: not an entry: expected ident at line 1 column 2
        switchboard: FILE: line 3: `dir` is "up", and must be "c2s" or "s2c"
        switchboard: FILE: line 2: an entry has either `msg` or `raw`
        switchboard: FILE: line 2: not an entry: missing field `dir` at line 1 column 15
    "#]]
    .assert_eq(&said);
    let missing = run(&["replay", "/nowhere"], b"");
    assert!(String::from_utf8(missing.stderr).unwrap().contains("cannot read /nowhere"));
}
