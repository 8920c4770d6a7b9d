//! Recordings of the real workers of old as turn events.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use codex::event::{Placed, Told};
use codex::v1::Reader;
use expect_test::{Expect, expect};
use serde_json::{Value, json};
use wire::Json;

/// All recordings, by name.
pub(crate) fn recordings() -> BTreeMap<String, String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/v1");
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    entries.map(|path| (name(&path), fs::read_to_string(&path).unwrap())).collect()
}

/// The messages of a recording with the direction in which they went.
pub(crate) fn messages(recording: &str) -> Vec<(String, Value)> {
    let lines = recording.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.map(|mut line| (line["dir"].as_str().unwrap().to_owned(), line["msg"].take())).collect()
}

/// What the worker sent.
pub(crate) fn received(recording: &str) -> Vec<Value> {
    let all = messages(recording).into_iter();
    all.filter(|(direction, _)| direction == "received").map(|(_, message)| message).collect()
}

/// What a message tells.
pub(crate) fn read(reader: &mut Reader, message: &Value) -> Vec<Told> {
    let mut told = Vec::new();
    let Some(method) = message["method"].as_str() else {
        return told;
    };
    let params = Json::of(&message["params"]).unwrap();
    match message.get("id") {
        Some(id) => told.extend(reader.request(&id.to_string(), method, &params).map(Told::Turn)),
        None => reader.notification(method, &params, &mut told),
    }
    told
}

pub(crate) fn of_turns(told: Vec<Told>) -> impl Iterator<Item = Placed> {
    told.into_iter().filter_map(|told| match told {
        Told::Turn(placed) => Some(placed),
        Told::Connection(_) => None,
    })
}

/// One event in one line, without what the worker sent as it is.
fn line(told: &Told) -> String {
    let (place, mut event) = match told {
        Told::Turn(placed) => (placed.turn.as_deref().unwrap_or("?"), serde_json::to_value(&placed.event).unwrap()),
        Told::Connection(event) => ("-", serde_json::to_value(event).unwrap()),
    };
    let object = event.as_object_mut().unwrap();
    let kind = object.remove("type").unwrap();
    object.remove("params");
    if let Some(item) = object.get_mut("item").and_then(Value::as_object_mut) {
        item.remove("raw");
    }
    if let Some(last) = object.get("last").cloned() {
        let total = &object["total"];
        let usage =
            json!({"last": last["total_tokens"], "total": total["total_tokens"], "window": object["context_window"]});
        return format!("{place} token_usage {usage}");
    }
    format!("{place} {} {event}", kind.as_str().unwrap())
}

/// The events of a recording, each on one line; those of the connection but the account's limits.
fn check(name: &str, expected: &Expect) {
    let mut reader = Reader::default();
    let mut seen = String::new();
    for message in received(&recordings()[name]) {
        for told in read(&mut reader, &message) {
            let line = line(&told);
            if !line.starts_with("- rate_limits") {
                writeln!(seen, "{line}").unwrap();
            }
        }
    }
    expected.assert_eq(&seen);
}

#[test]
fn a_turn_of_0_45_gets_its_message_as_an_item() {
    check(
        "0.45.0-turn",
        &expect![[r#"
        0 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"0"}
        0 item_started {"item":{"id":"agent_message-0-1","kind":"agent_message","status":null}}
        0 text {"item":"agent_message-0-1","text":"Hello "}
        0 text {"item":"agent_message-0-1","text":"from "}
        0 text {"item":"agent_message-0-1","text":"mock"}
        0 text {"item":"agent_message-0-1","text":"."}
        0 item_completed {"item":{"id":"agent_message-0-1","kind":"agent_message","status":null}}
        0 token_usage {"last":110,"total":110,"window":null}
        0 turn_ended {"error":null,"status":"completed"}
    "#]],
    );
}

#[test]
fn reasoning_of_0_45_is_one_item() {
    check(
        "0.45.0-reasoning",
        &expect![[r#"
        2 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"2"}
        2 item_started {"item":{"id":"reasoning-2-1","kind":"reasoning","status":null}}
        2 reasoning_part {"index":0,"item":"reasoning-2-1"}
        2 reasoning_summary {"index":0,"item":"reasoning-2-1","text":"**Thinking"}
        2 reasoning_summary {"index":0,"item":"reasoning-2-1","text":" hard** "}
        2 reasoning_summary {"index":0,"item":"reasoning-2-1","text":"about it."}
        2 reasoning_part {"index":1,"item":"reasoning-2-1"}
        2 reasoning_summary {"index":1,"item":"reasoning-2-1","text":"Second part."}
        2 reasoning {"index":0,"item":"reasoning-2-1","text":"raw "}
        2 reasoning {"index":0,"item":"reasoning-2-1","text":"chain"}
        2 item_completed {"item":{"id":"reasoning-2-1","kind":"reasoning","status":null}}
        2 item_started {"item":{"id":"agent_message-2-2","kind":"agent_message","status":null}}
        2 text {"item":"agent_message-2-2","text":"Reasoned "}
        2 text {"item":"agent_message-2-2","text":"answer."}
        2 item_completed {"item":{"id":"agent_message-2-2","kind":"agent_message","status":null}}
        2 token_usage {"last":130,"total":570,"window":null}
        2 turn_ended {"error":null,"status":"completed"}
    "#]],
    );
}

#[test]
fn output_that_cuts_a_character_in_two() {
    check(
        "0.45.0-command",
        &expect![[r#"
        3 raw {"method":"codex/event/user_message"}
        3 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"3"}
        3 item_started {"item":{"id":"call_r1","kind":"command_execution","status":"in_progress"}}
        3 command_output {"item":"call_r1","text":"hi\n"}
        3 command_output {"item":"call_r1","text":"é"}
        3 item_completed {"item":{"id":"call_r1","kind":"command_execution","status":"failed"}}
        3 token_usage {"last":220,"total":790,"window":null}
        3 item_started {"item":{"id":"agent_message-3-1","kind":"agent_message","status":null}}
        3 text {"item":"agent_message-3-1","text":"Done "}
        3 text {"item":"agent_message-3-1","text":"after "}
        3 text {"item":"agent_message-3-1","text":"tool."}
        3 item_completed {"item":{"id":"agent_message-3-1","kind":"agent_message","status":null}}
        3 token_usage {"last":110,"total":900,"window":null}
        3 turn_ended {"error":null,"status":"completed"}
    "#]],
    );
}

#[test]
fn decisions_about_commands() {
    check(
        "0.45.0-decisions",
        &expect![[r#"
            4 raw {"method":"codex/event/user_message"}
            4 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"4"}
            4 item_started {"item":{"id":"call_r1","kind":"command_execution","status":"in_progress"}}
            4 approval_wanted {"item":"call_r1","kind":"command","request":"0"}
            4 approval_resolved {"request":"0"}
            4 item_completed {"item":{"id":"call_r1","kind":"command_execution","status":"completed"}}
            4 token_usage {"last":220,"total":1120,"window":null}
            4 item_started {"item":{"id":"agent_message-4-1","kind":"agent_message","status":null}}
            4 text {"item":"agent_message-4-1","text":"Done "}
            4 text {"item":"agent_message-4-1","text":"after "}
            4 text {"item":"agent_message-4-1","text":"tool."}
            4 item_completed {"item":{"id":"agent_message-4-1","kind":"agent_message","status":null}}
            4 token_usage {"last":110,"total":1230,"window":null}
            4 turn_ended {"error":null,"status":"completed"}
            6 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"6"}
            6 item_started {"item":{"id":"call_r2","kind":"command_execution","status":"in_progress"}}
            6 approval_wanted {"item":"call_r2","kind":"command","request":"1"}
            6 approval_resolved {"request":"1"}
            6 item_completed {"item":{"id":"call_r2","kind":"command_execution","status":"completed"}}
            6 token_usage {"last":220,"total":1450,"window":null}
            6 item_started {"item":{"id":"agent_message-6-1","kind":"agent_message","status":null}}
            6 text {"item":"agent_message-6-1","text":"Done "}
            6 text {"item":"agent_message-6-1","text":"after "}
            6 text {"item":"agent_message-6-1","text":"tool."}
            6 item_completed {"item":{"id":"agent_message-6-1","kind":"agent_message","status":null}}
            6 token_usage {"last":110,"total":1560,"window":null}
            6 turn_ended {"error":null,"status":"completed"}
            8 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"8"}
            8 item_started {"item":{"id":"call_r3","kind":"command_execution","status":"in_progress"}}
            8 item_completed {"item":{"id":"call_r3","kind":"command_execution","status":"completed"}}
            8 token_usage {"last":220,"total":1780,"window":null}
            8 item_started {"item":{"id":"agent_message-8-1","kind":"agent_message","status":null}}
            8 text {"item":"agent_message-8-1","text":"Done "}
            8 text {"item":"agent_message-8-1","text":"after "}
            8 text {"item":"agent_message-8-1","text":"tool."}
            8 item_completed {"item":{"id":"agent_message-8-1","kind":"agent_message","status":null}}
            8 token_usage {"last":110,"total":1890,"window":null}
            8 turn_ended {"error":null,"status":"completed"}
            9 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"9"}
            9 item_started {"item":{"id":"call_r4","kind":"command_execution","status":"in_progress"}}
            9 approval_wanted {"item":"call_r4","kind":"command","request":"2"}
            9 approval_resolved {"request":"2"}
            9 item_completed {"item":{"id":"call_r4","kind":"command_execution","status":"declined"}}
            9 token_usage {"last":220,"total":2110,"window":null}
            9 item_started {"item":{"id":"agent_message-9-1","kind":"agent_message","status":null}}
            9 text {"item":"agent_message-9-1","text":"Done "}
            9 text {"item":"agent_message-9-1","text":"after "}
            9 text {"item":"agent_message-9-1","text":"tool."}
            9 item_completed {"item":{"id":"agent_message-9-1","kind":"agent_message","status":null}}
            9 token_usage {"last":110,"total":2220,"window":null}
            9 turn_ended {"error":null,"status":"completed"}
            11 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"11"}
            11 item_started {"item":{"id":"call_r5","kind":"command_execution","status":"in_progress"}}
            11 approval_wanted {"item":"call_r5","kind":"command","request":"3"}
            11 approval_resolved {"request":"3"}
            11 item_completed {"item":{"id":"call_r5","kind":"command_execution","status":"declined"}}
            11 token_usage {"last":220,"total":2440,"window":null}
            11 turn_ended {"error":null,"status":"interrupted"}
        "#]],
    );
}

