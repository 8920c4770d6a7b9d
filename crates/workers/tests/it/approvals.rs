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

/// A worker that asks for a proof of identity as soon as it knows us, and writes down what it is answered.
const ASKING: &str = r#"#!/bin/sh
while read -r line; do case "$line" in
    *initialize\"*) echo '{"id":1,"result":{"userAgent":"tests/9.9.9"}}' ;;
    *probe*)
        echo '{"id":2,"error":{"code":-32600,"message":"unknown variant, expected one of `thread/start`, `turn/start`"}}'
        echo '{"id":7,"method":"attestation/generate","params":{}}' ;;
    *'"id":7'*) printf '%s\n' "$line" > answer.new && mv answer.new answer ;;
esac; done
"#;

async fn answer_of_a_proof(settings: approvals::Settings) -> String {
    let directory = tempfile::TempDir::new().unwrap();
    let program = directory.path().join("worker");
    std::fs::write(&program, ASKING).unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let house = House::open(Setup { program, settings, ..Setup::default() }).await;
    let answer = house.path().join("answer");
    until("the worker has its answer", || answer.exists()).await;
    house.stop().await;
    std::fs::read_to_string(answer).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_only_a_hook_can_answer_is_answered_by_one_and_else_refused_at_once() {
    let refusal = answer_of_a_proof(approvals::Settings::default()).await;
    assert!(refusal.contains("no hook is configured to answer `attestation`"), "{refusal}");
    let says = r#"cat >/dev/null; echo '{"verdict":"answer","content":{"token":"proof"}}'"#;
    let hook = approvals::Hook {
        name: "prover".into(),
        command: ["sh", "-c", says].map(Into::into).into(),
        cwd: "/".into(),
        env: Vec::new(),
        kinds: vec![approvals::Kind::Attestation],
        timeout: testkit::HANG_TIMEOUT,
        powers: approvals::Powers { operator: true, ..approvals::Powers::default() },
    };
    let settings = approvals::Settings { hooks: vec![hook], ..approvals::Settings::default() };
    assert_eq!(answer_of_a_proof(settings).await.trim(), r#"{"id":7,"result":{"token":"proof"}}"#);
}
