//! The server under mixed load for a long time, its workers killed again and again: nothing of it grows, and nothing is left of it.
//!
//! `cargo xtask soak` runs it, and says how long.

mod load;
mod samples;

use std::thread::{park_timeout, scope};
use std::time::{Duration, Instant};

use self::load::Load;
use self::samples::{Sample, Series};
use crate::command::State;
use crate::fault_run::server::Server;
use crate::tools_served::table;

/// Names how long it lasts.
const MINUTES: &str = "SWITCHBOARD_SOAK_MINUTES";
/// Names a part of the names of the callers that take part, to find out whose doing it is that something grows.
const ONLY: &str = "SWITCHBOARD_SOAK_ONLY";
const SAMPLE_INTERVAL: Duration = Duration::from_secs(3);

/// What is kept of what has ended is little, so that all of it is full long before the first half is over. There are enough workers
/// for none to be killed three times within five minutes: one that ends so often is tried again only after half a minute.
const CONFIG: &str = r#"
drain_grace = "5s"

[[workers]]
name = "main"
command = "demo"
count = 6

[profiles.codex]
approval_policy = "untrusted"

[approvals]
deadline = "15s"

[limits]
turns_finished_max = 64
responses_finished_max = 64
tool_call_timeout = "20s"
parked_max = 64
"#;

#[test]
fn nothing_grows_under_load() {
    let minutes: u64 = std::env::var(MINUTES).ok().and_then(|minutes| minutes.parse().ok()).unwrap_or(1);
    let (state, time) = (State::new(), Duration::from_secs(minutes * 60));
    let config = format!("{CONFIG}\n{}", table(&state, "dual", "dual", ""));
    let server = Server::start(&state, &config);
    let only = std::env::var(ONLY).unwrap_or_default();
    let load = Load::new(&server, &only);
    let (started, mut series) = (Instant::now(), Series::default());
    scope(|scope| {
        load.start(scope);
        while started.elapsed() < time && !load.has_failed() {
            park_timeout(SAMPLE_INTERVAL);
            series.add(Sample::of(server.pid(), state.path(), started.elapsed(), load.finished()));
        }
        load.end();
    });
    println!("{series}\n{load}");
    series.check();
    load.check();
    server.stop();
}
