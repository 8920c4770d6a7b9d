//! The faults of `docs/faults.md` that the whole server must survive: a process of its own, over HTTP. Every caller has
//! words of its own, so that a foreign one is seen.

mod callers;
mod descriptors;
mod floods;
mod kills;
mod left_behind;
mod readers;
pub(crate) mod server;
mod stores;

use std::thread::park_timeout;
use std::time::{Duration, Instant};

use testkit::HANG_TIMEOUT;

const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// The words that only this caller gets.
fn words_of(caller: usize, count: usize) -> String {
    (0..count).map(|number| format!("caller{caller}w{number} ")).collect()
}

/// Waits for a fact, and names it if it does not come to be.
fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < HANG_TIMEOUT, "it should be that {what}");
        park_timeout(LOOK_INTERVAL);
    }
    started.elapsed()
}
