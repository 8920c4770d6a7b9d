//! Threads outlive the worker.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use expect_test::expect;
use tempfile::TempDir;

use super::{Theatre, V2_OPENING, lines_with, turn};
use crate::home::Shelf;
use crate::options::Dialect;

const INITIALIZE: &str = r#"
    A connects
    A< {"id":1,"method":"initialize","params":{"clientInfo":{"name":"test","version":"0"},"capabilities":{"experimentalApi":true}}}"#;

#[test]
fn killed_worker_leaves_its_running_turn_interrupted() {
    let home = TempDir::new().unwrap();
    let mut theatre = Theatre::new(Dialect::V2, &home, "");
    theatre.play(V2_OPENING);
    theatre.play(&(turn(3, "[[text]]") + "\n" + &turn(4, "[[slow 9 50]]") + "\n120 ms pass"));
    theatre.log.clear();
    theatre.play(&format!("worker restarts{INITIALIZE}"));
    theatre.log.clear();
    let resume = r#"A< {"id":9,"method":"thread/resume","params":{"threadId":"$2.thread.id"}}"#;
    expect![[r##"
        A {"method":"deprecationNotice","params":{"summary":"Full-history hydration is deprecated for paginated threads; use `excludeTurns: true`, then page with `thread/turns/list` and `thread/items/list`."}}
        A {"method":"thread/status/changed","params":{"status":{"type":"idle"}}}
        A {"id":9,"result":{"approvalPolicy":"on-request","approvalsReviewer":"user","collaborationMode":{"mode":"default","settings":{"model":"demo"}},"disabledPluginIds":[],"instructionSources":[],"itemsBackwardsCursor":"{\"requestedThreadId\":\"#1\",\"rolloutOrdinal\":2,\"includeAnchor\":true,\"scope\":{\"kind\":\"itemsByCreatedAtOrdinal\"}}","model":"demo","modelProvider":"demo","multiAgentMode":"explicitRequestOnly","sandbox":{"networkAccess":false,"type":"readOnly"},"thread":{"canAcceptDirectInput":true,"ephemeral":false,"historyMode":"paginated","id":"#1","model":"demo","modelProvider":"demo","originator":"test","path":"$HOME/sessions/2027/01/15/rollout-2027-01-15T08-00-00-#1.jsonl","preview":"[[text]]","source":"vscode","status":{"type":"idle"},"turns":[{"id":"#2","items":[{"content":[{"text":"[[text]]","text_elements":[],"type":"text"}],"id":"#3","type":"userMessage"},{"id":"msg_resp_4","text":"Hello from mock.","type":"agentMessage"}],"itemsView":"full","status":"completed"},{"id":"#4","items":[{"content":[{"text":"[[slow 9 50]]","text_elements":[],"type":"text"}],"id":"#5","type":"userMessage"}],"itemsView":"full","status":"interrupted"}]},"turnsBackwardsCursor":"{\"requestedThreadId\":\"#1\",\"rolloutOrdinal\":1,\"includeAnchor\":true,\"scope\":{\"kind\":\"turns\"}}"}}
        A {"method":"thread/tokenUsage/updated","params":{"tokenUsage":{"last":{"cacheWriteInputTokens":0,"cachedInputTokens":40,"inputTokens":100,"outputTokens":10,"reasoningOutputTokens":0,"totalTokens":110},"modelContextWindow":258400,"total":{"cacheWriteInputTokens":0,"cachedInputTokens":40,"inputTokens":100,"outputTokens":10,"reasoningOutputTokens":0,"totalTokens":110}}}}
        A {"method":"thread/goal/cleared","params":{}}
    "##]].assert_eq(theatre.play(resume));
}

#[test]
fn thread_has_one_writer() {
    let home = TempDir::new().unwrap();
    let mut first = Theatre::new(Dialect::V2, &home, "");
    first.play(V2_OPENING);
    first.play(&turn(3, "[[text]]"));
    let mut second = Theatre::new(Dialect::V2, &home, "seed = 2");
    second.results.clone_from(&first.results);
    second.play(INITIALIZE);
    second.log.clear();
    let resume = r#"A< {"id":9,"method":"thread/resume","params":{"threadId":"$2.thread.id","excludeTurns":true}}"#;
    expect![[r#"
        A {"error":{"code":-32600,"message":"thread #1 already has an active writer"},"id":9}
    "#]]
    .assert_eq(second.play(resume));
    drop(first);
    second.log.clear();
    let outcome = second.play(resume);
    assert!(outcome.contains(r#""turnsBackwardsCursor""#), "{outcome}");
}

#[test]
fn tools_are_remembered_across_a_restart() {
    let home = TempDir::new().unwrap();
    let mut theatre = Theatre::new(Dialect::V2, &home, "");
    theatre.play(INITIALIZE);
    theatre.play(r#"A< {"id":2,"method":"thread/start","params":{"dynamicTools":[{"name":"ask","description":"d","inputSchema":{}}]}}"#);
    theatre.play(&turn(3, "[[text]]"));
    theatre.play(&format!("worker restarts{INITIALIZE}"));
    theatre.play(r#"A< {"id":4,"method":"thread/resume","params":{"threadId":"$2.thread.id"}}"#);
    theatre.log.clear();
    let play = turn(5, "[[tool ask {}]]")
        + r#"
        A< {"id":0,"result":{"contentItems":[{"type":"inputText","text":"42"}],"success":true}}"#;
    expect![[r#"
        A {"method":"item/started","params":{"item":{"arguments":{},"id":"call_resp_3","status":"inProgress","tool":"ask","type":"dynamicToolCall"}}}
        A {"id":0,"method":"item/tool/call","params":{"arguments":{},"callId":"call_resp_3","tool":"ask"}}
        A {"method":"item/completed","params":{"item":{"arguments":{},"contentItems":[{"text":"42","type":"inputText"}],"id":"call_resp_3","status":"completed","success":true,"tool":"ask","type":"dynamicToolCall"}}}
    "#]].assert_eq(&lines_with(
        theatre.play(&play),
        &["tool/call", "dynamicToolCall"],
    ));
}

#[test]
fn shutdown_keeps_a_parked_turn_as_interrupted() {
    let home = TempDir::new().unwrap();
    let mut theatre = Theatre::new(Dialect::V2, &home, "");
    theatre.play(INITIALIZE);
    theatre.play(r#"A< {"id":2,"method":"thread/start","params":{"cwd":"/home/dev","dynamicTools":[{"name":"ask","description":"d","inputSchema":{}}]}}"#);
    theatre.play(&turn(3, "[[tool ask {}]]"));
    theatre.worker.handle_shutdown(theatre.now);
    theatre.play(&format!("worker restarts{INITIALIZE}"));
    theatre.log.clear();
    let read = r#"A< {"id":4,"method":"thread/turns/list","params":{"threadId":"$2.thread.id","itemsView":"full"}}"#;
    expect![[r##"
        A {"id":4,"result":{"backwardsCursor":"{\"requestedThreadId\":\"#1\",\"rolloutOrdinal\":0,\"includeAnchor\":true,\"scope\":{\"kind\":\"turns\"}}","data":[{"id":"#2","items":[{"content":[{"text":"[[tool ask {}]]","text_elements":[],"type":"text"}],"id":"#3","type":"userMessage"},{"arguments":{},"contentItems":[],"id":"call_resp_4","status":"failed","success":false,"tool":"ask","type":"dynamicToolCall"}],"itemsView":"full","status":"interrupted"}]}}
    "##]].assert_eq(theatre.play(read));
}

/// A thread with one turn, the worker gone, and its file.
fn left_behind(home: &TempDir) -> (Theatre, PathBuf) {
    let mut theatre = Theatre::new(Dialect::V2, home, "");
    theatre.play(V2_OPENING);
    theatre.play(&turn(3, "[[text]]"));
    theatre.play(&format!("worker restarts{INITIALIZE}"));
    theatre.log.clear();
    let [file] = &theatre.worker.stage.home.files(Shelf::Active)[..] else { panic!("one thread, one file") };
    (theatre, file.clone())
}

#[test]
fn torn_or_broken_line_costs_nothing_else() {
    let home = TempDir::new().unwrap();
    let (mut theatre, file) = left_behind(&home);
    let mut kept = fs::read(&file).unwrap();
    kept.extend_from_slice(b"{\"item\":\xff\n{\"item\":{\"turnId\":\"ha");
    fs::write(&file, kept).unwrap();
    theatre.play(r#"A< {"id":4,"method":"thread/resume","params":{"threadId":"$2.thread.id"}}"#);
    theatre.play(&turn(5, "[[say after the break]]"));
    theatre.play(&format!("worker restarts{INITIALIZE}"));
    theatre.log.clear();
    let read = r#"A< {"id":6,"method":"thread/read","params":{"threadId":"$2.thread.id","includeTurns":true}}"#;
    let log = theatre.play(read);
    assert!(log.contains("Hello from mock.") && log.contains(r#""text":"after the break""#), "{log}");
}

#[test]
fn home_with_traps_is_walked_to_the_end() {
    let home = TempDir::new().unwrap();
    let (mut theatre, file) = left_behind(&home);
    let sessions = home.path().join("sessions");
    symlink(&sessions, sessions.join("loop")).unwrap();
    symlink("/dev/zero", sessions.join("rollout-zero.jsonl")).unwrap();
    fs::copy(&file, sessions.join("rollout-2026-01-01T00-00-00-00000000-0000-7000-8000-000000000000.jsonl")).unwrap();
    let log = theatre.play(r#"A< {"id":4,"method":"thread/list","params":{}}"#);
    assert_eq!(log.matches(r#""preview":"[[text]]""#).count(), 1, "{log}");
}

#[test]
fn fork_is_itself_after_a_restart() {
    let home = TempDir::new().unwrap();
    let (mut theatre, file) = left_behind(&home);
    let mut kept = fs::read(&file).unwrap();
    kept.extend_from_slice(b"{\"item\":\xff\n");
    fs::write(&file, kept).unwrap();
    theatre.play(
        r#"
        A< {"id":4,"method":"thread/resume","params":{"threadId":"$2.thread.id","excludeTurns":true}}
        A< {"id":5,"method":"thread/name/set","params":{"threadId":"$2.thread.id","name":"the source"}}
        A< {"id":6,"method":"turn/start","params":{"threadId":"$2.thread.id","model":"later","input":[{"type":"text","text":"[[say more]]"}]}}
        A< {"id":7,"method":"thread/fork","params":{"threadId":"$2.thread.id","model":"other","excludeTurns":true}}"#,
    );
    theatre.play(&format!("worker restarts{INITIALIZE}"));
    theatre.play(r#"A< {"id":8,"method":"thread/resume","params":{"threadId":"$7.thread.id"}}"#);
    let resumed = &theatre.results["8"];
    let thread = &resumed["thread"];
    let turns = thread["turns"].as_array().map_or(0, Vec::len);
    expect![[r#"fork of the source, model "other" and "other", name null, 2 turns"#]].assert_eq(&format!(
        "fork of {}, model {} and {}, name {}, {turns} turns",
        if thread["forkedFromId"] == theatre.results["2"]["thread"]["id"] { "the source" } else { "another" },
        resumed["model"],
        thread["model"],
        thread["name"],
    ));
}
