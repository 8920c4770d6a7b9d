//! Approvals on a real store, with real hooks and a real webhook.

#![expect(clippy::unwrap_used, reason = "a test that unwraps fails and says where")]

mod adversary;
mod hooks;
mod life;
mod racers;
mod restart;
mod support;
mod webhook;
