//! What no real worker should do, and this one does when asked.

use expect_test::{Expect, expect};
use tempfile::TempDir;

use super::{Theatre, V2_OPENING, check_v2, lines_with, part, turn};
use crate::options::Dialect;

/// What comes between the user's message and the end of the answer.
#[expect(clippy::needless_pass_by_value, reason = "reads better at the call")]
fn check_answer(play: &str, expected: Expect) {
    let home = TempDir::new().unwrap();
    let mut theatre = Theatre::new(Dialect::V2, &home, "");
    theatre.play(V2_OPENING);
    theatre.log.clear();
    let log = theatre.play(play);
    expected.assert_eq(part(log, r#""type":"agentMessage"}}}"#, r#""type":"agentMessage"}}}"#));
}

/// What comes after the user's message, to the end of everything.
#[expect(clippy::needless_pass_by_value, reason = "reads better at the call")]
fn check_end(play: &str, expected: Expect) {
    let home = TempDir::new().unwrap();
    let mut theatre = Theatre::new(Dialect::V2, &home, "");
    theatre.play(V2_OPENING);
    theatre.log.clear();
    let log = theatre.play(play);
    expected.assert_eq(part(log, r#""type":"agentMessage"}}}"#, "End("));
    let resumed = theatre.play(RESUME);
    assert!(resumed.contains(r#""status":"interrupted""#), "{resumed}");
}

const RESUME: &str = r#"
    worker restarts
    A connects
    A< {"id":1,"method":"initialize","params":{"clientInfo":{"name":"test","version":"0"}}}
    A< {"id":9,"method":"thread/resume","params":{"threadId":"$2.thread.id"}}
"#;

#[test]
fn half_a_line_holds_back_everything_until_the_rest() {
    let play = turn(3, "[[partial 30]]")
        + r#"
        A< {"id":4,"method":"thread/loaded/list","params":{}}
        29 ms pass"#;
    let home = TempDir::new().unwrap();
    let mut theatre = Theatre::new(Dialect::V2, &home, "");
    theatre.play(V2_OPENING);
    theatre.log.clear();
    let before = theatre.play(&play).len();
    let log = theatre.play("2 ms pass");
    assert!(log[..before].trim_end().ends_with(r#"\"threadId\":\"00""#), "{log}");
    expect![[r##"
        A raw "in two pieces; \"},\"emittedAtMs\":1800000000000}\n"
        A {"method":"item/agentMessage/delta","params":{"delta":"after ","itemId":"msg_resp_4"}}
        A {"method":"item/agentMessage/delta","params":{"delta":"the ","itemId":"msg_resp_4"}}
        A {"method":"item/agentMessage/delta","params":{"delta":"fault.","itemId":"msg_resp_4"}}
        A {"method":"item/completed","params":{"item":{"id":"msg_resp_4","text":"Before the fault; in two pieces; after the fault.","type":"agentMessage"}}}
        A {"method":"thread/tokenUsage/updated","params":{"tokenUsage":{"last":{"cacheWriteInputTokens":0,"cachedInputTokens":40,"inputTokens":100,"outputTokens":10,"reasoningOutputTokens":0,"totalTokens":110},"modelContextWindow":258400,"total":{"cacheWriteInputTokens":0,"cachedInputTokens":40,"inputTokens":100,"outputTokens":10,"reasoningOutputTokens":0,"totalTokens":110}}}}
        A {"method":"account/rateLimits/updated","params":{"rateLimits":{"limitId":"codex"}}}
        A {"method":"thread/status/changed","params":{"status":{"type":"idle"}}}
        A {"method":"turn/completed","params":{"turn":{"id":"#2","items":[{"id":"msg_resp_4","text":"Before the fault; in two pieces; after the fault.","type":"agentMessage"}],"itemsView":"summary","status":"completed"}}}
    "##]].assert_eq(part(&log[before..], "A", "agentMessage"));
}

#[test]
fn half_a_line_may_be_the_last_word() {
    check_end(
        &turn(3, "[[partial exit]]"),
        expect![[r#"
        A {"method":"item/started","params":{"item":{"id":"msg_resp_4","text":"","type":"agentMessage"}}}
        A {"method":"item/agentMessage/delta","params":{"delta":"Before ","itemId":"msg_resp_4"}}
        A {"method":"item/agentMessage/delta","params":{"delta":"the ","itemId":"msg_resp_4"}}
        A {"method":"item/agentMessage/delta","params":{"delta":"fault; ","itemId":"msg_resp_4"}}
        A raw "{\"method\":\"item/agentMessage/delta\",\"params\":{\"threadId\":\"00"
        End(Exit(1))
    "#]],
    );
}

#[test]
fn garbage_comes_in_the_middle_of_a_message() {
    check_answer(
        &turn(3, "[[garbage]]"),
        expect![[r#"
        A {"method":"item/started","params":{"item":{"id":"msg_resp_4","text":"","type":"agentMessage"}}}
        A {"method":"item/agentMessage/delta","params":{"delta":"Before ","itemId":"msg_resp_4"}}
        A {"method":"item/agentMessage/delta","params":{"delta":"the ","itemId":"msg_resp_4"}}
        A {"method":"item/agentMessage/delta","params":{"delta":"fault; ","itemId":"msg_resp_4"}}
        A raw "}{ this is not JSON \u{7}\n"
        A {"method":"item/agentMessage/delta","params":{"delta":"after ","itemId":"msg_resp_4"}}
        A {"method":"item/agentMessage/delta","params":{"delta":"the ","itemId":"msg_resp_4"}}
        A {"method":"item/agentMessage/delta","params":{"delta":"fault.","itemId":"msg_resp_4"}}
        A {"method":"item/completed","params":{"item":{"id":"msg_resp_4","text":"Before the fault; after the fault.","type":"agentMessage"}}}
    "#]],
    );
}

#[test]
fn invalid_utf8_is_sent_as_it_is() {
    check_answer(
        &turn(3, "[[utf8]]"),
        expect![[r#"
        A {"method":"item/started","params":{"item":{"id":"msg_resp_4","text":"","type":"agentMessage"}}}
        A {"method":"item/agentMessage/delta","params":{"delta":"Before ","itemId":"msg_resp_4"}}
        A {"method":"item/agentMessage/delta","params":{"delta":"the ","itemId":"msg_resp_4"}}
        A {"method":"item/agentMessage/delta","params":{"delta":"fault; ","itemId":"msg_resp_4"}}
        A {"method":"warning","params":{"message":"���("}}
        A {"method":"item/agentMessage/delta","params":{"delta":"after ","itemId":"msg_resp_4"}}
        A {"method":"item/agentMessage/delta","params":{"delta":"the ","itemId":"msg_resp_4"}}
        A {"method":"item/agentMessage/delta","params":{"delta":"fault.","itemId":"msg_resp_4"}}
        A {"method":"item/completed","params":{"item":{"id":"msg_resp_4","text":"Before the fault; after the fault.","type":"agentMessage"}}}
    "#]],
    );
}

#[test]
fn long_line_is_as_long_as_asked_and_never_in_memory() {
    check_answer(
        &turn(3, "[[line 100000000]]"),
        expect![[r#"
        A {"method":"item/started","params":{"item":{"id":"msg_resp_4","text":"","type":"agentMessage"}}}
        A {"method":"item/agentMessage/delta","params":{"delta":"Before ","itemId":"msg_resp_4"}}
        A {"method":"item/agentMessage/delta","params":{"delta":"the ","itemId":"msg_resp_4"}}
        A {"method":"item/agentMessage/delta","params":{"delta":"fault; ","itemId":"msg_resp_4"}}
        A a line of 100000000 bytes
        A {"method":"item/agentMessage/delta","params":{"delta":"after ","itemId":"msg_resp_4"}}
        A {"method":"item/agentMessage/delta","params":{"delta":"the ","itemId":"msg_resp_4"}}
        A {"method":"item/agentMessage/delta","params":{"delta":"fault.","itemId":"msg_resp_4"}}
        A {"method":"item/completed","params":{"item":{"id":"msg_resp_4","text":"Before the fault; after the fault.","type":"agentMessage"}}}
    "#]],
    );
}

#[test]
fn deep_json_is_deep() {
    check_answer(
        &turn(3, "[[deep 200]]"),
        expect![[r#"
        A {"method":"item/started","params":{"item":{"id":"msg_resp_4","text":"","type":"agentMessage"}}}
        A {"method":"item/agentMessage/delta","params":{"delta":"Before ","itemId":"msg_resp_4"}}
        A {"method":"item/agentMessage/delta","params":{"delta":"the ","itemId":"msg_resp_4"}}
        A {"method":"item/agentMessage/delta","params":{"delta":"fault; ","itemId":"msg_resp_4"}}
        A raw "{\"method\":\"warning\",\"params\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
        A {"method":"item/agentMessage/delta","params":{"delta":"after ","itemId":"msg_resp_4"}}
        A {"method":"item/agentMessage/delta","params":{"delta":"the ","itemId":"msg_resp_4"}}
        A {"method":"item/agentMessage/delta","params":{"delta":"fault.","itemId":"msg_resp_4"}}
        A {"method":"item/completed","params":{"item":{"id":"msg_resp_4","text":"Before the fault; after the fault.","type":"agentMessage"}}}
    "#]],
    );
}

#[test]
fn crash_comes_after_the_wanted_delta() {
    check_end(
        &turn(3, "[[crash 2 exit 7]]"),
        expect![[r#"
        A {"method":"item/started","params":{"item":{"id":"msg_resp_4","text":"","type":"agentMessage"}}}
        A {"method":"item/agentMessage/delta","params":{"delta":"t0 ","itemId":"msg_resp_4"}}
        A {"method":"item/agentMessage/delta","params":{"delta":"t1 ","itemId":"msg_resp_4"}}
        End(Exit(7))
    "#]],
    );
}

#[test]
fn process_faults_happen_before_anything_is_said() {
    let home = TempDir::new().unwrap();
    let script = r#"
        [process]
        ignore_sigterm = true
        stderr_bytes = 5000
        orphans = ["group", "own"]
        exit_at_start = 3
    "#;
    let theatre = Theatre::new(Dialect::V2, &home, script);
    expect![[r#"
        IgnoreTerminate
        Noise { bytes: 5000 }
        Leave(InGroup)
        Leave(Apart)
        End(Exit(3))
    "#]]
    .assert_eq(&theatre.log);
}

#[test]
fn answers_come_in_the_wrong_order() {
    check_v2(
        "[calls]\nanswers = \"swapped\"",
        r#"
        A< {"id":3,"method":"thread/loaded/list","params":{}}
        A< {"id":4,"method":"model/list","params":{"cursor":"x"}}
        A< {"id":5,"method":"thread/loaded/list","params":{}}"#,
        expect![[r##"
            A {"error":{"code":-32600,"message":"invalid cursor: x"},"id":4}
            A {"id":3,"result":{"data":["#1"]}}
        "##]],
    );
}

#[test]
fn answers_come_twice_or_to_nobody() {
    let play =
        turn(3, "[[answers twice]]") + "\n" + r#"A< {"id":4,"method":"thread/loaded/list","params":{"limit":1}}"#;
    let play = play + "\n" + &turn(5, "[[answers unknown]]");
    let play = play + "\n" + r#"A< {"id":6,"method":"thread/loaded/list","params":{"limit":1}}"#;
    let home = TempDir::new().unwrap();
    let mut theatre = Theatre::new(Dialect::V2, &home, "");
    theatre.play(V2_OPENING);
    theatre.log.clear();
    theatre.wrong_on_purpose = Some("answers no call");
    let answers = lines_with(theatre.play(&play), &["\"result\":"]);
    expect![[r##"
        A {"id":3,"result":{"turn":{"id":"#2","items":[],"itemsView":"notLoaded","status":"inProgress"}}}
        A {"id":4,"result":{"data":["#1"]}}
        A {"id":4,"result":{"data":["#1"]}}
        A {"id":5,"result":{"turn":{"id":"#4","items":[],"itemsView":"notLoaded","status":"inProgress"}}}
        A {"id":5,"result":{"turn":{"id":"#4","items":[],"itemsView":"notLoaded","status":"inProgress"}}}
        A {"id":"nobody-asked","result":{}}
        A {"id":6,"result":{"data":["#1"]}}
    "##]]
    .assert_eq(&answers);
}

#[test]
fn calls_are_refused_as_overload_left_unanswered_or_fatal() {
    check_v2(
        "[calls]\noverloaded_every = 3\nunanswered = [\"thread/list\"]\nexit_on = [\"thread/read\"]",
        r#"
        A< {"id":3,"method":"thread/loaded/list","params":{"limit":1}}
        A< {"id":4,"method":"model/list","params":{"cursor":"x"}}
        A< {"id":5,"method":"thread/list","params":{}}
        A< {"id":6,"method":"model/list","params":{"cursor":"x"}}
        A< {"id":7,"method":"thread/read","params":{"threadId":"x"}}"#,
        expect![[r#"
            A {"error":{"code":-32001,"message":"Server overloaded; retry later."},"id":3}
            A {"error":{"code":-32600,"message":"invalid cursor: x"},"id":4}
            A {"error":{"code":-32001,"message":"Server overloaded; retry later."},"id":6}
            End(Exit(1))
        "#]],
    );
}

#[test]
fn initialize_that_says_too_much_is_rejected_and_may_be_retried() {
    let home = TempDir::new().unwrap();
    let mut theatre = Theatre::new(Dialect::V2, &home, "[handshake]\nreject_v2 = true\nreject_initialized = true");
    theatre.wrong_on_purpose = Some("/id: null");
    let play = r#"
        A connects
        A< {"id":1,"method":"initialize","params":{"clientInfo":{"name":"test","version":"0"},"protocolVersion":"v2","capabilities":{}}}
        A< {"id":2,"method":"initialize","params":{"clientInfo":{"name":"test","version":"0"},"client_info":{"name":"test","version":"0"}}}
        A< {"method":"initialized"}"#;
    expect![[r#"
        A {"error":{"code":-32602,"message":"Invalid params: unknown field `protocolVersion`"},"id":1}
        A {"id":2,"result":{"codexHome":"$HOME","platformFamily":"unix","platformOs":"linux","userAgent":"test/VERSION (Switchboard demo worker 0.1.0; x86_64) demo (test; 0)"}}
        A {"method":"remoteControl/status/changed","params":{"installationId":"00000000-0000-4000-8000-000000000000","serverName":"demo","status":"disabled"}}
        A {"error":{"code":-32601,"message":"Method not found: initialized"}}
    "#]].assert_eq(theatre.play(play));
}

#[test]
fn silent_handshake_is_never_answered() {
    let home = TempDir::new().unwrap();
    let mut theatre = Theatre::new(Dialect::V2, &home, "[handshake]\nsilent = true");
    let play = r#"
        A connects
        A< {"id":1,"method":"initialize","params":{"clientInfo":{"name":"test","version":"0"}}}"#;
    expect![[""]].assert_eq(theatre.play(play));
}

#[test]
fn a_line_that_is_no_utf8_ends_the_worker() {
    let home = TempDir::new().unwrap();
    let mut theatre = Theatre::new(Dialect::V2, &home, "");
    theatre.worker.handle_line(super::connection("A"), b"\xff\xfe\n", theatre.now);
    theatre.drain();
    expect![[r#"
        Log("ERROR failed to read stdin: the line is not UTF-8")
        End(Exit(0))
    "#]]
    .assert_eq(&theatre.log);
}

#[test]
fn pause_without_end_is_no_overflow() {
    let home = TempDir::new().unwrap();
    let mut theatre = Theatre::new(Dialect::V2, &home, "");
    theatre.play(V2_OPENING);
    theatre.play(&turn(3, "[[slow 2 18446744073709551615]]"));
    assert!(theatre.worker.is_busy());
}
