//! Every fault marker of the demo worker, beside a caller on the same worker.

use std::time::{Duration, Instant};

use testkit::HANG_TIMEOUT;
use testkit::faults::{Fault, Rounds};
use workers::{Limits, Order, Turn};

use super::{close, hear, key_of, prompt_of, say_in, script_of};
use crate::support::{House, Setup, order};

const WORDS: usize = 20;

/// After these the worker goes on.
const SURVIVED: [&str; 11] = [
    "partial 50",
    "garbage",
    "utf8",
    "line 1000000",
    "line 20000000",
    "deep 1000",
    "deep 1000000",
    "stderr 3000000",
    "sigterm",
    "orphan group",
    "orphan own",
];

/// After these it does not.
const DEADLY: [&str; 4] = ["partial exit", "crash 5 exit 3", "crash 5 abort", "crash 5 kill"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_line_of_a_worker_harms_its_other_turns() {
    let mut fault = Fault::play("garbage", Rounds::OncePerUnits(3));
    for _ in 0..fault.rounds {
        let house = open(Limits::default()).await;
        for marker in SURVIVED {
            let (mut spoiled, mut beside) = side_by_side(&house, marker).await;
            let (heard, beside) = tokio::join!(hear(&mut spoiled, |_| {}), hear(&mut beside, |_| {}));
            heard.check(0);
            assert_eq!(heard.status, "Completed", "{marker}: {}", heard.error);
            assert!(heard.text.ends_with("after the fault."), "{marker}: {}", heard.text);
            beside.check_completed(1, WORDS);
            assert_eq!(house.pool.workers()[0].restarts, 0, "{marker}");
            fault.count("survived", 1);
        }
        close(house).await;
        for marker in DEADLY {
            let house = open(Limits::default()).await;
            let (mut spoiled, mut beside) = side_by_side(&house, marker).await;
            let started = Instant::now();
            let (heard, beside) = tokio::join!(hear(&mut spoiled, |_| {}), hear(&mut beside, |_| {}));
            for (caller, heard) in [&heard, &beside].into_iter().enumerate() {
                heard.check(caller);
                assert_eq!(heard.status, "Lost", "{marker}: {}", heard.error);
                fault.slowest("end", heard.ended_at - started);
            }
            let again = house.try_turn(say_in(0, &spoiled.at().thread, "caller0w0 again")).await;
            assert_eq!(hear(&mut again.unwrap(), |_| {}).await.text, "caller0w0 again");
            fault.count("deadly", 1);
            drop((spoiled, beside));
            close(house).await;
        }
    }
    fault.held();
}

/// Scripts that are broken from the start, and whether a turn can be had all the same.
const SCRIPTS: [(&str, Turns); 11] = [
    ("[process]\nignore_sigterm = true\n", Turns::Complete),
    ("[process]\nstderr_bytes = 3_000_000\n", Turns::Complete),
    ("[process]\norphans = [\"group\", \"own\"]\n", Turns::Complete),
    ("[process]\nexit_at_start = 3\n", Turns::AreRefused),
    ("[handshake]\nreject_v2 = true\n", Turns::Complete),
    ("[handshake]\nreject_initialized = true\n", Turns::Complete),
    ("[handshake]\nsilent = true\n", Turns::AreRefused),
    ("[calls]\noverloaded_every = 3\n", Turns::Complete),
    ("[calls]\nunanswered = [\"thread/start\"]\n", Turns::AreRefused),
    ("[calls]\nunanswered = [\"turn/start\"]\n", Turns::AreRefused),
    ("[calls]\nexit_on = [\"thread/start\"]\n", Turns::AreRefused),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turns {
    Complete,
    AreRefused,
}

impl Turns {
    /// Short only where the order waits for a worker that never becomes ready.
    fn queue_timeout(self) -> Duration {
        match self {
            Self::Complete => HANG_TIMEOUT,
            Self::AreRefused => Duration::from_secs(5),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_order_for_a_broken_worker_ends_in_time() {
    let mut fault = Fault::play("broken scripts", Rounds::OncePerUnits(10));
    for _ in 0..fault.rounds {
        for (script, turns) in SCRIPTS {
            let house = House::open(Setup { script: script.into(), limits: impatient(), ..Setup::default() }).await;
            let started = Instant::now();
            let order = Order { queue_timeout: Some(turns.queue_timeout()), ..order(&key_of(0), "[[say caller0w0]]") };
            match house.try_turn(order).await {
                Ok(mut turn) => {
                    let heard = hear(&mut turn, |_| {}).await;
                    assert_eq!((turns, &*heard.text, heard.ends), (Turns::Complete, "caller0w0", 1), "{script}");
                }
                Err(refused) => {
                    assert_eq!(turns, Turns::AreRefused, "{script}: {refused}");
                    fault.count("orders refused", 1);
                }
            }
            let took = started.elapsed();
            fault.slowest("order", took);
            close(house).await;
        }
    }
    fault.held();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_go_astray_reach_nobody_else() {
    const CALLERS: usize = 6;
    let mut fault = Fault::play("answers astray", Rounds::OncePerUnits(3));
    for _ in 0..fault.rounds {
        for marker in ["answers swapped", "answers twice", "answers unknown", "overload 3"] {
            let house = open(impatient()).await;
            let mut turn = house.try_turn(order(&key_of(0), &format!("[[{marker}]]"))).await.unwrap();
            hear(&mut turn, |_| {}).await.check(0);
            let playing = (0..CALLERS).map(|caller| {
                let house = &house;
                async move {
                    let words = super::words_of(caller, WORDS);
                    let mut turn = house.try_turn(order(&key_of(caller), &format!("[[say {words}]]"))).await.ok()?;
                    Some(hear(&mut turn, |_| {}).await)
                }
            });
            for (caller, heard) in futures_util::future::join_all(playing).await.into_iter().enumerate() {
                match heard {
                    Some(heard) => {
                        heard.check(caller);
                        fault.count("turns ended", 1);
                    }
                    None => fault.count("orders refused", 1),
                }
            }
            drop(turn);
            close(house).await;
        }
    }
    fault.held();
}

fn impatient() -> Limits {
    let soon = Duration::from_secs(1);
    Limits {
        call_timeout: soon,
        ping_timeout: soon,
        interrupt_timeout: soon,
        stall_timeout: 4 * soon,
        ..Limits::default()
    }
}

async fn open(limits: Limits) -> House {
    let house = House::open(Setup { script: script_of(2, WORDS, "slow 100 2"), limits, ..Setup::default() }).await;
    house.until_ready().await;
    house
}

/// The fault and, on the same worker, somebody else's turn.
async fn side_by_side(house: &House, marker: &str) -> (Turn, Turn) {
    let beside = house.try_turn(prompt_of(1)).await.unwrap();
    let spoiled = house.try_turn(order(&key_of(0), &format!("[[{marker}]]"))).await.unwrap();
    (spoiled, beside)
}
