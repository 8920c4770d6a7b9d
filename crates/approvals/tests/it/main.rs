//! Approvals on a real store, with real hooks and a real webhook.

mod hooks;
mod life;
mod racers;
mod restart;
mod support;
mod webhook;