#[test]
fn decisions_about_patches() {
    check(
        "0.45.0-patch",
        &expect![[r#"
            9 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"9"}
            9 item_started {"item":{"id":"call_r1","kind":"file_change","status":"in_progress"}}
            9 approval_wanted {"item":"call_r1","kind":"file_change","request":"6"}
            9 approval_resolved {"request":"6"}
            9 item_completed {"item":{"id":"call_r1","kind":"file_change","status":"completed"}}
            9 diff {"diff":"diff --git a//home/dev/project/approved-gpt-5.txt b//home/dev/project/approved-gpt-5.txt\nnew file mode 100644\nindex 0000000000000000000000000000000000000000..45b983be36b73c0788dc9cbcb76cbb80fc7bb057\n--- /dev/null\n+++ b//home/dev/project/approved-gpt-5.txt\n@@ -0,0 +1 @@\n+hi\n"}
            9 token_usage {"last":220,"total":1320,"window":null}
            9 diff {"diff":"diff --git a//home/dev/project/approved-gpt-5.txt b//home/dev/project/approved-gpt-5.txt\nnew file mode 100644\nindex 0000000000000000000000000000000000000000..45b983be36b73c0788dc9cbcb76cbb80fc7bb057\n--- /dev/null\n+++ b//home/dev/project/approved-gpt-5.txt\n@@ -0,0 +1 @@\n+hi\n"}
            9 item_started {"item":{"id":"agent_message-9-1","kind":"agent_message","status":null}}
            9 text {"item":"agent_message-9-1","text":"Done "}
            9 text {"item":"agent_message-9-1","text":"after "}
            9 text {"item":"agent_message-9-1","text":"tool."}
            9 item_completed {"item":{"id":"agent_message-9-1","kind":"agent_message","status":null}}
            9 token_usage {"last":110,"total":1430,"window":null}
            9 diff {"diff":"diff --git a//home/dev/project/approved-gpt-5.txt b//home/dev/project/approved-gpt-5.txt\nnew file mode 100644\nindex 0000000000000000000000000000000000000000..45b983be36b73c0788dc9cbcb76cbb80fc7bb057\n--- /dev/null\n+++ b//home/dev/project/approved-gpt-5.txt\n@@ -0,0 +1 @@\n+hi\n"}
            9 turn_ended {"error":null,"status":"completed"}
            11 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"11"}
            11 item_started {"item":{"id":"call_r2","kind":"file_change","status":"in_progress"}}
            11 approval_wanted {"item":"call_r2","kind":"file_change","request":"7"}
            11 approval_resolved {"request":"7"}
            11 item_completed {"item":{"id":"call_r2","kind":"file_change","status":"completed"}}
            11 diff {"diff":"diff --git a//home/dev/project/approved_for_session-gpt-5.txt b//home/dev/project/approved_for_session-gpt-5.txt\nnew file mode 100644\nindex 0000000000000000000000000000000000000000..45b983be36b73c0788dc9cbcb76cbb80fc7bb057\n--- /dev/null\n+++ b//home/dev/project/approved_for_session-gpt-5.txt\n@@ -0,0 +1 @@\n+hi\n"}
            11 token_usage {"last":220,"total":1650,"window":null}
            11 diff {"diff":"diff --git a//home/dev/project/approved_for_session-gpt-5.txt b//home/dev/project/approved_for_session-gpt-5.txt\nnew file mode 100644\nindex 0000000000000000000000000000000000000000..45b983be36b73c0788dc9cbcb76cbb80fc7bb057\n--- /dev/null\n+++ b//home/dev/project/approved_for_session-gpt-5.txt\n@@ -0,0 +1 @@\n+hi\n"}
            11 item_started {"item":{"id":"agent_message-11-1","kind":"agent_message","status":null}}
            11 text {"item":"agent_message-11-1","text":"Done "}
            11 text {"item":"agent_message-11-1","text":"after "}
            11 text {"item":"agent_message-11-1","text":"tool."}
            11 item_completed {"item":{"id":"agent_message-11-1","kind":"agent_message","status":null}}
            11 token_usage {"last":110,"total":1760,"window":null}
            11 diff {"diff":"diff --git a//home/dev/project/approved_for_session-gpt-5.txt b//home/dev/project/approved_for_session-gpt-5.txt\nnew file mode 100644\nindex 0000000000000000000000000000000000000000..45b983be36b73c0788dc9cbcb76cbb80fc7bb057\n--- /dev/null\n+++ b//home/dev/project/approved_for_session-gpt-5.txt\n@@ -0,0 +1 @@\n+hi\n"}
            11 turn_ended {"error":null,"status":"completed"}
            13 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"13"}
            13 item_started {"item":{"id":"call_r3","kind":"file_change","status":"in_progress"}}
            13 approval_wanted {"item":"call_r3","kind":"file_change","request":"8"}
            13 token_usage {"last":220,"total":1980,"window":null}
            13 item_started {"item":{"id":"agent_message-13-1","kind":"agent_message","status":null}}
            13 text {"item":"agent_message-13-1","text":"Done "}
            13 text {"item":"agent_message-13-1","text":"after "}
            13 text {"item":"agent_message-13-1","text":"tool."}
            13 item_completed {"item":{"id":"agent_message-13-1","kind":"agent_message","status":null}}
            13 token_usage {"last":110,"total":2090,"window":null}
            13 approval_resolved {"request":"8"}
            13 turn_ended {"error":null,"status":"completed"}
        "#]],
    );
}

