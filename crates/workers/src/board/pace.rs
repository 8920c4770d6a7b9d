//! How fast places become free, for whoever has to come back later.

use std::time::Duration;

/// The bounds of what anybody is told.
const RETRY_AFTER_MIN: Duration = Duration::from_secs(1);
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// How long places are held, on average over the last few.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    average: Option<Duration>,
}

impl Pace {
    /// A place was held for so long; the newest counts an eighth.
    pub(crate) fn ended(&mut self, held: Duration) {
        self.average = Some(self.average.map_or(held, |average| (average * 7 + held) / 8));
    }

    /// When a newcomer would get its place, with so many before it and so many places.
    pub(crate) fn retry_after(&self, waiting: usize, places: usize) -> Duration {
        let rounds = u32::try_from(waiting / places.max(1) + 1).unwrap_or(u32::MAX);
        let wait = self.average.unwrap_or(RETRY_AFTER_MIN).saturating_mul(rounds);
        wait.clamp(RETRY_AFTER_MIN, RETRY_AFTER_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_grows_with_the_queue_and_stays_within_bounds() {
        let mut pace = Pace::default();
        assert_eq!(pace.retry_after(10, 0), Duration::from_secs(11));
        pace.ended(Duration::from_secs(4));
        assert_eq!(pace.retry_after(0, 2), Duration::from_secs(4));
        assert_eq!(pace.retry_after(5, 2), Duration::from_secs(12));
        assert_eq!(pace.retry_after(5_000, 2), RETRY_AFTER_MAX);
        pace.ended(Duration::from_secs(12));
        assert_eq!(pace.retry_after(0, 2), Duration::from_secs(5));
        for _ in 0..100 {
            pace.ended(Duration::ZERO);
        }
        assert_eq!(pace.retry_after(0, 2), RETRY_AFTER_MIN);
    }
}
