//! The dialect of old.

use expect_test::{Expect, expect};
use tempfile::TempDir;

use super::{Theatre, lines_with};
use crate::options::Dialect;

const OPENING: &str = r#"
    A connects
    A< {"id":1,"method":"initialize","params":{"clientInfo":{"name":"test","version":"0"},"protocolVersion":"v2"}}
    A< {"id":2,"method":"newConversation","params":{"cwd":"/home/dev","approvalPolicy":"untrusted"}}
    A< {"id":3,"method":"addConversationListener","params":{"conversationId":"$2.conversationId"}}
"#;

#[expect(clippy::needless_pass_by_value, reason = "reads better at the call")]
fn check(play: &str, expected: Expect) {
    let home = TempDir::new().unwrap();
    let mut theatre = Theatre::new(Dialect::V1, &home, "");
    theatre.play(OPENING);
    theatre.log.clear();
    expected.assert_eq(theatre.play(play));
}

/// Leaves out what a plain turn shows already: the beginning and the final message.
#[expect(clippy::needless_pass_by_value, reason = "reads better at the call")]
fn check_middle(play: &str, expected: Expect) {
    let home = TempDir::new().unwrap();
    let mut theatre = Theatre::new(Dialect::V1, &home, "");
    theatre.play(OPENING);
    theatre.log.clear();
    let log = theatre.play(play);
    let shown: String = log
        .lines()
        .skip_while(|line| !line.contains("account/rateLimits"))
        .skip(1)
        .filter(|line| {
            !["agent_message", "AgentMessage", "token_count", "rateLimits"].iter().any(|part| line.contains(part))
        })
        .fold(String::new(), |all, line| all + line + "\n");
    expected.assert_eq(&shown);
}

fn message(id: u64, prompt: &str) -> String {
    format!(
        r#"A< {{"id":{id},"method":"sendUserMessage","params":{{"conversationId":"$2.conversationId","items":[{{"type":"text","data":{{"text":"{prompt}"}}}}]}}}}"#
    )
}

