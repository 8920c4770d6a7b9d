//! Whether the store takes what it is given.

use std::sync::Arc;

/// What [`Store::health`](crate::Store::health) watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// The last writes were done.
    Well,
    /// A write failed. Commits are still tried and mostly fail; notes wait. It ends by itself.
    Degraded {
        /// What failed, where, and what to do.
        reason: Arc<str>,
    },
}

impl Health {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_well(&self) -> bool {
        matches!(self, Self::Well)
    }
}
