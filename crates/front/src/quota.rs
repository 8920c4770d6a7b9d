//! What a key has used of its limits: requests of the last minute, turns that run, tokens of the day. Pure, told the time.
//! A key that another one created counts against the limits of both, so that nobody multiplies a quota by creating keys.
//! A request takes something only if it is let through, so that whoever waits as long as it is told is never refused again
//! for having asked too early.

mod account;
mod headers;

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::Arc;
use std::time::{Duration, Instant};

use approvals::Stamp;

pub(crate) use account::{Accounts, Permit, Quotas};

use crate::day::Day;
use crate::keys::KeyLimits;

const MINUTE: Duration = Duration::from_secs(60);

/// How soon to come back when too many turns run: nobody knows when one ends.
const TURN_RETRY: Duration = Duration::from_secs(1);

/// What an answer is taken for at the least, beside what is asked, until it is known: more than most are long, so that
/// parallel requests do not pass the budget together.
const ANSWER_TOKENS: u64 = 2000;

/// Until an answer of the day has ended, one beside others is taken for at least the budget divided by this: the turn of an agent
/// can read hundreds of thousands of tokens.
const FIRST_ANSWER_DIVISOR: u64 = 4;

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
    /// What the turns that run are thought to use in all.
    reserved: u64,
    /// What each turn has used since it last waited for somebody.
    spending: HashMap<Arc<str>, u64>,
    /// The most that an answer has used which has ended today.
    largest_answer: Option<u64>,
}

/// What a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// As how many requests it counts.
    pub requests: u32,
    /// How many turns run for it.
    pub turns: u32,
    /// What it says to each of them, in tokens.
    pub tokens: u64,
}

impl Claim {
    /// So many turns that are told as much; each counts as a request.
    pub(crate) fn turns(turns: u32, tokens: u64) -> Self {
        Self { requests: turns, turns, tokens }
    }

