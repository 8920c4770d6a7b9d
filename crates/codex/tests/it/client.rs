//! The client against the demo worker as a real process.

use std::time::Duration;

use codex::event::{ConnectionEvent, TurnStatus};
use codex::protocol::calls::{ServerDiagnostics, ThreadLoadedList, ThreadStart};
use codex::protocol::{ServerDiagnosticsParams, ThreadLoadedListParams, ThreadStartParams};
use codex::requests::RequestKind;
use codex::{
    Asked, CallError, Callbacks, Client, Decision, Input, Options, Patience, Sandbox, ThreadOptions, Tool, Trap,
    TurnEvent,
};
use serde_json::json;
use testkit::HANG_TIMEOUT;
use tokio::time::timeout;

use crate::support::{Place, item_status};

async fn client(place: &Place) -> Client {
    place.start(Options::new("tests", "1.0")).await
}

fn asking() -> ThreadOptions {
    ThreadOptions { approval_policy: codex::ApprovalPolicy::Untrusted, ..ThreadOptions::default() }
}

#[tokio::test]
async fn a_turn_streams_to_its_end() {
    let place = Place::new();
    let client = client(&place).await;
    let thread = client.start_thread(ThreadOptions::default()).await.unwrap();
    let finished = thread.start_turn("[[text]]").await.unwrap().finish().await;
    assert_eq!((finished.status, finished.text.as_str()), (TurnStatus::Completed, "Hello from mock."));
    assert!(finished.usage.unwrap().total_tokens > 0);
    client.stop().await;
}

#[tokio::test]
async fn many_threads_work_at_once_on_one_connection() {
    let place = Place::new();
    let client = client(&place).await;
    let mut turns = tokio::task::JoinSet::new();
    for number in 0..32 {
        let client = client.clone();
        turns.spawn(async move {
            let thread = client.start_thread(ThreadOptions::default()).await.unwrap();
            let finished = thread.start_turn(format!("[[say number {number} here]]")).await.unwrap().finish().await;
            assert_eq!(finished.text.trim(), format!("number {number} here"));
        });
    }
    assert_eq!(turns.join_all().await.len(), 32);
}

#[tokio::test]
async fn a_busy_thread_takes_no_second_turn_and_a_dropped_turn_frees_it() {
    let place = Place::new();
    let client = client(&place).await;
    let thread = client.start_thread(ThreadOptions::default()).await.unwrap();
    let mut turn = thread.start_turn("[[slow 10000 5]]").await.unwrap();
    assert!(matches!(turn.next().await, Some(TurnEvent::TurnStarted { .. })));
    let error = thread.start_turn("again").await.err().unwrap();
    assert!(matches!(&error, CallError::Busy(busy) if *busy.turn == *turn.id()), "{error}");
    drop(turn);
    let again = timeout(HANG_TIMEOUT, thread.start_turn("[[text]]")).await.unwrap().unwrap();
    assert_eq!(again.finish().await.status, TurnStatus::Completed);
}

#[tokio::test]
async fn a_dropped_call_leaves_its_place() {
    let place = Place::new().with_script("[calls]\nunanswered = [\"model/list\"]\n");
    let client = client(&place).await;
    for _ in 0..200 {
        let call = client.raw("model/list", None);
        assert!(timeout(Duration::from_millis(1), call).await.is_err());
    }
    client.start_thread(ThreadOptions::default()).await.unwrap();
}

#[tokio::test]
async fn an_interrupted_turn_ends_as_interrupted_and_its_items_are_closed() {
    let place = Place::new();
    let client = client(&place).await;
    let thread = client.start_thread(ThreadOptions::default()).await.unwrap();
    let mut turn = thread.start_turn("[[slow 10000 5]]").await.unwrap();
    let mut open = 0;
    let mut status = None;
    while let Some(event) = timeout(HANG_TIMEOUT, turn.next()).await.unwrap() {
        match event {
            TurnEvent::ItemStarted { .. } => open += 1,
            TurnEvent::ItemCompleted { .. } => open -= 1,
            TurnEvent::Text { .. } => {
                turn.interrupt();
                turn.interrupt();
            }
            TurnEvent::TurnEnded { status: ended, .. } => status = Some(ended),
            _ => {}
        }
    }
    assert_eq!((status, open), (Some(TurnStatus::Interrupted), 0));
}