#[test]
fn a_turn_that_is_interrupted_at_once_is_begun_and_ended() {
    check(
        "0.45.0-interrupt",
        &expect![[r#"
        0 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"0"}
        0 item_started {"item":{"id":"agent_message-0-1","kind":"agent_message","status":null}}
        0 text {"item":"agent_message-0-1","text":"s0 "}
        0 turn_ended {"error":null,"status":"interrupted"}
        2 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"2"}
        2 turn_ended {"error":null,"status":"interrupted"}
    "#]],
    );
}

#[test]
fn errors_of_0_45() {
    check(
        "0.45.0-errors",
        &expect![[r#"
        27 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"27"}
        27 error {"error":{"details":null,"http_status":null,"kind":null,"message":"stream error: exceeded retry limit, last status: 429 Too Many Requests; retrying 1/1 in 204ms…"},"will_retry":true}
        27 error {"error":{"details":null,"http_status":429,"kind":"response_too_many_failed_attempts","message":"exceeded retry limit, last status: 429 Too Many Requests"},"will_retry":false}
        27 turn_ended {"error":{"details":null,"http_status":429,"kind":"response_too_many_failed_attempts","message":"exceeded retry limit, last status: 429 Too Many Requests"},"status":"failed"}
        33 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"33"}
        33 item_started {"item":{"id":"agent_message-33-1","kind":"agent_message","status":null}}
        33 text {"item":"agent_message-33-1","text":"partial"}
        33 error {"error":{"details":null,"http_status":null,"kind":null,"message":"stream error: stream disconnected before completion: stream closed before response.completed; retrying 1/1 in 189ms…"},"will_retry":true}
        33 item_started {"item":{"id":"agent_message-33-2","kind":"agent_message","status":null}}
        33 text {"item":"agent_message-33-2","text":"partial"}
        33 error {"error":{"details":null,"http_status":null,"kind":"response_stream_disconnected","message":"stream disconnected before completion: stream closed before response.completed"},"will_retry":false}
        33 turn_ended {"error":{"details":null,"http_status":null,"kind":"response_stream_disconnected","message":"stream disconnected before completion: stream closed before response.completed"},"status":"failed"}
    "#]],
    );
}

#[test]
fn tools_of_0_45() {
    check(
        "0.45.0-tools",
        &expect![[r#"
        0 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"0"}
        0 item_started {"item":{"id":"call_r1","kind":"mcp_tool_call","status":"in_progress"}}
        0 item_completed {"item":{"id":"call_r1","kind":"mcp_tool_call","status":"completed"}}
        0 token_usage {"last":220,"total":220,"window":null}
        0 item_started {"item":{"id":"agent_message-0-1","kind":"agent_message","status":null}}
        0 text {"item":"agent_message-0-1","text":"Done "}
        0 text {"item":"agent_message-0-1","text":"after "}
        0 text {"item":"agent_message-0-1","text":"tool."}
        0 item_completed {"item":{"id":"agent_message-0-1","kind":"agent_message","status":null}}
        0 token_usage {"last":110,"total":330,"window":null}
        0 turn_ended {"error":null,"status":"completed"}
        1 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"1"}
        1 token_usage {"last":220,"total":550,"window":null}
        1 item_started {"item":{"id":"agent_message-1-1","kind":"agent_message","status":null}}
        1 text {"item":"agent_message-1-1","text":"Done "}
        1 text {"item":"agent_message-1-1","text":"after "}
        1 text {"item":"agent_message-1-1","text":"tool."}
        1 item_completed {"item":{"id":"agent_message-1-1","kind":"agent_message","status":null}}
        1 token_usage {"last":110,"total":660,"window":null}
        1 turn_ended {"error":null,"status":"completed"}
        2 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"2"}
        2 token_usage {"last":220,"total":880,"window":null}
        2 item_started {"item":{"id":"agent_message-2-1","kind":"agent_message","status":null}}
        2 text {"item":"agent_message-2-1","text":"Done "}
        2 text {"item":"agent_message-2-1","text":"after "}
        2 text {"item":"agent_message-2-1","text":"tool."}
        2 item_completed {"item":{"id":"agent_message-2-1","kind":"agent_message","status":null}}
        2 token_usage {"last":110,"total":990,"window":null}
        2 turn_ended {"error":null,"status":"completed"}
        0 turn_started {"thread":"00000000-0000-7000-8000-000000000003","turn":"0"}
        0 item_started {"item":{"id":"ws_r2","kind":"web_search","status":null}}
        0 item_completed {"item":{"id":"ws_r2","kind":"web_search","status":null}}
        0 item_started {"item":{"id":"agent_message-0-1","kind":"agent_message","status":null}}
        0 text {"item":"agent_message-0-1","text":"Found."}
        0 item_completed {"item":{"id":"agent_message-0-1","kind":"agent_message","status":null}}
        0 token_usage {"last":110,"total":110,"window":null}
        0 turn_ended {"error":null,"status":"completed"}
    "#]],
    );
}

