//! Tool servers of a running server: offered, changed without a restart of the others, and gone when it is.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::command::State;
use crate::served::Served;

pub(crate) const KEY: &str = "a-key-that-nobody-guesses-0123456789";

/// A tool server of the gallery. The variable lets a test find its process.
pub(crate) fn table(state: &State, name: &str, exhibit: &str, more: &str) -> String {
    let gallery = testkit::built::example("tools", "gallery");
    let (gallery, home) = (gallery.to_str().unwrap(), state.path().to_str().unwrap());
    format!("[tools.{name}]\ncommand = [{gallery:?}, {exhibit:?}]\nvariables = {{ TEST = {home:?} }}\n{more}\n")
}

fn told(served: &Served<'_>, name: &str) -> Value {
    let answer = served.get(&format!("/api/tools/{name}"));
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

pub(crate) fn wait_for_state(served: &Served<'_>, name: &str, state: &str) -> u64 {
    served.wait_until(&format!("{name} is {state}"), |served| told(served, name)["state"] == state);
    told(served, name)["pid"].as_u64().unwrap_or_default()
}

/// One that has ended and that nobody has asked for its end yet has no command line any more.
fn is_alive(pid: u64) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|words| !words.is_empty())
}

fn call(served: &Served<'_>, tool: &str, arguments: &Value) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
    let headers = format!(
        "accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: {tool}\r\n"
    );
    let answer = served.post_with("/mcp", &headers, &body);
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    serde_json::from_str(body).unwrap_or_else(|_| panic!("{answer}"))
}

#[test]
fn a_change_of_the_file_touches_only_what_it_changes() {
    let state = State::new();
    let (kept, changed) = (table(&state, "kept", "dual", ""), table(&state, "changed", "dual", ""));
    state.configure(&format!("{kept}{changed}"));
    let served = Served::start(&state);
    let (kept_pid, changed_pid) =
        (wait_for_state(&served, "kept", "ready"), wait_for_state(&served, "changed", "ready"));
    assert_eq!(call(&served, "kept__echo", &json!({ "text": "hello" }))["result"]["content"][0]["text"], "hello");

    let (other, added) = (table(&state, "changed", "legacy", ""), table(&state, "added", "modern", ""));
    state.configure(&format!("{kept}{other}{added}"));
    served.accept_configuration();
    served.wait_until("another is added", |served| told(served, "added")["state"] == "ready");
    served.wait_until("the changed one is another", |served| told(served, "changed")["era"] == "legacy");
    assert_eq!(told(&served, "kept")["pid"], kept_pid, "it goes on untouched");
    served.wait_until("the one before is gone", |_| !is_alive(changed_pid));

    state.configure("[tools.kept]\ncommand = \"no list\"\n");
    served.wait_until("a file that cannot be used", |served| served.get("/api/tools").contains("\"added\""));
    state.configure(&kept);
    served.wait_until("the others are gone", |served| served.get("/api/tools/added").starts_with("HTTP/1.1 404"));
    assert_eq!(told(&served, "kept")["pid"], kept_pid, "it goes on untouched");
    let ended = served.stop();
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    assert!(!is_alive(kept_pid));
}

#[test]
fn the_end_of_the_server_leaves_no_tool_server() {
    let state = State::new();
    let tables = ["dual", "stubborn", "orphan", "crash-loop", "import-error"].map(|name| table(&state, name, name, ""));
    state.configure(&tables.concat());
    let served = Served::start(&state);
    wait_for_state(&served, "dual", "ready");
    wait_for_state(&served, "stubborn", "ready");
    wait_for_state(&served, "orphan", "ready");
    let ended = served.stop();
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
}

#[test]
fn a_second_signal_leaves_none_either() {
    let state = State::new();
    state.configure(&format!("drain_grace = \"1m\"\n{}", table(&state, "stubborn", "stubborn", "")));
    let served = Served::start(&state);
    wait_for_state(&served, "stubborn", "ready");
    // What keeps it from ending by itself.
    served.post("/api/turns", r#"{"prompt":"[[hang]]"}"#);
    served.run.signal(Signal::TERM);
    served.wait_until("it drains", |served| served.get("/readyz").starts_with("HTTP/1.1 503"));
    served.run.signal(Signal::TERM);
    assert_eq!(served.run.end().code(), Some(130));
}

#[test]
fn what_a_killed_server_leaves_is_ended_by_the_next() {
    let state = State::new();
    state.configure(&table(&state, "stubborn", "stubborn", ""));
    let start = || Served::start_with(&state, &["--worker", "demo"], &[("SWITCHBOARD_KEY", KEY)]);
    let served = start();
    let pid = wait_for_state(&served, "stubborn", "ready");
    served.run.signal(Signal::KILL);
    served.run.end_beside_others();
    let again = start();
    assert!(!is_alive(pid), "the next start ends it first");
    assert_ne!(wait_for_state(&again, "stubborn", "ready"), pid);
    assert_eq!(again.stop().code(), Some(0));
}

#[test]
fn what_a_tool_server_says_is_not_in_the_log() {
    let state = State::new();
    state.configure(&table(&state, "broken", "import-error", ""));
    let served = Served::start(&state);
    wait_for_state(&served, "broken", "failed");
    let why = told(&served, "broken")["reason"].as_str().unwrap().to_owned();
    let stderr = served.stop().stderr;
    assert!(stderr.contains("a tool server has failed; `switchboard tools check broken` says why"), "{stderr}");
    assert!(why.contains("ModuleNotFoundError") && !stderr.contains("ModuleNotFoundError"), "{why}\n{stderr}");
}

#[test]
fn a_session_that_nobody_uses_costs_less_than_10_kb() {
    const SESSION_BYTES_MAX: u64 = 10_000;
    let state = State::new();
    let served = Served::start(&state);
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": { "elicitation": {}, "roots": { "listChanged": true }, "sampling": {} },
        "clientInfo": { "name": "test", "version": "1" },
    });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }).to_string();
    let post = |headers: &str, body: &str| {
        served.post_with("/mcp", &format!("accept: application/json, text/event-stream\r\n{headers}"), body)
    };
    let open_and_use = |count: u64| {
        for _ in 0..count {
            let opened = post("", &body);
            let id = opened.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
            let id = id.unwrap_or_else(|| panic!("no session: {opened}"));
            let used = post(&format!("mcp-session-id: {id}\r\n"), r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#);
            assert!(used.starts_with("HTTP/1.1 200"), "{used}");
        }
        testkit::processes::memory_peak(served.run.pid())
    };
    // What is needed once is there by then.
    let before = open_and_use(100);
    let more = 900;
    let each = open_and_use(more).saturating_sub(before) / more;
    assert!(each < SESSION_BYTES_MAX, "a session costs {each} bytes");
    served.stop();
}
