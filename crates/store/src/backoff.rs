//! How long to wait before a failed write is tried again: doubled each time, up to a bound.

use std::time::Duration;

use crate::limits::Limits;

pub(crate) struct Backoff {
    min: Duration,
    max: Duration,
    next: Duration,
}

impl Backoff {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self { min: limits.retry_min, max: limits.retry_max, next: limits.retry_min }
    }

    pub(crate) fn next(&mut self) -> Duration {
        let wait = self.next.min(self.max);
        self.next = (wait * 2).min(self.max);
        wait
    }

    pub(crate) fn reset(&mut self) {
        self.next = self.min;
    }
}