    /// Something more for a turn that runs.
    pub(crate) fn beside_a_turn() -> Self {
        Self { requests: 1, turns: 0, tokens: 0 }
    }
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
    /// The turns that run may use the tokens that are left.
    Reserved(Duration),
    /// So many turns may use more than the tokens that are left, of which one may begin.
    TokensForChoices(Duration),
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
        Self {
            limits,
            rested_at: now.steady,
            turns: 0,
            day: now.day(),
            tokens: tokens_today,
            reserved: 0,
            spending: HashMap::new(),
            largest_answer: None,
        }
    }

    /// Whether a request may pass, or which limit it would break. It takes nothing.
    pub(crate) fn check(&mut self, claim: Claim, now: Moment) -> Result<(), Reached> {
        self.begin_day(now);
        self.check_turns(claim)?;
        self.check_tokens(claim, now)?;
        let wait = self.pace().map_or(Duration::ZERO, |pace| {
            self.rested_after(&pace, claim, now).saturating_duration_since(now.steady + pace.window)
        });
        if wait.is_zero() { Ok(()) } else { Err(Reached::Requests(wait)) }
    }

    /// Whether so many turns more may be there at the same time.
    fn check_turns(&self, claim: Claim) -> Result<(), Reached> {
        let running = self.turns.saturating_add(claim.turns);
        let is_over = claim.turns > 0 && self.limits.turns_max.is_some_and(|max| running > max.get());
        if is_over { Err(Reached::Turns(TURN_RETRY)) } else { Ok(()) }
    }

    /// Turns begin beside others only if all of them together are thought to stay within the budget. One alone may begin as long
    /// as anything is left, so that the budget is passed by one answer at most.
    fn check_tokens(&self, claim: Claim, now: Moment) -> Result<(), Reached> {
        let Some(budget) = self.limits.tokens_per_day.map(NonZero::get) else { return Ok(()) };
        if self.tokens >= budget {
            return Err(Reached::Tokens(now.until_midnight()));
        }
        // What was reserved for the turns that run may be less than an answer has taken since.
        let running = self.reserved.max(self.largest_seen().saturating_mul(self.turns.into()));
        let answer_tokens = match self.turns {
            // No waiting would help choices that are one answer each of an unknown length.
            0 => self.seen_answer_tokens(claim.tokens),
            _ => self.answer_tokens(claim.tokens),
        };
        let wanted = answer_tokens.saturating_mul(claim.turns.into());
        let expected = self.tokens.saturating_add(running).saturating_add(wanted);
        match (self.turns, claim.turns) {
            _ if expected <= budget => Ok(()),
            (_, 0) | (0, 1) => Ok(()),
            (0, _) => Err(Reached::TokensForChoices(now.until_midnight())),
            (1.., _) => Err(Reached::Reserved(TURN_RETRY)),
        }
    }

    /// Takes what a request needs, which [`Self::check`] has let through; the tokens that are reserved for each of its turns.
    pub(crate) fn take(&mut self, claim: Claim, now: Moment) -> u64 {
        if let Some(pace) = self.pace() {
            self.rested_at = self.rested_after(&pace, claim, now);
        }
        let reserved = self.answer_tokens(claim.tokens);
        (0..claim.turns).for_each(|_| self.run(reserved));
        reserved
    }

    /// Takes a turn up again that was let through before, and is refused no more; the tokens that are reserved for it.
    pub(crate) fn resume(&mut self, tokens: u64) -> u64 {
        let reserved = self.answer_tokens(tokens);
        self.run(reserved);
        reserved
    }

    /// A turn runs no more for which so much was reserved.
    pub(crate) fn free(&mut self, reserved: u64) {
        self.turns = self.turns.saturating_sub(1);
        self.reserved = self.reserved.saturating_sub(reserved);
    }

    /// A turn has used so many tokens.
    pub(crate) fn spend(&mut self, turn: &Arc<str>, tokens: u64, now: Moment) {
        self.begin_day(now);
        self.tokens = self.tokens.saturating_add(tokens);
        let spent = self.spending.entry(Arc::clone(turn)).or_default();
        *spent = spent.saturating_add(tokens);
    }

    /// An answer of a turn is over: what it uses from here on is another's.
    pub(crate) fn end_answer(&mut self, turn: &str) {
        self.largest_answer = self.largest_answer.max(self.spending.remove(turn));
    }

    fn run(&mut self, reserved: u64) {
        self.turns = self.turns.saturating_add(1);
        self.reserved = self.reserved.saturating_add(reserved);
    }

    /// What an answer to so many tokens is thought to use.
    fn answer_tokens(&self, asked: u64) -> u64 {
        let unknown = match (self.largest_answer, self.limits.tokens_per_day) {
            (None, Some(budget)) => budget.get() / FIRST_ANSWER_DIVISOR,
            (Some(_), _) | (_, None) => 0,
        };
        self.seen_answer_tokens(asked).max(unknown)
    }

    /// The same, by nothing but what answers have used so far.
    fn seen_answer_tokens(&self, asked: u64) -> u64 {
        asked.saturating_add(ANSWER_TOKENS).max(self.largest_seen())
    }

    /// The most that an answer has used today, also one that has not ended.
    fn largest_seen(&self) -> u64 {
        self.spending.values().copied().chain(self.largest_answer).max().unwrap_or(0)
    }

    fn rested_after(&self, pace: &Pace, claim: Claim, now: Moment) -> Instant {
        self.rested_at.max(now.steady) + pace.interval * claim.requests
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

    /// A clock that is set back does not give a day's tokens again. One that was days ahead does not make the day last until then.
    fn begin_day(&mut self, now: Moment) {
        if now.day() > self.day {
            (self.day, self.tokens, self.largest_answer) = (now.day(), 0, None);
            self.spending.clear();
        } else if self.day.days_after(now.day()) > 1 {
            self.day = now.day();
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
