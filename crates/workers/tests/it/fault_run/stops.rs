//! Workers that are stopped: they neither read nor write, and may go on later.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rustix::process::Signal;
use testkit::faults::{Fault, Rounds};
use testkit::processes;
use tokio::time::sleep;
use workers::{Limits, WorkerState};

use super::{close, hear, pid_of, prompt_of, say_in, script_of, signal};
use crate::support::{House, Setup, order_in, until};

const WORDS: usize = 20;

/// Short waits, so that a round is short.
fn impatient() -> Limits {
    let soon = Duration::from_secs(1);
    Limits {
        stall_timeout: soon,
        interrupt_timeout: soon,
        ping_timeout: soon,
        call_timeout: 3 * soon,
        ..Limits::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_comes_late_reaches_the_next_turn() {
    let mut fault = Fault::play("stopped and continued late", Rounds::PerUnit(1));
    for _ in 0..fault.rounds {
        let setup =
            Setup { count: 2, script: script_of(2, WORDS, "slow 150 1"), limits: impatient(), ..Setup::default() };
        let house = House::open(setup).await;
        house.until_ready().await;
        let mut turn = house.try_turn(prompt_of(0)).await.unwrap();
        let mut other = house.try_turn(prompt_of(1)).await.unwrap();
        assert_ne!(turn.at().worker, other.at().worker);
        let pid = pid_of(&house, &turn.at().worker);
        let last_word = fault.random.usize(1..WORDS + 50);
        let late = Duration::from_millis(fault.random.u64(0..2000));
        let (stopped, wait) = tokio::sync::oneshot::channel();
        let mut stopped = Some(stopped);
        let reading = hear(&mut turn, |words| {
            if words >= last_word
                && let Some(stopped) = stopped.take()
            {
                signal(pid, Signal::STOP);
                _ = stopped.send(Instant::now());
            }
        });
        let continuing = async {
            let stopped_at = wait.await.expect("the stop was played");
            sleep(late).await;
            // By then it may be gone, and its number somebody else's.
            if processes::is_stopped(pid) {
                signal(pid, Signal::CONT);
            }
            stopped_at
        };
        let (heard, other, stopped_at) = tokio::join!(reading, hear(&mut other, |_| {}), continuing);
        heard.check(0);
        other.check_completed(1, WORDS);
        let took = heard.ended_at.saturating_duration_since(stopped_at);
        fault.slowest("end after the stop", took);
        fault.count(if heard.status == "Completed" { "completed" } else { "stalled" }, 1);
        let again = house.try_turn(say_in(0, &turn.at().thread, "caller0w0 again")).await;
        let heard = hear(&mut again.unwrap(), |_| {}).await;
        heard.check(0);
        assert_eq!(heard.text, "caller0w0 again");
        close(house).await;
    }
    fault.held();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_does_not_read_is_replaced() {
    const PROMPT_BYTES: usize = 1 << 20;
    const TURNS: usize = 6;
    let mut fault = Fault::play("stdin not read", Rounds::OncePerUnits(3));
    for _ in 0..fault.rounds {
        let setup =
            Setup { count: 2, script: script_of(2, WORDS, "slow 10 1"), limits: impatient(), ..Setup::default() };
        let house = House::open(setup).await;
        house.until_ready().await;
        let mut turns = Vec::new();
        for _ in 0..2 * TURNS {
            turns.push(house.try_turn(prompt_of(0)).await.unwrap());
        }
        for turn in &mut turns {
            hear(turn, |_| {}).await.check(0);
        }
        // Orders go to the worker on which their thread is at home.
        let victim = turns[0].at().worker.clone();
        let threads = turns.iter().map(|turn| (turn.at().worker == victim, turn.at().thread.clone()));
        let (threads, others): (Vec<_>, Vec<_>) = threads.partition(|(is_there, _)| *is_there);
        drop(turns);
        let pid = pid_of(&house, &victim);
        signal(pid, Signal::STOP);
        let long = "x".repeat(PROMPT_BYTES);
        let started = Instant::now();
        let orders = join_all(threads.iter().map(|(_, thread)| {
            let order = order_in("key0", thread, &format!("{long} [[say caller0w0]]"));
            house.try_turn(order)
        }));
        let beside = async {
            let mut turn = house.try_turn(say_in(0, &others[0].1, "caller0w0 beside")).await.unwrap();
            assert_eq!(hear(&mut turn, |_| {}).await.text, "caller0w0 beside");
        };
        let (orders, ()) = tokio::join!(orders, beside);
        let took = started.elapsed();
        fault.slowest("order", took);
        for order in orders {
            match order {
                Ok(mut turn) => hear(&mut turn, |_| {}).await.check(0),
                Err(_) => fault.count("orders refused", 1),
            }
        }
        until("another process is ready", || {
            house.pool.workers().iter().all(|worker| worker.pid != Some(pid) && worker.state == WorkerState::Ready)
        })
        .await;
        assert!(!processes::is_running(pid), "the deaf worker is gone");
        let again = house.try_turn(say_in(0, &threads[0].1, "caller0w0 again")).await;
        assert_eq!(hear(&mut again.unwrap(), |_| {}).await.text, "caller0w0 again");
        close(house).await;
    }
    fault.held();
}
