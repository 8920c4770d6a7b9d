//! A store without room.

use std::time::Instant;

use codex::TurnEvent;
use store::{ApprovalFilter, Health};
use testkit::HANG_TIMEOUT;
use testkit::faults::{Fault, Rounds};
use tokio::time::timeout;

use super::{close, hear, key_of, prompt_of, script_of};
use crate::support::{House, Setup, next, order};

const WORDS: usize = 20;
const PAGES: u32 = 1_000_000;
/// A command that needs pages of its own in the store.
const COMMAND_BYTES: usize = 50_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_room_nothing_is_approved_and_what_runs_goes_on() {
    let mut fault = Fault::play("disk full", Rounds::OncePerUnits(2));
    for _ in 0..fault.rounds {
        let house = House::open(Setup { script: script_of(1, WORDS, "slow 400 2"), ..Setup::default() }).await;
        house.until_ready().await;
        let mut running = house.try_turn(prompt_of(0)).await.unwrap();
        house.store.set_pages_max(1).await.unwrap();
        let full = async {
            let status = ask(&house).await;
            assert_eq!(status, "declined", "what cannot be recorded is not approved");
            assert!(!house.store.health().borrow().is_well(), "health says so");
            let rows = house.store.read(|reader| reader.approvals(&ApprovalFilter::default())).await.unwrap();
            assert!(rows.is_empty(), "nobody is shown what is not on record");
        };
        let (heard, ()) = tokio::join!(hear(&mut running, |_| {}), full);
        heard.check_completed(0, WORDS);
        house.store.set_pages_max(PAGES).await.unwrap();
        let roomy = Instant::now();
        let mut health = house.store.health();
        timeout(HANG_TIMEOUT, health.wait_for(Health::is_well)).await.expect("it recovers by itself").unwrap();
        fault.slowest("well again", roomy.elapsed());
        let waiting = house.try_turn(order(&key_of(1), "[[shell touch x]]")).await.unwrap();
        assert_eq!(house.one_pending().await.method, "item/commandExecution/requestApproval");
        drop((waiting, running));
        close(house).await;
    }
    fault.held();
}

/// Plays a command that has to be asked for; what became of it.
async fn ask(house: &House) -> String {
    let command = format!("[[shell touch {}]]", "x".repeat(COMMAND_BYTES));
    let mut turn = house.try_turn(order(&key_of(1), &command)).await.unwrap();
    let mut status = String::new();
    while let Some(event) = next(&mut turn).await {
        if let TurnEvent::ItemCompleted { item } = event
            && &*item.kind == "command_execution"
        {
            status = item.status.unwrap_or_default().into();
        }
    }
    status
}
