//! The laws and the behaviour of a connection, seen from outside.

#![expect(clippy::unwrap_used, reason = "a test that unwraps fails and says where")]

/// How many times as long as usual the loops are to run.
fn scale() -> u32 {
    std::env::var("SWITCHBOARD_TEST_SCALE").map_or(1, |scale| scale.parse().unwrap())
}

mod allocations;
mod framing;
mod laws;
mod script;
mod show;
mod simulation;
mod transcripts;
