//! The questions that can be asked: each row that comes back is whole, or the answer is an error.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, Row, params_from_iter};

use crate::error::ReadError;
use crate::rows::{
    Approval, AuditEntry, DecisionLink, Key, KeyOrigin, ParkedCall, Response, Thread, ToolCall, ToolList, UsageAdded,
};
use crate::table::{self, Table};
use crate::words::{ApprovalState, ParkedCallState, ToolCallOutcome, TurnState};

/// One state of the store: all that is asked of one reader fits together.
pub struct Reader {
    connection: Connection,
}

/// Which approvals; what is `None` does not matter.
#[derive(Clone, Debug, Default)]
pub struct ApprovalFilter {
    /// In this state.
    pub state: Option<ApprovalState>,
    /// Of this worker group.
    pub group: Option<String>,
    /// Of this worker.
    pub worker: Option<String>,
    /// Of this thread.
    pub thread: Option<String>,
    /// Of this key's callers.
    pub key: Option<String>,
    /// With a smaller id, that is, older than this one: the last of the page before.
    pub before: Option<String>,
    /// With a larger id, that is, newer than this one: the last of the page before, if the oldest come first.
    pub after: Option<String>,
    /// Which come first.
    pub order: ListOrder,
    /// So many at most; `None` is all.
    pub rows_max: Option<u32>,
}

/// What is known of a response before its body is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseSummary {
    /// The response before it.
    pub previous: Option<String>,
    /// The turn that made it.
    pub turn: String,
    /// As in the row.
    pub status: String,
    /// The length of its body.
    pub body_bytes: usize,
}

/// In which order rows come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListOrder {
    /// The newest first.
    #[default]
    NewestFirst,
    /// The oldest first.
    OldestFirst,
}

/// Which parked calls; what is `None` does not matter.
#[derive(Clone, Debug, Default)]
pub struct ParkedCallFilter {
    /// With this id.
    pub id: Option<String>,
    /// Of this key's callers.
    pub key: Option<String>,
    /// Of this thread.
    pub thread: Option<String>,
    /// Of this worker group.
    pub group: Option<String>,
    /// Of this worker.
    pub worker: Option<String>,
    /// In this state.
    pub state: Option<ParkedCallState>,
}

/// Which threads; what is `None` does not matter.
#[derive(Clone, Debug, Default)]
pub struct ThreadFilter {
    /// Of this key's callers.
    pub key: Option<String>,
    /// Of this worker group.
    pub group: Option<String>,
    /// Last had by this worker.
    pub worker: Option<String>,
    /// Whose last turn is in this state.
    pub last_turn_state: Option<TurnState>,
    /// With this history.
    pub history_hash: Option<String>,
    /// Put away, or not.
    pub archived: Option<bool>,
    /// Last used before this time.
    pub used_before: Option<i64>,
    /// With a smaller id, that is, older than this one: the last of the page before.
    pub before: Option<String>,
    /// So many at most; `None` is all.
    pub rows_max: Option<u32>,
}

/// Which usage; what is `None` does not matter.
#[derive(Clone, Debug, Default)]
pub struct UsageFilter {
    /// Of this key.
    pub key: Option<String>,
    /// Of this thread.
    pub thread: Option<String>,
    /// On this day or later.
    pub from_day: Option<String>,
    /// On this day or earlier.
    pub to_day: Option<String>,
}

/// Which calls of tools; what is `None` does not matter.
#[derive(Clone, Debug, Default)]
pub struct ToolCallFilter {
    /// Of this tool server.
    pub server: Option<String>,
    /// Of this tool, by the name that its server has for it.
    pub tool: Option<String>,
    /// Of this key's callers.
    pub key: Option<String>,
    /// That ended so.
    pub outcome: Option<ToolCallOutcome>,
    /// With a smaller id, that is, older than this one: the last of the page before.
    pub before: Option<String>,
    /// So many at most; `None` is all.
    pub rows_max: Option<u32>,
}

