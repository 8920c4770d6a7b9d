//! What a turn runs by, such as its share of a key's limits: suspended while the turn waits without a reader, gone with its end.

use std::fmt;
use std::sync::Arc;

/// The permit of one turn. Whoever orders the turn hears when it is suspended and used again; what the closure owns is dropped
/// when the turn is over.
#[derive(Clone, Default)]
pub struct TurnPermit(Option<Arc<dyn Fn(PermitState) + Send + Sync>>);

/// Whether a turn runs by its permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermitState {
    /// It runs, or somebody reads it.
    InUse,
    /// It waits for somebody, and nobody reads it.
    Suspended,
}

impl TurnPermit {
    /// A permit that is in use.
    pub fn new(change: impl Fn(PermitState) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(change)))
    }

    pub(crate) fn change(&self, state: PermitState) {
        if let Some(change) = &self.0 {
            change(state);
        }
    }
}

impl fmt::Debug for TurnPermit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("TurnPermit").finish_non_exhaustive()
    }
}
