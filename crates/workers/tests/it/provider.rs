//! A model provider that cannot be reached.

use std::time::Duration;

use workers::{Limits, Notice};

use crate::support::{House, Setup, finish, until};

fn impatient() -> Setup {
    // Each report comes long before the turn would stall.
    let limits = Limits { provider_retry_timeout: Duration::from_millis(300), ..Limits::default() };
    Setup { limits, ..Setup::default() }
}

fn cannot_reach_provider(house: &House) -> bool {
    house.pool.readiness()[0].cannot_reach_provider
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_only_reports_retries_fails_and_leaves_its_worker_to_others() {
    let house = House::open(impatient()).await;
    let mut turn = house.turn("[[offline 1000000 20]]").await;
    let (text, status, ends) = finish(&mut turn).await;
    assert_eq!((&*text, ends), ("", 1));
    // How many seconds it says depends on how busy the machine is.
    let is_said = status.starts_with("Failed (provider_unreachable): the model provider could not be reached for ");
    assert!(is_said && status.ends_with(" s: Connection failed: error sending request"), "{status}");
    assert!(cannot_reach_provider(&house));
    let mut next = house.turn("[[text]]").await;
    assert_eq!(finish(&mut next).await.1, "Completed");
    assert!(!cannot_reach_provider(&house));
    assert_eq!(house.pool.workers()[0].restarts, 0);
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_without_a_reader_that_only_reports_retries_fails() {
    let house = House::open(impatient()).await;
    house.turn("[[offline 1000000 20]]").await.leave();
    let has_failed = || {
        let notices = house.notices.lock().unwrap();
        notices.iter().any(|notice| {
            matches!(notice, Notice::TurnEnded { error: Some(error), .. }
                if error.kind.as_deref() == Some("provider_unreachable"))
        })
    };
    until("it has failed", has_failed).await;
    until("its place is free", || house.pool.load().turns == 0).await;
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_worker_says_of_the_provider_counts_and_a_status_shows_that_it_answers() {
    let house = House::open(Setup::default()).await;
    let mut turn = house.turn("[[offline 1 1]]").await;
    let (_, status, _) = finish(&mut turn).await;
    assert_eq!(status, "Failed (http_connection_failed): Connection failed: error sending request");
    assert!(cannot_reach_provider(&house));
    let mut turn = house.turn("[[http 401]]").await;
    assert!(finish(&mut turn).await.1.starts_with("Failed (http_connection_failed): "));
    assert!(!cannot_reach_provider(&house));
    house.stop().await;
}
