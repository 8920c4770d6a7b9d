//! The app-server protocol: what a worker says, as [`TurnEvent`]s, and a [`Client`] that talks to one worker.
//!
//! Handshake, translation and the answers to a worker's requests are pure; [`link`] alone does IO.

mod backlog;
pub mod client;
pub mod event;
pub mod handshake;
pub mod link;
pub mod protocol;
pub mod requests;
pub mod turn;
pub mod v1;
pub mod v2;

pub use client::{CallError, Client, StartError, ThreadOptions};
pub use event::TurnEvent;
