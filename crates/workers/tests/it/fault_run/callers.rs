//! Callers who leave, and callers who do not keep up.

use std::time::{Duration, Instant};

use codex::TurnEvent;
use futures_util::future::join_all;
use testkit::faults::{Fault, Rounds};
use tokio::time::sleep;

use super::{Heard, close, hear, key_of, prompt_of, script_of};
use crate::support::{House, Setup, next, order, until};

const WORDS: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_place_of_a_caller_who_is_gone_is_free_soon() {
    const CALLERS: usize = 6;
    let mut fault = Fault::play("caller gone", Rounds::PerUnit(2));
    let house = House::open(Setup { script: script_of(CALLERS, WORDS, "slow 200 1"), ..Setup::default() }).await;
    house.until_ready().await;
    for _ in 0..fault.rounds {
        let leave_after: Vec<usize> = (0..CALLERS).map(|_| fault.random.usize(0..WORDS + 100)).collect();
        let playing = leave_after.iter().enumerate().map(|(caller, last_word)| {
            let house = &house;
            async move {
                let mut turn = house.try_turn(prompt_of(caller)).await.unwrap();
                if caller % 2 == 0 {
                    hear(&mut turn, |_| {}).await.check_completed(caller, WORDS);
                    return Duration::ZERO;
                }
                // Deltas that wait for their reader come as one.
                let mut words = 0;
                while words < *last_word {
                    if let TurnEvent::Text { text, .. } = next(&mut turn).await.unwrap() {
                        words += text.to_str().matches(' ').count();
                    }
                }
                let id = turn.at().turn.clone();
                drop(turn);
                let gone_at = Instant::now();
                let is_there = || house.pool.turns().iter().any(|view| view.turn.as_deref() == Some(&*id));
                until("the place is free", || !is_there()).await;
                gone_at.elapsed()
            }
        });
        for took in join_all(playing).await {
            fault.slowest("place free", took);
        }
    }
    assert_eq!((house.pool.load().turns, house.pool.workers()[0].restarts), (0, 0));
    close(house).await;
    fault.held();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_who_is_slow_slows_nobody_else() {
    const FLOOD: usize = 300_000;
    const SLOW_READS: usize = 100;
    let mut fault = Fault::play("slow caller", Rounds::OncePerUnits(2));
    let house = House::open(Setup { script: script_of(2, WORDS, "slow 100 2"), ..Setup::default() }).await;
    house.until_ready().await;
    for _ in 0..fault.rounds {
        let mut slow = house.try_turn(order(&key_of(0), &format!("[[flood {FLOOD}]]"))).await.unwrap();
        let reading = async {
            let (mut heard, mut reads) = (Heard::new(), 0);
            while let Some(event) = next(&mut slow).await {
                heard.see(event);
                reads += 1;
                if reads < SLOW_READS {
                    sleep(Duration::from_millis(10)).await;
                }
            }
            heard
        };
        let beside = async {
            let started = Instant::now();
            let mut turn = house.try_turn(prompt_of(1)).await.unwrap();
            hear(&mut turn, |_| {}).await.check_completed(1, WORDS);
            started.elapsed()
        };
        let (heard, beside) = tokio::join!(reading, beside);
        heard.check(0);
        let is_whole = heard.text.trim_end().ends_with(&format!("t{}", FLOOD - 1));
        assert!(is_whole || heard.left_out, "what was left out must be said: {}", heard.status);
        fault.slowest("neighbour's turn", beside);
        fault.count(if heard.left_out { "cut" } else { "whole" }, 1);
    }
    assert_eq!(house.pool.workers()[0].restarts, 0);
    close(house).await;
    fault.held();
}
