//! A day in UTC, as usage is kept by it.

use std::fmt;

use approvals::Stamp;

const DAY_MILLIS: i64 = 24 * 60 * 60 * 1000;

/// How much of a moment in RFC 3339 is its day.
const DAY_CHARS: usize = "2000-01-01".len();

/// A day, counted from 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Day(i64);

impl Day {
    pub(crate) fn of(moment: Stamp) -> Self {
        Self(moment.0.div_euclid(DAY_MILLIS))
    }

    pub(crate) fn today() -> Self {
        Self::of(Stamp::now())
    }

    /// So many days earlier.
    pub(crate) fn back(self, days: u32) -> Self {
        Self(self.0.saturating_sub(days.into()))
    }

    /// How many days it comes after the other; none if it comes before.
    pub(crate) fn days_after(self, other: Self) -> u64 {
        u64::try_from(self.0.saturating_sub(other.0)).unwrap_or(0)
    }

    /// The midnight after it.
    pub(crate) fn end(self) -> Stamp {
        Stamp(self.0.saturating_add(1).saturating_mul(DAY_MILLIS))
    }

    /// Whether a text has the form of a day, as it is written here.
    pub(crate) fn is_written(text: &str) -> bool {
        let is_part = |(at, byte): (usize, u8)| if at == 4 || at == 7 { byte == b'-' } else { byte.is_ascii_digit() };
        text.len() == DAY_CHARS && text.bytes().enumerate().all(is_part)
    }
}

impl fmt::Display for Day {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let midnight = Stamp(self.0.saturating_mul(DAY_MILLIS)).to_string();
        formatter.write_str(&midnight[..DAY_CHARS])
    }
}

#[cfg(test)]
mod tests {
    use approvals::Stamp;

    use super::Day;

    #[test]
    fn a_day_is_written_as_the_store_keeps_it_and_ends_at_midnight() {
        let day = Day::of(Stamp(1_794_767_706_557));
        assert_eq!(day.to_string(), "2026-11-15");
        assert_eq!(day.end().to_string(), "2026-11-16T00:00:00.000Z");
        assert_eq!(day.back(15).to_string(), "2026-10-31");
        assert!(Day::is_written(&day.to_string()));
        for other in ["", "2026-11-1", "2026-11-015", "2026/11/15", "20261-1-15", "２026-11-1", "2026-11-15T"] {
            assert!(!Day::is_written(other), "{other}");
        }
    }
}
