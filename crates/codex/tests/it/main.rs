//! The client with real processes, and the translation of what the real worker said.

#![expect(clippy::unwrap_used, reason = "a test that unwraps fails and says where")]

mod attack;
mod client;
mod client_of_old;
#[cfg(feature = "real-codex")]
mod compatibility;
mod examples;
mod mutation;
mod protocol;
#[cfg(feature = "real-codex")]
mod real_traps;
mod support;
mod translation;
mod upkeep;
mod v1;
mod v1_laws;
mod v1_types;