#[tokio::test]
async fn a_running_turn_is_steered() {
    let place = Place::new();
    let client = client(&place).await;
    let thread = client.start_thread(ThreadOptions::default()).await.unwrap();
    let mut turn = thread.start_turn("[[slow 10000 5]]").await.unwrap();
    while !matches!(turn.next().await, Some(TurnEvent::Text { .. })) {}
    turn.steer(&[Input::Text("[[say enough]]".into())]).await.unwrap();
    assert_eq!(timeout(HANG_TIMEOUT, turn.finish()).await.unwrap().text.trim(), "enough");
}

#[tokio::test]
async fn callbacks_decide_in_functions_and_async_functions() {
    let place = Place::new();
    let mut options = Options::new("tests", "1.0");
    options.callbacks = Callbacks::new()
        .on_approval(RequestKind::Command, |asked: Asked| {
            if asked.params.get().contains("allowed") { Decision::Allow } else { Decision::deny("not that one") }
        })
        .on_approval(RequestKind::FileChange, |_| async { Decision::AllowForSession });
    let client = place.start(options).await;
    let thread = client.start_thread(asking()).await.unwrap();
    assert_eq!(item_status(&thread, "[[shell touch allowed]]", "command_execution").await, "completed");
    assert_eq!(item_status(&thread, "[[shell touch other]]", "command_execution").await, "declined");
    assert_eq!(item_status(&thread, "[[patch new.txt hello]]", "file_change").await, "completed");
}

#[tokio::test]
async fn a_panic_a_missing_callback_and_a_late_one_decline() {
    let place = Place::new();
    let mut options = Options::new("tests", "1.0");
    let patience = Patience { decision_timeout: Duration::from_millis(50), ..Patience::default() };
    options.callbacks = Callbacks::new()
        .on_approval(RequestKind::Command, |asked: Asked| async move {
            assert!(!asked.params.get().contains("panic"), "on purpose");
            std::future::pending::<Decision>().await
        })
        .with_patience(patience);
    let client = place.start(options).await;
    let thread = client.start_thread(asking()).await.unwrap();
    for prompt in ["[[shell touch panic]]", "[[shell touch late]]"] {
        assert_eq!(item_status(&thread, prompt, "command_execution").await, "declined", "{prompt}");
    }
    assert_eq!(item_status(&thread, "[[patch new.txt hello]]", "file_change").await, "declined");
}

#[tokio::test]
async fn requests_are_decided_later_and_several_wait_at_once() {
    let place = Place::new();
    let client = client(&place).await;
    let mut requests = client.requests().unwrap();
    assert!(client.requests().is_none(), "there is one such stream");
    let mut turns = Vec::new();
    let mut waiting = Vec::new();
    for _ in 0..3 {
        let thread = client.start_thread(asking()).await.unwrap();
        turns.push(thread.start_turn("[[shell touch x]]").await.unwrap());
        waiting.push(timeout(HANG_TIMEOUT, requests.next()).await.unwrap().unwrap());
    }
    for request in waiting.iter().rev() {
        request.decide(&Decision::Allow).unwrap();
        assert!(request.decide(&Decision::Allow).is_err(), "the first answer has won");
    }
    for turn in turns {
        assert_eq!(timeout(HANG_TIMEOUT, turn.finish()).await.unwrap().status, TurnStatus::Completed);
    }
}

#[tokio::test]
async fn a_request_that_waits_for_later_is_decided_by_its_id() {
    let place = Place::new();
    let (tell, mut told) = tokio::sync::mpsc::channel(1);
    let mut options = Options::new("tests", "1.0");
    options.callbacks = Callbacks::new().on_approval(RequestKind::Command, move |asked: Asked| {
        tell.try_send(asked.id).unwrap();
        Decision::Later
    });
    let client = place.start(options).await;
    let thread = client.start_thread(asking()).await.unwrap();
    let turn = thread.start_turn("[[shell touch x]]").await.unwrap();
    let request = timeout(HANG_TIMEOUT, told.recv()).await.unwrap().unwrap();
    client.decide(&request, &Decision::Allow).unwrap();
    assert_eq!(timeout(HANG_TIMEOUT, turn.finish()).await.unwrap().status, TurnStatus::Completed);
    assert!(client.decide(&request, &Decision::Allow).is_err());
}

