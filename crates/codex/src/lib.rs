//! The app-server protocol: what a worker says, as [`TurnEvent`]s, and a [`Client`] that talks to one worker.
//!
//! Handshake, dialects, routing and the answers to a worker's requests are pure; one task per connection does the IO.

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
pub mod protocol;
pub mod requests;
mod transport;
pub mod v1;
pub mod v2;
mod waits;

pub use callbacks::{Callbacks, Reply};
pub use client::{
    AnswerError, ApprovalPolicy, Client, Events, Finished, Input, Options, Pending, Requests, Sandbox, StartError,
    Thread, ThreadOptions, ThreadPage, ThreadSummary, Tool, Turn, TurnOptions,
};
pub use decision::{Decision, Undecidable};
pub use endpoint::{Endpoint, EndpointError};
pub use error::{CallError, Trap};
pub use event::{ConnectionEvent, TurnEvent};
pub use exchange::{Asked, Busy, Limits, Patience};
pub use transport::{ConnectError, End, SocketEnd, SocketLimits};
