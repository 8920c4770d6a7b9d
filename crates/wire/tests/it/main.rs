//! The laws and the behaviour of a connection, seen from outside.

#![expect(
    clippy::unwrap_used,
    reason = "a test that unwraps fails and says where"
)]

mod laws;
mod script;
mod show;
mod simulation;
mod transcripts;
