//! Turns that wait for a caller's tool.

use std::sync::{Arc, Mutex};

use approvals::{Person, Verdict};
use codex::{ThreadOptions, Tool, TurnEvent, TurnStatus};
use serde_json::json;
use testkit::HANG_TIMEOUT;
use workers::{LimitReached, Notice, Order, PermitChange, ThreadChoice, ToolResult, Turn, TurnPermit};

use crate::support::{House, Setup, caller, finish, order, until, until_event};

/// A prompt in a new thread that has a tool.
pub(crate) fn with_tool(key: &str, prompt: &str) -> Order {
    let tool = Tool {
        namespace: None,
        name: "ask".into(),
        description: "asks".into(),
        input_schema: json!({"type": "object"}),
    };
    let options = ThreadOptions { tools: vec![tool], ..ThreadOptions::default() };
    Order { thread: ThreadChoice::New(options), ..order(key, prompt) }
}

pub(crate) async fn call_of(turn: &mut Turn) -> String {
    until_event(turn, |event| match event {
        TurnEvent::ToolWanted { call, .. } => Some(call.to_string()),
        _ => None,
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_on_record_when_it_is_seen_and_its_result_goes_on_with_the_turn() {
    let house = House::open(Setup::default()).await;
    let mut turn = house.try_turn(with_tool("k", r#"[[tool ask {"q":1}]]"#)).await.unwrap();
    let call = call_of(&mut turn).await;
    let filter = store::ParkedCallFilter { id: Some(call.clone()), ..store::ParkedCallFilter::default() };
    let rows = house.store.read(move |reader| reader.parked_calls(&filter)).await.unwrap();
    assert_eq!((rows.len(), &*rows[0].tool, &*rows[0].arguments), (1, "ask", r#"{"q":1}"#));
    house.pool.answer_call(&call, &caller("k"), ToolResult::text("42")).unwrap();
    assert_eq!(finish(&mut turn).await.0, "Done after tool.");
    assert!(house.pool.answer_call(&call, &caller("k"), ToolResult::text("43")).is_err());
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parked_turn_survives_its_caller_and_is_found_by_call_and_key() {
    let house = House::open(Setup::default()).await;
    let mut turn = house.try_turn(with_tool("k", "[[tool ask {}]]")).await.unwrap();
    let call = call_of(&mut turn).await;
    drop(turn);
    assert_eq!(house.pool.load().parked, 1);
    assert!(house.pool.parked_by_call(&call, &caller("other")).is_none());
    assert!(house.pool.answer_call(&call, &caller("other"), ToolResult::text("no")).is_err());
    let mut turn = house.pool.parked_by_call(&call, &caller("k")).expect("it is found");
    house.pool.answer_call(&call, &caller("k"), ToolResult::text("42")).unwrap();
    let (text, status, ends) = finish(&mut turn).await;
    assert_eq!((&*text, &*status, ends), ("Done after tool.", "Completed", 1));
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parked_turn_that_nobody_claims_runs_on_when_it_has_its_result() {
    let house = House::open(Setup::default()).await;
    let mut turn = house.try_turn(with_tool("k", "[[tool ask {}]]")).await.unwrap();
    let call = call_of(&mut turn).await;
    drop(turn);
    house.pool.answer_call(&call, &caller("k"), ToolResult::text("42")).unwrap();
    until("its place is free", || house.pool.load().turns == 0).await;
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parked_turn_whose_permit_is_refused_is_interrupted() {
    let house = House::open(Setup::default()).await;
    let refuses = |change: PermitChange| match change {
        PermitChange::ResumeWithinLimits => Err(LimitReached),
        PermitChange::Suspend | PermitChange::Resume => Ok(()),
    };
    let ended = |turn: &str| {
        let notices = house.notices.lock().unwrap();
        notices.iter().find_map(|notice| match notice {
            Notice::TurnEnded { at, status, .. } if *at.turn == *turn => Some(*status),
            _ => None,
        })
    };
    let asked = Order { permit: TurnPermit::new(refuses), ..with_tool("k", "[[tool ask {}]]") };
    let mut turn = house.try_turn(asked).await.unwrap();
    let (id, call) = (turn.at().turn.clone(), call_of(&mut turn).await);
    drop(turn);
    // With this result it runs until it is interrupted.
    house.pool.answer_call(&call, &caller("k"), ToolResult::text("[[hang]]")).unwrap();
    until("it has ended", || ended(&id) == Some(TurnStatus::Interrupted)).await;
    until("its place is free", || house.pool.load().turns == 0).await;
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parked_turn_goes_on_beyond_limits_only_if_it_is_allowed() {
    use PermitChange::{Resume, ResumeWithinLimits, Suspend};
    for (verdict, expected) in
        [(Some(Verdict::Allow), Resume), (Some(Verdict::deny("no")), ResumeWithinLimits), (None, ResumeWithinLimits)]
    {
        let tool_call_timeout = std::time::Duration::from_secs(if verdict.is_none() { 1 } else { 600 });
        let limits = workers::Limits { tool_call_timeout, ..workers::Limits::default() };
        let house = House::open(Setup { limits, ..Setup::default() }).await;
        let changes: Arc<Mutex<Vec<PermitChange>>> = Arc::default();
        let permit = TurnPermit::new({
            let changes = Arc::clone(&changes);
            move |change| {
                changes.lock().unwrap().push(change);
                Ok(())
            }
        });
        let asked = match verdict {
            Some(_) => order("k", "[[shell touch x]]"),
            None => with_tool("k", "[[tool ask {}]]"),
        };
        house.try_turn(Order { permit, ..asked }).await.unwrap().leave();
        if let Some(verdict) = &verdict {
            let view = house.one_pending().await;
            until("it is parked", || changes.lock().unwrap().contains(&Suspend)).await;
            let person = Person::operator("ada");
            house.approvals.decide(&view.id, &view.shown_hash, verdict.clone(), person).await.unwrap();
        }
        until("it has gone on", || changes.lock().unwrap().len() == 2).await;
        assert_eq!(*changes.lock().unwrap(), [Suspend, expected], "{verdict:?}");
        house.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_gives_no_result_fails_when_its_time_is_over() {
    let limits =
        workers::Limits { tool_call_timeout: std::time::Duration::from_millis(200), ..workers::Limits::default() };
    let house = House::open(Setup { limits, ..Setup::default() }).await;
    let mut turn = house.try_turn(with_tool("k", "[[tool ask {}]]")).await.unwrap();
    let failed = until_event(&mut turn, |event| match event {
        TurnEvent::ItemCompleted { item } if &*item.kind == "dynamic_tool_call" => Some(item.clone()),
        _ => None,
    })
    .await;
    assert_eq!(failed.status.as_deref(), Some("failed"));
    assert!(failed.raw.get().contains("no result in time"), "{}", failed.raw.get());
    assert_eq!(finish(&mut turn).await.1, "Completed");
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_turns_wait_on_a_worker_of_eight_places() {
    const TURNS: usize = 256;
    let setup = Setup { turns_max: 8, threads_loaded_max: TURNS, ..Setup::default() };
    let house = House::open(setup).await;
    let mut calls = Vec::new();
    for number in 0..TURNS {
        let key = format!("k{number}");
        let mut turn = house.try_turn(with_tool(&key, "[[tool ask {}]]")).await.unwrap();
        calls.push((call_of(&mut turn).await, key));
    }
    until("all are parked", || house.pool.load().parked == TURNS).await;
    for (call, key) in &calls {
        let mut turn = house.pool.parked_by_call(call, &caller(key)).expect("each finds its own");
        house.pool.answer_call(call, &caller(key), ToolResult::text(key)).unwrap();
        assert_eq!(finish(&mut turn).await.1, "Completed");
    }
    assert_eq!(house.pool.load().turns, 0);
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_parks_a_quarter_of_the_turns_and_loses_the_one_that_has_waited_longest() {
    let limits = workers::Limits { parked_max: 8, ..workers::Limits::default() };
    let house = House::open(Setup { limits, ..Setup::default() }).await;
    let mut calls = Vec::new();
    for (number, key) in ["quiet", "greedy", "greedy", "greedy"].into_iter().enumerate() {
        if number == 3 {
            // The oldest turn of the key is parked once more, so that the next one has waited longer.
            let (call, key): &(String, &str) = &calls[1];
            drop(house.pool.parked_by_call(call, &caller(key)).expect("two of this key are parked"));
        }
        let mut turn = house.try_turn(with_tool(key, "[[tool ask {}]]")).await.unwrap();
        calls.push((call_of(&mut turn).await, key));
    }
    until("the surplus turn is closed", || house.pool.load().parked == 3).await;
    let is_parked = |(call, key): &(String, &str)| house.pool.parked_by_call(call, &caller(key)).is_some();
    assert_eq!(calls.iter().map(is_parked).collect::<Vec<_>>(), [true, true, false, true]);
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_does_not_wait_for_a_turn_that_begins_to_wait() {
    let script = "[[turns]]\nmatch = \"talk\"\nsteps = [\"slow 20 20\", \"tool ask {}\"]\n";
    let house = House::open(Setup { script: script.into(), ..Setup::default() }).await;
    let mut turn = house.try_turn(with_tool("k", "talk")).await.unwrap();
    until_event(&mut turn, |event| matches!(event, TurnEvent::Text { .. }).then_some(())).await;
    let drained = tokio::time::timeout(HANG_TIMEOUT, house.pool.drain(HANG_TIMEOUT * 10)).await;
    assert!(drained.is_ok(), "it waits for somebody who may never come");
    call_of(&mut turn).await;
    house.stop().await;
}
