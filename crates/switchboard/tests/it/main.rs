//! The binary as its users run it, with real workers.

#![expect(
    clippy::unwrap_used,
    reason = "a test that unwraps fails and says where"
)]

mod ask;
mod command;
#[cfg(feature = "real-codex")]
mod real;
