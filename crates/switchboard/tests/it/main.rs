//! The binary as its users run it, with real workers.

#![expect(clippy::unwrap_used, reason = "a test that unwraps fails and says where")]

/// How many times as long as usual the loops are to run.
fn scale() -> u32 {
    std::env::var("SWITCHBOARD_TEST_SCALE").map_or(1, |scale| scale.parse().unwrap())
}

mod adversary;
mod ask;
#[cfg(feature = "real-codex")]
mod chat_real;
#[cfg(feature = "clients")]
mod clients;
mod command;
mod configuration;
mod doctor;
mod fault_run;
mod operate;
#[cfg(feature = "real-codex")]
mod real;
mod record;
mod responses;
mod schema;
#[cfg(feature = "schemathesis")]
mod schemathesis;
mod secrets;
mod serve;
mod served;
#[cfg(feature = "soak")]
mod soak;
#[cfg(feature = "tool-servers")]
mod tool_servers;
mod tools;
#[cfg(feature = "real-codex")]
mod tools_real;
mod tools_served;
