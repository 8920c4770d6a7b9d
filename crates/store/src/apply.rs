//! One change as SQL, on a connection that is inside a transaction.

use rusqlite::{Connection, ToSql, params};

use crate::change::Change;
use crate::rows::{Response, UsageAdded};
use crate::table::{self, Table};

pub(crate) fn apply(connection: &Connection, change: &Change) -> rusqlite::Result<()> {
    match change {
        Change::Approval(row) => put(connection, row),
        Change::Audit(row) => put(connection, row),
        Change::DecisionLink(row) => put(connection, row),
        Change::ParkedCall(row) => put(connection, row),
        Change::Thread(row) => put(connection, row),
        Change::Response(row) => put(connection, row),
        Change::ResponseIfStill { status, row } => match is_still(connection, row, status)? {
            true => put(connection, row),
            false => Ok(()),
        },
        Change::Key(row) => put(connection, row),
        Change::KeyOrigin(row) => put(connection, row),
        Change::Usage(added) => add(connection, added),
        Change::ParkedCallDone { id, key, thread } => {
            let sql = "DELETE FROM parked_calls WHERE id = ? AND key = ? AND thread = ?";
            connection.execute(sql, params![id, key, thread]).map(drop)
        }
        Change::ThreadGone { id } => connection.execute("DELETE FROM threads WHERE id = ?", [id]).map(drop),
        Change::ResponseGone { id } => connection.execute("DELETE FROM responses WHERE id = ?", [id]).map(drop),
        Change::ToolList(row) => put(connection, row),
        Change::ToolListGone { server } => {
            connection.execute("DELETE FROM tool_lists WHERE server = ?", [server]).map(drop)
        }
        Change::ToolCall(row) => put(connection, row),
    }
}

fn is_still(connection: &Connection, row: &Response, status: &str) -> rusqlite::Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM responses WHERE id = ? AND key = ? AND status = ?)";
    connection.prepare_cached(sql)?.query_one(params![row.id, row.key, status], |found| found.get(0))
}

fn put<T: Table>(connection: &Connection, row: &T) -> rusqlite::Result<()> {
    let mut cells = row.cells();
    let sum = table::sum_of(&cells)?;
    cells.push(&sum as &dyn ToSql);
    // To parse such a statement costs more than to carry it out.
    connection.prepare_cached(&table::upsert::<T>())?.execute(cells.as_slice()).map(drop)
}

fn add(connection: &Connection, added: &UsageAdded) -> rusqlite::Result<()> {
    let sql = "INSERT INTO usage (key, thread, day, input, cached, output, reasoning, turns, estimated)
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
               ON CONFLICT (key, thread, day) DO UPDATE SET
                   input = input + excluded.input, cached = cached + excluded.cached,
                   output = output + excluded.output, reasoning = reasoning + excluded.reasoning,
                   turns = turns + excluded.turns, estimated = estimated + excluded.estimated";
    let UsageAdded { key, thread, day, input, cached, output, reasoning, turns, estimated } = added;
    let mut statement = connection.prepare_cached(sql)?;
    statement.execute(params![key, thread, day, input, cached, output, reasoning, turns, estimated]).map(drop)
}
