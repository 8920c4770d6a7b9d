//! The time that retention goes by. A wall clock that jumps ahead must not delete anything: the trusted time follows it only as fast
//! as the server has watched time pass.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, Row};

/// How far the clock may be ahead of what was watched and still be believed: a server that was off overnight, or a suspended laptop.
const JUMP_MAX: Duration = Duration::from_hours(24);
/// How many times faster than real time the trusted time follows a clock that is further ahead. After a year without the server it
/// has caught up in about two weeks, and a clock that is wrong for an hour costs a day of retention at most.
const CATCH_UP_FACTOR: u32 = 24;
/// How long the wall clock must stay behind the remembered time before the store forgets that time: a clock that stays behind
/// is right, and the remembered time was wrong.
const SET_BACK_TIME: Duration = Duration::from_hours(6);
/// 2026-01-01. An earlier time is wrong however long it lasts, and never remembered: a machine without a battery starts in 1970.
const PLAUSIBLE_FROM_MS: i64 = 1_767_225_600_000;

/// What the clocks say: the wall clock, in unix milliseconds, and how long the same process has run since it last asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// The wall clock, in unix milliseconds.
    pub wall_ms: i64,
    /// The monotonic time since the last reading of this process; zero for its first.
    pub watched: Duration,
}

/// The trusted time, given the one that the store remembers. It is never ahead of the wall clock.
pub(crate) fn trusted_time(before: Option<i64>, reading: ClockReading) -> i64 {
    let ClockReading { wall_ms, watched } = reading;
    let Some(before) = before else { return wall_ms };
    let believed_until = before.saturating_add(ms(watched.saturating_add(JUMP_MAX)));
    if wall_ms <= believed_until {
        return wall_ms;
    }
    before.saturating_add(ms(watched.saturating_mul(CATCH_UP_FACTOR))).min(wall_ms)
}

/// What the store remembers of the clock, once that has told a time that can be right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ClockMemory {
    trusted_at: i64,
    /// How long the wall clock has been behind `trusted_at` without a break.
    behind_ms: i64,
}

impl ClockMemory {
    /// `trusted` is at most the wall clock, so it is behind and implausible whenever that is.
    fn after(before: Option<Self>, trusted: i64, watched: Duration) -> Option<Self> {
        if trusted < PLAUSIBLE_FROM_MS {
            return before.map(|before| Self { behind_ms: 0, ..before });
        }
        if let Some(Self { trusted_at, behind_ms }) = before.filter(|before| trusted < before.trusted_at) {
            let behind_ms = behind_ms.saturating_add(ms(watched));
            if behind_ms < ms(SET_BACK_TIME) {
                return Some(Self { trusted_at, behind_ms });
            }
        }
        Some(Self { trusted_at: trusted, behind_ms: 0 })
    }
}

/// Reads and writes the trusted time, on a connection that is inside a transaction.
pub(crate) fn observe(connection: &Connection, reading: ClockReading) -> rusqlite::Result<i64> {
    let read = |row: &Row<'_>| Ok(ClockMemory { trusted_at: row.get(0)?, behind_ms: row.get(1)? });
    let stored = connection.query_row("SELECT trusted_at, behind_ms FROM clock", [], read).optional()?;
    // Earlier versions remembered any time.
    let before = stored.filter(|stored| stored.trusted_at >= PLAUSIBLE_FROM_MS);
    let trusted = trusted_time(before.map(|before| before.trusted_at), reading);
    if let Some(ClockMemory { trusted_at, behind_ms }) = ClockMemory::after(before, trusted, reading.watched) {
        connection
            .execute("REPLACE INTO clock (id, trusted_at, behind_ms) VALUES (1, ?, ?)", [trusted_at, behind_ms])?;
    }
    Ok(trusted)
}

fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);
    const HOUR_MS: i64 = 60 * 60 * 1000;
    const DAY_MS: i64 = 24 * HOUR_MS;
    const START: i64 = 21_000 * DAY_MS;

    fn after(before: i64, wall_ms: i64, watched: Duration) -> i64 {
        trusted_time(Some(before), ClockReading { wall_ms, watched })
    }

    #[test]
    fn a_clock_that_runs_is_believed() {
        assert_eq!(trusted_time(None, ClockReading { wall_ms: START, watched: Duration::ZERO }), START);
        assert_eq!(after(START, START + HOUR_MS, HOUR), START + HOUR_MS);
        assert_eq!(after(START, START + DAY_MS, Duration::ZERO), START + DAY_MS, "a night without the server");
    }

    #[test]
    fn a_jump_ahead_counts_for_nothing_however_often_the_server_starts() {
        let ahead = START + 400 * DAY_MS;
        let mut trusted = START;
        for _ in 0..1_000 {
            trusted = after(trusted, ahead, Duration::ZERO);
        }
        assert_eq!(trusted, START);
        assert_eq!(after(trusted, START + HOUR_MS, Duration::ZERO), START + HOUR_MS, "the clock is right again");
    }

    #[test]
    fn a_clock_that_stays_ahead_is_followed_until_it_is_reached() {
        let (mut trusted, mut wall_ms, mut hours) = (START, START + 400 * DAY_MS, 0);
        while trusted < wall_ms {
            wall_ms += HOUR_MS;
            let next = after(trusted, wall_ms, HOUR);
            assert!(trusted < next && next <= wall_ms, "{trusted} {next} {wall_ms}");
            (trusted, hours) = (next, hours + 1);
        }
        assert_eq!(hours, 418, "about two weeks and a half");
    }

    #[test]
    fn a_clock_that_is_behind_for_a_while_is_followed_and_forgotten() {
        let connection = open_clock_table();
        let observed = |wall_ms, watched| observe(&connection, ClockReading { wall_ms, watched }).unwrap();
        assert_eq!(observed(START, Duration::ZERO), START);
        let behind = START - 10 * DAY_MS;
        for hour in 0..6 {
            assert_eq!(
                observed(behind + hour * HOUR_MS, HOUR.saturating_mul(u32::from(hour > 0))),
                behind + hour * HOUR_MS
            );
        }
        assert_eq!(observed(START + 6 * HOUR_MS, HOUR), START + 6 * HOUR_MS, "the correction is no jump");
        assert_eq!(observed(behind, 5 * HOUR), behind);
        assert_eq!(observed(START + 12 * HOUR_MS, HOUR), START + 12 * HOUR_MS, "the two times do not add up");
    }

    #[test]
    fn clock_without_a_battery_is_never_remembered() {
        let connection = open_clock_table();
        let observed = |wall_ms, watched| observe(&connection, ClockReading { wall_ms, watched }).unwrap();
        assert_eq!(observed(START, Duration::ZERO), START);
        for hour in 0..100 {
            assert_eq!(observed(hour * HOUR_MS, HOUR), hour * HOUR_MS);
        }
        assert_eq!(observed(START + 20 * HOUR_MS, HOUR), START + 20 * HOUR_MS, "the correction is no jump");
    }

    #[test]
    fn clock_without_a_battery_at_the_first_start_is_not_remembered() {
        let connection = open_clock_table();
        let observed = |wall_ms, watched| observe(&connection, ClockReading { wall_ms, watched }).unwrap();
        assert_eq!(observed(0, Duration::ZERO), 0);
        assert_eq!(observed(HOUR_MS, HOUR), HOUR_MS);
        assert_eq!(observed(START, HOUR), START, "the correction is no jump");
        assert_eq!(observed(START + 400 * DAY_MS, Duration::ZERO), START, "but this is one");
    }

    #[test]
    fn a_clock_that_was_ahead_at_first_protects_again_once_it_is_right() {
        let connection = open_clock_table();
        let observed = |wall_ms, watched| observe(&connection, ClockReading { wall_ms, watched }).unwrap();
        let ahead = START + 30_000 * DAY_MS;
        assert_eq!(observed(ahead, Duration::ZERO), ahead);
        for hour in 1..=6 {
            assert_eq!(observed(START + hour * HOUR_MS, HOUR), START + hour * HOUR_MS);
        }
        assert_eq!(observed(ahead, Duration::ZERO), START + 6 * HOUR_MS, "the second jump counts for nothing");
    }

    fn open_clock_table() -> Connection {
        let mut connection = Connection::open_in_memory().unwrap();
        crate::migrations::migrate(&mut connection).unwrap();
        connection
    }

    #[test]
    fn no_reading_overflows() {
        for before in [i64::MIN, 0, i64::MAX] {
            for wall_ms in [i64::MIN, 0, i64::MAX] {
                for watched in [Duration::ZERO, Duration::MAX] {
                    let trusted = after(before, wall_ms, watched);
                    assert!(trusted <= wall_ms);
                    let memory = ClockMemory { trusted_at: before, behind_ms: i64::MAX };
                    assert!(ClockMemory::after(Some(memory), trusted, watched).is_some_and(|after| {
                        after.trusted_at >= trusted || after == ClockMemory { behind_ms: 0, ..memory }
                    }));
                }
            }
        }
    }
}
