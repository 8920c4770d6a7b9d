//! Wall time: unix milliseconds inside, RFC 3339 in UTC where it is shown.

use std::time::{SystemTime, UNIX_EPOCH};

/// Unix milliseconds now.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// `2026-01-31T23:59:59.001Z`
pub(crate) fn rfc3339(unix_ms: i64) -> String {
    const DAY_MS: i64 = 86_400_000;
    let (days, ms) = (unix_ms.div_euclid(DAY_MS), unix_ms.rem_euclid(DAY_MS));
    let (year, month, day) = date(days);
    let (hour, minute, second, ms) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60, ms % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// The date of a day counted from 1970-01-01. Years are counted from March, so that a leap day is the last of its year.
fn date(days: i64) -> (i64, i64, i64) {
    const ERA_DAYS: i64 = 146_097;
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(ERA_DAYS), days.rem_euclid(ERA_DAYS));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::rfc3339;

    #[test]
    fn leap_days_and_turns_of_the_year_are_right() {
        for (unix_ms, shown) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (1_735_689_599_000, "2024-12-31T23:59:59.000Z"),
            (1_772_323_200_001, "2026-03-01T00:00:00.001Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(unix_ms), shown);
        }
    }
}
