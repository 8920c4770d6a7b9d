//! What the real worker does that no client expects, and what the client makes of it.

use std::time::Duration;

use codex::event::{ConnectionEvent, TurnEvent, TurnStatus};
use codex::{CallError, Client, Options, ThreadOptions, Trap, Turn};
use serde_json::json;
use testkit::HANG_TIMEOUT;
use tokio::time::timeout;
use wire::Json;

use crate::compatibility::lab::Lab;

/// Lets a test have a place for workers, and a model; that has a runtime of its own.
fn run(test: impl AsyncFnOnce(Lab)) {
    let lab = Lab::newest();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(test(lab));
}

async fn until_text(turn: &mut Turn) {
    while !matches!(timeout(HANG_TIMEOUT, turn.next()).await.unwrap().expect("the turn speaks"), TurnEvent::Text { .. })
    {
    }
}

#[test]
fn a_second_interrupt_is_not_waited_for_and_open_items_are_closed() {
    run(async |lab| {
        let client = lab.client().await.unwrap();
        let thread = client.start_thread(lab.thread()).await.unwrap();
        let mut turn = thread.start_turn("[[slow 1000 20]]").await.unwrap();
        until_text(&mut turn).await;
        turn.interrupt();
        turn.interrupt();
        let mut last_items = Vec::new();
        while let Some(event) = timeout(HANG_TIMEOUT, turn.next()).await.unwrap() {
            match event {
                TurnEvent::ItemCompleted { item } => last_items.push((item.kind, item.status)),
                TurnEvent::TurnEnded { status, .. } => assert_eq!(status, TurnStatus::Interrupted),
                _ => {}
            }
        }
        assert_eq!(last_items, [("agent_message".into(), Some("interrupted".into()))]);
        // The worker itself never answers a second one: its deadline does.
        let again = json!({"threadId": thread.id(), "turnId": turn.id()});
        let impatient = client.with_timeout(Duration::from_secs(1));
        let unanswered = impatient.raw("turn/interrupt", Some(Json::of(&again).unwrap())).await.err().unwrap();
        assert!(matches!(unanswered, CallError::Unanswered { .. } | CallError::Failed { .. }), "{unanswered}");
        let finished = thread.start_turn("[[text]]").await.unwrap().finish().await;
        assert_eq!(finished.status, TurnStatus::Completed);
    });
}

/// The worker answers `turn/start` before the turn can be interrupted.
#[test]
fn an_interrupt_right_after_the_start_is_not_lost() {
    run(async |lab| {
        let client = lab.client().await.unwrap();
        let thread = client.start_thread(lab.thread()).await.unwrap();
        let turn = thread.start_turn("[[slow 1000 20]]").await.unwrap();
        turn.interrupt();
        assert_eq!(timeout(HANG_TIMEOUT, turn.finish()).await.unwrap().status, TurnStatus::Interrupted);
        for _ in 0..3 {
            drop(thread.start_turn("[[slow 1000 20]]").await.unwrap());
        }
        let last = timeout(HANG_TIMEOUT, thread.start_turn("[[text]]")).await.unwrap().unwrap();
        assert_eq!(last.finish().await.text, "Hello from mock.");
    });
}

#[test]
fn a_busy_thread_is_not_steered_by_mistake() {
    run(async |lab| {
        let client = lab.client().await.unwrap();
        let thread = client.start_thread(lab.thread()).await.unwrap();
        let mut turn = thread.start_turn("[[slow 20 20]]").await.unwrap();
        until_text(&mut turn).await;
        assert!(matches!(thread.start_turn("[[text]]").await, Err(CallError::Busy(_))));
        assert_eq!(turn.finish().await.status, TurnStatus::Completed);
    });
}

#[test]
fn resumes_that_cannot_be_say_why() {
    run(async |lab| {
        let client = lab.client().await.unwrap();
        let never_ran = client.start_thread(lab.thread()).await.unwrap();
        let thread = client.start_thread(lab.thread()).await.unwrap();
        assert_eq!(thread.start_turn("[[text]]").await.unwrap().finish().await.status, TurnStatus::Completed);
        let other = lab.client().await.unwrap();
        let trap = async |id: &str| other.resume_thread(id, lab.thread()).await.err().and_then(|error| error.trap());
        assert_eq!(trap(thread.id()).await, Some(Trap::HeldElsewhere));
        assert_eq!(trap(never_ran.id()).await, Some(Trap::NeverRan));
        let unloaded = other.thread(thread.id()).start_turn("[[text]]").await.err().unwrap();
        assert_eq!(unloaded.trap(), Some(Trap::NotLoaded), "{unloaded}");
    });
}

#[test]
fn a_worker_that_is_stopped_in_mid_turn_keeps_the_turn_as_interrupted() {
    run(async |lab| {
        let client = lab.client().await.unwrap();
        let thread = client.start_thread(lab.thread()).await.unwrap();
        let mut turn = thread.start_turn("[[slow 1000 20]]").await.unwrap();
        until_text(&mut turn).await;
        client.stop().await;
        assert_eq!(turn.finish().await.status, TurnStatus::Lost);
        let client = lab.client().await.unwrap();
        let thread = client.resume_thread(thread.id(), lab.thread()).await.unwrap();
        let turns = thread.turns(None).await.unwrap();
        assert_eq!(turns.data.first().map(|turn| turn.status.as_str()), Some("interrupted"));
        assert_eq!(thread.start_turn("[[text]]").await.unwrap().finish().await.status, TurnStatus::Completed);
    });
}