#[test]
fn handshake_is_short_and_a_stray_line_comes_first() {
    let home = TempDir::new().unwrap();
    let mut theatre = Theatre::new(Dialect::V1, &home, "");
    expect![[r##"
        A {"event":"ready"}
        A {"id":1,"result":{"userAgent":"codex_cli_rs/0.53.0 (Switchboard demo worker 0.1.0; x86_64) demo (test; 0)"}}
        A {"id":2,"result":{"model":"demo","rolloutPath":"$HOME/sessions/2027/01/15/rollout-2027-01-15T08-00-00-#1.jsonl"}}
        A {"id":3,"result":{"subscriptionId":"#2"}}
    "##]].assert_eq(theatre.play(OPENING));
}

#[test]
fn plain_turn_says_everything_twice() {
    check(
        &message(4, "[[text]]"),
        expect![[r##"
        A {"id":4,"result":{}}
        A {"method":"codex/event/task_started","params":{"id":"0","msg":{"type":"task_started"}}}
        A {"method":"codex/event/item_started","params":{"id":"0","msg":{"item":{"UserMessage":{"content":[{"text":"[[text]]","type":"text"}],"id":"#3"}},"type":"item_started"}}}
        A {"method":"codex/event/item_completed","params":{"id":"0","msg":{"item":{"UserMessage":{"content":[{"text":"[[text]]","type":"text"}],"id":"#3"}},"type":"item_completed"}}}
        A {"method":"codex/event/user_message","params":{"id":"0","msg":{"images":[],"message":"[[text]]","type":"user_message"}}}
        A {"method":"codex/event/token_count","params":{"id":"0","msg":{"rate_limits":{},"type":"token_count"}}}
        A {"method":"account/rateLimits/updated","params":{}}
        A {"method":"codex/event/item_started","params":{"id":"0","msg":{"item":{"AgentMessage":{"content":[],"id":"msg_resp_4"}},"type":"item_started"}}}
        A {"method":"codex/event/agent_message_content_delta","params":{"id":"0","msg":{"delta":"Hello ","item_id":"msg_resp_4","type":"agent_message_content_delta"}}}
        A {"method":"codex/event/agent_message_delta","params":{"id":"0","msg":{"delta":"Hello ","type":"agent_message_delta"}}}
        A {"method":"codex/event/agent_message_content_delta","params":{"id":"0","msg":{"delta":"from ","item_id":"msg_resp_4","type":"agent_message_content_delta"}}}
        A {"method":"codex/event/agent_message_delta","params":{"id":"0","msg":{"delta":"from ","type":"agent_message_delta"}}}
        A {"method":"codex/event/agent_message_content_delta","params":{"id":"0","msg":{"delta":"mock","item_id":"msg_resp_4","type":"agent_message_content_delta"}}}
        A {"method":"codex/event/agent_message_delta","params":{"id":"0","msg":{"delta":"mock","type":"agent_message_delta"}}}
        A {"method":"codex/event/agent_message_content_delta","params":{"id":"0","msg":{"delta":".","item_id":"msg_resp_4","type":"agent_message_content_delta"}}}
        A {"method":"codex/event/agent_message_delta","params":{"id":"0","msg":{"delta":".","type":"agent_message_delta"}}}
        A {"method":"codex/event/item_completed","params":{"id":"0","msg":{"item":{"AgentMessage":{"content":[{"Text":{"text":"Hello from mock."}}],"id":"msg_resp_4"}},"type":"item_completed"}}}
        A {"method":"codex/event/agent_message","params":{"id":"0","msg":{"message":"Hello from mock.","type":"agent_message"}}}
        A {"method":"codex/event/token_count","params":{"id":"0","msg":{"info":{"last_token_usage":{"cached_input_tokens":40,"input_tokens":100,"output_tokens":10,"reasoning_output_tokens":0,"total_tokens":110},"total_token_usage":{"cached_input_tokens":40,"input_tokens":100,"output_tokens":10,"reasoning_output_tokens":0,"total_tokens":110}},"rate_limits":{},"type":"token_count"}}}
        A {"method":"account/rateLimits/updated","params":{}}
        A {"method":"codex/event/task_complete","params":{"id":"0","msg":{"last_agent_message":"Hello from mock.","type":"task_complete"}}}
    "##]],
    );
}

#[test]
fn command_asks_and_runs_when_approved() {
    let play = message(4, "[[shell echo hi]]") + "\nA< {\"id\":0,\"result\":{\"decision\":\"approved\"}}";
    check_middle(
        &play,
        expect![[r#"
            A {"method":"codex/event/exec_command_begin","params":{"id":"0","msg":{"call_id":"call_resp_4","command":["bash","-lc","echo hi"],"is_user_shell_command":false,"parsed_cmd":[{"cmd":"echo hi","type":"unknown"}],"type":"exec_command_begin"}}}
            A {"method":"codex/event/exec_approval_request","params":{"id":"0","msg":{"call_id":"call_resp_4","command":["bash","-lc","echo hi"],"parsed_cmd":[{"cmd":"echo hi","type":"unknown"}],"type":"exec_approval_request"}}}
            A {"id":0,"method":"execCommandApproval","params":{"callId":"call_resp_4","command":["bash","-lc","echo hi"],"parsedCmd":[{"cmd":"echo hi","type":"unknown"}]}}
            A {"method":"codex/event/exec_command_output_delta","params":{"id":"0","msg":{"call_id":"call_resp_4","chunk":"ZGVtbyB3b3JrZXI6IGBlY2hvIGhpYCB3YXMgbm90IHJ1bgo=","stream":"stdout","type":"exec_command_output_delta"}}}
            A {"method":"codex/event/exec_command_end","params":{"id":"0","msg":{"aggregated_output":"demo worker: `echo hi` was not run\n","call_id":"call_resp_4","duration":{"nanos":0,"secs":0},"exit_code":0,"formatted_output":"demo worker: `echo hi` was not run\n","stderr":"","stdout":"demo worker: `echo hi` was not run\n","type":"exec_command_end"}}}
        "#]],
    );
}

#[test]
fn denied_command_does_not_run_and_the_turn_goes_on() {
    let play = message(4, "[[shell touch a]]") + "\nA< {\"id\":0,\"result\":{\"decision\":\"denied\"}}";
    check_middle(
        &play,
        expect![[r#"
            A {"method":"codex/event/exec_command_begin","params":{"id":"0","msg":{"call_id":"call_resp_4","command":["bash","-lc","touch a"],"is_user_shell_command":false,"parsed_cmd":[{"cmd":"touch a","type":"unknown"}],"type":"exec_command_begin"}}}
            A {"method":"codex/event/exec_approval_request","params":{"id":"0","msg":{"call_id":"call_resp_4","command":["bash","-lc","touch a"],"parsed_cmd":[{"cmd":"touch a","type":"unknown"}],"type":"exec_approval_request"}}}
            A {"id":0,"method":"execCommandApproval","params":{"callId":"call_resp_4","command":["bash","-lc","touch a"],"parsedCmd":[{"cmd":"touch a","type":"unknown"}]}}
            A {"method":"codex/event/exec_command_end","params":{"id":"0","msg":{"aggregated_output":"exec command rejected by user","call_id":"call_resp_4","duration":{"nanos":0,"secs":0},"exit_code":-1,"formatted_output":"exec command rejected by user","stderr":"exec command rejected by user","stdout":"","type":"exec_command_end"}}}
        "#]],
    );
}

#[test]
fn aborted_patch_ends_the_turn() {
    let play = message(4, "[[patch a.txt hello]]") + "\nA< {\"id\":0,\"result\":{\"decision\":\"abort\"}}";
    check_middle(
        &play,
        expect![[r#"
            A {"method":"codex/event/apply_patch_approval_request","params":{"id":"0","msg":{"call_id":"call_resp_4","changes":{"/home/dev/a.txt":{"add":{"content":"hello\n"}}},"type":"apply_patch_approval_request"}}}
            A {"id":0,"method":"applyPatchApproval","params":{"callId":"call_resp_4","fileChanges":{"/home/dev/a.txt":{"add":{"content":"hello\n"}}}}}
            A {"method":"codex/event/turn_aborted","params":{"id":"0","msg":{"reason":"interrupted","type":"turn_aborted"}}}
        "#]],
    );
}

#[test]
fn interrupt_is_answered_after_the_turn_is_aborted() {
    let play = message(4, "[[slow 9 50]]")
        + r#"
        60 ms pass
        A< {"id":5,"method":"interruptConversation","params":{"conversationId":"$2.conversationId"}}
        500 ms pass"#;
    check(
        &play,
        expect![[r##"
        A {"id":4,"result":{}}
        A {"method":"codex/event/task_started","params":{"id":"0","msg":{"type":"task_started"}}}
        A {"method":"codex/event/item_started","params":{"id":"0","msg":{"item":{"UserMessage":{"content":[{"text":"[[slow 9 50]]","type":"text"}],"id":"#3"}},"type":"item_started"}}}
        A {"method":"codex/event/item_completed","params":{"id":"0","msg":{"item":{"UserMessage":{"content":[{"text":"[[slow 9 50]]","type":"text"}],"id":"#3"}},"type":"item_completed"}}}
        A {"method":"codex/event/user_message","params":{"id":"0","msg":{"images":[],"message":"[[slow 9 50]]","type":"user_message"}}}
        A {"method":"codex/event/token_count","params":{"id":"0","msg":{"rate_limits":{},"type":"token_count"}}}
        A {"method":"account/rateLimits/updated","params":{}}
        A {"method":"codex/event/item_started","params":{"id":"0","msg":{"item":{"AgentMessage":{"content":[],"id":"msg_resp_4"}},"type":"item_started"}}}
        A {"method":"codex/event/agent_message_content_delta","params":{"id":"0","msg":{"delta":"s0 ","item_id":"msg_resp_4","type":"agent_message_content_delta"}}}
        A {"method":"codex/event/agent_message_delta","params":{"id":"0","msg":{"delta":"s0 ","type":"agent_message_delta"}}}
        A {"method":"codex/event/agent_message_content_delta","params":{"id":"0","msg":{"delta":"s1 ","item_id":"msg_resp_4","type":"agent_message_content_delta"}}}
        A {"method":"codex/event/agent_message_delta","params":{"id":"0","msg":{"delta":"s1 ","type":"agent_message_delta"}}}
        A {"method":"account/rateLimits/updated","params":{}}
        A {"method":"codex/event/turn_aborted","params":{"id":"0","msg":{"reason":"interrupted","type":"turn_aborted"}}}
        A {"id":5,"result":{"abortReason":"interrupted"}}
    "##]],
    );
}

#[test]
fn interrupt_of_nothing_is_never_answered() {
    let home = TempDir::new().unwrap();
    let mut theatre = Theatre::new(Dialect::V1, &home, "");
    theatre.play(OPENING);
    theatre.log.clear();
    let interrupt = r#"A< {"id":4,"method":"interruptConversation","params":{"conversationId":"$2.conversationId"}}"#;
    let log = theatre.play(&format!(
        "{interrupt}
        {}
        {}
        {}",
        message(5, "[[text]]"),
        message(6, "[[hang]]"),
        interrupt.replace(r#""id":4"#, r#""id":7"#),
    ));
    expect![[r#"
        A {"id":5,"result":{}}
        A {"method":"codex/event/task_complete","params":{"id":"0","msg":{"last_agent_message":"Hello from mock.","type":"task_complete"}}}
        A {"id":6,"result":{}}
        A {"method":"codex/event/turn_aborted","params":{"id":"1","msg":{"reason":"interrupted","type":"turn_aborted"}}}
        A {"id":7,"result":{"abortReason":"interrupted"}}
    "#]]
    .assert_eq(&lines_with(log, &["A {\"id\"", "task_complete", "turn_aborted"]));
}

/// A second client that listens to the conversation of the first.
const SECOND_LISTENER: &str = r#"
    B connects
    B< {"id":10,"method":"initialize","params":{"clientInfo":{"name":"second","version":"0"}}}
    B< {"id":11,"method":"addConversationListener","params":{"conversationId":"$2.conversationId"}}
"#;

const REMOVE_SECOND: &str =
    r#"A< {"id":12,"method":"removeConversationListener","params":{"subscriptionId":"$11.subscriptionId"}}"#;

#[test]
fn removed_listener_of_another_connection_hears_no_more() {
    let home = TempDir::new().unwrap();
    let mut theatre = Theatre::new(Dialect::V1, &home, "");
    theatre.play(&format!("{OPENING}{SECOND_LISTENER}{REMOVE_SECOND}"));
    theatre.log.clear();
    let log = theatre.play(&message(13, "[[text]]"));
    assert!(log.contains("A {\"method\":\"codex/event/task_complete\"") && !log.contains("B {"), "{log}");
}

#[test]
fn listeners_go_with_their_connection() {
    let home = TempDir::new().unwrap();
    let mut theatre = Theatre::new(Dialect::V1, &home, "");
    theatre.play(&format!("{OPENING}{SECOND_LISTENER}B leaves"));
    theatre.log.clear();
    expect![[r#"
        A {"error":{"code":-32600,"message":"subscription not found: #3"},"id":12}
    "#]]
    .assert_eq(theatre.play(REMOVE_SECOND));
}

#[test]
fn user_turn_sets_what_the_conversation_works_with() {
    check_middle(
        r#"
        A< {"id":4,"method":"sendUserTurn","params":{"conversationId":"$2.conversationId","items":[{"type":"text","data":{"text":"[[patch a.txt hello]]"}}],"cwd":"/other","approvalPolicy":"never","sandboxPolicy":{"mode":"danger-full-access"},"model":"m","effort":null,"summary":"auto"}}"#,
        expect![[r#"
            A {"method":"codex/event/patch_apply_begin","params":{"id":"0","msg":{"auto_approved":true,"call_id":"call_resp_4","changes":{"/other/a.txt":{"add":{"content":"hello\n"}}},"type":"patch_apply_begin"}}}
            A {"method":"codex/event/patch_apply_end","params":{"id":"0","msg":{"call_id":"call_resp_4","stderr":"","stdout":"Success. (The demo worker wrote nothing.)\n","success":true,"type":"patch_apply_end"}}}
            A {"method":"codex/event/turn_diff","params":{"id":"0","msg":{"type":"turn_diff","unified_diff":"diff --git a/a.txt b/a.txt\nnew file mode 100644\nindex 0000000000000000000000000000000000000000..dddddddddddddddddddddddddddddddddddddddd\n--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1 @@\n+hello\n"}}}
            A {"method":"codex/event/turn_diff","params":{"id":"0","msg":{"type":"turn_diff","unified_diff":"diff --git a/a.txt b/a.txt\nnew file mode 100644\nindex 0000000000000000000000000000000000000000..dddddddddddddddddddddddddddddddddddddddd\n--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1 @@\n+hello\n"}}}
            A {"method":"codex/event/turn_diff","params":{"id":"0","msg":{"type":"turn_diff","unified_diff":"diff --git a/a.txt b/a.txt\nnew file mode 100644\nindex 0000000000000000000000000000000000000000..dddddddddddddddddddddddddddddddddddddddd\n--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1 @@\n+hello\n"}}}
        "#]],
    );
}

#[test]
fn without_a_listener_nothing_is_heard() {
    let play = r#"A< {"id":4,"method":"removeConversationListener","params":{"subscriptionId":"$3.subscriptionId"}}"#;
    check(
        &format!("{play}\n{}\n{play}", message(5, "[[text]]")),
        expect![[r#"
            A {"id":4,"result":{}}
            A {"id":5,"result":{}}
            A {"error":{"code":-32600,"message":"subscription not found: #2"},"id":4}
        "#]],
    );
}

#[test]
fn methods_of_today_are_unknown() {
    check(
        r#"
        A< {"id":4,"method":"thread/start","params":{}}
        A< {"id":5,"method":"sendUserMessage","params":{}}
        A< {"id":6,"method":"addConversationListener","params":{"conversationId":"x"}}"#,
        expect![[r#"
            A {"error":{"code":-32600,"message":"Invalid request"},"id":4}
            A {"error":{"code":-32600,"message":"Invalid request"},"id":5}
            A {"error":{"code":-32600,"message":"conversation not found: x"},"id":6}
        "#]],
    );
}

#[test]
fn kept_conversation_is_listed_resumed_and_put_away() {
    let home = TempDir::new().unwrap();
    let mut first = Theatre::new(Dialect::V1, &home, "");
    first.play(&format!("{OPENING}{}", message(4, "[[text]]")));
    drop(first);
    let mut theatre = Theatre::new(Dialect::V1, &home, "");
    theatre.play(
        r#"
        A connects
        A< {"id":1,"method":"initialize","params":{"clientInfo":{"name":"test","version":"0"}}}"#,
    );
    theatre.log.clear();
    let log = theatre.play(&format!(
        r#"
        A< {{"id":6,"method":"listConversations","params":{{"pageSize":1}}}}
        A< {{"id":2,"method":"resumeConversation","params":{{"path":"$6.items.0.path"}}}}
        A< {{"id":3,"method":"addConversationListener","params":{{"conversationId":"$2.conversationId"}}}}
        {}
        A< {{"id":7,"method":"resumeConversation","params":{{"conversationId":"x"}}}}
        A< {{"id":8,"method":"archiveConversation","params":{{"conversationId":"$2.conversationId","rolloutPath":"$2.rolloutPath"}}}}
        A< {{"id":9,"method":"listConversations","params":{{}}}}"#,
        message(4, "[[text]]"),
    ));
    expect![[r##"
        A {"id":6,"result":{"items":[{"modelProvider":"demo","path":"$HOME/sessions/2027/01/15/rollout-2027-01-15T08-00-00-#1.jsonl","preview":"[[text]]","timestamp":"2027-01-15T08:00:00.000Z"}]}}
        A {"method":"sessionConfigured","params":{"historyEntryCount":0,"historyLogId":0,"initialMessages":[{"images":[],"message":"[[text]]","type":"user_message"},{"message":"Hello from mock.","type":"agent_message"}],"model":"demo","rolloutPath":"$HOME/sessions/2027/01/15/rollout-2027-01-15T08-00-00-#1.jsonl"}}
        A {"id":2,"result":{"initialMessages":[{"images":[],"message":"[[text]]","type":"user_message"},{"message":"Hello from mock.","type":"agent_message"}],"model":"demo","rolloutPath":"$HOME/sessions/2027/01/15/rollout-2027-01-15T08-00-00-#1.jsonl"}}
        A {"id":3,"result":{"subscriptionId":"#1"}}
        A {"id":4,"result":{}}
        A {"method":"codex/event/task_started","params":{"id":"0","msg":{"type":"task_started"}}}
        A {"method":"codex/event/task_complete","params":{"id":"0","msg":{"last_agent_message":"Hello from mock.","type":"task_complete"}}}
        A {"error":{"code":-32600,"message":"no rollout found for conversation id x"},"id":7}
        A {"id":8,"result":{}}
        A {"id":9,"result":{"items":[]}}
    "##]].assert_eq(&lines_with(log, &["A {\"id\"", "A {\"error\"", "sessionConfigured", "task_"]));
}

#[test]
fn a_history_of_the_client_is_where_a_conversation_begins() {
    let item = r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"First."}]}"#;
    check(
        &format!(
            r#"A< {{"id":4,"method":"resumeConversation","params":{{"history":[{item}],"overrides":{{"model":"other"}}}}}}"#
        ),
        expect![[r#"
            A {"method":"sessionConfigured","params":{"historyEntryCount":0,"historyLogId":0,"initialMessages":[],"model":"other","rolloutPath":"$HOME/sessions/2027/01/15/rollout-2027-01-15T08-00-00-#3.jsonl"}}
            A {"id":4,"result":{"initialMessages":[],"model":"other","rolloutPath":"$HOME/sessions/2027/01/15/rollout-2027-01-15T08-00-00-#3.jsonl"}}
        "#]],
    );
}
