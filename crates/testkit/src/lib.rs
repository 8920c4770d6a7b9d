//! Test code only: a stand-in for the model provider, the set-up of a real codex, a driver that plays exchange
//! scripts against any worker process, and the transcripts that come of it, redacted, compared and held against the
//! schema.
//!
//! Nothing here shares code with the product: what both sides took from one place, no comparison could find wrong.

pub mod built;
pub mod codex;
pub mod compare;
pub mod compatibility;
pub mod corpus;
pub mod differences;
pub mod driver;
pub mod faults;
mod ids;
pub mod model;
pub mod processes;
pub mod redact;
pub mod schema;
pub mod script;
mod substitute;
pub mod transcript;
pub mod workplace;

/// The deadline of a wait in a test. Only a hang reaches it, however slow the machine is: no test depends on speed.
pub const HANG_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(180);

/// How many times longer than usual loops and laws run: `SWITCHBOARD_TEST_SCALE`.
#[must_use]
pub fn scale() -> u32 {
    std::env::var("SWITCHBOARD_TEST_SCALE").map_or(1, |scale| scale.parse().expect("a whole number"))
}
