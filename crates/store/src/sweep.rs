//! Retention: what is old or too many is removed, oldest first, in slices that let commits pass between them.
//! Only what has ended is ever removed, never what someone may still decide.

use std::time::Duration;

use rusqlite::Connection;

/// How much is kept of what only grows.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// Approvals that have ended.
    pub approvals: Keep,
    /// Entries of the audit.
    pub audit: Keep,
    /// Responses; those that have expired go in any case.
    pub responses: Keep,
    /// How much the records of responses may have together; beyond, the oldest go.
    pub responses_bytes_max: usize,
    /// Parked calls that have ended.
    pub parked_calls: Keep,
    /// Days of usage.
    pub usage: Keep,
    /// Calls of tool servers' tools.
    pub tool_audit: Keep,
    /// Threads, by their last use; never one with a turn that runs or waits, or with a response that can be continued.
    pub threads: Keep,
}

/// How much is kept of one table.
#[derive(Clone, Copy, Debug)]
pub struct Keep {
    /// What is older goes.
    pub age_max: Duration,
    /// Of the rest, so many of the newest stay.
    pub rows_max: u32,
}

impl Default for Retention {
    fn default() -> Self {
        let day = Duration::from_hours(24);
        Self {
            approvals: Keep { age_max: 90 * day, rows_max: 100_000 },
            audit: Keep { age_max: 365 * day, rows_max: 1_000_000 },
            responses: Keep { age_max: 30 * day, rows_max: 100_000 },
            responses_bytes_max: 4 << 30,
            parked_calls: Keep { age_max: 30 * day, rows_max: 100_000 },
            usage: Keep { age_max: 366 * day, rows_max: 1_000_000 },
            tool_audit: Keep { age_max: 90 * day, rows_max: 1_000_000 },
            // Three times as long as workers keep them at hand.
            threads: Keep { age_max: 90 * day, rows_max: 100_000 },
        }
    }
}

/// How many rows a sweep removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Approvals.
    pub approvals: u64,
    /// Entries of the audit.
    pub audit: u64,
    /// Responses.
    pub responses: u64,
    /// Parked calls.
    pub parked_calls: u64,
    /// Days of usage, each of one key and thread.
    pub usage: u64,
    /// Calls of tool servers' tools.
    pub tool_audit: u64,
    /// Threads.
    pub threads: u64,
}

/// A part of a sweep that is one transaction at most.
#[derive(Clone, Copy)]
pub(crate) struct Slice {
    pub(crate) shelf: Shelf,
    pub(crate) keep: Keep,
    pub(crate) now: i64,
    pub(crate) rows_max: usize,
}

#[derive(Clone, Copy)]
pub(crate) enum Shelf {
    Approvals,
    Audit,
    Responses { bytes_max: usize },
    ParkedCalls,
    Usage,
    ToolAudit,
    Threads,
}

/// A thread that nothing continues: it has no turn that runs, no call or approval that waits, and no stored response.
const IS_THREAD_UNNEEDED: &str = "last_turn_state IS NOT 'running'
    AND NOT EXISTS (SELECT 1 FROM parked_calls WHERE parked_calls.thread = threads.id AND state = 'waiting')
    AND NOT EXISTS (SELECT 1 FROM approvals WHERE approvals.thread = threads.id AND state = 'pending')
    AND NOT EXISTS (SELECT 1 FROM responses WHERE responses.thread = threads.id)";

/// Removes one slice and says how many rows it had; fewer than its most means that nothing is left to remove.
pub(crate) fn remove(connection: &Connection, slice: &Slice) -> rusqlite::Result<u64> {
    let Slice { shelf, keep, now, rows_max } = *slice;
    let oldest = now.saturating_sub(i64::try_from(keep.age_max.as_millis()).unwrap_or(i64::MAX));
    let (table, row, time, ended) = match shelf {
        Shelf::Approvals => ("approvals", "rowid", "created_at", "state <> 'pending'"),
        Shelf::Audit => ("audit", "rowid", "at", "true"),
        Shelf::Responses { .. } => ("responses", "rowid", "created_at", "true"),
        Shelf::ParkedCalls => ("parked_calls", "rowid", "created_at", "state <> 'waiting'"),
        Shelf::Usage => ("usage", "key, thread, day", "day", "true"),
        Shelf::ToolAudit => ("tool_audit", "rowid", "at", "true"),
        Shelf::Threads => ("threads", "rowid", "used_at", IS_THREAD_UNNEEDED),
    };
    let old = match shelf {
        Shelf::Responses { .. } => format!("(created_at < {oldest} OR expires_at <= {now})"),
        Shelf::Usage => format!("day < date({oldest} / 1000, 'unixepoch')"),
        _ => format!("{time} < {oldest}"),
    };
    let delete = format!("DELETE FROM {table} WHERE ({row}) IN (SELECT {row} FROM {table} WHERE {ended}");
    let removed = connection.execute(&format!("{delete} AND {old} LIMIT {rows_max})"), [])?;
    let surplus = format!("(SELECT count(*) FROM {table} WHERE {ended}) - {}", keep.rows_max);
    let room = rows_max.saturating_sub(removed);
    let surplus = format!("{delete} ORDER BY {time} LIMIT max(0, min({room}, {surplus})))");
    let removed = removed + connection.execute(&surplus, [])?;
    let room = rows_max.saturating_sub(removed);
    let too_long = match shelf {
        Shelf::Responses { bytes_max } => remove_too_long(connection, bytes_max, room)?,
        _ => 0,
    };
    Ok((removed + too_long) as u64)
}

/// The oldest responses beyond what they may have together.
fn remove_too_long(connection: &Connection, bytes_max: usize, rows_max: usize) -> rusqlite::Result<usize> {
    let sums = "SELECT rowid, created_at, sum(octet_length(body)) OVER (ORDER BY created_at DESC, rowid DESC) AS bytes FROM responses";
    let surplus = format!("SELECT rowid FROM ({sums}) WHERE bytes > ?1 ORDER BY created_at, rowid LIMIT ?2");
    let bytes_max = i64::try_from(bytes_max).unwrap_or(i64::MAX);
    let rows_max = i64::try_from(rows_max).unwrap_or(i64::MAX);
    connection.execute(&format!("DELETE FROM responses WHERE rowid IN ({surplus})"), [bytes_max, rows_max])
}
