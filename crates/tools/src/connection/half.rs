//! What there is of a connection before hands are shaken, and why they may not be.

use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex};

use tokio::sync::mpsc;

use super::driver::{FIRST_CALL, Telling};
use super::{Connection, Order};
use crate::evidence::Phase;
use crate::frame::Ring;
use crate::handshake::{Agreement, Failure, Opening};

/// What becomes a connection once hands are shaken.
pub(crate) struct Half {
    pub(super) orders: mpsc::Sender<Order>,
    pub(super) ring: Arc<Mutex<Ring>>,
    pub(super) telling: Telling,
}

impl Half {
    pub(crate) fn ring(&self) -> &Arc<Mutex<Ring>> {
        &self.ring
    }

    /// The connection, and what its server tells.
    pub(crate) fn joined(self, agreement: Agreement) -> (Connection, Telling) {
        let numbers = Arc::new(AtomicI64::new(FIRST_CALL));
        let connection = Connection { orders: self.orders, numbers, agreement: Arc::new(agreement) };
        (connection, self.telling)
    }
}

/// Why hands were not shaken.
#[derive(Debug)]
pub(crate) enum Broken {
    Handshake(Failure),
    /// It ended in this phase.
    Ended(Phase),
}

impl Broken {
    /// How to begin next time: a server that ends when it is asked something unknown is not asked it again.
    pub(crate) fn next_opening(&self) -> Opening {
        match self {
            Self::Ended(Phase::Discover) => Opening::Initialize,
            _ => Opening::Discover,
        }
    }
}
