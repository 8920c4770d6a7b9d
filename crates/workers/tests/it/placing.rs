//! Places: where turns run, who waits, who is refused.

use std::time::Duration;

use codex::TurnEvent;
use workers::{Order, Refused};

use crate::support::{House, Setup, finish, order, order_in, until, until_event};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turns_are_spread_over_the_workers_of_a_group() {
    let house = House::open(Setup { count: 2, turns_max: 4, ..Setup::default() }).await;
    house.until_ready().await;
    let mut turns = Vec::new();
    for _ in 0..4 {
        turns.push(house.turn("[[slow 100000 20]]").await);
    }
    let places: Vec<usize> = house.pool.workers().iter().map(|worker| worker.turns).collect();
    assert_eq!(places, [2, 2]);
    drop(turns);
    until("all places are free", || house.pool.load().turns == 0).await;
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beyond_the_queue_a_caller_is_told_when_to_come_back() {
    let limits = workers::Limits { queue_max: 1, ..workers::Limits::default() };
    let house = House::open(Setup { turns_max: 1, limits, ..Setup::default() }).await;
    let running = house.turn("[[slow 100000 20]]").await;
    let waiting = house.pool.start_turn(order("k", "[[text]]"));
    tokio::pin!(waiting);
    assert!(futures_util::poll!(&mut waiting).is_pending());
    let refused = house.try_turn(order("other", "[[text]]")).await.err().unwrap();
    assert!(matches!(refused, Refused::Busy { retry_after } if retry_after >= Duration::from_secs(1)), "{refused}");
    assert!(!refused.work_may_have_run());
    drop(running);
    let mut turn = waiting.await.unwrap();
    assert_eq!(finish(&mut turn).await.1, "Completed");
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_waits_no_longer_than_it_says() {
    let house = House::open(Setup { turns_max: 1, ..Setup::default() }).await;
    let running = house.turn("[[slow 100000 20]]").await;
    let hasty = Order { queue_timeout: Some(Duration::from_millis(50)), ..order("k", "[[text]]") };
    let refused = house.try_turn(hasty).await.err().unwrap();
    assert!(matches!(refused, Refused::Busy { .. }), "{refused}");
    assert_eq!(house.pool.load().waiting, 0);
    drop(running);
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_threads_are_unloaded_and_found_again() {
    let house = House::open(Setup { threads_loaded_max: 2, ..Setup::default() }).await;
    let mut threads = Vec::new();
    for number in 0..4 {
        let mut turn = house.turn(&format!("[[say number {number}]]")).await;
        threads.push(turn.at().thread.to_string());
        finish(&mut turn).await;
    }
    assert_eq!(house.pool.workers()[0].threads_loaded, 2);
    let mut again = house.try_turn(order_in("k", &threads[0], "[[say again]]")).await.unwrap();
    assert_eq!(finish(&mut again).await.0, "again");
    assert_eq!(house.pool.workers()[0].threads_loaded, 2);
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_group_is_named_with_those_that_there_are() {
    let house = House::open(Setup::default()).await;
    let strange = Order { group: Some("moon".into()), ..order("k", "[[text]]") };
    let refused = house.try_turn(strange).await.err().unwrap().to_string();
    assert_eq!(refused, r#"there is no group of workers named "moon": it has main"#);
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn draining_takes_no_more_turns_and_lets_the_running_ones_end() {
    let house = House::open(Setup::default()).await;
    let mut turn = house.turn("[[slow 20 20]]").await;
    until_event(&mut turn, |event| matches!(event, TurnEvent::Text { .. }).then_some(())).await;
    let drain = house.pool.drain(testkit::HANG_TIMEOUT);
    let end = async {
        let refused = house.try_turn(order("k", "[[text]]")).await.err().unwrap();
        assert!(matches!(refused, Refused::Draining), "{refused}");
        finish(&mut turn).await
    };
    let ((), (text, status, _)) = tokio::join!(drain, end);
    assert!(text.ends_with("s19 ") && status == "Completed", "{text} {status}");
    assert!(house.pool.readiness().iter().all(|group| !group.is_ready));
    house.stop().await;
}