impl Reader {
    pub(crate) fn new(connection: Connection) -> Self {
        Self { connection }
    }

    /// Lets someone ask within one transaction.
    pub(crate) fn ask<T>(&self, ask: impl FnOnce(&Self) -> Result<T, ReadError>) -> Result<T, ReadError> {
        let snapshot = self.connection.unchecked_transaction()?;
        let answer = ask(self);
        snapshot.finish()?;
        answer
    }

    /// Approvals, the newest first unless the filter says otherwise.
    pub fn approvals(&self, filter: &ApprovalFilter) -> Result<Vec<Approval>, ReadError> {
        let mut query = approvals_query(filter);
        query.when("id < ?", filter.before.clone());
        query.when("id > ?", filter.after.clone());
        let order = match filter.order {
            ListOrder::NewestFirst => "ORDER BY id DESC LIMIT ?",
            ListOrder::OldestFirst => "ORDER BY id LIMIT ?",
        };
        self.rows(&query.then(order, limit(filter.rows_max)))
    }

    /// How many approvals there are on all pages.
    pub fn approvals_count(&self, filter: &ApprovalFilter) -> Result<u32, ReadError> {
        let query = approvals_query(filter);
        let mut statement = self.connection.prepare(&format!("SELECT count(*) FROM approvals{}", query.sql))?;
        Ok(statement.query_row(params_from_iter(&query.values), |row| row.get(0))?)
    }

    /// The decision link whose token has this hash.
    pub fn decision_link(&self, hash: &str) -> Result<Option<DecisionLink>, ReadError> {
        self.row(Query::default().and("hash = ?", hash))
    }

    /// The approval with the id.
    pub fn approval(&self, id: &str) -> Result<Option<Approval>, ReadError> {
        self.row(Query::default().and("id = ?", id))
    }

    /// The steps of an approval, in their order.
    pub fn audit(&self, approval: &str) -> Result<Vec<AuditEntry>, ReadError> {
        self.rows(&Query::default().and("approval = ?", approval).then("ORDER BY number LIMIT ?", limit(None)))
    }

    /// Parked calls, the oldest first.
    pub fn parked_calls(&self, filter: &ParkedCallFilter) -> Result<Vec<ParkedCall>, ReadError> {
        let ParkedCallFilter { id, key, thread, group, worker, state } = filter;
        let mut query = Query::default();
        query.when("id = ?", id.clone());
        query.when("key = ?", key.clone());
        query.when("thread = ?", thread.clone());
        query.when("\"group\" = ?", group.clone());
        query.when("worker = ?", worker.clone());
        query.when("state = ?", state.map(|state| state.as_str().to_owned()));
        self.rows(&query.then("ORDER BY created_at, id LIMIT ?", limit(None)))
    }

    /// Threads, the newest first.
    pub fn threads(&self, filter: &ThreadFilter) -> Result<Vec<Thread>, ReadError> {
        let ThreadFilter { key, group, worker, last_turn_state, history_hash, archived, used_before, before, rows_max } =
            filter;
        let mut query = Query::default();
        query.when("key = ?", key.clone());
        query.when("\"group\" = ?", group.clone());
        query.when("worker = ?", worker.clone());
        query.when("last_turn_state = ?", last_turn_state.map(|state| state.as_str().to_owned()));
        query.when("history_hash = ?", history_hash.clone());
        query.when("archived = ?", *archived);
        query.when("used_at < ?", *used_before);
        query.when("id < ?", before.clone());
        self.rows(&query.then("ORDER BY id DESC LIMIT ?", limit(*rows_max)))
    }

    /// Threads with a history that are not put away, the last used first.
    pub fn threads_with_history(&self, rows_max: u32) -> Result<Vec<Thread>, ReadError> {
        let mut query = Query::default();
        query.when("history_hash IS NOT NULL AND archived = ?", Some(false));
        self.rows(&query.then("ORDER BY used_at DESC LIMIT ?", limit(Some(rows_max))))
    }

