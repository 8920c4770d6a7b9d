//! The front over real sockets, with real workers behind it.

#![expect(clippy::unwrap_used, reason = "a test that unwraps fails and says where")]

mod adversary;
mod approvals;
mod budgets;
mod chat;
#[cfg(feature = "real-codex")]
mod compatibility;
mod conformance;
mod cors;
mod edge;
mod feed;
mod frames;
mod full_disk;
mod health;
mod http;
mod keys;
mod limits;
mod mcp;
mod memory;
mod response_limits;
mod responses;
mod schemas;
mod socket;
mod support;
mod turns;

use testkit::HANG_TIMEOUT;
use tokio::time::timeout;

use support::House;

/// Waits until so many turns have a place.
async fn until_turns(house: &House, count: usize) {
    let come = timeout(HANG_TIMEOUT, async {
        while house.pool.load().turns != count {
            tokio::task::yield_now().await;
        }
    });
    come.await.unwrap_or_else(|_| panic!("there should be {count} turns: {:?}", house.pool.turns()));
}

/// Ends a worker from outside.
fn kill(worker: u32) {
    let worker = rustix::process::Pid::from_raw(worker.cast_signed()).unwrap();
    rustix::process::kill_process(worker, rustix::process::Signal::KILL).unwrap();
}
