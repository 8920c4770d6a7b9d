//! Which struct is which table, column by column, and the sum that tells whether a row is still whole.
//! SQLite notices damage to its own structure but not to text, so every row carries a sum of its cells.

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Row, ToSql};

use crate::rows::{
    Approval, AuditEntry, DecisionLink, Key, KeyOrigin, ParkedCall, Response, Thread, ToolCall, ToolList,
};

/// A struct that is a row of a table.
pub(crate) trait Table: Sized {
    /// The table.
    const NAME: &'static str;
    /// The columns that name a row; empty where rows are only ever added.
    const KEY: &'static [&'static str];
    /// All columns but the sum.
    const COLUMNS: &'static [&'static str];

    /// The cells in the order of the columns.
    fn cells(&self) -> Vec<&dyn ToSql>;

    /// The struct of a row that was selected by [`select`].
    fn of_row(row: &Row<'_>) -> rusqlite::Result<Self>;
}

macro_rules! tables {
    ($($row:ident in $table:literal by [$($key:ident),*]: $($column:ident)+;)+) => {$(
        impl Table for $row {
            const NAME: &'static str = $table;
            const KEY: &'static [&'static str] = &[$(stringify!($key)),*];
            const COLUMNS: &'static [&'static str] = &[$(stringify!($column)),+];

            fn cells(&self) -> Vec<&dyn ToSql> {
                vec![$(&self.$column),+]
            }

            fn of_row(row: &Row<'_>) -> rusqlite::Result<Self> {
                Ok(Self { $($column: row.get(stringify!($column))?),+ })
            }
        }
    )+};
}

tables! {
    Approval in "approvals" by [id]:
        id group worker thread turn item request method kind key params shown_hash state verdict reason decided_by
        created_at deadline_at decided_at;
    AuditEntry in "audit" by []:
        approval at step by detail;
    DecisionLink in "decision_links" by [approval, verdict]:
        approval verdict hash shown_hash expires_at;
    ParkedCall in "parked_calls" by [id, key, thread]:
        id key group worker thread turn request namespace tool arguments state created_at deadline_at;
    Thread in "threads" by [id]:
        id owner group worker cwd key profile model last_turn last_turn_state history_hash unsaid created_at used_at
        archived;
    Response in "responses" by [id]:
        id key thread turn previous status body created_at expires_at;
    Key in "keys" by [id]:
        id name hash scopes profiles limits created_at last_used_at revoked_at;
    KeyOrigin in "key_origins" by [key]:
        key parent principal;
    ToolList in "tool_lists" by [server]:
        server hash version body at;
    ToolCall in "tool_audit" by []:
        id at key caller server tool took_ms request_bytes result_bytes outcome detail approval;
}

/// `SELECT` with all columns and then the sum, up to the name of the table.
pub(crate) fn select<T: Table>() -> String {
    format!("SELECT {}, sum FROM {}", quoted(T::COLUMNS), T::NAME)
}

/// The statement that puts a whole row, the sum last; a row of the same key is replaced in place.
pub(crate) fn upsert<T: Table>() -> String {
    let (table, columns) = (T::NAME, quoted(T::COLUMNS));
    let marks = "?, ".repeat(T::COLUMNS.len());
    let insert = format!("INSERT INTO {table} ({columns}, sum) VALUES ({marks}?)");
    if T::KEY.is_empty() {
        return insert;
    }
    let others = T::COLUMNS.iter().chain(&["sum"]).filter(|column| !T::KEY.contains(column));
    let updates: Vec<_> = others.map(|column| format!("\"{column}\" = excluded.\"{column}\"")).collect();
    format!("{insert} ON CONFLICT ({}) DO UPDATE SET {}", quoted(T::KEY), updates.join(", "))
}

/// The sum of a row to be written.
pub(crate) fn sum_of(cells: &[&dyn ToSql]) -> rusqlite::Result<i64> {
    let mut sum = Sum::new();
    for cell in cells {
        match cell.to_sql()? {
            ToSqlOutput::Borrowed(value) => sum.add(value),
            ToSqlOutput::Owned(value) => sum.add((&value).into()),
            _ => unreachable!("no cell of ours is a blob in parts or a pointer"),
        }
    }
    Ok(sum.end())
}

/// Whether a row that was read has the sum that it was written with.
pub(crate) fn is_whole<T: Table>(row: &Row<'_>) -> rusqlite::Result<bool> {
    let mut sum = Sum::new();
    for column in 0..T::COLUMNS.len() {
        sum.add(row.get_ref(column)?);
    }
    Ok(matches!(row.get_ref(T::COLUMNS.len())?, ValueRef::Integer(written) if written == sum.end()))
}

fn quoted(columns: &[&str]) -> String {
    columns.iter().map(|column| format!("\"{column}\"")).collect::<Vec<_>>().join(", ")
}

/// FNV-1a with 64 bits: against damage, not against malice.
struct Sum(u64);

impl Sum {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Kind and length go in too, so that bytes cannot wander from one cell into the next unnoticed.
    fn add(&mut self, value: ValueRef<'_>) {
        match value {
            ValueRef::Null => self.bytes(b"n"),
            ValueRef::Integer(integer) => {
                self.bytes(b"i");
                self.bytes(&integer.to_le_bytes());
            }
            ValueRef::Real(real) => {
                self.bytes(b"r");
                self.bytes(&real.to_le_bytes());
            }
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
                self.bytes(b"t");
                self.bytes(&bytes.len().to_le_bytes());
                self.bytes(bytes);
            }
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn end(&self) -> i64 {
        self.0.cast_signed()
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn statements_name_every_column() {
        expect![[r#"
            INSERT INTO parked_calls ("id", "key", "group", "worker", "thread", "turn", "request", "namespace", "tool", "arguments", "state", "created_at", "deadline_at", sum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT ("id", "key", "thread") DO UPDATE SET "group" = excluded."group", "worker" = excluded."worker", "turn" = excluded."turn", "request" = excluded."request", "namespace" = excluded."namespace", "tool" = excluded."tool", "arguments" = excluded."arguments", "state" = excluded."state", "created_at" = excluded."created_at", "deadline_at" = excluded."deadline_at", "sum" = excluded."sum"
            INSERT INTO audit ("approval", "at", "step", "by", "detail", sum) VALUES (?, ?, ?, ?, ?, ?)
            SELECT "approval", "at", "step", "by", "detail", sum FROM audit"#]]
        .assert_eq(&[upsert::<ParkedCall>(), upsert::<AuditEntry>(), select::<AuditEntry>()].join("\n"));
    }

    #[test]
    fn bytes_that_wander_between_cells_change_the_sum() {
        let sum = |cells: &[&dyn ToSql]| sum_of(cells).unwrap();
        assert_ne!(sum(&[&"ab", &"c"]), sum(&[&"a", &"bc"]));
        assert_ne!(sum(&[&None::<String>, &"a"]), sum(&[&"a", &None::<String>]));
        assert_ne!(sum(&[&"1"]), sum(&[&1]));
    }
}
