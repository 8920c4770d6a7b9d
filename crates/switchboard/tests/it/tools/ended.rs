//! Calls whose server, caller or configuration comes to an end before they do, and an operator who is not locked out by that.

use serde_json::json;

use super::shared::serve;
use super::{configure, gallery};
use crate::command::State;
use crate::served::Served;

fn wait_until_called(served: &Served<'_>, server: &str) {
    served.wait_until("called", |served| served.get(&format!("/api/tools/{server}/frames")).contains("tools/call"));
}

#[test]
fn a_call_that_outlasts_the_server_is_told_how_far_it_came() {
    let state = State::new();
    let table = format!("[tools.g]\ncommand = [{:?}, \"dual\"]\n[limits]\nresponse_grace = \"100ms\"\n", gallery());
    state.configure(&table);
    let served = Served::start(&state);
    served.wait_until("started", |served| served.json(&["tools"])["servers"][0]["state"] == "ready");
    let calling = state.run_with(&["tools", "call", "g__hang", "--json"], &[]);
    wait_until_called(&served, "g");
    served.stop();
    let called = calling.end();
    assert_eq!(called.code(), Some(1), "{}", called.stderr);
    let result: serde_json::Value = serde_json::from_str(&called.stdout).unwrap();
    let failure = json!({ "kind": "server_gone", "work_may_have_run": true });
    assert_eq!(result["_meta"]["switchboard/failure"], failure, "{result}");
}

#[test]
fn what_waits_for_a_confirmation_is_refused_when_its_server_is_changed() {
    let state = State::new();
    let served = serve(&state, &[("g", "modern")]);
    let calling = state.run_with(&["tools", "call", "g__delete", r#"{"path":"a"}"#], &[]);
    served.wait_until("asked", |served| served.json(&["approvals"])["approvals"][0]["state"] == "pending");
    configure(&state, &[("g", "dual")]);
    served.accept_configuration();
    let called = calling.end_beside_others();
    assert_eq!(called.code(), Some(1), "{}", called.stderr);
    assert!(called.stdout.contains("was changed meanwhile: ask again"), "{}", called.stdout);
    served.wait_until("withdrawn", |served| served.json(&["approvals"])["approvals"] == json!([]));
    served.stop();
}

#[test]
fn a_server_that_is_named_with_its_key_is_asked_though_the_file_is_broken() {
    let state = State::new();
    let served = serve(&state, &[]);
    let (url, key) = (served.url().to_owned(), served.key().to_owned());
    state.configure("[[[");
    let asked = state.run_with(&["approvals", "--server", &url], &[("SWITCHBOARD_KEY", &key)]).end_beside_others();
    assert_eq!((asked.code(), asked.stdout.as_str()), (Some(0), "nothing waits for a decision\n"), "{}", asked.stderr);
    let unnamed = state.run_with(&["approvals"], &[]).end_beside_others();
    assert_eq!(unnamed.code(), Some(1));
    served.stop();
}

#[test]
fn what_is_for_this_machine_goes_through_no_proxy() {
    let state = State::new();
    let served = serve(&state, &[("g", "modern")]);
    let (url, key) = (format!("{}/mcp", served.url()), format!("Authorization: Bearer {}", served.key()));
    let nowhere = "http://127.0.0.1:1";
    let proxies = [("HTTP_PROXY", nowhere), ("http_proxy", nowhere), ("ALL_PROXY", nowhere)];
    let checked = state.run_with(&["tools", "check", "--url", &url, "--header", &key], &proxies).end_beside_others();
    assert!(checked.stdout.contains("16 tools"), "{}{}", checked.stdout, checked.stderr);
    served.stop();
}
