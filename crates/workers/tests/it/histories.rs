//! Threads that begin with a history: injected, forked, or found again where it ends.

use std::time::Duration;

use codex::{Json, ThreadOptions, TurnEvent};
use serde_json::json;
use workers::{Order, Refused, ThreadChoice, Tip, TipClaim, ToolResult, Transport};

use crate::parking::{call_of, with_tool};
use crate::reattach::stop_for_good;
use crate::support::{House, Setup, caller, finish, order, order_in, until_event, until_some};

/// The tip of a history; what was kept is read soon after the start.
async fn free_tip(house: &House, history: &str) -> Tip {
    let claim = async || match house.pool.claim_tip(history).await {
        TipClaim::Free(tip) => Some(tip),
        _ => None,
    };
    until_some("the history has a free tip", claim).await
}

/// Plays a prompt in a new thread, which then stands at the end of a history.
async fn played(house: &House, history: &str) -> (String, String) {
    let mut turn = house.turn("[[text]]").await;
    let at = turn.at().clone();
    assert_eq!(finish(&mut turn).await.1, "Completed");
    house.pool.leave_tip(&at.thread, history);
    (at.thread.to_string(), at.turn.to_string())
}

fn forked(key: &str, thread: &str, last_turn: &str, prompt: &str) -> Order {
    let (thread, last_turn) = (thread.into(), last_turn.into());
    let fork = ThreadChoice::Fork { thread, last_turn, options: ThreadOptions::default() };
    Order { thread: fork, ..order(key, prompt) }
}

