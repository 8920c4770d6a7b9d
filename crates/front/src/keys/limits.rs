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
    /// The limits of a key that one with these creates: what is left out is inherited.
    ///
    /// # Errors
    /// The name of a limit that is above the creator's own.
    pub(crate) fn inherited_by(&self, child: Self) -> Result<Self, &'static str> {
        Ok(Self {
            requests_per_minute: inherit("requests_per_minute", self.requests_per_minute, child.requests_per_minute)?,
            turns_max: inherit("turns_max", self.turns_max, child.turns_max)?,
            tokens_per_day: inherit("tokens_per_day", self.tokens_per_day, child.tokens_per_day)?,
        })
    }

    /// Whether there is no limit at all.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn inherit<T: Copy + Ord>(name: &'static str, own: Option<T>, child: Option<T>) -> Result<Option<T>, &'static str> {
    match (own, child) {
        (Some(own), Some(child)) if child > own => Err(name),
        (own, child) => Ok(child.or(own)),
    }
}

#[cfg(test)]
mod tests {
    use std::num::{NonZeroU32, NonZeroU64};

    use super::KeyLimits;

    #[test]
    fn limits_are_inherited_and_can_only_become_tighter() {
        let limits = |requests: u32, turns: u32, tokens: u64| KeyLimits {
            requests_per_minute: NonZeroU32::new(requests),
            turns_max: NonZeroU32::new(turns),
            tokens_per_day: NonZeroU64::new(tokens),
        };
        let own = limits(10, 2, 0);
        assert_eq!(own.inherited_by(KeyLimits::default()), Ok(own));
        assert_eq!(own.inherited_by(limits(10, 1, 5)), Ok(limits(10, 1, 5)));
        assert_eq!(own.inherited_by(limits(11, 0, 0)), Err("requests_per_minute"));
        assert_eq!(own.inherited_by(limits(0, 3, 0)), Err("turns_max"));
        assert_eq!(limits(0, 0, 7).inherited_by(limits(0, 0, 8)), Err("tokens_per_day"));
    }
}