/// What waits for a decision survives the connection that was asked, and is asked again under the same id.
#[test]
fn a_parked_turn_is_followed_from_another_connection() {
    run(async |lab| {
        let worker = lab.listening().await;
        let options = || Options { experimental_api: true, ..Options::new("tests", "1.0") };
        // In a read-only sandbox the worker would run the command again without one, but only if it saw it fail at once: on a busy
        // machine it does not.
        let asking = ThreadOptions {
            approval_policy: codex::ApprovalPolicy::Untrusted,
            sandbox: codex::Sandbox::WorkspaceWrite,
            ..lab.thread()
        };

        let first = Client::connect(&worker.endpoint, options()).await.unwrap();
        let mut requests = first.requests().unwrap();
        let thread = first.start_thread(asking.clone()).await.unwrap();
        // By default the worker waits ten seconds for a command, which on a busy machine has not run by then.
        let call = r#"[[tool exec_command {"cmd":"touch parked","yield_time_ms":30000}]]"#;
        let turn = thread.start_turn(call).await.unwrap();
        let asked = timeout(HANG_TIMEOUT, requests.next()).await.unwrap().unwrap().asked;
        let (thread, turn_id) = (thread.id().to_owned(), turn.id().to_owned());
        // The link is cut: nothing is interrupted, since nothing can be said any more.
        first.stop().await;
        assert_eq!(turn.finish().await.status, TurnStatus::Lost);

        let second = Client::connect(&worker.endpoint, options()).await.unwrap();
        let mut requests = second.requests().unwrap();
        let turn = second.thread(&thread).follow(&turn_id).unwrap();
        second.resume_thread(&thread, asking).await.unwrap();
        let again = timeout(HANG_TIMEOUT, requests.next()).await.unwrap().unwrap();
        assert_eq!(again.asked.id.as_raw(), asked.id.as_raw());
        again.decide(&codex::Decision::Allow).unwrap();
        assert_eq!(timeout(HANG_TIMEOUT, turn.finish()).await.unwrap().status, TurnStatus::Completed);
        assert!(lab.file("parked").exists(), "the command has run");
        worker.stop().await;
    });
}

/// A request does not say that its command leaves the sandbox, unless the model chose to justify it. Approvals therefore
/// treat every command as a possible escalation.
#[test]
fn adversary_escalates_without_a_word_of_it_in_the_request() {
    run(async |lab| {
        let client = lab.client().await.unwrap();
        let mut requests = client.requests().unwrap();
        let asking = ThreadOptions {
            approval_policy: codex::ApprovalPolicy::OnRequest,
            sandbox: codex::Sandbox::ReadOnly,
            ..lab.thread()
        };
        let thread = client.start_thread(asking).await.unwrap();
        let call = r#"[[tool exec_command {"cmd":"touch escaped","sandbox_permissions":"require_escalated"}]]"#;
        let turn = thread.start_turn(call).await.unwrap();
        let request = timeout(HANG_TIMEOUT, requests.next()).await.unwrap().unwrap();
        let params: serde_json::Value = request.asked.params.parse().unwrap();
        for sign in ["reason", "additionalPermissions", "networkApprovalContext"] {
            assert_eq!(params[sign], serde_json::Value::Null, "{params}");
        }
        request.decide(&codex::Decision::Allow).unwrap();
        assert_eq!(timeout(HANG_TIMEOUT, turn.finish()).await.unwrap().status, TurnStatus::Completed);
        assert!(lab.file("escaped").exists(), "a read-only sandbox would not have let it");
    });
}

/// The answer to the call names no turn, and the worker tells of the compaction only by an item.
#[test]
fn a_compaction_is_a_turn_and_is_told_once() {
    run(async |lab| {
        let client = lab.client().await.unwrap();
        let thread = client.start_thread(lab.thread()).await.unwrap();
        assert_eq!(thread.start_turn("[[text]]").await.unwrap().finish().await.status, TurnStatus::Completed);
        let mut turn = thread.compact().await.unwrap();
        let (mut compactions, mut end) = (0, None);
        while let Some(event) = timeout(HANG_TIMEOUT, turn.next()).await.unwrap() {
            match event {
                TurnEvent::Compacted => compactions += 1,
                TurnEvent::TurnEnded { status, .. } => end = Some(status),
                _ => {}
            }
        }
        assert_eq!((compactions, end), (1, Some(TurnStatus::Completed)));
    });
}

/// A thread that is let go is heard no more although it is still loaded: a turn without a resume would never end.
#[test]
fn a_thread_that_is_let_go_is_unloaded_and_goes_on_after_a_resume() {
    run(async |lab| {
        let client = lab.client().await.unwrap();
        let mut events = client.events();
        let fleeting =
            || ThreadOptions { config: [("thread_unload_delay_secs".into(), json!(0))].into(), ..lab.thread() };
        let thread = client.start_thread(fleeting()).await.unwrap();
        assert_eq!(thread.start_turn("[[text]]").await.unwrap().finish().await.status, TurnStatus::Completed);
        assert_eq!(client.loaded_threads().await.unwrap(), [Box::from(thread.id())]);
        client.ping(HANG_TIMEOUT).await.unwrap();
        thread.unload().await.unwrap();
        let unloaded = async {
            while let Some(event) = events.next().await {
                if matches!(&event, ConnectionEvent::ThreadStatus { status, .. } if &**status == "not_loaded") {
                    return;
                }
            }
        };
        timeout(HANG_TIMEOUT, unloaded).await.unwrap();
        assert!(client.loaded_threads().await.unwrap().is_empty());
        let refused = thread.start_turn("[[text]]").await.err().unwrap();
        assert_eq!(refused.trap(), Some(Trap::NotLoaded), "{refused}");
        let thread = client.resume_thread(thread.id(), fleeting()).await.unwrap();
        assert_eq!(thread.start_turn("[[text]]").await.unwrap().finish().await.status, TurnStatus::Completed);
    });
}
