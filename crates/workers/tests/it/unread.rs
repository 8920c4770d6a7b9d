//! Turns that nobody reads to their end, and threads of which nothing is to be left.

use std::time::Duration;

use codex::{TurnEvent, TurnStatus};
use store::ThreadFilter;
use testkit::HANG_TIMEOUT;
use tokio::time::timeout;
use workers::{Afterwards, At, Found, Limits, Notice, Order, Recorded, ToolResult, Transport, Turn, WorkerState};

use crate::parking::{call_of, with_tool};
use crate::support::{House, Setup, caller, finish, kill, next, order, until, until_event, until_some};

async fn until_text(turn: &mut Turn) {
    until_event(turn, |event| matches!(event, TurnEvent::Text { .. }).then_some(())).await;
}

async fn no_threads(house: &House) {
    until_some("all threads are forgotten", async || {
        house.store.flush().await.unwrap();
        let rows = house.store.read(|reader| reader.threads(&ThreadFilter::default())).await.unwrap();
        rows.is_empty().then_some(())
    })
    .await;
    until("none is loaded", || house.pool.workers()[0].threads_loaded == 0).await;
}

fn word(recorded: &Recorded) -> &'static str {
    match recorded {
        Recorded::Turn(_) => "a turn",
        Recorded::Unknown => "unknown",
        Recorded::NobodySays => "nobody says",
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_that_is_forgotten_is_gone_here_and_at_its_worker() {
    let house = House::open(Setup::default()).await;
    let mut turn = house.turn("[[text]]").await;
    let thread = turn.at().thread.to_string();
    finish(&mut turn).await;
    drop(turn);
    assert_eq!(house.pool.workers()[0].threads_loaded, 1);
    house.pool.forget_thread(&thread);
    no_threads(&house).await;
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_that_is_to_go_goes_with_its_turn_however_that_ends() {
    let house = House::open(Setup::default()).await;
    let going = |order: Order| Order { afterwards: Afterwards::Goes, ..order };
    for prompt in ["[[text]]", "[[http 500]]"] {
        finish(&mut house.try_turn(going(order("k", prompt))).await.unwrap()).await;
        no_threads(&house).await;
    }
    let mut given_up = house.try_turn(going(order("k", "[[slow 100000 5]]"))).await.unwrap();
    until_text(&mut given_up).await;
    drop(given_up);
    no_threads(&house).await;
    let mut parked = house.try_turn(going(with_tool("k", "[[tool ask {}]]"))).await.unwrap();
    let call = call_of(&mut parked).await;
    drop(parked);
    assert_eq!(house.pool.workers()[0].threads_loaded, 1, "it waits there");
    house.pool.answer_call(&call, &caller("k"), ToolResult::text("42")).unwrap();
    no_threads(&house).await;
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_can_be_told_to_leave_nothing_after_it_has_begun() {
    let house = House::open(Setup::default()).await;
    let mut turn = house.turn("[[slow 100000 5]]").await;
    until_text(&mut turn).await;
    turn.leave_nothing();
    drop(turn);
    no_threads(&house).await;
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_says_what_is_on_record_of_a_turn() {
    let house = House::open(Setup::default()).await;
    let mut turn = house.turn("[[say on record]]").await;
    let at = turn.at().clone();
    finish(&mut turn).await;
    drop(turn);
    house.store.flush().await.unwrap();
    let Recorded::Turn(recorded) = house.pool.recorded_turn(&at.thread, &at.turn).await else {
        panic!("the worker knows it");
    };
    let recorded = serde_json::to_string(&recorded).unwrap();
    assert!(recorded.contains("on record") && recorded.contains("completed"), "{recorded}");
    assert_eq!(word(&house.pool.recorded_turn(&at.thread, "no such turn").await), "unknown");
    assert_eq!(word(&house.pool.recorded_turn("no such thread", &at.turn).await), "unknown");
    house.stop().await;
    assert_eq!(word(&house.pool.recorded_turn(&at.thread, &at.turn).await), "nobody says");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_outlived_us_is_found_again_while_it_runs_and_when_it_is_over() {
    let house = House::open(Setup { transport: Transport::Unix, ..Setup::default() }).await;
    let mut turn = house.turn("[[slow 100000 5]]").await;
    let at = turn.at().clone();
    until_text(&mut turn).await;
    let pid = house.pool.workers()[0].pid.unwrap();
    let house = house.reopen_in_mid_turn(turn).await;
    let owner = caller("k");
    let Found::Unread(mut found) = house.pool.find_again(&at.thread, &at.turn, &owner).await else {
        panic!("it still runs");
    };
    until_text(&mut found).await;
    assert_eq!(house.pool.workers()[0].state, WorkerState::Ready);
    found.interrupt();
    while next(&mut found).await.is_some() {}
    drop(found);
    let Found::Over(over) = house.pool.find_again(&at.thread, &at.turn, &owner).await else {
        panic!("its worker has it on record");
    };
    assert_eq!(serde_json::to_value(&over).unwrap()["status"], "interrupted");
    assert!(matches!(house.pool.find_again("no such thread", &at.turn, &owner).await, Found::Gone));
    house.stop().await;
    kill(pid);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_whose_worker_has_failed_or_never_comes_is_gone() {
    let soon = Limits { unheard_timeout: Duration::from_millis(10), ..Limits::default() };
    for (program, limits) in [("no-such-program", Limits::default()), ("/bin/sh", soon)] {
        let house = House::open(Setup { limits, ..Setup::default() }).await;
        // What a shell in this place runs: it says nothing until it is to end.
        std::fs::write(house.path().join("app-server"), "while read line; do :; done").unwrap();
        let turn = house.turn("[[hang]]").await;
        let at = turn.at().clone();
        house.store.flush().await.unwrap();
        let home = house.path().join("home");
        let dumb = |setup: &mut Setup| (setup.program, setup.real_home) = (program.into(), Some(home));
        let house = house.reopen_changed(turn, dumb).await;
        let found = timeout(HANG_TIMEOUT, house.pool.find_again(&at.thread, &at.turn, &caller("k"))).await;
        assert!(matches!(found, Ok(Found::Gone)), "{program}: nobody will ever tell");
        house.stop().await;
    }
}

/// A turn that runs on without a reader.
async fn left_running(house: &House, prompt: &str) -> At {
    let mut turn = house.turn(prompt).await;
    until_text(&mut turn).await;
    let at = turn.at().clone();
    turn.leave();
    at
}

fn ends(house: &House) -> usize {
    house.notices.lock().unwrap().iter().filter(|notice| matches!(notice, Notice::TurnEnded { .. })).count()
}

#[tokio::test]
async fn a_turn_that_is_left_runs_on_to_its_end() {
    let house = House::open(Setup::default()).await;
    let at = left_running(&house, "[[slow 50 5]]").await;
    until("it has ended", || ends(&house) == 1).await;
    house.store.flush().await.unwrap();
    let Found::Over(over) = house.pool.find_again(&at.thread, &at.turn, &caller("k")).await else {
        panic!("nobody has interrupted it");
    };
    assert_eq!(serde_json::to_value(&over).unwrap()["status"], "completed");
    house.stop().await;
}

#[tokio::test]
async fn a_turn_ends_also_where_its_reader_goes_while_it_is_handed_over() {
    let house = House::open(Setup::default()).await;
    for looks in 0..8 {
        let at = left_running(&house, "[[slow 50 5]]").await;
        let owner = caller("k");
        let mut finding = Box::pin(house.pool.find_again(&at.thread, &at.turn, &owner));
        assert!(futures_util::poll!(&mut finding).is_pending());
        for _ in 0..looks {
            tokio::task::yield_now().await;
        }
        drop(finding);
        until("it has ended", || ends(&house) == looks + 1).await;
        until("it has no place", || house.pool.turns().is_empty()).await;
    }
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_nobody_reads_of_a_key_is_given_up_with_it() {
    let house = House::open(Setup::default()).await;
    left_running(&house, "[[slow 100000 5]]").await;
    let mut parked = house.try_turn(with_tool("k", "[[tool ask {}]]")).await.unwrap();
    call_of(&mut parked).await;
    drop(parked);
    house.pool.cancel_unread("another");
    assert_eq!(house.pool.turns().len(), 2, "they are not its own");
    house.pool.cancel_unread("k");
    until("both have ended", || ends(&house) == 2).await;
    until("they have no place", || house.pool.turns().is_empty()).await;
    house.stop().await;
}

#[tokio::test]
async fn a_thread_can_be_given_up_while_its_turn_waits_or_runs_on() {
    let house = House::open(Setup::default()).await;
    let at = left_running(&house, "[[slow 50 5]]").await;
    house.pool.forget_thread_of(&at);
    no_threads(&house).await;
    let mut parked = house.try_turn(with_tool("k", "[[tool ask {}]]")).await.unwrap();
    let (at, call) = (parked.at().clone(), call_of(&mut parked).await);
    drop(parked);
    house.pool.forget_thread_of(&at);
    assert_eq!(house.pool.workers()[0].threads_loaded, 1, "it waits there");
    house.pool.answer_call(&call, &caller("k"), ToolResult::text("42")).unwrap();
    no_threads(&house).await;
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_ended_while_nobody_heard_it_is_over_as_its_worker_says() {
    let house = House::open(Setup { transport: Transport::Unix, ..Setup::default() }).await;
    let mut turn = house.turn("[[text]]").await;
    let at = turn.at().clone();
    finish(&mut turn).await;
    house.store.flush().await.unwrap();
    // As if its end had never been heard.
    let id = at.thread.to_string();
    let row = house.store.read(move |reader| reader.thread(&id)).await.unwrap().unwrap();
    let running = store::Thread { last_turn_state: Some(store::TurnState::Running), ..row };
    house.store.commit(vec![store::Change::Thread(running)]).await.unwrap();
    let pid = house.pool.workers()[0].pid.unwrap();
    let house = house.reopen_in_mid_turn(turn).await;
    until("its end is told", || ends(&house) == 1).await;
    let is_completed =
        |notice: &Notice| matches!(notice, Notice::TurnEnded { status, .. } if *status == TurnStatus::Completed);
    assert!(house.notices.lock().unwrap().iter().any(is_completed), "it is not lost");
    house.stop().await;
    kill(pid);
}
