//! The whole app-server protocol as a typed, asynchronous client for every codex since 0.45.
//!
//! A [`Client`] talks to one worker: a process of ours ([`Client::spawn`], [`Client::start`]) or one that listens
//! ([`Client::connect`]). It finds out which dialect the worker speaks; what is told in either becomes one vocabulary of
//! events. Any number of calls, threads and turns may be under way at once, and whatever is dropped is given up.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use codex::{Client, Options, ThreadOptions, TurnEvent};
//!
//! let client = Client::spawn(["codex", "app-server"], Options::new("my-program", "1.0")).await?;
//! let thread = client.start_thread(ThreadOptions::default()).await?;
//! let mut turn = thread.start_turn("hello").await?;
//! while let Some(event) = turn.next().await {
//!     if let TurnEvent::Text { text, .. } = event {
//!         print!("{text}");
//!     }
//! }
//! println!("{}", client.stop().await);
//! # Ok(())
//! # }
//! ```
//!
//! What a worker asks is decided by [`Callbacks`], or later through [`Client::requests`]; what nobody decides is declined.
//! Every method of the protocol can be called with its own types, which are generated from upstream's schema
//! ([`protocol`]): `client.call::<ThreadList>(params)`. What is newer than this crate is passed on raw.
//!
//! Handshake, dialects, routing and answers are pure code; one task per connection does the IO.

pub mod abilities;
mod backoff;
mod callbacks;
mod client;
mod decision;
mod dialect;
mod driver;
mod endpoint;
mod error;
pub mod event;
mod exchange;
pub mod handshake;
pub mod native;
pub mod protocol;
pub mod requests;
pub mod secrets;
mod tap;
mod text;
mod transport;
pub mod v1;
pub mod v2;
mod waits;

pub use callbacks::{Callbacks, Reply};
pub use client::{
    AnswerError, ApprovalPolicy, Client, Events, Finished, Input, ModelSummary, Options, PathAccess, Pending,
    PermissionProfile, Requests, Sandbox, StartError, Thread, ThreadOptions, ThreadPage, ThreadSummary, Tool, Turn,
    TurnOptions, permissions,
};
pub use decision::{Decision, Undecidable};
pub use endpoint::{Endpoint, EndpointError};
pub use error::{CallError, Trap};
pub use event::{ConnectionEvent, Item, PlanStep, TurnError, TurnEvent, TurnStatus, Usage};
pub use exchange::{Asked, Busy, Limits, Patience};
pub use requests::RequestKind;
pub use supervise::{Ladder, Launch, Owner, Rlimits};
pub use tap::{Direction, Frame};
pub use text::Text;
pub use transport::{ConnectError, End, SocketEnd, SocketLimits};
pub use wire::{Json, JsonRpcField, PeerError, RequestId};
