//! Whatever is killed, hangs, floods or never comes up: others go on, it comes back, and nothing is left running.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tools::{Server, ServerState, Timeouts};

use crate::house::{House, runs, server, text};
use crate::meetings::until;

pub(crate) fn kill(pid: u32) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_in_mid_call_fails_the_call_and_comes_back() {
    let house = House::ready(vec![server("victim", "dual"), server("other", "dual")]).await;
    let pid = house.view("victim").pid.unwrap();
    let call = house.call("victim__hang", json!({}));
    let killing = async {
        let is_asked = |frame: &tools::Frame| frame.text.contains("tools/call");
        house.until("victim", |_| house.host.frames("victim").unwrap().frames.iter().any(is_asked)).await;
        kill(pid);
        Instant::now()
    };
    let (result, killed_at) = tokio::join!(call, killing);
    assert_eq!(result["isError"], true);
    assert!(text(&result).contains("SIGKILL"), "{result}");
    assert_eq!(result["_meta"]["switchboard/failure"], json!({ "kind": "server_gone", "work_may_have_run": true }));
    house.until("victim", |view| view.state == ServerState::Ready && view.pid != Some(pid)).await;
    println!("recovered {:?} after the kill", killed_at.elapsed());
    assert_eq!(text(&house.call("victim__echo", json!({ "text": "back" })).await), "back");
    assert_eq!(text(&house.call("other__echo", json!({ "text": "here" })).await), "here");
    house.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_in_a_loop_is_given_up_and_comes_back_when_asked() {
    let house = House::ready(vec![server("victim", "dual"), server("other", "dual")]).await;
    let other = house.view("other").pid;
    let killed = RefCell::new(Vec::new());
    let view = until("the victim is given up", async || {
        let view = house.view("victim");
        if let Some(pid) = view.pid.filter(|pid| view.state == ServerState::Ready && !killed.borrow().contains(pid)) {
            kill(pid);
            killed.borrow_mut().push(pid);
        }
        assert_eq!(text(&house.call("other__echo", json!({ "text": "x" })).await), "x");
        (view.state == ServerState::Failed).then_some(view)
    })
    .await;
    let killed = killed.into_inner();
    println!("given up after {} kills: {}", killed.len(), view.reason.as_deref().unwrap_or_default());
    assert!(view.reason.unwrap().contains("SIGKILL"));
    assert_eq!(house.view("other").pid, other);
    // Its tools are still listed; a call says why it cannot be made.
    let result = house.call("victim__echo", json!({ "text": "x" })).await;
    assert_eq!(result["_meta"]["switchboard/failure"]["work_may_have_run"], false);
    assert!(house.host.restart("victim"));
    house.until_ready("victim").await;
    assert_eq!(text(&house.call("victim__echo", json!({ "text": "back" })).await), "back");
    house.host.stop().await;
    assert!(killed.iter().all(|pid| !runs(*pid)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_hangs_is_given_up_in_time_and_hinders_no_other() {
    let timeouts = Timeouts { call: Duration::from_millis(300), ..Timeouts::default() };
    let house = House::ready(vec![Server { timeouts, ..server("g", "dual") }]).await;
    let result = house.call("g__hang", json!({})).await;
    assert_eq!(result["_meta"]["switchboard/failure"], json!({ "kind": "timed_out", "work_may_have_run": true }));
    assert_eq!(text(&house.call("g__echo", json!({ "text": "x" })).await), "x");
    // The server was told that nobody waits any more.
    let frames = house.host.frames("g").unwrap().frames;
    assert!(frames.iter().any(|frame| frame.text.contains("notifications/cancelled")));
    house.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_hinders_no_other_server() {
    let house = House::ready(vec![server("flood", "dual"), server("other", "dual")]).await;
    let flood = house.call("flood__flood", json!({ "bytes": 64 << 20 }));
    let others = async {
        for number in 0..50 {
            let sent = number.to_string();
            assert_eq!(text(&house.call("other__echo", json!({ "text": sent })).await), sent);
        }
    };
    tokio::join!(flood, others);
    assert_eq!(text(&house.call("flood__echo", json!({ "text": "dry" })).await), "dry");
    house.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ends_at_import_is_told_with_its_traceback() {
    let house = House::start(vec![server("py", "import-error"), server("other", "dual")]);
    let view = house.until("py", |view| view.state == ServerState::Failed).await;
    let reason = view.reason.unwrap();
    assert!(reason.contains("code 1") && reason.contains("ModuleNotFoundError"), "{reason}");
    assert!(view.findings.iter().any(|finding| finding.code == tools::Code::D10));
    house.until_ready("other").await;
    house.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_running_after_a_stop() {
    let names = ["dual", "legacy", "modern", "stubborn", "orphan", "d17", "d18"];
    let house = House::start(names.iter().map(|name| server(name, name)).collect());
    for name in names {
        house.until(name, |view| view.state.is_usable()).await;
    }
    let pids: Vec<u32> = names.iter().filter_map(|name| house.view(name).pid).collect();
    assert_eq!(pids.len(), names.len());
    let begun = Instant::now();
    house.host.stop().await;
    println!("all stopped after {:?}", begun.elapsed());
    assert!(pids.iter().all(|pid| !runs(*pid)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_of_what_is_new_is_asked_it_once() {
    let house = House::start(vec![crate::hostile::fragile()]);
    let first = house.until_ready("g").await;
    assert_eq!(first.restarts, 1, "it died of `server/discover`");
    kill(first.pid.unwrap());
    house.until("g", |view| view.state == ServerState::Ready && view.pid != first.pid).await;
    assert_eq!(house.view("g").restarts, 2, "it was started once more");
    house.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_without_end_has_one() {
    let limits = tools::Limits { call_max: Duration::from_millis(300), ..tools::Limits::default() };
    let house = House::of(tools::Plan { limits, ..crate::house::plan(vec![server("g", "dual")]) });
    house.until_ready("g").await;
    let result = house.call("g__sleep", json!({ "ms": 100_000 })).await;
    assert_eq!(result["_meta"]["switchboard/failure"]["kind"], "timed_out", "{result}");
    assert!(text(&result).contains("300ms"), "{result}");
    house.host.stop().await;
}
