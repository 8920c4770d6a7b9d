//! Workers that are killed in the middle of their work.

use std::time::Instant;

use futures_util::future::join_all;
use rustix::process::Signal;
use testkit::faults::{Fault, Rounds};

use super::{close, hear, pid_of, prompt_of, say_in, script_of, signal};
use crate::support::{House, Setup};

const CALLERS: usize = 4;
const WORDS: usize = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_turn_of_a_killed_worker_ends_once_and_no_other_does() {
    let mut fault = Fault::play("killed at a random delta", Rounds::PerUnit(3));
    for _ in 0..fault.rounds {
        let script = script_of(CALLERS, WORDS, "slow 300 1");
        let house = House::open(Setup { count: 2, script, ..Setup::default() }).await;
        house.until_ready().await;
        let mut turns = Vec::new();
        for caller in 0..CALLERS {
            turns.push(house.try_turn(prompt_of(caller)).await.unwrap());
        }
        let victim = turns[0].at().worker.clone();
        let pid = pid_of(&house, &victim);
        let last_word = fault.random.usize(1..WORDS + 100);
        let mut killed_at = None;
        let mut reading = Vec::new();
        let mut kill = Some(|words: usize| {
            if words >= last_word && killed_at.is_none() {
                signal(pid, Signal::KILL);
                killed_at = Some(Instant::now());
            }
        });
        for turn in &mut turns {
            let mut kill = kill.take();
            reading.push(hear(turn, move |words| {
                if let Some(kill) = &mut kill {
                    kill(words);
                }
            }));
        }
        let heard = join_all(reading).await;
        let killed_at = killed_at.expect("the kill was played");
        for (caller, (turn, heard)) in turns.iter().zip(&heard).enumerate() {
            if turn.at().worker == victim {
                heard.check(caller);
                // Its reader may be so slow that the worker had said everything before it was killed.
                if heard.status == "Completed" {
                    heard.check_completed(caller, WORDS);
                    continue;
                }
                assert_eq!(heard.status, "Lost", "{}", heard.error);
                let took = heard.ended_at.saturating_duration_since(killed_at);
                fault.slowest("end after the kill", took);
                fault.count("turns lost", 1);
            } else {
                heard.check_completed(caller, WORDS);
            }
        }
        let again = house.try_turn(say_in(0, &turns[0].at().thread, "caller0w0 again")).await;
        let heard = hear(&mut again.unwrap(), |_| {}).await;
        heard.check(0);
        assert_eq!(heard.text, "caller0w0 again");
        drop(turns);
        close(house).await;
    }
    fault.held();
}