    /// The thread with the id.
    pub fn thread(&self, id: &str) -> Result<Option<Thread>, ReadError> {
        self.row(Query::default().and("id = ?", id))
    }

    /// The response with the id, if it belongs to the key.
    pub fn response(&self, id: &str, key: &str) -> Result<Option<Response>, ReadError> {
        self.row(Query::default().and("id = ?", id).and("key = ?", key))
    }

    /// What is known of the response with the id before its body is read, if it belongs to the key.
    pub fn response_summary(&self, id: &str, key: &str) -> Result<Option<ResponseSummary>, ReadError> {
        let sql = "SELECT previous, turn, status, octet_length(body) FROM responses WHERE id = ? AND key = ?";
        let mut statement = self.connection.prepare_cached(sql)?;
        let read = |row: &Row<'_>| {
            let body_bytes = row.get::<_, u32>(3)? as usize;
            Ok(ResponseSummary { previous: row.get(0)?, turn: row.get(1)?, status: row.get(2)?, body_bytes })
        };
        Ok(statement.query_row([id, key], read).optional()?)
    }

    /// All responses in this state, the oldest first.
    pub fn responses_in(&self, status: &str) -> Result<Vec<Response>, ReadError> {
        self.rows(&Query::default().and("status = ?", status).then("ORDER BY created_at, id LIMIT ?", limit(None)))
    }

    /// Whether another response of the key went on from this one.
    pub fn is_gone_on_from(&self, response: &str, key: &str) -> Result<bool, ReadError> {
        let mut statement =
            self.connection.prepare("SELECT EXISTS (SELECT 1 FROM responses WHERE previous = ? AND key = ?)")?;
        Ok(statement.query_row([response, key], |row| row.get(0))?)
    }

    /// All keys, revoked ones too, the oldest first.
    pub fn keys(&self) -> Result<Vec<Key>, ReadError> {
        self.rows(&Query::default().then("ORDER BY created_at, id LIMIT ?", limit(None)))
    }

    /// The key with the id, revoked or not.
    pub fn key(&self, id: &str) -> Result<Option<Key>, ReadError> {
        self.row(Query::default().and("id = ?", id))
    }

    /// Which key created which, revoked ones too; keys of before this was recorded are missing.
    pub fn key_origins(&self) -> Result<Vec<KeyOrigin>, ReadError> {
        self.rows(&Query::default().then("ORDER BY key LIMIT ?", limit(None)))
    }

    /// Usage by day, key and thread.
    pub fn usage(&self, filter: &UsageFilter) -> Result<Vec<UsageAdded>, ReadError> {
        let query = usage_query(filter).then("ORDER BY day, key, thread LIMIT ?", limit(None));
        self.usage_rows(
            "SELECT key, thread, day, input, cached, output, reasoning, turns, estimated FROM usage",
            &query,
        )
    }

    /// Usage by day and key, the newest day first; of no one thread.
    pub fn usage_of_days(&self, filter: &UsageFilter, rows_max: u32) -> Result<Vec<UsageAdded>, ReadError> {
        // A sum that is too large is an error of SQLite's; a total is not, and is exact as far as anybody counts tokens.
        let sum = |column: &str| format!("CAST(total({column}) AS INTEGER) AS {column}");
        let sums = ["input", "cached", "output", "reasoning", "turns", "estimated"].map(sum).join(", ");
        let query = usage_query(filter).then("GROUP BY day, key ORDER BY day DESC, key LIMIT ?", rows_max.into());
        self.usage_rows(&format!("SELECT key, '' AS thread, day, {sums} FROM usage"), &query)
    }

    /// What the tool server offered last.
    pub fn tool_list(&self, server: &str) -> Result<Option<ToolList>, ReadError> {
        self.row(Query::default().and("server = ?", server))
    }

    /// Calls of tools, the newest first.
    pub fn tool_calls(&self, filter: &ToolCallFilter) -> Result<Vec<ToolCall>, ReadError> {
        let ToolCallFilter { server, tool, key, outcome, before, rows_max } = filter;
        let mut query = Query::default();
        query.when("server = ?", server.clone());
        query.when("tool = ?", tool.clone());
        query.when("key = ?", key.clone());
        query.when("outcome = ?", outcome.map(|outcome| outcome.as_str().to_owned()));
        query.when("id < ?", before.clone());
        self.rows(&query.then("ORDER BY id DESC LIMIT ?", limit(*rows_max)))
    }

    fn usage_rows(&self, select: &str, query: &Query) -> Result<Vec<UsageAdded>, ReadError> {
        let mut statement = self.connection.prepare(&(select.to_owned() + &query.sql))?;
        let rows = statement.query_map(params_from_iter(&query.values), usage_of)?;
        rows.map(|row| Ok(row?)).collect()
    }

    fn row<T: Table>(&self, query: Query) -> Result<Option<T>, ReadError> {
        Ok(self.rows(&query.then("LIMIT ?", 1))?.pop())
    }

    fn rows<T: Table>(&self, query: &Query) -> Result<Vec<T>, ReadError> {
        let mut statement = self.connection.prepare(&(table::select::<T>() + &query.sql))?;
        let mut rows = statement.query(params_from_iter(&query.values))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(whole(row)?);
        }
        Ok(found)
    }

    /// Reads every row of a table, for the sake of what may be wrong with it.
    pub(crate) fn check<T: Table>(&self) -> Result<(), ReadError> {
        let mut statement = self.connection.prepare(&table::select::<T>())?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            whole::<T>(row)?;
        }
        Ok(())
    }
}