fn sent(house: &House, method: &str) -> Vec<String> {
    let frames = house.pool.frames("main-0").unwrap();
    let lines = frames.into_iter().map(|frame| frame.text.to_string());
    lines.filter(|line| line.contains(&format!("\"method\":\"{method}\""))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_history_is_put_into_the_thread_before_the_turn_begins() {
    let house = House::open(Setup::default()).await;
    let said =
        json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "[[say earlier]]"}]});
    let mut order = Order { history: vec![Json::from(&said)], ..order("k", "") };
    order.turn.input.clear();
    let mut turn = house.try_turn(order).await.unwrap();
    assert_eq!(
        finish(&mut turn).await,
        ("earlier".into(), "Completed".into(), 1),
        "the demo worker answers what was said last"
    );
    assert_eq!(sent(&house, "thread/inject_items").len(), 1);
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_history_that_ends_with_the_result_of_a_tool_goes_on_from_there() {
    let house = House::open(Setup::default()).await;
    let items = [
        json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "[[tool ask {}]]"}]}),
        json!({"type": "function_call", "call_id": "call_7", "name": "ask", "arguments": "{}"}),
        json!({"type": "function_call_output", "call_id": "call_7", "output": "42"}),
    ];
    let mut order = Order { history: items.iter().map(Json::from).collect(), ..with_tool("k", "") };
    order.turn.input.clear();
    let mut turn = house.try_turn(order).await.unwrap();
    assert_eq!(finish(&mut turn).await.0, "Done after tool.");
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_that_the_worker_does_not_take_refuse_the_order_and_run_nothing() {
    let house = House::open(Setup::default()).await;
    let order = Order { history: vec![Json::from(&json!({"role": "user"}))], ..order("k", "[[text]]") };
    let Err(refused) = house.try_turn(order).await else { panic!("it should be refused") };
    assert!(!refused.work_may_have_run(), "{refused}");
    assert!(sent(&house, "turn/start").is_empty());
    assert_eq!(house.pool.load().turns, 0);
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_is_forked_after_a_turn_while_its_next_one_runs() {
    let house = House::open(Setup { count: 2, ..Setup::default() }).await;
    let (thread, turn) = played(&house, "h").await;
    let mut running = house.try_turn(order_in("k", &thread, "[[slow 2 60000]]")).await.unwrap();
    until_event(&mut running, |event| matches!(event, TurnEvent::Text { .. }).then_some(())).await;
    assert!(matches!(house.pool.claim_tip("h").await, TipClaim::Taken { .. }));
    let mut fork = house.try_turn(forked("k", &thread, &turn, "[[text]]")).await.unwrap();
    assert_ne!(*fork.at().thread, *thread);
    assert_eq!(fork.at().worker, running.at().worker, "where its source is");
    assert_eq!(finish(&mut fork).await.1, "Completed");
    let others = house.try_turn(forked("other", &thread, &turn, "[[text]]")).await;
    assert!(matches!(others, Err(Refused::NoSuchThread { .. })), "a thread is its caller's alone");
    drop(running);
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tip_is_its_claimers_until_it_is_dropped_or_its_thread_has_gone_on() {
    let house = House::open(Setup::default()).await;
    let (thread, turn) = played(&house, "h").await;
    let tip = free_tip(&house, "h").await;
    assert_eq!((tip.thread(), tip.last_turn(), tip.is_parked()), (&*thread, &*turn, false));
    assert!(matches!(house.pool.claim_tip("h").await, TipClaim::Taken { .. }));
    drop(tip);
    let tip = free_tip(&house, "h").await;
    let going_on = Order { after: Some(turn.as_str().into()), ..order_in("k", &thread, "[[text]]") };
    let mut next = house.try_turn(going_on.clone()).await.unwrap();
    drop(tip);
    assert!(matches!(house.pool.claim_tip("h").await, TipClaim::Taken { .. }), "it is spent");
    assert_eq!(finish(&mut next).await.1, "Completed");
    assert!(matches!(house.pool.claim_tip("h").await, TipClaim::None), "its thread has gone on");
    let late = house.try_turn(going_on).await;
    assert!(matches!(late, Err(Refused::MovedOn { .. })));
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tips_are_found_again_after_a_restart() {
    let house = House::open(Setup::default()).await;
    let (thread, _) = played(&house, "h").await;
    let (gone_on, _) = played(&house, "old").await;
    let mut turn = house.try_turn(order_in("k", &gone_on, "[[text]]")).await.unwrap();
    finish(&mut turn).await;
    let house = house.reopen_in_mid_turn(turn).await;
    let tip = free_tip(&house, "h").await;
    assert_eq!(tip.thread(), thread);
    assert!(matches!(house.pool.claim_tip("old").await, TipClaim::None));
    let after = Some(tip.last_turn().into());
    let mut next = house.try_turn(Order { after, ..order_in("k", &thread, "[[text]]") }).await.unwrap();
    assert_eq!(finish(&mut next).await.1, "Completed");
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_waits_for_a_tool_is_a_tip_until_it_goes_on_or_ends() {
    let house = House::open(Setup::default()).await;
    let mut turn = house.try_turn(with_tool("k", "[[tool ask {}]]")).await.unwrap();
    let (thread, call) = (turn.at().thread.to_string(), call_of(&mut turn).await);
    house.pool.leave_tip(&thread, "asked");
    drop(turn);
    let tip = free_tip(&house, "asked").await;
    assert!(tip.is_parked());
    let mut turn = house.pool.parked_by_call(&call, &caller("k")).unwrap();
    house.pool.answer_call(&call, &caller("k"), ToolResult::text("42")).unwrap();
    drop(tip);
    assert!(matches!(house.pool.claim_tip("asked").await, TipClaim::None), "nobody forks in the middle of a turn");
    assert_eq!(finish(&mut turn).await.0, "Done after tool.");
    house.pool.leave_tip(&thread, "answered");
    assert!(!free_tip(&house, "answered").await.is_parked());
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tip_of_a_turn_that_waits_is_lost_with_its_worker_and_kept_with_one_that_outlives_us() {
    for transport in [Transport::Stdio, Transport::Unix] {
        let house = House::open(Setup { transport: transport.clone(), ..Setup::default() }).await;
        let mut turn = house.try_turn(with_tool("k", "[[tool ask {}]]")).await.unwrap();
        let (thread, call) = (turn.at().thread.to_string(), call_of(&mut turn).await);
        house.pool.leave_tip(&thread, "asked");
        let pid = house.pool.workers()[0].pid.unwrap();
        let house = house.reopen_in_mid_turn(turn).await;
        house.until_ready().await;
        if let Transport::Stdio = transport {
            assert!(matches!(house.pool.claim_tip("asked").await, TipClaim::None));
            house.stop().await;
            continue;
        }
        let tip = free_tip(&house, "asked").await;
        assert!(tip.is_parked());
        let asked_again = async || house.pool.parked_by_call(&call, &caller("k"));
        let mut turn = until_some("the call is asked again", asked_again).await;
        house.pool.answer_call(&call, &caller("k"), ToolResult::text("42")).unwrap();
        assert_eq!(finish(&mut turn).await.0, "Done after tool.");
        assert!(matches!(house.pool.claim_tip("asked").await, TipClaim::None));
        stop_for_good(house, pid).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_model_chose_is_told_before_a_tool_is_answered() {
    let house = House::open(Setup::default()).await;
    let mut order = with_tool("k", "[[tools ask 2]]");
    if let ThreadChoice::New(options) = &mut order.thread {
        options.raw_events = true;
    }
    let mut turn = house.try_turn(order).await.unwrap();
    let mut chosen = Vec::new();
    let usage = until_event(&mut turn, |event| match event {
        TurnEvent::ToolChosen { call, tool, arguments } => {
            chosen.push((call.to_string(), format!("{tool} {arguments}")));
            None
        }
        TurnEvent::ModelAnswered { usage } => Some(*usage),
        _ => None,
    })
    .await;
    assert_eq!(usage.map(|usage| (usage.input_tokens, usage.output_tokens)), Some((200, 20)));
    let said: Vec<&str> = chosen.iter().map(|(_, said)| said.as_str()).collect();
    assert_eq!(said, [r#"ask {"question":"q1"}"#, r#"ask {"question":"q2"}"#]);
    for _ in 0..chosen.len() {
        let call = call_of(&mut turn).await;
        assert!(chosen.iter().any(|(known, _)| *known == call), "{call}");
    }
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn models_are_asked_for_once_in_each_life_of_a_worker() {
    let house = House::open(Setup::default()).await;
    house.until_ready().await;
    for _ in 0..3 {
        let models = house.pool.models(None).await;
        let told: Vec<_> = models.iter().map(|model| (&*model.id, &*model.display_name, &*model.efforts[0])).collect();
        assert_eq!(told[1], ("demo-mini", "Demo mini", "low"));
    }
    assert_eq!(sent(&house, "model/list").len(), 1);
    assert!(house.pool.models(Some("moon")).await.is_empty());
    house.stop().await;
    assert!(house.pool.models(None).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn threads_that_nobody_uses_are_put_away_and_come_back_when_they_are_used() {
    let house = House::open(Setup::default()).await;
    let (thread, _) = played(&house, "h").await;
    let mut running = house.try_turn(with_tool("k", "[[tool ask {}]]")).await.unwrap();
    call_of(&mut running).await;
    house.store.flush().await.unwrap();
    assert_eq!(house.pool.archive_idle(Duration::from_secs(60)).await.unwrap(), 0);
    let put_away = async || Some(house.pool.archive_idle(Duration::ZERO).await.unwrap()).filter(|threads| *threads > 0);
    assert_eq!(until_some("a thread is put away", put_away).await, 1, "the other has a turn");
    assert!(matches!(house.pool.claim_tip("h").await, TipClaim::None));
    house.store.flush().await.unwrap();
    let id = thread.clone();
    assert!(house.store.read(move |reader| reader.thread(&id)).await.unwrap().unwrap().archived);
    let mut again = house.try_turn(order_in("k", &thread, "[[text]]")).await.unwrap();
    assert_eq!(finish(&mut again).await.1, "Completed");
    house.store.flush().await.unwrap();
    assert!(!house.store.read(move |reader| reader.thread(&thread)).await.unwrap().unwrap().archived);
    drop(running);
    house.stop().await;
}