#[tokio::test]
async fn experimental_things_are_refused_here_unless_they_were_asked_for() {
    let tool = Tool {
        namespace: None,
        name: "lookup".into(),
        description: "looks things up".into(),
        input_schema: json!({"type": "object"}),
    };
    let options = ThreadOptions { tools: vec![tool], ..ThreadOptions::default() };
    let place = Place::new();
    let refused = client(&place).await.start_thread(options.clone()).await.err().unwrap();
    assert!(matches!(refused, CallError::Experimental { .. }), "{refused}");
    let plain = client(&place).await;
    let refused = plain.call::<ServerDiagnostics>(ServerDiagnosticsParams::default()).await.err().unwrap();
    assert_eq!(
        refused.to_string(),
        "server/diagnostics is experimental: ask for it with `experimental_api` when you connect"
    );
    let params = ThreadStartParams { project_id: Some("p".into()), ..ThreadStartParams::default() };
    let refused = plain.call::<ThreadStart>(params).await.err().unwrap();
    assert!(matches!(&refused, CallError::Experimental { what } if &**what == "thread/start.projectId"), "{refused}");
    let experimental = Options { experimental_api: true, ..Options::new("tests", "1.0") };
    let allowed = place.start(experimental.clone()).await;
    allowed.start_thread(options.clone()).await.unwrap();
    // The second attempt at the handshake asks for nothing.
    let place = Place::new().with_script("[handshake]\nreject_v2 = true\n");
    let refused = place.start(experimental).await.start_thread(options).await.err().unwrap();
    assert!(matches!(refused, CallError::Experimental { .. }), "{refused}");
}

#[tokio::test]
async fn a_call_has_its_own_types_in_both_directions() {
    let place = Place::new();
    let client = client(&place).await;
    let started = client.call::<ThreadStart>(ThreadStartParams::default()).await.unwrap();
    let listed = client.call::<ThreadLoadedList>(ThreadLoadedListParams::default()).await.unwrap();
    assert_eq!(listed.data, [started.thread.id]);
}

#[tokio::test]
async fn a_call_that_is_not_answered_ends_with_its_deadline() {
    let place = Place::new().with_script("[calls]\nunanswered = [\"model/list\"]\n");
    let client = client(&place).await.with_timeout(Duration::from_millis(50));
    let error = client.raw("model/list", None).await.err().unwrap();
    assert_eq!(error.to_string(), "model/list got no answer: its deadline passed");
    assert!(error.work_may_have_run());
}

