//! Workers that die, do not start, or start too often.

use std::time::Duration;

use codex::{ApprovalPolicy, ThreadOptions, TurnEvent};
use supervise::{AfterFailure, RestartPolicy};
use workers::{Limits, Order, Refused, ThreadChoice, WorkerState};

use crate::support::{House, Setup, finish, order, order_in, until, until_event};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_turn_of_a_dead_worker_ends_once_and_its_thread_goes_on() {
    let house = House::open(Setup::default()).await;
    let mut kept = house.turn("[[text]]").await;
    let thread = kept.at().thread.to_string();
    finish(&mut kept).await;
    let mut bystander = house.turn("[[slow 100000 20]]").await;
    let mut dying = house.turn("[[crash 3 kill]]").await;
    let (text, status, ends) = finish(&mut dying).await;
    assert!(text.starts_with("t0 "), "{text}");
    assert!(status.starts_with("Lost (worker_lost): "), "{status}");
    assert!(!status.contains("SIGKILL"), "why is for operators: {status}");
    assert_eq!(ends, 1);
    let (_, status, ends) = finish(&mut bystander).await;
    assert!(status.starts_with("Lost (worker_lost): ") && ends == 1, "{status}");
    let mut again = house.try_turn(order_in("k", &thread, "[[say still here]]")).await.unwrap();
    assert_eq!(finish(&mut again).await.0, "still here");
    assert_eq!(house.pool.workers()[0].restarts, 1);
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_other_workers_are_untouched() {
    let house = House::open(Setup { count: 2, ..Setup::default() }).await;
    house.until_ready().await;
    let mut other = house.turn("[[slow 30 10]]").await;
    let mut dying = house.turn("[[crash 0 exit 3]]").await;
    assert_ne!(other.at().worker, dying.at().worker);
    assert!(finish(&mut dying).await.1.starts_with("Lost (worker_lost): "));
    let (text, status, _) = finish(&mut other).await;
    assert!(text.ends_with("s29 ") && status == "Completed", "{text} {status}");
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_turn_says_what_had_begun() {
    let house = House::open(Setup { script: with_command_then_crash(), ..Setup::default() }).await;
    let unasked = ThreadOptions { approval_policy: ApprovalPolicy::Never, ..ThreadOptions::default() };
    let go = Order { thread: ThreadChoice::New(unasked), ..order("k", "go") };
    let mut turn = house.try_turn(go).await.unwrap();
    let details = until_event(&mut turn, |event| match event {
        TurnEvent::TurnEnded { error, .. } => Some(error.clone().unwrap().details.unwrap()),
        _ => None,
    })
    .await;
    assert_eq!(&*details, "work may have run; begun: 1 × command_execution");
    house.stop().await;
}

fn with_command_then_crash() -> String {
    "[[turns]]\nsteps = [\"shell echo hi\", \"crash 0 kill\"]\n".into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_binary_fails_at_once_and_is_tried_again_when_asked() {
    let house = House::open(Setup { program: "/nonexistent/codex".into(), ..Setup::default() }).await;
    until("it has failed", || house.pool.workers()[0].state == WorkerState::Failed).await;
    let worker = &house.pool.workers()[0];
    assert_eq!(worker.restarts, 0);
    assert!(worker.reason.as_ref().unwrap().contains("does not exist"), "{worker:?}");
    let refused = house.try_turn(order("k", "[[text]]")).await.err().unwrap();
    assert!(matches!(refused, Refused::NotReady { .. }), "{refused}");
    house.pool.restart_worker("main-0").unwrap();
    until("it was tried again", || house.pool.workers()[0].restarts == 1).await;
    assert!(house.pool.restart_worker("main-9").is_err());
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_dies_at_every_start_has_failed_and_is_tried_again_later() {
    let house = House::open(Setup { script: "[process]\nexit_at_start = 3\n".into(), ..Setup::default() }).await;
    until("it waits for its next start", || {
        let worker = &house.pool.workers()[0];
        worker.state == WorkerState::Failed && worker.retry_at.is_some()
    })
    .await;
    let worker = &house.pool.workers()[0];
    assert_eq!(worker.restarts, 2);
    let reason = worker.reason.as_ref().unwrap();
    assert!(reason.contains("ended 3 times") && reason.contains("code 3"), "{reason}");
    assert!(worker.retry_at > Some(worker.since), "{worker:?}");
    assert!(house.pool.readiness()[0].missing[0].contains("has failed"));
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_only_worker_of_a_group_comes_back_by_itself_however_often_it_has_failed() {
    let wait = Duration::from_millis(1);
    let after_failure = AfterFailure::Retry { wait_min: wait, wait_max: wait };
    let restart = RestartPolicy { wait_min: wait, wait_max: wait, after_failure, ..RestartPolicy::WORKER };
    let limits = Limits { restart, ..Limits::default() };
    let script = "[process]\nexit_at_start = 3\n".into();
    let house = House::open(Setup { script, limits, ..Setup::default() }).await;
    until("it has failed more than once", || house.pool.workers()[0].restarts > 5).await;
    let refused = house.try_turn(order("k", "[[text]]")).await.err().unwrap();
    assert!(matches!(refused, Refused::NotReady { .. }), "{refused}");
    std::fs::write(house.path().join("script.toml"), "").unwrap();
    house.until_ready().await;
    assert_eq!(house.pool.workers()[0].retry_at, None);
    let mut turn = house.turn("[[text]]").await;
    assert_eq!(finish(&mut turn).await.1, "Completed");
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_can_restart_a_worker() {
    let house = House::open(Setup::default()).await;
    house.until_ready().await;
    let pid = house.pool.workers()[0].pid;
    house.pool.restart_worker("main-0").unwrap();
    until("another process is ready", || {
        let worker = &house.pool.workers()[0];
        worker.pid.is_some() && worker.pid != pid && worker.state == WorkerState::Ready
    })
    .await;
    house.stop().await;
}
