//! `switchboard tools` with real tool servers, which are those of the gallery: checked, called, and offered over stdio.

mod client;
mod ended;
mod shared;

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use rustix::process::Signal;
use serde_json::{Value, json};
use tools::Code;

use crate::command::{Ended, State};
use client::Client;

/// The program of the gallery. It is built with the tests of its own crate; for those of this one alone it is built here.
fn gallery() -> &'static str {
    static GALLERY: OnceLock<String> = OnceLock::new();
    GALLERY.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        let directory = test.parent().unwrap().parent().unwrap();
        let program = directory.join("examples/gallery");
        if !program.exists() {
            #[expect(clippy::disallowed_methods, reason = "the test plays the user's shell")]
            let mut cargo = Command::new(env!("CARGO"));
            cargo.args(["build", "--quiet", "-p", "tools", "--example", "gallery", "--target-dir"]);
            cargo.arg(directory.parent().unwrap());
            assert!(cargo.status().unwrap().success());
        }
        program.to_str().unwrap().into()
    })
}

/// Configures servers of the gallery, by their names and what they play. Each is marked, so that it is missed if it stays.
fn configure(state: &State, servers: &[(&str, &str)]) {
    let table = |(name, plays): &(&str, &str)| {
        let mark = state.path().display();
        format!("[tools.{name}]\ncommand = [{:?}, {plays:?}]\nvariables = {{ MARK = \"{mark}\" }}\n", gallery())
    };
    state.configure(&servers.iter().map(table).collect::<String>());
}

fn check(state: &State, arguments: &[&str]) -> Ended {
    state.run_with(&[&["tools", "check"], arguments].concat(), &[]).end()
}

/// Checks a server of the gallery that is not configured.
fn check_program(state: &State, flags: &[&str], plays: &str) -> Ended {
    let mark = format!("MARK={}", state.path().display());
    check(state, &[flags, &["--env", &mark, "--", gallery(), plays]].concat())
}

fn codes(report: &str) -> Vec<String> {
    let report: Value = serde_json::from_str(report).unwrap();
    report["findings"].as_array().unwrap().iter().map(|one| one["code"].as_str().unwrap().into()).collect()
}

#[test]
fn a_check_finds_every_fault_of_a_server_in_one_run() {
    let state = State::new();
    let ended = check_program(&state, &[], "adr");
    assert_eq!(ended.code(), Some(2), "{}", ended.stderr);
    assert!(ended.stdout.starts_with("gallery: unusable, 3 tools, "), "{}", ended.stdout);
    for part in ["\nD1 ", "\nD3 ", "\nD8 ", "  at:    $.id\n", "  fix:   send nothing at the start"] {
        assert!(ended.stdout.contains(part), "no {part:?} in {}", ended.stdout);
    }
    let ended = check_program(&state, &["--json"], "adr");
    assert_eq!(ended.code(), Some(2), "{}", ended.stderr);
    assert_eq!(ended.stdout.lines().count(), 1);
    let codes = codes(&ended.stdout);
    assert!(["D1", "D3", "D8"].iter().all(|code| codes.iter().any(|found| found == code)), "{codes:?}");
}

#[test]
fn a_good_server_has_nothing_to_be_found() {
    let state = State::new();
    for plays in ["legacy", "modern", "dual"] {
        let ended = check_program(&state, &[], plays);
        assert_eq!(ended.code(), Some(0), "{}{}", ended.stdout, ended.stderr);
        assert!(ended.stdout.contains("no fault found"), "{}", ended.stdout);
    }
}

#[test]
fn a_server_that_can_be_used_all_the_same_exits_with_one() {
    let ended = check_program(&State::new(), &["--json"], "d7");
    assert_eq!((ended.code(), codes(&ended.stdout)), (Some(1), vec!["D7".to_owned()]), "{}", ended.stderr);
}

#[test]
fn the_dialect_of_localcowork_is_spoken_only_where_it_is_asked_for() {
    let state = State::new();
    assert_eq!(check_program(&state, &[], "localcowork-python").code(), Some(2));
    let asked = check_program(&state, &["--dialect", "localcowork"], "localcowork-python");
    assert!(asked.stdout.contains("(the dialect of LocalCowork)"), "{}", asked.stdout);
    assert_ne!(asked.code(), Some(2), "{}", asked.stdout);
}

#[test]
fn a_silent_server_is_given_up_when_its_time_is_over() {
    let ended = check_program(&State::new(), &["--timeout", "300ms", "--json"], "silent");
    assert_eq!(ended.code(), Some(2));
    assert!(codes(&ended.stdout).contains(&"D11".to_owned()), "{}", ended.stdout);
}

#[test]
fn configured_servers_are_checked_by_name_or_all_of_them_and_the_worst_counts() {
    let state = State::new();
    configure(&state, &[("good", "dual"), ("lossy", "d7")]);
    assert_eq!(check(&state, &["good"]).code(), Some(0));
    let ended = check(&state, &[]);
    assert_eq!(ended.code(), Some(1), "{}", ended.stderr);
    let places = ["good: ready", "lossy: usable"].map(|part| ended.stdout.find(part));
    assert!(places[0].is_some() && places[0] < places[1], "{}", ended.stdout);
    let ended = check(&state, &["--json"]);
    assert_eq!(ended.stdout.lines().map(codes).collect::<Vec<_>>(), [vec![], vec!["D7".to_owned()]]);
}

