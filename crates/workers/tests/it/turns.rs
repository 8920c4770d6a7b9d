//! Turns on a pool whose workers behave.

use std::sync::Arc;

use codex::TurnEvent;
use expect_test::expect;
use workers::{Notice, Order, Refused};

use crate::parking::with_tool;
use crate::support::{House, Setup, finish, next, order, order_in, until, until_event};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_is_played_to_its_one_end_and_told_of() {
    let house = House::open(Setup::default()).await;
    let mut turn = house.turn("[[text]]").await;
    let (text, status, ends) = finish(&mut turn).await;
    assert_eq!((&*text, &*status, ends), ("Hello from mock.", "Completed", 1));
    assert_eq!(house.pool.load().turns, 0);
    let told: Vec<&str> = house.notices.lock().unwrap().iter().map(name).collect();
    expect![[r#"
        [
            "starting",
            "ready",
            "thread opened",
            "turn started",
            "item started",
            "item completed",
            "item started",
            "item completed",
            "tokens used",
            "turn ended",
        ]
    "#]]
    .assert_debug_eq(&told);
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_goes_on_and_belongs_to_its_key() {
    let house = House::open(Setup::default()).await;
    let mut turn = house.turn("[[text]]").await;
    let thread = turn.at().thread.to_string();
    finish(&mut turn).await;
    let mut again = house.try_turn(order_in("k", &thread, "[[say once more]]")).await.unwrap();
    assert_eq!(finish(&mut again).await.0, "once more");
    let refused = house.try_turn(order_in("other", &thread, "[[text]]")).await.err().unwrap();
    assert!(matches!(refused, Refused::NoSuchThread { .. }), "{refused}");
    assert_eq!(house.pool.workers()[0].threads_loaded, 1);
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turns_of_one_thread_wait_for_each_other() {
    let house = House::open(Setup::default()).await;
    let mut first = house.turn("[[slow 5 20]]").await;
    let thread = first.at().thread.to_string();
    let second = house.pool.start_turn(order_in("k", &thread, "[[say two]]"));
    let (first, second) = tokio::join!(finish(&mut first), second);
    assert_eq!(first.0, "s0 s1 s2 s3 s4 ");
    assert_eq!(finish(&mut second.unwrap()).await.0, "two");
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_is_dropped_is_interrupted_and_frees_its_place() {
    let house = House::open(Setup { turns_max: 1, ..Setup::default() }).await;
    let mut turn = house.turn("[[slow 100000 10]]").await;
    until_event(&mut turn, |event| matches!(event, TurnEvent::Text { .. }).then_some(())).await;
    drop(turn);
    let mut next_turn = house.turn("[[text]]").await;
    assert_eq!(finish(&mut next_turn).await.1, "Completed");
    let ends = ends(&house);
    assert_eq!(ends, ["interrupted", "completed"]);
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupt_ends_a_turn_and_steering_reaches_it() {
    let house = House::open(Setup::default()).await;
    let mut turn = house.turn("[[slow 100000 10]]").await;
    until_event(&mut turn, |event| matches!(event, TurnEvent::Text { .. }).then_some(())).await;
    turn.interrupt();
    assert_eq!(finish(&mut turn).await.1, "Interrupted");
    assert!(next(&mut turn).await.is_none());
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn usage_and_threads_are_written_down() {
    let house = House::open(Setup::default()).await;
    let mut turn = house.turn("[[text]]").await;
    let thread = turn.at().thread.to_string();
    finish(&mut turn).await;
    house.store.flush().await.unwrap();
    let usage = house.store.read(|reader| reader.usage(&store::UsageFilter::default())).await.unwrap();
    assert_eq!((usage.len(), usage[0].turns, &*usage[0].key), (1, 1, "k"));
    assert!(usage[0].input > 0 && usage[0].output > 0);
    let row = house.store.read(move |reader| reader.thread(&thread)).await.unwrap().unwrap();
    assert_eq!(row.last_turn_state, Some(store::TurnState::Ended));
    assert_eq!((&*row.group, row.worker.as_deref(), &*row.key), ("main", Some("main-0"), "k"));
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_says_nothing_is_ended_and_its_worker_replaced_if_it_is_deaf() {
    let limits = workers::Limits {
        // A busy machine may keep a worker from saying anything for a while.
        stall_timeout: std::time::Duration::from_secs(3),
        interrupt_timeout: std::time::Duration::from_millis(300),
        ping_timeout: std::time::Duration::from_millis(500),
        ..workers::Limits::default()
    };
    let house = House::open(Setup { limits, ..Setup::default() }).await;
    house.until_ready().await;
    let mut turn = house.turn("[[hang]]").await;
    let pid = house.pool.workers()[0].pid.unwrap();
    until_event(&mut turn, |event| matches!(event, TurnEvent::ItemCompleted { .. }).then_some(())).await;
    signal(pid, rustix::process::Signal::STOP);
    let (_, status, ends) = finish(&mut turn).await;
    assert_eq!(status, "Failed (stalled): the worker said nothing for 3s: the turn was ended");
    assert_eq!(ends, 1);
    until("another process is ready", || {
        let worker = &house.pool.workers()[0];
        worker.pid.is_some_and(|now| now != pid) && worker.state == workers::WorkerState::Ready
    })
    .await;
    let mut after = house.try_turn(order("k", "[[text]]")).await.unwrap();
    assert_eq!(finish(&mut after).await.1, "Completed");
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupt_that_is_never_answered_ends_the_turn_and_replaces_the_worker() {
    let limits = workers::Limits {
        interrupt_timeout: std::time::Duration::from_millis(300),
        ping_timeout: std::time::Duration::from_millis(500),
        ..workers::Limits::default()
    };
    let house = House::open(Setup { limits, ..Setup::default() }).await;
    let mut turn = house.turn("[[slow 100000 10]]").await;
    until_event(&mut turn, |event| matches!(event, TurnEvent::Text { .. }).then_some(())).await;
    let pid = house.pool.workers()[0].pid.unwrap();
    signal(pid, rustix::process::Signal::STOP);
    turn.interrupt();
    let (_, status, ends) = finish(&mut turn).await;
    assert_eq!(status, "Lost (worker_lost): the worker did not end the turn although it was told to");
    assert_eq!(ends, 1);
    until("another process is ready", || {
        let worker = &house.pool.workers()[0];
        worker.pid.is_some_and(|now| now != pid) && worker.state == workers::WorkerState::Ready
    })
    .await;
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupt_that_is_never_answered_ends_a_turn_also_where_it_has_just_asked_something() {
    let limits = workers::Limits {
        interrupt_timeout: std::time::Duration::from_millis(300),
        ping_timeout: std::time::Duration::from_millis(500),
        retire_timeout: std::time::Duration::from_millis(1),
        ..workers::Limits::default()
    };
    let house = House::open(Setup { limits, ..Setup::default() }).await;
    let mut turn = house.try_turn(with_tool("k", "[[tool ask {}]]")).await.unwrap();
    until("it has asked, and nobody has read it", || turn.is_waiting()).await;
    signal(house.pool.workers()[0].pid.unwrap(), rustix::process::Signal::STOP);
    turn.interrupt();
    let (_, status, ends) = finish(&mut turn).await;
    assert_eq!(status, "Lost (worker_lost): the worker did not end the turn although it was told to");
    assert_eq!(ends, 1);
    house.stop().await;
}

fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

fn ends(house: &House) -> Vec<String> {
    let notices = house.notices.lock().unwrap();
    let ends = notices.iter().filter_map(|notice| match notice {
        Notice::TurnEnded { status, .. } => Some(serde_json::to_value(status).unwrap().as_str().unwrap().to_owned()),
        _ => None,
    });
    ends.collect()
}

fn name(notice: &Notice) -> &'static str {
    match notice {
        Notice::WorkerState { state: workers::WorkerState::Starting, .. } => "starting",
        Notice::WorkerState { state: workers::WorkerState::Ready, .. } => "ready",
        Notice::WorkerState { .. } => "another state",
        Notice::ThreadOpened { .. } => "thread opened",
        Notice::TurnStarted { .. } => "turn started",
        Notice::TurnParked { .. } => "turn parked",
        Notice::TokensUsed { .. } => "tokens used",
        Notice::TurnEnded { .. } => "turn ended",
        Notice::ItemStarted { .. } => "item started",
        Notice::ItemCompleted { .. } => "item completed",
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_memory_of_an_order_counts_until_its_turn_has_begun_whoever_waits_for_it() {
    let house = House::open(Setup::default()).await;
    house.until_ready().await;
    let pid = house.pool.workers()[0].pid.unwrap();
    signal(pid, rustix::process::Signal::STOP);
    let memory = Arc::new("the lease of a prompt");
    let lease = Arc::downgrade(&memory);
    let asked = Order { memory: Some(memory), ..order("k", "[[text]]") };
    tokio::select! {
        biased;
        begun = house.try_turn(asked) => panic!("a stopped worker begins nothing: {:?}", begun.is_ok()),
        () = until("it has its place", || house.pool.load().turns == 1) => {}
    }
    assert!(lease.upgrade().is_some(), "its caller has left, and the worker has not answered");
    signal(pid, rustix::process::Signal::CONT);
    until("the memory is given back", || lease.upgrade().is_none()).await;
    house.stop().await;
}
