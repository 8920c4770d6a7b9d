//! Workers that outlive us.

use std::sync::Arc;

use approvals::{Person, Verdict};
use codex::TurnEvent;
use workers::{Notice, Transport, WorkerState};

use crate::support::{House, Setup, finish, kill, next, order_in, until, until_event};

fn unix() -> Setup {
    Setup { transport: Transport::Unix, ..Setup::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_detached_worker_is_found_again_with_what_it_waits_for() {
    let house = House::open(unix()).await;
    let mut turn = house.turn("[[shell touch x]]").await;
    let id = until_event(&mut turn, |event| match event {
        TurnEvent::ApprovalWanted { request, .. } => Some(request.to_string()),
        _ => None,
    })
    .await;
    let pid = house.pool.workers()[0].pid.unwrap();
    let house = house.reopen_in_mid_turn(turn).await;
    house.until_ready().await;
    assert_eq!(house.pool.workers()[0].pid, Some(pid));
    let view = house.one_pending().await;
    assert_eq!(view.id, id);
    until("the turn is followed", || house.pool.load().parked == 1).await;
    house.approvals.decide(&id, &view.shown_hash, Verdict::Allow, Person::operator("ada")).await.unwrap();
    until("the turn has ended", || house.pool.load().turns == 0).await;
    stop_for_good(house, pid).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_stdio_the_same_approval_is_orphaned_and_the_thread_can_go_on() {
    let house = House::open(Setup::default()).await;
    let mut turn = house.turn("[[shell touch x]]").await;
    let thread = turn.at().thread.to_string();
    let id = until_event(&mut turn, |event| match event {
        TurnEvent::ApprovalWanted { request, .. } => Some(request.to_string()),
        _ => None,
    })
    .await;
    let house = house.reopen_in_mid_turn(turn).await;
    house.until_ready().await;
    house.until_state(&id, store::ApprovalState::Orphaned).await;
    let mut again = house.try_turn(order_in("k", &thread, "[[text]]")).await.unwrap();
    while next(&mut again).await.is_some() {}
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_detached_worker_that_dies_is_replaced_and_its_approval_orphaned() {
    let house = House::open(unix()).await;
    let mut turn = house.turn("[[shell touch x]]").await;
    let id = until_event(&mut turn, |event| match event {
        TurnEvent::ApprovalWanted { request, .. } => Some(request.to_string()),
        _ => None,
    })
    .await;
    let pid = house.pool.workers()[0].pid.unwrap();
    kill(pid);
    let mut last = None;
    while let Some(event) = next(&mut turn).await {
        last = Some(event);
    }
    assert!(matches!(last, Some(TurnEvent::TurnEnded { status: codex::TurnStatus::Lost, .. })), "{last:?}");
    until("another process is ready", || {
        let worker = &house.pool.workers()[0];
        worker.pid.is_some_and(|now| now != pid) && worker.state == WorkerState::Ready
    })
    .await;
    house.until_state(&id, store::ApprovalState::Orphaned).await;
    let pid = house.pool.workers()[0].pid.unwrap();
    stop_for_good(house, pid).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_directory_whose_sockets_nobody_could_connect_to_is_refused_at_once() {
    let long = tempfile::Builder::new().prefix(&"long".repeat(30)).tempdir().unwrap();
    let house = House::open_in(unix(), Arc::new(long)).await;
    until("it has failed", || house.pool.workers()[0].state == WorkerState::Failed).await;
    let worker = &house.pool.workers()[0];
    assert!(worker.reason.as_ref().unwrap().contains("choose a shorter state directory"), "{worker:?}");
    assert_eq!(worker.restarts, 0);
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_ended_while_nobody_listened_does_not_hold_its_thread() {
    let house = House::open(unix()).await;
    let mut turn = house.turn("[[slow 3 10]]").await;
    let thread = turn.at().thread.to_string();
    until_event(&mut turn, |event| matches!(event, TurnEvent::Text { .. }).then_some(())).await;
    let pid = house.pool.workers()[0].pid.unwrap();
    let house = house.reopen_in_mid_turn(turn).await;
    let mut again = house.try_turn(order_in("k", &thread, "[[say again]]")).await.unwrap();
    assert_eq!(finish(&mut again).await.0, "again");
    assert_eq!((house.pool.workers()[0].pid, house.pool.workers()[0].restarts), (Some(pid), 0));
    stop_for_good(house, pid).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_detached_worker_that_no_group_has_any_more_is_stopped() {
    let house = House::open(unix()).await;
    let turn = house.turn("[[shell touch x]]").await;
    let pid = house.pool.workers()[0].pid.unwrap();
    let house = house.reopen_changed(turn, |setup| setup.transport = Transport::Stdio).await;
    until("the stray is gone", || !is_running(pid)).await;
    house.until_ready().await;
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_detached_worker_whose_configuration_has_changed_is_replaced() {
    let house = House::open(unix()).await;
    let turn = house.turn("[[shell touch x]]").await;
    let pid = house.pool.workers()[0].pid.unwrap();
    let other = house.path().join("another-worker");
    std::fs::copy(testkit::built::demo_worker(), &other).unwrap();
    let house = house.reopen_changed(turn, |setup| setup.program = other).await;
    house.until_ready().await;
    assert!(!is_running(pid));
    let pid = house.pool.workers()[0].pid.unwrap();
    stop_for_good(house, pid).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_elsewhere_is_never_given_up() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let endpoint = format!("ws://{nobody}").parse().unwrap();
    let house = House::open(Setup { transport: Transport::Ws(endpoint), ..Setup::default() }).await;
    let states = || -> Vec<WorkerState> {
        let notices = house.notices.lock().unwrap();
        let states = notices.iter().filter_map(|notice| match notice {
            Notice::WorkerState { state, .. } => Some(*state),
            _ => None,
        });
        states.collect()
    };
    let attempts = || states().iter().filter(|state| **state == WorkerState::Restarting).count();
    until("it was tried three times", || attempts() == 3).await;
    assert!(!states().contains(&WorkerState::Failed));
    house.stop().await;
}

fn is_running(pid: u32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}

/// Stops the pool, which leaves the worker running, and then the worker.
pub(crate) async fn stop_for_good(house: House, pid: u32) {
    let socket = house.path().join("main-0.sock");
    house.pool.stop().await;
    assert!(socket.exists(), "a detached worker goes on");
    kill(pid);
}