#[test]
fn what_cannot_be_checked_says_why_and_exits_with_two() {
    let state = State::new();
    let none = check(&state, &[]);
    assert_eq!(none.code(), Some(2));
    assert!(none.stderr.contains("no tool server is configured"), "{}", none.stderr);
    configure(&state, &[("files", "dual")]);
    for (arguments, part) in [
        (&["flies"][..], "there is no tool server \"flies\": did you mean \"files\"?"),
        (&["--url", "http://example.com/mcp"], "must be \"https://\""),
        (&["--env", "NO_SUCH_VARIABLE_HERE", "--", "x"], "there is no such variable"),
        (&["--cwd", "nowhere", "--", "x"], "is no directory"),
        (&["files", "--", "x"], "cannot be used with"),
        (&["--server", "http://127.0.0.1:1", "files"], "leave --server out"),
    ] {
        let ended = check(&state, arguments);
        assert_eq!(ended.code(), Some(2), "{arguments:?}");
        assert!(ended.stderr.contains(part), "{arguments:?}: {}", ended.stderr);
    }
    let missing = check(&state, &["--", "no-such-program"]);
    assert_eq!(missing.code(), Some(2), "{}", missing.stderr);
    assert!(
        missing.stdout.contains("D10 error") && missing.stdout.contains("could not be started"),
        "{}",
        missing.stdout
    );
}

fn call(state: &State, arguments: &[&str]) -> Ended {
    state.run_with(&[&["tools", "call"], arguments].concat(), &[]).end()
}

#[test]
fn a_tool_is_called_without_a_server() {
    let state = State::new();
    // The other is not even started: it would take its time.
    configure(&state, &[("good", "legacy"), ("other", "silent")]);
    let called = call(&state, &["good__echo", r#"{"text":"hi"}"#]);
    assert_eq!((called.code(), called.stdout.as_str()), (Some(0), "hi\n"), "{}", called.stderr);
    let json = call(&state, &["good__echo", r#"{"text":"hi"}"#, "--json"]);
    let result: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(result["content"], json!([{ "type": "text", "text": "hi" }]));
}

#[test]
fn a_tool_that_fails_exits_with_one_and_one_that_is_not_called_with_two() {
    let state = State::new();
    configure(&state, &[("good", "legacy"), ("dead", "import-error")]);
    let wrong = call(&state, &["good__echo", r#"{"txt":"hi"}"#]);
    assert_eq!(wrong.code(), Some(1), "{}", wrong.stderr);
    assert!(wrong.stdout.contains("`$`") && wrong.stdout.contains("txt"), "{}", wrong.stdout);
    for (arguments, part) in [
        (&["good__ecko"][..], "there is no tool \"good__ecko\": did you mean \"good__echo\"?"),
        (&["good__echo", "{text:1}"], "cannot read the arguments: no JSON: "),
        (&["good__echo", "[]"], "no JSON object"),
        (&["dead__echo"], "`switchboard tools check dead` says what is wrong"),
    ] {
        let ended = call(&state, arguments);
        assert_eq!(ended.code(), Some(2), "{arguments:?} {}", ended.stdout);
        assert!(ended.stderr.contains(part), "{arguments:?}: {}", ended.stderr);
    }
}

#[test]
fn arguments_are_read_from_stdin() {
    let state = State::new();
    configure(&state, &[("good", "modern")]);
    let mut run = state.run_listening(&["tools", "call", "good__echo", "-"]);
    run.say(r#"{"text":"from a pipe"}"#);
    run.fall_silent();
    let ended = run.end();
    assert_eq!((ended.code(), ended.stdout.as_str()), (Some(0), "from a pipe\n"), "{}", ended.stderr);
}

#[test]
fn tools_are_offered_over_stdio_in_both_eras_and_nothing_is_left_at_the_end() {
    let state = State::new();
    configure(&state, &[("new", "modern"), ("old", "legacy")]);
    for mut client in [Client::legacy(&state, &[], &json!({})), Client::modern(&state, &[], &json!({}))] {
        let tools = client.tools(1);
        assert!(tools.contains(&"new__echo".into()) && tools.contains(&"old__echo".into()), "{tools:?}");
        client.echo(2, "new__echo");
        client.echo(3, "old__echo");
        let ended = client.leave().end_beside_others();
        assert_eq!((ended.code(), ended.stdout.as_str()), (Some(0), ""), "{}", ended.stderr);
    }
    // Both were started at once; with the second everything is gone.
    let last = Client::modern(&state, &[], &json!({}));
    let ended = last.leave().end();
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
}

#[test]
fn a_client_that_is_told_to_end_leaves_nothing_either() {
    let state = State::new();
    configure(&state, &[("old", "legacy")]);
    let mut client = Client::legacy(&state, &["--own"], &json!({}));
    client.echo(1, "old__echo");
    client.run.signal(Signal::TERM);
    let ended = client.run.end();
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
}

#[test]
fn every_code_stands_in_the_page_for_users() {
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/tools.md");
    let page = std::fs::read_to_string(page).unwrap();
    for code in Code::ALL {
        let rows = page.lines().filter(|line| line.starts_with(&format!("| {code} |"))).count();
        assert_eq!(rows, 1, "{code} stands in {rows} rows of docs/tools.md");
    }
    let rows = page.lines().filter(|line| line.starts_with("| D")).count();
    assert_eq!(rows, Code::ALL.len());
}
