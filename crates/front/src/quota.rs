//! What a key has used of its limits: requests of the last minute, turns that run, tokens of the day. Pure, told the time.
//! A key that another one created counts against the limits of both, so that nobody multiplies a quota by creating keys.
//! A request takes something only if it is let through, so that whoever waits as long as it is told is never refused again
//! for having asked too early.

mod account;
mod headers;

use std::time::{Duration, Instant};

use approvals::Stamp;

pub(crate) use account::{Accounts, Permit, Quotas};

use crate::day::Day;
use crate::keys::KeyLimits;

const MINUTE: Duration = Duration::from_secs(60);

/// How soon to come back when too many turns run: nobody knows when one ends.
const TURN_RETRY: Duration = Duration::from_secs(1);

/// What a key has used.
#[derive(Debug)]
pub(crate) struct Quota {
    limits: KeyLimits,
    /// When it has all requests of a minute again, if none comes until then.
    rested_at: Instant,
    turns: u32,
    /// On which day these tokens were used.
    day: Day,
    tokens: u64,
}

/// Now, by the clock that only runs forward and by the one that knows the day.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub steady: Instant,
    pub utc: Stamp,
}

/// Which limit is reached, and when it is worth to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    Requests(Duration),
    Turns(Duration),
    Tokens(Duration),
}

/// What is left, of each limit that there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Left {
    pub requests: Option<Share>,
    pub tokens: Option<Share>,
}

/// What is left of one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub limit: u64,
    pub remaining: u64,
    /// How long until nothing is missing.
    pub reset: Duration,
}

impl Left {
    /// What is left under both: of each limit, the one that is closer.
    pub(crate) fn within(self, other: Self) -> Self {
        let closer = |one: Option<Share>, other| one.into_iter().chain(other).min_by_key(|share| share.remaining);
        Self { requests: closer(self.requests, other.requests), tokens: closer(self.tokens, other.tokens) }
    }
}

impl Quota {
    /// That of a key which has used so many tokens today, and nothing else.
    pub(crate) fn new(limits: KeyLimits, tokens_today: u64, now: Moment) -> Self {
        Self { limits, rested_at: now.steady, turns: 0, day: now.day(), tokens: tokens_today }
    }

    /// Whether so many turns more may be there at the same time.
    fn has_room(&self, turns: u32) -> Result<(), Reached> {
        let running = self.turns.saturating_add(turns);
        let is_over = self.limits.turns_max.is_some_and(|max| running > max.get());
        if is_over { Err(Reached::Turns(TURN_RETRY)) } else { Ok(()) }
    }

    /// Whether a request with so many turns may pass, or which limit it would break. It takes nothing.
    pub(crate) fn check(&mut self, turns: u32, now: Moment) -> Result<(), Reached> {
        self.begin_day(now);
        self.has_room(turns)?;
        if self.limits.tokens_per_day.is_some_and(|max| self.tokens >= max.get()) {
            return Err(Reached::Tokens(now.until_midnight()));
        }
        let wait = self.pace().map_or(Duration::ZERO, |pace| {
            self.rested_after(&pace, now).saturating_duration_since(now.steady + pace.window)
        });
        if wait.is_zero() { Ok(()) } else { Err(Reached::Requests(wait)) }
    }

    /// Takes what a request with so many turns needs, which [`Self::check`] has let through.
    pub(crate) fn take(&mut self, turns: u32, now: Moment) -> Left {
        if let Some(pace) = self.pace() {
            self.rested_at = self.rested_after(&pace, now);
        }
        self.turns = self.turns.saturating_add(turns);
        self.left(now)
    }

    fn rested_after(&self, pace: &Pace, now: Moment) -> Instant {
        self.rested_at.max(now.steady) + pace.interval
    }

    /// Takes turns up again that were let through before; they are refused no more.
    pub(crate) fn resume(&mut self, turns: u32, now: Moment) -> Left {
        self.turns = self.turns.saturating_add(turns);
        self.left(now)
    }

    /// So many turns are over.
    pub(crate) fn free(&mut self, turns: u32) {
        self.turns = self.turns.saturating_sub(turns);
    }

    /// So many tokens were used.
    pub(crate) fn spend(&mut self, tokens: u64, now: Moment) {
        self.begin_day(now);
        self.tokens = self.tokens.saturating_add(tokens);
    }

    /// What it has left.
    pub(crate) fn left(&mut self, now: Moment) -> Left {
        self.begin_day(now);
        let requests = self.pace().map(|pace| {
            let reset = self.rested_at.saturating_duration_since(now.steady);
            let remaining = pace.window.saturating_sub(reset).as_nanos() / pace.interval.as_nanos();
            Share { limit: pace.limit, remaining: u64::try_from(remaining).unwrap_or(u64::MAX), reset }
        });
        let tokens = self.limits.tokens_per_day.map(|max| {
            let remaining = max.get().saturating_sub(self.tokens);
            Share { limit: max.get(), remaining, reset: now.until_midnight() }
        });
        Left { requests, tokens }
    }

    /// A clock that is set back does not give a day's tokens again.
    fn begin_day(&mut self, now: Moment) {
        if now.day() > self.day {
            (self.day, self.tokens) = (now.day(), 0);
        }
    }

    fn pace(&self) -> Option<Pace> {
        let limit = self.limits.requests_per_minute?.get();
        let interval = MINUTE / limit;
        Some(Pace { limit: limit.into(), interval, window: interval * limit })
    }
}

/// A limit of requests as a bucket: each takes an interval's worth, and the window is how much it holds.
struct Pace {
    limit: u64,
    interval: Duration,
    window: Duration,
}

impl Moment {
    pub(crate) fn now() -> Self {
        Self { steady: Instant::now(), utc: Stamp::now() }
    }

    fn day(self) -> Day {
        Day::of(self.utc)
    }

    fn until_midnight(self) -> Duration {
        self.day().end().since(self.utc)
    }
}

#[cfg(test)]
mod tests;