#[test]
fn a_compaction_of_0_45_belongs_to_the_turn_it_happens_in() {
    check(
        "0.45.0-compaction",
        &expect![[r#"
        3 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"3"}
        3 item_started {"item":{"id":"agent_message-3-1","kind":"agent_message","status":null}}
        3 text {"item":"agent_message-3-1","text":"Big."}
        3 item_completed {"item":{"id":"agent_message-3-1","kind":"agent_message","status":null}}
        3 token_usage {"last":900010,"total":900580,"window":null}
        3 token_usage {"last":110,"total":900690,"window":null}
        3 compacted {}
        3 item_started {"item":{"id":"agent_message-3-2","kind":"agent_message","status":null}}
        3 text {"item":"agent_message-3-2","text":"Big."}
        3 item_completed {"item":{"id":"agent_message-3-2","kind":"agent_message","status":null}}
        3 token_usage {"last":900010,"total":1800700,"window":null}
        3 error {"error":{"details":null,"http_status":null,"kind":null,"message":"Conversation is still above the token limit after automatic summarization (limit 5000, current 900010). Please start a new session or trim your input."},"will_retry":false}
        3 turn_ended {"error":{"details":null,"http_status":null,"kind":null,"message":"Conversation is still above the token limit after automatic summarization (limit 5000, current 900010). Please start a new session or trim your input."},"status":"failed"}
        4 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"4"}
        4 item_started {"item":{"id":"agent_message-4-1","kind":"agent_message","status":null}}
        4 text {"item":"agent_message-4-1","text":"Hello "}
        4 text {"item":"agent_message-4-1","text":"from "}
        4 text {"item":"agent_message-4-1","text":"mock"}
        4 text {"item":"agent_message-4-1","text":"."}
        4 item_completed {"item":{"id":"agent_message-4-1","kind":"agent_message","status":null}}
        4 token_usage {"last":110,"total":1800810,"window":null}
        4 turn_ended {"error":null,"status":"completed"}
    "#]],
    );
}

