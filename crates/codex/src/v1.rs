//! The v1 dialect, spoken by every worker up to 0.60: conversations, listeners and `codex/event/*`.
//!
//! Upstream publishes no schema of it, so its types are written by hand from what the real workers accept and say.
//! [`Reader`] turns its messages into the same events that the v2 dialect gives.

pub mod calls;
mod connection;
mod conversation;
pub mod event_kind;
mod fields;
pub mod input;
mod items;
mod output;
mod plain;
pub mod policy;
mod reader;
pub mod requests;

pub use event_kind::EventKind;
pub use reader::Reader;