#[tokio::test]
async fn a_thread_is_resumed_without_its_turns_and_they_are_listed_by_page() {
    let place = Place::new();
    let first = client(&place).await;
    let thread = first.start_thread(ThreadOptions::default()).await.unwrap();
    assert_eq!(thread.start_turn("[[text]]").await.unwrap().finish().await.status, TurnStatus::Completed);
    first.stop().await;
    let second = client(&place).await;
    let resumed = second.resume_thread(thread.id(), ThreadOptions::default()).await.unwrap();
    assert_eq!(resumed.turns(None).await.unwrap().data.len(), 1);
    let line = place.captured().into_iter().find(|line| line.contains("thread/resume")).unwrap();
    assert!(line.contains(r#""excludeTurns":true"#), "{line}");
}

#[tokio::test]
async fn a_worker_that_can_do_nothing_that_we_need_is_no_worker() {
    let place = Place::new();
    let script = r#"while read -r line; do case "$line" in
        *initialize\"*) echo '{"id":1,"result":{"userAgent":"tests/9.9.9"}}' ;;
        *probe*) echo '{"id":2,"error":{"code":-32600,"message":"unknown variant, expected one of `cook`, `clean`"}}' ;;
    esac; done"#;
    let launch = supervise::Launch { program: "sh".into(), args: vec!["-c".into(), script.into()], ..place.launch() };
    let error = Client::start(&launch, Options::new("tests", "1.0")).await.err().unwrap();
    assert!(error.to_string().contains("cannot do thread/start"), "{error}");
}

#[tokio::test]
async fn an_overloaded_worker_is_asked_again_until_the_deadline() {
    let place = Place::new().with_script("[calls]\noverloaded_every = 3\n");
    let client = client(&place).await;
    for _ in 0..5 {
        client.start_thread(ThreadOptions::default()).await.unwrap();
    }
    let thread = client.start_thread(ThreadOptions::default()).await.unwrap();
    assert_eq!(thread.start_turn("[[overload 1]]").await.unwrap().finish().await.status, TurnStatus::Completed);
    let client = client.with_timeout(Duration::from_millis(300));
    // What is asked for the last time just before the deadline may have no answer yet; so it is tried more than once.
    for _ in 0..20 {
        let error = client.start_thread(ThreadOptions::default()).await.err().unwrap();
        if error.trap() == Some(Trap::Overloaded) {
            return assert!(!error.work_may_have_run());
        }
        assert!(error.work_may_have_run(), "{error}");
    }
    panic!("no deadline was met by a worker that is always overloaded");
}

#[tokio::test]
async fn a_worker_that_dies_loses_its_turns_with_the_reason() {
    let place = Place::new();
    let client = client(&place).await;
    let thread = client.start_thread(ThreadOptions::default()).await.unwrap();
    let finished = thread.start_turn("[[crash 3 exit 7]]").await.unwrap().finish().await;
    assert_eq!(finished.status, TurnStatus::Lost);
    assert!(finished.error.unwrap().message.contains('7'));
    assert!(client.raw("model/list", None).await.is_err());
}

#[tokio::test]
async fn a_thread_is_resumed_by_another_worker_and_listed() {
    let place = Place::new();
    let first = client(&place).await;
    let thread = first.start_thread(ThreadOptions::default()).await.unwrap();
    let never_ran = first.start_thread(ThreadOptions::default()).await.unwrap();
    assert_eq!(thread.start_turn("[[text]]").await.unwrap().finish().await.status, TurnStatus::Completed);
    let second = client(&place).await;
    let held = second.resume_thread(thread.id(), ThreadOptions::default()).await.err().unwrap();
    assert_eq!(held.trap(), Some(Trap::HeldElsewhere), "{held}");
    first.stop().await;
    let resumed = second.resume_thread(thread.id(), ThreadOptions::default()).await.unwrap();
    assert_eq!(resumed.start_turn("[[text]]").await.unwrap().finish().await.text, "Hello from mock.");
    let error = second.resume_thread(never_ran.id(), ThreadOptions::default()).await.err().unwrap();
    assert_eq!(error.trap(), Some(Trap::NeverRan), "{error}");
    let listed = second.list_threads(None).await.unwrap();
    assert!(listed.threads.iter().any(|summary| *summary.id == *thread.id()));
}

#[tokio::test]
async fn the_connections_own_events_are_heard_by_every_reader() {
    let place = Place::new();
    let client = client(&place).await;
    let (mut one, mut two) = (client.events(), client.events());
    let thread = client.start_thread(ThreadOptions::default()).await.unwrap();
    for events in [&mut one, &mut two] {
        let started = async {
            loop {
                if let Some(ConnectionEvent::ThreadStarted { thread, .. }) = events.next().await {
                    return thread;
                }
            }
        };
        assert_eq!(*timeout(HANG_TIMEOUT, started).await.unwrap(), *thread.id());
    }
    client.stop().await;
    while timeout(HANG_TIMEOUT, one.next()).await.unwrap().is_some() {}
}

#[tokio::test]
async fn the_first_line_asks_for_v2_with_both_mirrors_and_nothing_unasked() {
    let place = Place::new();
    client(&place).await.stop().await;
    let lines = place.captured();
    assert_eq!(
        lines[0],
        r#"{"id":1,"method":"initialize","params":{"capabilities":{},"clientInfo":{"name":"tests","version":"1.0"},"client_info":{"name":"tests","version":"1.0"},"protocolVersion":"v2","protocol_version":"v2"}}"#
    );
    assert_eq!(lines[1], r#"{"method":"initialized"}"#);
}

#[tokio::test]
async fn a_second_initialize_never_leaves() {
    let place = Place::new();
    let client = client(&place).await;
    assert!(matches!(client.raw("initialize", None).await, Err(CallError::AlreadyInitialized)));
    client.stop().await;
    assert_eq!(place.captured().iter().filter(|line| line.contains("initialize\"")).count(), 1);
}

#[tokio::test]
async fn a_worker_that_rejects_v2_and_initialized_is_ready_all_the_same_and_the_cause_is_kept() {
    let place = Place::new().with_script("[handshake]\nreject_v2 = true\nreject_initialized = true\n");
    let client = client(&place).await;
    assert!(client.greeting().fallback.is_some());
    let mut events = client.events();
    let reported = async {
        loop {
            if let Some(ConnectionEvent::PassedOver { report }) = events.next().await {
                return report;
            }
        }
    };
    assert!(timeout(HANG_TIMEOUT, reported).await.unwrap().contains("-32601"));
    let thread = client.start_thread(ThreadOptions::default()).await.unwrap();
    assert_eq!(thread.start_turn("[[text]]").await.unwrap().finish().await.status, TurnStatus::Completed);
}

#[tokio::test]
async fn a_sandbox_and_a_policy_are_always_said() {
    let place = Place::new();
    let client = client(&place).await;
    let options = ThreadOptions { sandbox: Sandbox::WorkspaceWrite, ..ThreadOptions::default() };
    client.start_thread(options).await.unwrap();
    client.stop().await;
    let start = place.captured().into_iter().find(|line| line.contains("thread/start")).unwrap();
    assert!(start.contains(r#""sandbox":"workspace-write""#) && start.contains(r#""approvalPolicy":"on-request""#));
}
