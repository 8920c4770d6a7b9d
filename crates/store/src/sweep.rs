//! Retention: what is old or too many is removed, oldest first, in slices that let commits pass between them.
//! Only what has ended is ever removed, never what someone may still decide.

use std::time::Duration;

use rusqlite::{Connection, params};

/// How much is kept of what only grows.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// Approvals that have ended.
    pub approvals: Keep,
    /// Entries of the audit.
    pub audit: Keep,
    /// Responses; those that have expired go in any case.
    pub responses: Keep,
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
    Responses,
}

/// Removes one slice and says how many rows it had; fewer than its most means that nothing is left to remove.
pub(crate) fn remove(connection: &Connection, slice: &Slice) -> rusqlite::Result<u64> {
    let sql = match slice.shelf {
        Shelf::Approvals => {
            "DELETE FROM approvals WHERE rowid IN (
                SELECT rowid FROM approvals WHERE state <> 'pending' AND created_at < ?1
                UNION SELECT * FROM (
                    SELECT rowid FROM approvals WHERE state <> 'pending' ORDER BY created_at DESC LIMIT -1 OFFSET ?3)
                LIMIT ?4) AND ?2 = ?2"
        }
        Shelf::Audit => {
            "DELETE FROM audit WHERE number IN (
                SELECT number FROM audit WHERE at < ?1
                UNION SELECT * FROM (SELECT number FROM audit ORDER BY at DESC LIMIT -1 OFFSET ?3)
                LIMIT ?4) AND ?2 = ?2"
        }
        Shelf::Responses => {
            "DELETE FROM responses WHERE rowid IN (
                SELECT rowid FROM responses WHERE created_at < ?1
                UNION SELECT rowid FROM responses WHERE expires_at <= ?2
                UNION SELECT * FROM (SELECT rowid FROM responses ORDER BY created_at DESC LIMIT -1 OFFSET ?3)
                LIMIT ?4)"
        }
    };
    let age_ms = i64::try_from(slice.keep.age_max.as_millis()).unwrap_or(i64::MAX);
    let oldest = slice.now.saturating_sub(age_ms);
    let rows_max = i64::try_from(slice.rows_max).unwrap_or(i64::MAX);
    let removed = connection.execute(sql, params![oldest, slice.now, slice.keep.rows_max, rows_max])?;
    Ok(removed as u64)
}