#[test]
fn a_conversation_that_is_resumed_twice() {
    check(
        "0.45.0-resume",
        &expect![[r#"
        - thread_started {"thread":"00000000-0000-7000-8000-000000000001"}
        0 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"0"}
        0 item_started {"item":{"id":"agent_message-0-1","kind":"agent_message","status":null}}
        0 text {"item":"agent_message-0-1","text":"Hello "}
        0 text {"item":"agent_message-0-1","text":"from "}
        0 text {"item":"agent_message-0-1","text":"mock"}
        0 text {"item":"agent_message-0-1","text":"."}
        0 item_completed {"item":{"id":"agent_message-0-1","kind":"agent_message","status":null}}
        0 token_usage {"last":110,"total":110,"window":null}
        0 turn_ended {"error":null,"status":"completed"}
        - thread_started {"thread":"00000000-0000-7000-8000-000000000001"}
    "#]],
    );
}

#[test]
fn items_of_0_50_that_are_told_when_they_are_over() {
    check(
        "0.50.0-turns",
        &expect![[r#"
        0 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"0"}
        0 item_started {"item":{"id":"00000000-0000-7000-8000-000000000003","kind":"user_message","status":null}}
        0 item_completed {"item":{"id":"00000000-0000-7000-8000-000000000003","kind":"user_message","status":null}}
        0 item_started {"item":{"id":"reasoning-0-1","kind":"reasoning","status":null}}
        0 reasoning_part {"index":0,"item":"reasoning-0-1"}
        0 reasoning_summary {"index":0,"item":"reasoning-0-1","text":"**Thinking"}
        0 reasoning_summary {"index":0,"item":"reasoning-0-1","text":" hard** "}
        0 reasoning_summary {"index":0,"item":"reasoning-0-1","text":"about it."}
        0 reasoning_part {"index":1,"item":"reasoning-0-1"}
        0 reasoning_summary {"index":1,"item":"reasoning-0-1","text":"Second part."}
        0 item_completed {"item":{"id":"reasoning-0-1","kind":"reasoning","status":null}}
        0 item_started {"item":{"id":"agent_message-0-2","kind":"agent_message","status":null}}
        0 text {"item":"agent_message-0-2","text":"Reasoned "}
        0 text {"item":"agent_message-0-2","text":"answer."}
        0 item_completed {"item":{"id":"agent_message-0-2","kind":"agent_message","status":null}}
        0 token_usage {"last":130,"total":130,"window":null}
        0 turn_ended {"error":null,"status":"completed"}
        1 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"1"}
        1 item_started {"item":{"id":"00000000-0000-7000-8000-000000000005","kind":"user_message","status":null}}
        1 item_completed {"item":{"id":"00000000-0000-7000-8000-000000000005","kind":"user_message","status":null}}
        1 item_started {"item":{"id":"ws_r2","kind":"web_search","status":null}}
        1 item_completed {"item":{"id":"ws_r2","kind":"web_search","status":null}}
        1 item_started {"item":{"id":"agent_message-1-1","kind":"agent_message","status":null}}
        1 text {"item":"agent_message-1-1","text":"Found."}
        1 item_completed {"item":{"id":"agent_message-1-1","kind":"agent_message","status":null}}
        1 token_usage {"last":110,"total":240,"window":null}
        1 turn_ended {"error":null,"status":"completed"}
    "#]],
    );
}

#[test]
fn reasoning_of_0_53_is_told_once() {
    check(
        "0.53.0-reasoning",
        &expect![[r#"
        2 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"2"}
        2 item_started {"item":{"id":"00000000-0000-7000-8000-000000000002","kind":"user_message","status":null}}
        2 item_completed {"item":{"id":"00000000-0000-7000-8000-000000000002","kind":"user_message","status":null}}
        2 item_started {"item":{"id":"rs_r1","kind":"reasoning","status":null}}
        2 reasoning_part {"index":0,"item":"rs_r1"}
        2 reasoning_summary {"index":0,"item":"rs_r1","text":"**Thinking"}
        2 reasoning_summary {"index":0,"item":"rs_r1","text":" hard** "}
        2 reasoning_summary {"index":0,"item":"rs_r1","text":"about it."}
        2 reasoning_part {"index":1,"item":"rs_r1"}
        2 reasoning_summary {"index":1,"item":"rs_r1","text":"Second part."}
        2 reasoning {"index":0,"item":"rs_r1","text":"raw "}
        2 reasoning {"index":0,"item":"rs_r1","text":"chain"}
        2 item_completed {"item":{"id":"rs_r1","kind":"reasoning","status":null}}
        2 item_started {"item":{"id":"msg_r1","kind":"agent_message","status":null}}
        2 text {"item":"msg_r1","text":"Reasoned "}
        2 text {"item":"msg_r1","text":"answer."}
        2 item_completed {"item":{"id":"msg_r1","kind":"agent_message","status":null}}
        2 token_usage {"last":130,"total":570,"window":null}
        2 turn_ended {"error":null,"status":"completed"}
    "#]],
    );
}

#[test]
fn a_plan() {
    check(
        "0.53.0-plan",
        &expect![[r#"
        2 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"2"}
        2 item_started {"item":{"id":"00000000-0000-7000-8000-000000000002","kind":"user_message","status":null}}
        2 item_completed {"item":{"id":"00000000-0000-7000-8000-000000000002","kind":"user_message","status":null}}
        2 token_usage {"last":220,"total":460,"window":null}
        2 plan {"explanation":"why","steps":[{"status":"completed","step":"A"},{"status":"in_progress","step":"B"},{"status":"pending","step":"C"}]}
        2 item_started {"item":{"id":"msg_r1","kind":"agent_message","status":null}}
        2 text {"item":"msg_r1","text":"Done "}
        2 text {"item":"msg_r1","text":"after "}
        2 text {"item":"msg_r1","text":"tool."}
        2 item_completed {"item":{"id":"msg_r1","kind":"agent_message","status":null}}
        2 token_usage {"last":110,"total":570,"window":null}
        2 turn_ended {"error":null,"status":"completed"}
    "#]],
    );
}

#[test]
fn tools_of_0_53() {
    check(
        "0.53.0-tools",
        &expect![[r#"
        0 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"0"}
        0 item_started {"item":{"id":"00000000-0000-7000-8000-000000000003","kind":"user_message","status":null}}
        0 item_completed {"item":{"id":"00000000-0000-7000-8000-000000000003","kind":"user_message","status":null}}
        0 token_usage {"last":220,"total":220,"window":null}
        0 item_started {"item":{"id":"msg_r1","kind":"agent_message","status":null}}
        0 text {"item":"msg_r1","text":"Done "}
        0 text {"item":"msg_r1","text":"after "}
        0 text {"item":"msg_r1","text":"tool."}
        0 item_completed {"item":{"id":"msg_r1","kind":"agent_message","status":null}}
        0 token_usage {"last":110,"total":330,"window":null}
        0 turn_ended {"error":null,"status":"completed"}
        1 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"1"}
        1 item_started {"item":{"id":"00000000-0000-7000-8000-000000000004","kind":"user_message","status":null}}
        1 item_completed {"item":{"id":"00000000-0000-7000-8000-000000000004","kind":"user_message","status":null}}
        1 item_started {"item":{"id":"call_r2","kind":"mcp_tool_call","status":"in_progress"}}
        1 token_usage {"last":220,"total":550,"window":null}
        1 item_completed {"item":{"id":"call_r2","kind":"mcp_tool_call","status":"completed"}}
        1 item_started {"item":{"id":"msg_r3","kind":"agent_message","status":null}}
        1 text {"item":"msg_r3","text":"Done "}
        1 text {"item":"msg_r3","text":"after "}
        1 text {"item":"msg_r3","text":"tool."}
        1 item_completed {"item":{"id":"msg_r3","kind":"agent_message","status":null}}
        1 token_usage {"last":110,"total":660,"window":null}
        1 turn_ended {"error":null,"status":"completed"}
        2 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"2"}
        2 item_started {"item":{"id":"00000000-0000-7000-8000-000000000005","kind":"user_message","status":null}}
        2 item_completed {"item":{"id":"00000000-0000-7000-8000-000000000005","kind":"user_message","status":null}}
        2 item_started {"item":{"id":"call_r4","kind":"mcp_tool_call","status":"in_progress"}}
        2 token_usage {"last":220,"total":880,"window":null}
        2 item_completed {"item":{"id":"call_r4","kind":"mcp_tool_call","status":"failed"}}
        2 item_started {"item":{"id":"msg_r5","kind":"agent_message","status":null}}
        2 text {"item":"msg_r5","text":"Done "}
        2 text {"item":"msg_r5","text":"after "}
        2 text {"item":"msg_r5","text":"tool."}
        2 item_completed {"item":{"id":"msg_r5","kind":"agent_message","status":null}}
        2 token_usage {"last":110,"total":990,"window":null}
        2 turn_ended {"error":null,"status":"completed"}
        0 turn_started {"thread":"00000000-0000-7000-8000-000000000006","turn":"0"}
        0 item_started {"item":{"id":"00000000-0000-7000-8000-000000000008","kind":"user_message","status":null}}
        0 item_completed {"item":{"id":"00000000-0000-7000-8000-000000000008","kind":"user_message","status":null}}
        0 item_started {"item":{"id":"ws_r6","kind":"web_search","status":null}}
        0 item_completed {"item":{"id":"ws_r6","kind":"web_search","status":null}}
        0 item_started {"item":{"id":"msg_r6","kind":"agent_message","status":null}}
        0 text {"item":"msg_r6","text":"Found."}
        0 item_completed {"item":{"id":"msg_r6","kind":"agent_message","status":null}}
        0 token_usage {"last":110,"total":110,"window":null}
        0 turn_ended {"error":null,"status":"completed"}
    "#]],
    );
}

#[test]
fn a_command_that_is_tried_again_outside_of_the_sandbox() {
    check(
        "0.53.0-on-failure",
        &expect![[r#"
        7 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"7"}
        7 item_started {"item":{"id":"00000000-0000-7000-8000-000000000002","kind":"user_message","status":null}}
        7 item_completed {"item":{"id":"00000000-0000-7000-8000-000000000002","kind":"user_message","status":null}}
        7 item_started {"item":{"id":"call_r1","kind":"command_execution","status":"in_progress"}}
        7 token_usage {"last":220,"total":1801360,"window":null}
        7 command_output {"item":"call_r1","text":"touch: cannot touch 'f': Permission denied\n"}
        7 approval_wanted {"item":"call_r1","kind":"command","request":"1"}
        7 approval_resolved {"request":"1"}
        7 item_completed {"item":{"id":"call_r1","kind":"command_execution","status":"completed"}}
        7 item_started {"item":{"id":"msg_r2","kind":"agent_message","status":null}}
        7 text {"item":"msg_r2","text":"Done "}
        7 text {"item":"msg_r2","text":"after "}
        7 text {"item":"msg_r2","text":"tool."}
        7 item_completed {"item":{"id":"msg_r2","kind":"agent_message","status":null}}
        7 token_usage {"last":110,"total":1801470,"window":null}
        7 turn_ended {"error":null,"status":"completed"}
    "#]],
    );
}

#[test]
fn a_turn_of_0_58_is_told_once_although_it_comes_three_times() {
    check(
        "0.58.0-turn",
        &expect![[r#"
        0 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"0"}
        0 item_started {"item":{"id":"00000000-0000-7000-8000-000000000003","kind":"user_message","status":null}}
        0 item_completed {"item":{"id":"00000000-0000-7000-8000-000000000003","kind":"user_message","status":null}}
        0 item_started {"item":{"id":"msg_r1","kind":"agent_message","status":null}}
        0 text {"item":"msg_r1","text":"Hello "}
        0 text {"item":"msg_r1","text":"from "}
        0 text {"item":"msg_r1","text":"mock"}
        0 text {"item":"msg_r1","text":"."}
        0 item_completed {"item":{"id":"msg_r1","kind":"agent_message","status":null}}
        0 warning {"message":"Snapshots disabled: current directory is not a Git repository."}
        0 token_usage {"last":110,"total":110,"window":null}
        0 turn_ended {"error":null,"status":"completed"}
    "#]],
    );
}

#[test]
fn the_output_of_a_patch_is_not_that_of_a_command() {
    check(
        "0.58.0-patch",
        &expect![[r#"
        9 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"9"}
        9 item_started {"item":{"id":"00000000-0000-7000-8000-000000000002","kind":"user_message","status":null}}
        9 item_completed {"item":{"id":"00000000-0000-7000-8000-000000000002","kind":"user_message","status":null}}
        9 token_usage {"last":220,"total":1540,"window":null}
        9 warning {"message":"Snapshots disabled: current directory is not a Git repository."}
        9 item_started {"item":{"id":"call_r1","kind":"file_change","status":"in_progress"}}
        9 approval_wanted {"item":"call_r1","kind":"file_change","request":"6"}
        9 approval_resolved {"request":"6"}
        9 file_change_output {"item":"call_r1","text":"Failed to write file approved-gpt-5.txt\n"}
        9 file_change_output {"item":"call_r1","text":"Success. Updated the following files:\n"}
        9 file_change_output {"item":"call_r1","text":"A approved-gpt-5.txt\n"}
        9 item_completed {"item":{"id":"call_r1","kind":"file_change","status":"completed"}}
        9 diff {"diff":"diff --git a//home/dev/project/approved-gpt-5.txt b//home/dev/project/approved-gpt-5.txt\nnew file mode 100644\nindex 0000000000000000000000000000000000000000..45b983be36b73c0788dc9cbcb76cbb80fc7bb057\n--- /dev/null\n+++ b//home/dev/project/approved-gpt-5.txt\n@@ -0,0 +1 @@\n+hi\n"}
        9 diff {"diff":"diff --git a//home/dev/project/approved-gpt-5.txt b//home/dev/project/approved-gpt-5.txt\nnew file mode 100644\nindex 0000000000000000000000000000000000000000..45b983be36b73c0788dc9cbcb76cbb80fc7bb057\n--- /dev/null\n+++ b//home/dev/project/approved-gpt-5.txt\n@@ -0,0 +1 @@\n+hi\n"}
        9 item_started {"item":{"id":"msg_r2","kind":"agent_message","status":null}}
        9 text {"item":"msg_r2","text":"Done "}
        9 text {"item":"msg_r2","text":"after "}
        9 text {"item":"msg_r2","text":"tool."}
        9 item_completed {"item":{"id":"msg_r2","kind":"agent_message","status":null}}
        9 token_usage {"last":110,"total":1650,"window":null}
        9 diff {"diff":"diff --git a//home/dev/project/approved-gpt-5.txt b//home/dev/project/approved-gpt-5.txt\nnew file mode 100644\nindex 0000000000000000000000000000000000000000..45b983be36b73c0788dc9cbcb76cbb80fc7bb057\n--- /dev/null\n+++ b//home/dev/project/approved-gpt-5.txt\n@@ -0,0 +1 @@\n+hi\n"}
        9 turn_ended {"error":null,"status":"completed"}
    "#]],
    );
}

#[test]
fn an_interrupt_resolves_what_was_asked() {
    check(
        "0.58.0-interrupt",
        &expect![[r#"
        20 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"20"}
        20 item_started {"item":{"id":"00000000-0000-7000-8000-000000000002","kind":"user_message","status":null}}
        20 item_completed {"item":{"id":"00000000-0000-7000-8000-000000000002","kind":"user_message","status":null}}
        20 warning {"message":"Snapshots disabled: current directory is not a Git repository."}
        20 token_usage {"last":220,"total":3320,"window":null}
        20 item_started {"item":{"id":"call_r1","kind":"command_execution","status":"in_progress"}}
        20 approval_wanted {"item":"call_r1","kind":"command","request":"6"}
        20 approval_resolved {"request":"6"}
        20 turn_ended {"error":null,"status":"interrupted"}
    "#]],
    );
}

#[test]
fn errors_of_0_58_and_a_message_after_the_end() {
    check(
        "0.58.0-errors",
        &expect![[r#"
        31 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"31"}
        31 item_started {"item":{"id":"00000000-0000-7000-8000-000000000002","kind":"user_message","status":null}}
        31 item_completed {"item":{"id":"00000000-0000-7000-8000-000000000002","kind":"user_message","status":null}}
        31 error {"error":{"details":null,"http_status":null,"kind":"context_window_exceeded","message":"Codex ran out of room in the model's context window. Start a new conversation or clear earlier history before retrying."},"will_retry":false}
        31 turn_ended {"error":{"details":null,"http_status":null,"kind":"context_window_exceeded","message":"Codex ran out of room in the model's context window. Start a new conversation or clear earlier history before retrying."},"status":"failed"}
        31 warning {"message":"Snapshots disabled: current directory is not a Git repository."}
        33 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"33"}
        33 item_started {"item":{"id":"00000000-0000-7000-8000-000000000003","kind":"user_message","status":null}}
        33 item_completed {"item":{"id":"00000000-0000-7000-8000-000000000003","kind":"user_message","status":null}}
        33 warning {"message":"Snapshots disabled: current directory is not a Git repository."}
        33 item_started {"item":{"id":"msg_r1","kind":"agent_message","status":null}}
        33 text {"item":"msg_r1","text":"partial"}
        33 error {"error":{"details":null,"http_status":null,"kind":null,"message":"Reconnecting... 1/1"},"will_retry":true}
        33 item_started {"item":{"id":"msg_r2","kind":"agent_message","status":null}}
        33 text {"item":"msg_r2","text":"partial"}
        33 error {"error":{"details":null,"http_status":null,"kind":"response_stream_disconnected","message":"stream disconnected before completion: stream closed before response.completed"},"will_retry":false}
        33 turn_ended {"error":{"details":null,"http_status":null,"kind":"response_stream_disconnected","message":"stream disconnected before completion: stream closed before response.completed"},"status":"failed"}
    "#]],
    );
}

#[test]
fn a_compaction_of_0_58() {
    check(
        "0.58.0-compaction",
        &expect![[r#"
        3 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"3"}
        3 item_started {"item":{"id":"00000000-0000-7000-8000-000000000002","kind":"user_message","status":null}}
        3 item_completed {"item":{"id":"00000000-0000-7000-8000-000000000002","kind":"user_message","status":null}}
        3 warning {"message":"Snapshots disabled: current directory is not a Git repository."}
        3 item_started {"item":{"id":"msg_r1","kind":"agent_message","status":null}}
        3 text {"item":"msg_r1","text":"Big."}
        3 item_completed {"item":{"id":"msg_r1","kind":"agent_message","status":null}}
        3 token_usage {"last":900010,"total":900580,"window":null}
        3 token_usage {"last":110,"total":900690,"window":null}
        3 compacted {}
        3 warning {"message":"Heads up: Long conversations and multiple compactions can cause the model to be less accurate. Start a new conversation when possible to keep conversations small and targeted."}
        3 item_started {"item":{"id":"msg_r2","kind":"agent_message","status":null}}
        3 text {"item":"msg_r2","text":"Hello "}
        3 text {"item":"msg_r2","text":"from "}
        3 text {"item":"msg_r2","text":"mock"}
        3 text {"item":"msg_r2","text":"."}
        3 item_completed {"item":{"id":"msg_r2","kind":"agent_message","status":null}}
        3 token_usage {"last":110,"total":900800,"window":null}
        3 turn_ended {"error":null,"status":"completed"}
        4 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"4"}
        4 item_started {"item":{"id":"00000000-0000-7000-8000-000000000003","kind":"user_message","status":null}}
        4 item_completed {"item":{"id":"00000000-0000-7000-8000-000000000003","kind":"user_message","status":null}}
        4 item_started {"item":{"id":"msg_r3","kind":"agent_message","status":null}}
        4 text {"item":"msg_r3","text":"Hello "}
        4 text {"item":"msg_r3","text":"from "}
        4 text {"item":"msg_r3","text":"mock"}
        4 text {"item":"msg_r3","text":"."}
        4 item_completed {"item":{"id":"msg_r3","kind":"agent_message","status":null}}
        4 token_usage {"last":110,"total":900910,"window":null}
        4 turn_ended {"error":null,"status":"completed"}
        4 warning {"message":"Snapshots disabled: current directory is not a Git repository."}
    "#]],
    );
}

#[test]
fn turns_of_0_60() {
    check(
        "0.60.1-turns",
        &expect![[r#"
        - raw {"method":"codex/event/mcp_startup_complete"}
        0 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"0"}
        0 item_started {"item":{"id":"00000000-0000-7000-8000-000000000003","kind":"user_message","status":null}}
        0 item_completed {"item":{"id":"00000000-0000-7000-8000-000000000003","kind":"user_message","status":null}}
        0 item_started {"item":{"id":"rs_r1","kind":"reasoning","status":null}}
        0 reasoning_part {"index":0,"item":"rs_r1"}
        0 reasoning_summary {"index":0,"item":"rs_r1","text":"**Thinking"}
        0 reasoning_summary {"index":0,"item":"rs_r1","text":" hard** "}
        0 reasoning_summary {"index":0,"item":"rs_r1","text":"about it."}
        0 reasoning_part {"index":1,"item":"rs_r1"}
        0 reasoning_summary {"index":1,"item":"rs_r1","text":"Second part."}
        0 reasoning {"index":0,"item":"rs_r1","text":"raw "}
        0 reasoning {"index":0,"item":"rs_r1","text":"chain"}
        0 item_completed {"item":{"id":"rs_r1","kind":"reasoning","status":null}}
        0 item_started {"item":{"id":"msg_r1","kind":"agent_message","status":null}}
        0 text {"item":"msg_r1","text":"Reasoned "}
        0 text {"item":"msg_r1","text":"answer."}
        0 item_completed {"item":{"id":"msg_r1","kind":"agent_message","status":null}}
        0 token_usage {"last":130,"total":130,"window":null}
        0 turn_ended {"error":null,"status":"completed"}
        1 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"1"}
        1 item_started {"item":{"id":"00000000-0000-7000-8000-000000000004","kind":"user_message","status":null}}
        1 item_completed {"item":{"id":"00000000-0000-7000-8000-000000000004","kind":"user_message","status":null}}
        1 token_usage {"last":220,"total":350,"window":null}
        1 item_started {"item":{"id":"call_r2","kind":"command_execution","status":"in_progress"}}
        1 approval_wanted {"item":"call_r2","kind":"command","request":"0"}
        1 approval_resolved {"request":"0"}
        1 command_output {"item":"call_r2","text":"hi\n"}
        1 item_completed {"item":{"id":"call_r2","kind":"command_execution","status":"completed"}}
        1 item_started {"item":{"id":"msg_r3","kind":"agent_message","status":null}}
        1 text {"item":"msg_r3","text":"Done "}
        1 text {"item":"msg_r3","text":"after "}
        1 text {"item":"msg_r3","text":"tool."}
        1 item_completed {"item":{"id":"msg_r3","kind":"agent_message","status":null}}
        1 token_usage {"last":110,"total":460,"window":null}
        1 turn_ended {"error":null,"status":"completed"}
        3 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"3"}
        3 item_started {"item":{"id":"00000000-0000-7000-8000-000000000005","kind":"user_message","status":null}}
        3 item_completed {"item":{"id":"00000000-0000-7000-8000-000000000005","kind":"user_message","status":null}}
        3 token_usage {"last":220,"total":680,"window":null}
        3 item_started {"item":{"id":"call_r4","kind":"command_execution","status":"in_progress"}}
        3 approval_wanted {"item":"call_r4","kind":"command","request":"1"}
        3 approval_resolved {"request":"1"}
        3 item_completed {"item":{"id":"call_r4","kind":"command_execution","status":"declined"}}
        3 item_started {"item":{"id":"msg_r5","kind":"agent_message","status":null}}
        3 text {"item":"msg_r5","text":"Done "}
        3 text {"item":"msg_r5","text":"after "}
        3 text {"item":"msg_r5","text":"tool."}
        3 item_completed {"item":{"id":"msg_r5","kind":"agent_message","status":null}}
        3 token_usage {"last":110,"total":790,"window":null}
        3 turn_ended {"error":null,"status":"completed"}
        5 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"5"}
        5 item_started {"item":{"id":"00000000-0000-7000-8000-000000000006","kind":"user_message","status":null}}
        5 item_completed {"item":{"id":"00000000-0000-7000-8000-000000000006","kind":"user_message","status":null}}
        5 token_usage {"last":220,"total":1010,"window":null}
        5 item_started {"item":{"id":"call_r6","kind":"command_execution","status":"in_progress"}}
        5 approval_wanted {"item":"call_r6","kind":"command","request":"2"}
        5 approval_resolved {"request":"2"}
        5 item_completed {"item":{"id":"call_r6","kind":"command_execution","status":"declined"}}
        5 turn_ended {"error":null,"status":"interrupted"}
        7 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"7"}
        7 item_started {"item":{"id":"00000000-0000-7000-8000-000000000007","kind":"user_message","status":null}}
        7 item_completed {"item":{"id":"00000000-0000-7000-8000-000000000007","kind":"user_message","status":null}}
        7 token_usage {"last":220,"total":1230,"window":null}
        7 item_started {"item":{"id":"call_r7","kind":"file_change","status":"in_progress"}}
        7 approval_wanted {"item":"call_r7","kind":"file_change","request":"3"}
        7 approval_resolved {"request":"3"}
        7 file_change_output {"item":"call_r7","text":"Failed to write file p.txt"}
        7 file_change_output {"item":"call_r7","text":"\n"}
        7 file_change_output {"item":"call_r7","text":"Success. Updated the following files:\n"}
        7 file_change_output {"item":"call_r7","text":"A p.txt\n"}
        7 item_completed {"item":{"id":"call_r7","kind":"file_change","status":"completed"}}
        7 diff {"diff":"diff --git a//home/dev/project/p.txt b//home/dev/project/p.txt\nnew file mode 100644\nindex 0000000000000000000000000000000000000000..45b983be36b73c0788dc9cbcb76cbb80fc7bb057\n--- /dev/null\n+++ b//home/dev/project/p.txt\n@@ -0,0 +1 @@\n+hi\n"}
        7 diff {"diff":"diff --git a//home/dev/project/p.txt b//home/dev/project/p.txt\nnew file mode 100644\nindex 0000000000000000000000000000000000000000..45b983be36b73c0788dc9cbcb76cbb80fc7bb057\n--- /dev/null\n+++ b//home/dev/project/p.txt\n@@ -0,0 +1 @@\n+hi\n"}
        7 item_started {"item":{"id":"msg_r8","kind":"agent_message","status":null}}
        7 text {"item":"msg_r8","text":"Done "}
        7 text {"item":"msg_r8","text":"after "}
        7 text {"item":"msg_r8","text":"tool."}
        7 item_completed {"item":{"id":"msg_r8","kind":"agent_message","status":null}}
        7 token_usage {"last":110,"total":1340,"window":null}
        7 diff {"diff":"diff --git a//home/dev/project/p.txt b//home/dev/project/p.txt\nnew file mode 100644\nindex 0000000000000000000000000000000000000000..45b983be36b73c0788dc9cbcb76cbb80fc7bb057\n--- /dev/null\n+++ b//home/dev/project/p.txt\n@@ -0,0 +1 @@\n+hi\n"}
        7 turn_ended {"error":null,"status":"completed"}
        9 turn_started {"thread":"00000000-0000-7000-8000-000000000001","turn":"9"}
        9 item_started {"item":{"id":"00000000-0000-7000-8000-000000000008","kind":"user_message","status":null}}
        9 item_completed {"item":{"id":"00000000-0000-7000-8000-000000000008","kind":"user_message","status":null}}
        9 error {"error":{"details":null,"http_status":null,"kind":null,"message":"Reconnecting... 1/1"},"will_retry":true}
        9 error {"error":{"details":null,"http_status":429,"kind":"response_too_many_failed_attempts","message":"exceeded retry limit, last status: 429 Too Many Requests"},"will_retry":false}
        9 turn_ended {"error":{"details":null,"http_status":429,"kind":"response_too_many_failed_attempts","message":"exceeded retry limit, last status: 429 Too Many Requests"},"status":"failed"}
    "#]],
    );
}

#[test]
fn every_spelling_is_understood() {
    let events = |spell: &dyn Fn(&str) -> String| {
        let mut reader = Reader::default();
        let mut seen = String::new();
        for mut message in received(&recordings()["0.45.0-turn"]) {
            if let Some(method) = message["method"].as_str() {
                message["method"] = spell(method).into();
            }
            read(&mut reader, &message).iter().for_each(|told| writeln!(seen, "{}", line(told)).unwrap());
        }
        seen
    };
    let camel = |name: &str| {
        let words = name.split('_').map(|word| word[..1].to_uppercase() + &word[1..]).collect::<String>();
        words[..1].to_lowercase() + &words[1..]
    };
    let bare = |method: &str| method.trim_start_matches("codex/event/").to_owned();
    let usual = events(&|method| method.into());
    assert_eq!(events(&|method| bare(method)), usual);
    assert_eq!(events(&|method| camel(&bare(method))), usual);
    assert_eq!(events(&|method| format!("codex/event/{}", camel(&bare(method)))), usual);
}

#[test]
fn fields_may_be_spelled_either_way_and_the_message_may_have_no_envelope() {
    let mut reader = Reader::default();
    let mut seen = String::new();
    let lines = [
        ("taskStarted", json!({"conversationId": "c"})),
        ("agentMessageContentDelta", json!({"conversationId": "c", "itemId": "m", "delta": "a"})),
        ("agentMessageDelta", json!({"conversationId": "c", "delta": "a"})),
        ("execCommandBegin", json!({"conversation_id": "c", "callId": "x", "command": ["ls"]})),
        ("execCommandOutputDelta", json!({"conversationId": "c", "callId": "x", "chunk": "aGkK"})),
        ("execCommandEnd", json!({"conversationId": "c", "callId": "x", "exitCode": 0})),
        ("hologramDelta", json!({"conversationId": "c"})),
        ("codex/event/hologram_delta", json!({"conversationId": "c", "msg": {"type": "hologram_delta"}})),
        ("taskComplete", json!({"conversationId": "c", "lastAgentMessage": "a"})),
        ("taskComplete", json!({"conversationId": "c", "lastAgentMessage": "a"})),
    ];
    for (method, params) in lines {
        let told = read(&mut reader, &json!({"method": method, "params": params}));
        told.iter().for_each(|told| writeln!(seen, "{}", line(told)).unwrap());
    }
    expect![[r#"
        turn-1 turn_started {"thread":"c","turn":"turn-1"}
        turn-1 item_started {"item":{"id":"m","kind":"agent_message","status":null}}
        turn-1 text {"item":"m","text":"a"}
        turn-1 item_started {"item":{"id":"x","kind":"command_execution","status":"in_progress"}}
        turn-1 command_output {"item":"x","text":"hi\n"}
        turn-1 item_completed {"item":{"id":"x","kind":"command_execution","status":"completed"}}
        - raw {"method":"hologramDelta"}
        turn-1 raw {"method":"codex/event/hologram_delta"}
        turn-1 turn_ended {"error":null,"status":"completed"}
    "#]]
    .assert_eq(&seen);
}

#[test]
fn what_belongs_to_no_turn_is_told_of_the_connection() {
    let mut seen = String::new();
    let lines = [
        ("sessionConfigured", json!({"sessionId": "c", "model": "m"})),
        ("codex/event/session_configured", json!({"id": "", "msg": {"session_id": "c"}, "conversationId": "c"})),
        ("codex/event/mcp_startup_complete", json!({"id": "", "msg": {"ready": []}, "conversationId": "c"})),
        ("account/rateLimits/updated", json!({"primary": null})),
        ("authStatusChange", json!({"authMethod": null})),
        ("loginChatGptComplete", json!({"loginId": "l", "success": false, "error": "no"})),
        ("codex/event/warning", json!({"id": "", "msg": {"message": "careful"}, "conversationId": "c"})),
        ("item/started", json!({"item": {"type": "agentMessage", "id": "m", "text": ""}})),
        ("turn/completed", json!({"turn": {"id": "0", "items": [], "status": "completed"}})),
        ("weather/changed", json!({"rain": true})),
        ("codex/event/error", json!([])),
    ];
    for (method, params) in lines {
        let told = read(&mut Reader::default(), &json!({"method": method, "params": params}));
        told.iter().for_each(|told| writeln!(seen, "{}", line(told)).unwrap());
    }
    expect![[r#"
        - thread_started {"thread":"c"}
        - thread_started {"thread":"c"}
        - raw {"method":"codex/event/mcp_startup_complete"}
        - rate_limits {}
        - account_updated {}
        - login_completed {"error":"no","success":false}
        - warning {"message":"careful"}
        - raw {"method":"weather/changed"}
        - raw {"method":"codex/event/error"}
    "#]]
    .assert_eq(&seen);
}

#[test]
fn a_resumed_conversation_numbers_its_turns_anew() {
    let turn = |name: &str| json!({"method": name, "params": {"id": "0", "msg": {}, "conversationId": "c"}});
    let mut reader = Reader::default();
    let ends = |reader: &mut Reader| {
        let told = [turn("task_started"), turn("task_complete")].map(|message| read(reader, &message).len());
        told.iter().sum::<usize>()
    };
    assert_eq!(ends(&mut reader), 2);
    assert_eq!(read(&mut reader, &turn("turn_aborted")).len(), 0);
    reader.forget("c");
    assert_eq!(read(&mut reader, &turn("turn_aborted")).len(), 2);
}
