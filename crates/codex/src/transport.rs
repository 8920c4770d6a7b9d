//! The only IO of this crate: bytes or messages between the pure connection and a worker, which is a process of ours or
//! listens on a socket.
//!
//! The connection's owner drives it: [`Transport::transmit`] and [`Transport::feed`] never wait, [`Transport::ready`] does
//! nothing else.

mod child;
mod connect;
mod keep_alive;
mod pipe;
mod socket;
#[cfg(test)]
mod tests;

use std::fmt;

use supervise::{Child, Exit, Ladder};
use wire::Connection;

use crate::endpoint::Endpoint;
use crate::tap::Tap;
use child::ChildLink;
pub use connect::ConnectError;
use socket::SocketLink;
pub use socket::{SocketEnd, SocketLimits};

/// A link to one worker.
pub(crate) enum Transport {
    Child(Box<ChildLink>),
    Socket(Box<SocketLink>),
}

/// Whether the connection has room for what the worker says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    Wanted,
    Paused,
}

/// What came of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ready {
    /// Something can be sent or fed.
    Go,
    /// Nothing more will be heard; [`Transport::stop`] tells why.
    Ended,
}

/// How a link ended.
#[derive(Clone, Debug)]
pub enum End {
    /// The worker was a process of ours, and ended so.
    Child(Exit),
    /// The worker listens somewhere, and only the link to it ended.
    Socket(SocketEnd),
    /// The runtime that it was made in is gone, and the link with it; a process of ours was killed.
    Dropped,
}

impl Transport {
    /// A link to a process over its stdin and stdout.
    pub(crate) fn child(child: Child) -> Self {
        Self::Child(Box::new(ChildLink::new(child)))
    }

    /// Connects to a worker that listens.
    ///
    /// # Errors
    /// [`ConnectError`]: nothing was connected.
    pub(crate) async fn connect(endpoint: &Endpoint, limits: SocketLimits) -> Result<Self, ConnectError> {
        let socket = connect::connect(endpoint, limits).await?;
        Ok(Self::Socket(Box::new(SocketLink::new(socket, endpoint, limits))))
    }

    /// The worker's process id, if it is a process of ours.
    pub(crate) fn pid(&self) -> Option<u32> {
        match self {
            Self::Child(child) => Some(child.pid()),
            Self::Socket(_) => None,
        }
    }

    /// Sends what the connection wants sent, as far as there is room. Never waits.
    pub(crate) fn transmit(&mut self, connection: &mut Connection, tap: Option<&mut Tap>) {
        match self {
            Self::Child(child) => child.transmit(connection, tap),
            Self::Socket(socket) => socket.transmit(connection, tap),
        }
    }

    /// Offers the connection what was read, as far as it wants it.
    pub(crate) fn feed(&mut self, connection: &mut Connection, tap: Option<&mut Tap>) {
        match self {
            Self::Child(child) => child.feed(connection, tap),
            Self::Socket(socket) => socket.feed(connection, tap),
        }
    }

    /// Waits until there is room for what waits to be sent, something was read, or the worker is gone. Cancel-safe.
    pub(crate) async fn ready(&mut self, reading: Reading) -> Ready {
        match self {
            Self::Child(child) => child.ready(reading).await,
            Self::Socket(socket) => socket.ready(reading).await,
        }
    }

    /// Ends the link: a process is stopped with its group, a socket is closed and its worker left alone.
    pub(crate) async fn stop(self, ladder: Ladder) -> End {
        match self {
            Self::Child(child) => End::Child(child.stop(ladder).await),
            Self::Socket(socket) => End::Socket(socket.stop().await),
        }
    }

    /// Why nothing can be sent any more, if that is so and was not our wish.
    pub(crate) fn deafness(&self) -> Option<String> {
        match self {
            Self::Child(child) => child.deafness(),
            Self::Socket(socket) => socket.deafness(),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Child(exit) => exit.fmt(f),
            Self::Socket(end) => end.fmt(f),
            Self::Dropped => f.write_str("the runtime of this connection was shut down"),
        }
    }
}
