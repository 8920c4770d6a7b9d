//! The two clocks a worker is told: one to pace by, one to stamp with. It reads neither itself.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The present, passed in by whoever runs the worker.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// Paces what is played.
    pub instant: Instant,
    /// Stamps what is said, in milliseconds since 1970.
    pub unix_ms: u64,
}

impl Now {
    /// Reads both clocks.
    pub fn read() -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { instant: Instant::now(), unix_ms: u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX) }
    }

    pub(crate) fn unix_seconds(self) -> u64 {
        self.unix_ms / 1000
    }
}

/// A moment in UTC, split into what file names and cursors are made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Utc {
    pub(crate) year: i64,
    pub(crate) month: i64,
    pub(crate) day: i64,
    seconds_of_day: i64,
    milliseconds: u64,
}

impl Utc {
    pub(crate) fn from_unix_ms(unix_ms: u64) -> Self {
        let seconds = i64::try_from(unix_ms / 1000).unwrap_or(i64::MAX);
        let (year, month, day) = civil_date(seconds.div_euclid(86_400));
        Self { year, month, day, seconds_of_day: seconds.rem_euclid(86_400), milliseconds: unix_ms % 1000 }
    }

    /// `2026-11-15T18:28:00.722Z`.
    pub(crate) fn rfc3339(self) -> String {
        let (date, (hour, minute, second)) = (self.date(), self.time());
        format!("{date}T{hour:02}:{minute:02}:{second:02}.{:03}Z", self.milliseconds)
    }

    /// `2026-11-15T18-28-00`, as it stands in the names of thread files.
    pub(crate) fn file_stamp(self) -> String {
        let (date, (hour, minute, second)) = (self.date(), self.time());
        format!("{date}T{hour:02}-{minute:02}-{second:02}")
    }

    fn date(self) -> String {
        format!("{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }

    fn time(self) -> (i64, i64, i64) {
        (self.seconds_of_day / 3600, self.seconds_of_day / 60 % 60, self.seconds_of_day % 60)
    }
}

/// Howard Hinnant's `civil_from_days`: the Gregorian date of a day counted from 1970-01-01.
fn civil_date(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::Utc;

    #[test]
    fn leap_days_and_year_ends_are_right() {
        let stamp = |unix_ms| Utc::from_unix_ms(unix_ms).rfc3339();
        assert_eq!(stamp(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(stamp(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(stamp(1_794_767_280_722), "2026-11-15T18:28:00.722Z");
        assert_eq!(stamp(1_798_761_599_999), "2026-12-31T23:59:59.999Z");
    }
}
