//! How long a wait can be: what nobody lives to see the end of is as good as no limit, and no clock overflows.

use std::time::Duration;

/// Thirty years.
const LONGEST: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// The wait, short enough to be added to the time: `Duration::MAX` is how callers say "for ever".
pub(crate) fn bounded(wait: Duration) -> Duration {
    wait.min(LONGEST)
}
