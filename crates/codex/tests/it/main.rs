//! The translation of a worker's messages, on what the real worker said.

#![expect(clippy::unwrap_used, reason = "a test that unwraps fails and says where")]

#[cfg(feature = "real-codex")]
mod compatibility;
mod translation;