fn whole<T: Table>(row: &Row<'_>) -> Result<T, ReadError> {
    if !table::is_whole::<T>(row)? {
        return Err(ReadError::Damaged { table: T::NAME });
    }
    Ok(T::of_row(row)?)
}

/// Which approvals, whatever the page.
fn approvals_query(filter: &ApprovalFilter) -> Query {
    let ApprovalFilter { state, group, worker, thread, key, .. } = filter;
    let mut query = Query::default();
    query.when("state = ?", state.map(|state| state.as_str().to_owned()));
    query.when("\"group\" = ?", group.clone());
    query.when("worker = ?", worker.clone());
    query.when("thread = ?", thread.clone());
    query.when("key = ?", key.clone());
    query
}

fn usage_query(filter: &UsageFilter) -> Query {
    let UsageFilter { key, thread, from_day, to_day } = filter;
    let mut query = Query::default();
    query.when("key = ?", key.clone());
    query.when("thread = ?", thread.clone());
    query.when("day >= ?", from_day.clone());
    query.when("day <= ?", to_day.clone());
    query
}

fn usage_of(row: &Row<'_>) -> rusqlite::Result<UsageAdded> {
    Ok(UsageAdded {
        key: row.get("key")?,
        thread: row.get("thread")?,
        day: row.get("day")?,
        input: row.get("input")?,
        cached: row.get("cached")?,
        output: row.get("output")?,
        reasoning: row.get("reasoning")?,
        turns: row.get("turns")?,
        estimated: row.get("estimated")?,
    })
}

/// SQLite takes a negative limit for none.
fn limit(rows_max: Option<u32>) -> i64 {
    rows_max.map_or(-1, i64::from)
}

/// What follows the name of the table, and the values for its marks.
#[derive(Default)]
struct Query {
    sql: String,
    values: Vec<Value>,
}

impl Query {
    fn when(&mut self, condition: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            let word = if self.sql.is_empty() { " WHERE " } else { " AND " };
            self.sql.extend([word, condition]);
            self.values.push(value.into());
        }
    }

    fn and(mut self, condition: &str, value: &str) -> Self {
        self.when(condition, Some(value.to_owned()));
        self
    }

    fn then(mut self, rest: &str, value: i64) -> Self {
        self.sql.extend([" ", rest]);
        self.values.push(value.into());
        self
    }
}
