//! What workers ask, decided by people.

use approvals::{Person, Verdict};
use codex::TurnEvent;

use crate::support::{House, Setup, finish, next, order_in, until, until_event};

async fn wanted(turn: &mut workers::Turn) -> String {
    until_event(turn, |event| match event {
        TurnEvent::ApprovalWanted { request, .. } => Some(request.to_string()),
        _ => None,
    })
    .await
}

async fn item_status(turn: &mut workers::Turn) -> String {
    until_event(turn, |event| match event {
        TurnEvent::ItemCompleted { item } if &*item.kind == "command_execution" => item.status.clone(),
        _ => None,
    })
    .await
    .into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_is_on_record_when_it_is_seen_and_decided_by_its_id() {
    let house = House::open(Setup::default()).await;
    let mut turn = house.turn("[[shell touch x]]").await;
    let id = wanted(&mut turn).await;
    let view = house.approvals.get(&id).await.unwrap().expect("it is on record");
    assert!(turn.is_waiting());
    house.approvals.decide(&id, &view.shown_hash, Verdict::Allow, Person::operator("ada")).await.unwrap();
    let resolved = until_event(&mut turn, |event| match event {
        TurnEvent::ApprovalResolved { request } => Some(request.to_string()),
        _ => None,
    });
    assert_eq!(resolved.await, id);
    assert_eq!(item_status(&mut turn).await, "completed");
    assert_eq!(finish(&mut turn).await.1, "Completed");
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reason_of_a_denial_reaches_the_next_turn() {
    let house = House::open(Setup::default()).await;
    let mut turn = house.turn("[[shell touch x]]").await;
    let thread = turn.at().thread.to_string();
    let id = wanted(&mut turn).await;
    let view = house.approvals.get(&id).await.unwrap().unwrap();
    let verdict = Verdict::deny("not on a Friday");
    house.approvals.decide(&id, &view.shown_hash, verdict, Person::operator("ada")).await.unwrap();
    assert_eq!(item_status(&mut turn).await, "declined");
    finish(&mut turn).await;
    let mut again = house.try_turn(order_in("k", &thread, "[[text]]")).await.unwrap();
    let said = until_event(&mut again, |event| match event {
        TurnEvent::ItemCompleted { item } if &*item.kind == "user_message" => Some(item.raw.get().to_owned()),
        _ => None,
    })
    .await;
    assert!(said.contains("not on a Friday") && said.contains("touch x"), "{said}");
    finish(&mut again).await;
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_waits_without_its_caller_and_its_turn_runs_on() {
    let house = House::open(Setup::default()).await;
    let mut turn = house.turn("[[shell touch x]]").await;
    let id = wanted(&mut turn).await;
    drop(turn);
    assert_eq!(house.pool.load().parked, 1);
    let view = house.one_pending().await;
    assert_eq!(view.id, id);
    house.approvals.decide(&id, &view.shown_hash, Verdict::Allow, Person::operator("ada")).await.unwrap();
    until("its place is free", || house.pool.load().turns == 0).await;
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_whose_worker_dies_is_orphaned() {
    let house = House::open(Setup::default()).await;
    let mut turn = house.turn("[[shell touch x]]").await;
    let id = wanted(&mut turn).await;
    house.pool.restart_worker("main-0").unwrap();
    while next(&mut turn).await.is_some() {}
    house.until_state(&id, store::ApprovalState::Orphaned).await;
    house.stop().await;
}
