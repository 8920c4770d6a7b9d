//! The pool with real processes: the demo worker, and with the feature `real-codex` the real one.

#![expect(clippy::unwrap_used, reason = "a test that unwraps fails and says where")]

mod adversary;
mod approvals;
mod deaths;
mod fault_run;
mod histories;
mod parking;
mod placing;
mod provider;
#[cfg(feature = "real-codex")]
mod real;
mod reattach;
mod support;
mod turns;
mod unread;
