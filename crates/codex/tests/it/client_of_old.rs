//! The client against a worker that speaks the dialect of old: the same words for its user, other lines on the wire.

use codex::abilities::Dialect;
use codex::event::TurnStatus;
use codex::requests::RequestKind;
use codex::{
    ApprovalPolicy, CallError, Callbacks, Decision, Input, Json, Options, ThreadOptions, TurnEvent, TurnOptions,
};
use serde_json::{Value, json};
use testkit::HANG_TIMEOUT;
use tokio::time::timeout;

use crate::support::{Place, item_status};

#[tokio::test]
async fn a_turn_is_one_send_and_its_listener_is_removed_at_the_end() {
    let place = Place::new().of_old();
    let client = place.start(Options::new("tests", "1.0")).await;
    assert_eq!(client.abilities().dialect, Dialect::V1);
    let thread = client.start_thread(ThreadOptions::in_directory("/")).await.unwrap();
    for _ in 0..2 {
        let finished = thread.start_turn("[[text]]").await.unwrap().finish().await;
        assert_eq!((finished.status, finished.text.as_str()), (TurnStatus::Completed, "Hello from mock."));
        assert!(finished.usage.is_some());
    }
    client.stop().await;
    let lines = place.captured();
    let count = |method: &str| lines.iter().filter(|line| line.contains(&format!("\"{method}\""))).count();
    let methods = ["addConversationListener", "sendUserTurn", "sendUserMessage", "removeConversationListener"];
    assert_eq!(methods.map(count), [2, 2, 0, 2], "{lines:#?}");
}

#[tokio::test]
async fn commands_are_decided_in_the_words_of_old() {
    let place = Place::new().of_old();
    let mut options = Options::new("tests", "1.0");
    options.callbacks = Callbacks::new().on_approval(RequestKind::Command, |asked: codex::Asked| {
        if asked.params.get().contains("allowed") { Decision::Allow } else { Decision::deny("no") }
    });
    let client = place.start(options).await;
    let asking = ThreadOptions { approval_policy: ApprovalPolicy::Untrusted, ..ThreadOptions::in_directory("/") };
    let thread = client.start_thread(asking).await.unwrap();
    assert_eq!(item_status(&thread, "[[shell touch allowed]]", "command_execution").await, "completed");
    let denied = item_status(&thread, "[[shell touch other]]", "command_execution").await;
    assert!(["declined", "failed"].contains(&denied.as_str()), "{denied}");
    client.stop().await;
    let decisions: Vec<String> = place.captured().into_iter().filter(|line| line.contains("decision")).collect();
    assert!(decisions[0].contains("approved") && decisions[1].contains("denied"), "{decisions:?}");
}

#[tokio::test]
async fn a_dropped_turn_is_interrupted_and_the_thread_goes_on() {
    let place = Place::new().of_old();
    let client = place.start(Options::new("tests", "1.0")).await;
    let thread = client.start_thread(ThreadOptions::in_directory("/")).await.unwrap();
    let mut turn = thread.start_turn("[[slow 10000 5]]").await.unwrap();
    while !matches!(timeout(HANG_TIMEOUT, turn.next()).await.unwrap(), Some(TurnEvent::Text { .. })) {}
    let unable = turn.steer(&[Input::Text("more".into())]).await.err().unwrap();
    assert!(matches!(unable, CallError::Unable(_)), "{unable}");
    drop(turn);
    let again = async { thread.start_turn("[[text]]").await.unwrap().finish().await };
    assert_eq!(timeout(HANG_TIMEOUT, again).await.unwrap().text, "Hello from mock.");
}

#[tokio::test]
async fn a_worker_that_dies_loses_the_turn() {
    let place = Place::new().of_old();
    let client = place.start(Options::new("tests", "1.0")).await;
    let thread = client.start_thread(ThreadOptions::in_directory("/")).await.unwrap();
    let finished = thread.start_turn("[[crash 2 exit 7]]").await.unwrap().finish().await;
    assert_eq!(finished.status, TurnStatus::Lost);
}

#[tokio::test]
async fn a_thread_begins_with_its_instructions_and_its_history() {
    let place = Place::new().of_old();
    let client = place.start(Options::new("tests", "1.0")).await;
    let said = |role: &str, text: &str| json!({"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]});
    let brief = ThreadOptions { developer_instructions: Some("Be brief.".into()), ..ThreadOptions::in_directory("/") };
    let thread = client.start_thread_from(vec![Json::from(&said("user", "First."))], brief).await.unwrap();
    let finished = thread.start_turn("[[text]]").await.unwrap().finish().await;
    assert_eq!((finished.status, finished.text.as_str()), (TurnStatus::Completed, "Hello from mock."));
    client.stop().await;
    let lines: Vec<Value> = place.captured().iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let resumed = lines.iter().find(|line| line["method"] == "resumeConversation").unwrap();
    assert_eq!(resumed["params"]["history"], json!([said("developer", "Be brief."), said("user", "First.")]));
}

#[tokio::test]
async fn what_the_worker_would_pass_over_is_refused() {
    let place = Place::new().of_old();
    let client = place.start(Options { experimental_api: true, ..Options::new("tests", "1.0") }).await;
    let plain = client.start_thread(ThreadOptions { is_plain: true, ..ThreadOptions::in_directory("/") }).await;
    assert!(plain.unwrap_err().to_string().ends_with("cannot do threads without tools of the agent"));
    let thread = client.start_thread(ThreadOptions::in_directory("/")).await.unwrap();
    let turns = [
        (TurnOptions::default(), "turns without input"),
        (TurnOptions { output_schema: Some(json!({})), ..TurnOptions::from("[[text]]") }, "output schemas"),
        (TurnOptions { service_tier: Some("flex".into()), ..TurnOptions::from("[[text]]") }, "service tiers"),
    ];
    for (options, what) in turns {
        let refusal = thread.start_turn(options).await.map(drop).unwrap_err().to_string();
        assert!(refusal.ends_with(&format!("cannot do {what}")), "{refusal}");
    }
    client.stop().await;
}
