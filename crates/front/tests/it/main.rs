//! The front over real sockets, with real workers behind it.

#![expect(clippy::unwrap_used, reason = "a test that unwraps fails and says where")]

mod approvals;
mod edge;
mod feed;
mod health;
mod http;
mod support;
mod turns;
