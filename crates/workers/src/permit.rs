//! What a turn runs by, such as its share of a key's limits: suspended while the turn waits without a reader, gone with its end.

use std::fmt;
use std::sync::Arc;

/// The permit of one turn. Whoever orders the turn hears when it is suspended and resumed; what the closure owns is dropped
/// when the turn is over.
#[derive(Clone, Default)]
pub struct TurnPermit(Option<Arc<PermitHandler>>);

type PermitHandler = dyn Fn(PermitChange) -> Result<(), LimitReached> + Send + Sync;

/// What becomes of the permit of a turn that nobody reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermitChange {
    /// The turn waits for somebody.
    Suspend,
    /// The turn goes on because somebody allowed what it asked, or is over: it counts, but is not refused.
    Resume,
    /// The turn goes on without anybody having allowed it: a denial, a result or a timeout has ended its wait. It may be refused.
    ResumeWithinLimits,
}

/// A turn cannot go on: a limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitReached;

impl TurnPermit {
    /// A permit that is in use. Only [`PermitChange::ResumeWithinLimits`] may be refused.
    pub fn new(change: impl Fn(PermitChange) -> Result<(), LimitReached> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(change)))
    }

    pub(crate) fn change(&self, change: PermitChange) -> Result<(), LimitReached> {
        self.0.as_ref().map_or(Ok(()), |permit| permit(change))
    }
}

impl fmt::Debug for TurnPermit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("TurnPermit").finish_non_exhaustive()
    }
}
