//! The types of the v1 dialect, on what the real workers answered and asked.

use codex::protocol::{Call, Request};
use codex::v1::calls::{
    AddConversationListener, InterruptConversation, NewConversation, NewConversationParams, RemoveConversationListener,
    ResumeConversation, ResumeConversationParams, SendUserMessage, SendUserMessageParams, SendUserTurn,
    SendUserTurnParams,
};
use codex::v1::input::InputItem;
use codex::v1::policy::{ApprovalPolicy, Effort, SandboxMode, SandboxPolicy, Summary, Workspace};
use codex::v1::requests::{ApplyPatchApproval, ApprovalAnswer, Decision, ExecCommandApproval};
use expect_test::{Expect, expect};
use serde::Serialize;
use serde_json::{Value, json};

use crate::v1::{messages, recordings};

fn check(params: &impl Serialize, expected: &Expect) {
    expected.assert_eq(&serde_json::to_string(params).unwrap());
}

#[test]
fn a_turn_says_all_that_any_version_demands() {
    let turn = SendUserTurnParams {
        conversation_id: "c".into(),
        items: vec![
            InputItem::text("hello"),
            InputItem::Image { image_url: "data:image/png;base64,AA==".into() },
            InputItem::LocalImage { path: "/home/dev/a.png".into() },
        ],
        cwd: "/home/dev".into(),
        approval_policy: ApprovalPolicy::OnRequest,
        sandbox_policy: SandboxPolicy::WorkspaceWrite(Workspace::default()),
        model: "m".into(),
        effort: Some(Effort::Low),
        summary: Summary::Auto,
        tools: None,
    };
    check(
        &turn,
        &expect![[
            r#"{"conversationId":"c","items":[{"type":"text","data":{"text":"hello"}},{"type":"image","data":{"image_url":"data:image/png;base64,AA==","imageUrl":"data:image/png;base64,AA=="}},{"type":"localImage","data":{"path":"/home/dev/a.png"}}],"cwd":"/home/dev","approvalPolicy":"on-request","sandboxPolicy":{"mode":"workspace-write","type":"workspace-write","writable_roots":[],"network_access":false,"exclude_tmpdir_env_var":false,"exclude_slash_tmp":false},"model":"m","effort":"low","summary":"auto"}"#
        ]],
    );
    check(&SandboxPolicy::from(SandboxMode::ReadOnly), &expect![[r#"{"mode":"read-only","type":"read-only"}"#]]);
}

#[test]
fn what_a_message_sets_is_written_in_both_spellings_and_nothing_else_is() {
    let mut message = SendUserMessageParams { conversation_id: "c".into(), ..Default::default() };
    check(&message, &expect![[r#"{"conversationId":"c","items":[]}"#]]);
    message.include_usage = Some(true);
    message.temperature = Some(0.5);
    message.top_p = Some(0.1);
    message.max_output_tokens = Some(9);
    message.final_output_json_schema = Some(json!({"type": "object"}));
    check(
        &message,
        &expect![[
            r#"{"conversationId":"c","items":[],"includeUsage":true,"include_usage":true,"temperature":0.5,"topP":0.1,"top_p":0.1,"maxOutputTokens":9,"max_output_tokens":9,"finalOutputJsonSchema":{"type":"object"},"final_output_json_schema":{"type":"object"}}"#
        ]],
    );
}

#[test]
fn a_conversation_is_begun_and_resumed_with_what_is_asked_for_alone() {
    check(&NewConversationParams::default(), &expect!["{}"]);
    let sandbox = Some(SandboxMode::WorkspaceWrite);
    check(
        &NewConversationParams { sandbox, approval_policy: Some(ApprovalPolicy::Never), ..Default::default() },
        &expect![[r#"{"approvalPolicy":"never","sandbox":"workspace-write"}"#]],
    );
    check(
        &ResumeConversationParams { path: Some("/home/dev/r.jsonl".into()), ..Default::default() },
        &expect![[r#"{"path":"/home/dev/r.jsonl"}"#]],
    );
}

#[test]
fn decisions_are_named_as_of_old() {
    let decisions = [Decision::Approved, Decision::ApprovedForSession, Decision::Denied, Decision::Abort];
    check(
        &decisions.map(|decision| ApprovalAnswer { decision }),
        &expect![[
            r#"[{"decision":"approved"},{"decision":"approved_for_session"},{"decision":"denied"},{"decision":"abort"}]"#
        ]],
    );
}

#[test]
fn every_recorded_answer_and_request_has_its_type() {
    let (mut answers, mut requests) = (0, 0);
    for (name, recording) in recordings() {
        let mut called = std::collections::BTreeMap::new();
        for (direction, message) in messages(&recording) {
            let method = message["method"].as_str().unwrap_or_default().to_owned();
            match direction.as_str() {
                "sent" if !method.is_empty() => drop(called.insert(message["id"].to_string(), method)),
                "received" if message.get("result").is_some() => {
                    let Some(method) = called.get(&message["id"].to_string()) else { continue };
                    answers += usize::from(is_answer(method, &message["result"], &name));
                }
                "received" if message.get("id").is_some() => {
                    requests += usize::from(is_request(&method, &message["params"], &name));
                }
                _ => {}
            }
        }
    }
    assert!(answers > 60 && requests > 9, "only {answers} answers and {requests} requests were recorded");
}

fn is_answer(method: &str, answer: &Value, recording: &str) -> bool {
    fn typed<C: Call>(answer: &Value) -> Result<(), String> {
        serde_json::from_value::<C::Answer>(answer.clone()).map(drop).map_err(|error| format!("{}: {error}", C::METHOD))
    }
    let result = match method {
        NewConversation::METHOD => typed::<NewConversation>(answer),
        AddConversationListener::METHOD => typed::<AddConversationListener>(answer),
        RemoveConversationListener::METHOD => typed::<RemoveConversationListener>(answer),
        SendUserTurn::METHOD => typed::<SendUserTurn>(answer),
        SendUserMessage::METHOD => typed::<SendUserMessage>(answer),
        InterruptConversation::METHOD => typed::<InterruptConversation>(answer),
        ResumeConversation::METHOD => typed::<ResumeConversation>(answer),
        _ => return false,
    };
    assert_eq!(result, Ok(()), "{recording}");
    true
}

fn is_request(method: &str, params: &Value, recording: &str) -> bool {
    fn typed<R: Request>(params: &Value) -> Result<(), String> {
        serde_json::from_value::<R::Params>(params.clone()).map(drop).map_err(|error| format!("{}: {error}", R::METHOD))
    }
    let result = match method {
        ExecCommandApproval::METHOD => typed::<ExecCommandApproval>(params),
        ApplyPatchApproval::METHOD => typed::<ApplyPatchApproval>(params),
        _ => return false,
    };
    assert_eq!(result, Ok(()), "{recording}");
    true
}
