//! The app-server protocol as Rust types: what can be called, what a worker can ask, what it can tell.
//!
//! The types are generated from upstream's schema ([`NEWEST`] says of which version): one for every definition under its
//! own name, a name for every method in [`calls`] and [`requests`], and all notifications as one enum,
//! [`Notification`]. Every enum is open. The word "call" is a request that we send, "request" one that the worker sends.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;

mod generated;
mod named;
mod needs;
mod open;
mod record;
mod table;

pub use generated::*;
pub use needs::NEEDS;
pub use table::{Extent, Kind, Method, NEWEST, Until};

/// Upstream's own JSON Schema of everything in here, without its prose.
pub const SCHEMA: &str = include_str!("../../../schema/app-server.json");

/// A method that we can call. Its implementors are names without values: `client.call::<ThreadStart>(params)`.
pub trait Call {
    /// Its name on the wire.
    const METHOD: &'static str;
    /// Whether all of it needs the capability `experimentalApi`.
    const EXPERIMENTAL: bool;
    /// The fields of its parameters that need that capability although the method does not.
    const EXPERIMENTAL_FIELDS: &'static [&'static str];
    /// What goes with it; `()` for nothing.
    type Params: Serialize;
    /// What comes back.
    type Answer: DeserializeOwned;
}

/// Does something with every call that the schema has; [`calls::each`] shows them.
pub trait EachCall {
    /// One call. Unlike those of any [`Call`], its types can be both read and written, and shown.
    fn visit<C: Call>(&mut self)
    where
        C::Params: DeserializeOwned + Debug,
        C::Answer: Serialize + Debug;
}

/// A request that a worker can make, and that must be answered.
pub trait Request {
    /// Its name on the wire.
    const METHOD: &'static str;
    /// What comes with it.
    type Params: DeserializeOwned;
    /// What goes back.
    type Answer: Serialize;
}
