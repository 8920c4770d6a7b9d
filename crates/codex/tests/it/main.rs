//! The client with real processes, and the translation of what the real worker said.

#![expect(clippy::unwrap_used, reason = "a test that unwraps fails and says where")]

mod client;
mod protocol;
mod support;
mod translation;
