//! How long to wait before an overloaded worker is asked again: exponential, with full jitter.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(2);

/// What a worker answers with when it has too much to do; it has not begun what was asked.
pub(crate) const OVERLOADED: i64 = -32001;

/// The wait before the attempt after `failures` failed ones. `luck` is between 0 and 1: callers that were turned away
/// together must not come back together.
pub(crate) fn wait(failures: u32, luck: f64) -> Duration {
    let ceiling = FIRST.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1))).min(LONGEST);
    ceiling.mul_f64(luck.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_its_limit_and_luck_shortens_it() {
        let waits: Vec<u128> = (1..=8).map(|failures| wait(failures, 1.0).as_millis()).collect();
        assert_eq!(waits, [50, 100, 200, 400, 800, 1600, 2000, 2000]);
        assert_eq!(wait(3, 0.5).as_millis(), 100);
        assert_eq!(wait(u32::MAX, 0.0), Duration::ZERO);
    }
}
