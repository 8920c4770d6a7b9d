//! Script files.

use expect_test::{Expect, expect};
use tempfile::TempDir;

use super::{Theatre, V2_OPENING, check_v2, lines_with, turn};
use crate::options::Dialect;
use crate::script::Script;

#[test]
fn turns_are_played_by_text_or_in_order() {
    let script = r#"
        [[turns]]
        steps = ["say one"]
        [[turns]]
        match = "weather"
        steps = ["json {\"sun\":true}"]
        [[turns]]
        steps = ["tool nobody {}", "say two"]
    "#;
    let play = ["first", "the weather?", "second", "the weather again", "[[say three]]"];
    let play: String = play.iter().zip(3..).map(|(prompt, id)| turn(id, prompt) + "\n").collect();
    let home = TempDir::new().unwrap();
    let mut theatre = Theatre::new(Dialect::V2, &home, script);
    theatre.play(V2_OPENING);
    theatre.log.clear();
    let log = theatre.play(&play);
    expect![[r#"
        A {"method":"item/agentMessage/delta","params":{"delta":"one","itemId":"msg_resp_4"}}
        A {"method":"item/agentMessage/delta","params":{"delta":"{\"sun\":true}","itemId":"msg_resp_8"}}
        A {"method":"item/agentMessage/delta","params":{"delta":"two","itemId":"msg_resp_13"}}
        A {"method":"item/agentMessage/delta","params":{"delta":"{\"sun\":true}","itemId":"msg_resp_17"}}
        A {"method":"item/agentMessage/delta","params":{"delta":"three","itemId":"msg_resp_21"}}
    "#]]
    .assert_eq(&lines_with(log, &["delta"]));
}

#[test]
fn steps_follow_each_other_in_one_turn() {
    check_v2(
        "[[turns]]\nsteps = [\"shell echo hi\", \"plan\", \"patch a.txt hello\"]",
        &turn(3, "go"),
        expect![[r##"
            A {"id":3,"result":{"turn":{"id":"#2","items":[],"itemsView":"notLoaded","status":"inProgress"}}}
            A {"method":"thread/status/changed","params":{"status":{"activeFlags":[],"type":"active"}}}
            A {"method":"turn/started","params":{"turn":{"id":"#2","items":[],"itemsView":"notLoaded","status":"inProgress"}}}
            A {"method":"item/started","params":{"item":{"content":[{"text":"go","text_elements":[],"type":"text"}],"id":"#3","type":"userMessage"}}}
            A {"method":"item/completed","params":{"item":{"content":[{"text":"go","text_elements":[],"type":"text"}],"id":"#3","type":"userMessage"}}}
            A {"method":"item/started","params":{"item":{"command":"/bin/bash -lc 'echo hi'","commandActions":[{"command":"echo hi","type":"unknown"}],"id":"call_resp_4","processId":"7","source":"unifiedExecStartup","status":"inProgress","type":"commandExecution"}}}
            A {"method":"item/commandExecution/outputDelta","params":{"delta":"demo worker: `echo hi` was not run\n","itemId":"call_resp_4"}}
            A {"method":"item/completed","params":{"item":{"aggregatedOutput":"demo worker: `echo hi` was not run\n","command":"/bin/bash -lc 'echo hi'","commandActions":[{"command":"echo hi","type":"unknown"}],"exitCode":0,"id":"call_resp_4","processId":"7","source":"unifiedExecStartup","status":"completed","type":"commandExecution"}}}
            A {"method":"thread/tokenUsage/updated","params":{"tokenUsage":{"last":{"cacheWriteInputTokens":0,"cachedInputTokens":40,"inputTokens":200,"outputTokens":20,"reasoningOutputTokens":0,"totalTokens":220},"modelContextWindow":258400,"total":{"cacheWriteInputTokens":0,"cachedInputTokens":40,"inputTokens":200,"outputTokens":20,"reasoningOutputTokens":0,"totalTokens":220}}}}
            A {"method":"account/rateLimits/updated","params":{"rateLimits":{"limitId":"codex"}}}
            A {"method":"turn/plan/updated","params":{"explanation":"Three steps.","plan":[{"status":"completed","step":"Read the code"},{"status":"inProgress","step":"Change it"},{"status":"pending","step":"Run the tests"}]}}
            A {"method":"thread/tokenUsage/updated","params":{"tokenUsage":{"last":{"cacheWriteInputTokens":0,"cachedInputTokens":40,"inputTokens":200,"outputTokens":20,"reasoningOutputTokens":0,"totalTokens":220},"modelContextWindow":258400,"total":{"cacheWriteInputTokens":0,"cachedInputTokens":80,"inputTokens":400,"outputTokens":40,"reasoningOutputTokens":0,"totalTokens":440}}}}
            A {"method":"account/rateLimits/updated","params":{"rateLimits":{"limitId":"codex"}}}
            A {"method":"item/started","params":{"item":{"changes":[{"diff":"hello\n","kind":{"type":"add"},"path":"/home/dev/a.txt"}],"id":"call_resp_5","status":"inProgress","type":"fileChange"}}}
            A {"method":"thread/status/changed","params":{"status":{"activeFlags":["waitingOnApproval"],"type":"active"}}}
            A {"id":0,"method":"item/fileChange/requestApproval","params":{"itemId":"call_resp_5"}}
        "##]],
    );
}

#[expect(clippy::needless_pass_by_value, reason = "reads better at the call")]
fn check_error(script: &str, expected: Expect) {
    expected.assert_eq(&Script::parse(script).unwrap_err().to_string());
}

#[test]
fn unknown_key_is_named_with_its_line() {
    check_error(
        "[calls]\nanswer = \"twice\"\n",
        expect![[r#"
            TOML parse error at line 2, column 1
              |
            2 | answer = "twice"
              | ^^^^^^
            unknown field `answer`, expected one of `answers`, `overloaded_every`, `unanswered`, `exit_on`
        "#]],
    );
}

#[test]
fn unknown_step_is_named_with_its_line() {
    check_error(
        "[[turns]]\nsteps = [\"text\", \"dance\"]\n",
        expect![[r#"
            TOML parse error at line 2, column 9
              |
            2 | steps = ["text", "dance"]
              |         ^^^^^^^^^^^^^^^^^
            unknown step `dance`; steps are text, say, remark, deltas, flood, slow, see, reason, shell, shellesc, patch, plan, propose, tool, tools, json, http, httponce, ctx, quota, drop, hang, offline, friendly, partial, garbage, utf8, line, deep, crash, stderr, orphan, sigterm, answers, overload
        "#]],
    );
}

#[test]
fn wrong_value_is_named_with_its_line() {
    check_error(
        "[process]\nexit_at_start = 300\n",
        expect![[r#"
        TOML parse error at line 2, column 17
          |
        2 | exit_at_start = 300
          |                 ^^^
        invalid value: integer `300`, expected u8
    "#]],
    );
}

#[test]
fn documented_script_is_right() {
    let documentation = include_str!("../../../../docs/demo-worker.md");
    let (_, after) = documentation.split_once("```toml\n").unwrap();
    let (script, _) = after.split_once("```").unwrap();
    assert_eq!(Script::parse(script).unwrap().turns.len(), 2);
}
