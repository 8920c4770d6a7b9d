//! How much a key may use, as its row of the store and the operator API write it.

use std::num::{NonZeroU32, NonZeroU64};

use serde::{Deserialize, Serialize};

/// How much a key may use; what is `None` has no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KeyLimits {
    /// Requests that start a turn or go on with one, within a minute.
    pub requests_per_minute: Option<NonZeroU32>,
    /// Turns that run at the same time.
    pub turns_max: Option<NonZeroU32>,
    /// Tokens, read and written, from midnight to midnight in UTC.
    pub tokens_per_day: Option<NonZeroU64>,
}

impl KeyLimits {
    /// Whether there is no limit at all.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
