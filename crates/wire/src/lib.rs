//! JSON-RPC over lines as a pure state machine.
//!
//! [`Connection`] takes bytes, commands and the time, and returns lines to send, events and the next wake-up; it does no
//! IO, reads no clock and starts no thread. [`Framer`] and [`peek`] are its two lower halves, usable by
//! themselves, and [`Edges`] is what is left of a line that neither of them can use.

mod calls;
mod connection;
mod edges;
mod encode;
mod envelope;
mod event;
mod framer;
mod id;
mod json;
mod limits;
mod outbox;
mod report;
mod requests;
mod scan;

pub use connection::{Connection, Refused, Wake};
pub use edges::{Edges, Kind};
pub use encode::JsonRpcField;
pub use envelope::{Envelope, peek};
pub use event::{Event, Notification, Outcome, PeerError, Progress, Request};
pub use framer::{Frame, Framer};
pub use id::{CallId, RawId, RequestId};
pub use json::Json;
pub use limits::Limits;
pub use report::{Counts, Fault, Report};
pub use requests::NotOpen;
