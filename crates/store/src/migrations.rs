//! The numbered steps that lead from an empty file to today's tables, each in a transaction with its own number.
//! A step that was released is never edited: a change of the tables is one more file.

use rusqlite::Connection;

/// Written into every file of ours, so that another program's is recognised: "SwBd".
pub(crate) const APPLICATION_ID: i32 = 0x5377_4264;

const STEPS: &[&str] = &[
    include_str!("migrations/0001.sql"),
    include_str!("migrations/0002.sql"),
    include_str!("migrations/0003.sql"),
    include_str!("migrations/0004.sql"),
    include_str!("migrations/0005.sql"),
    include_str!("migrations/0006.sql"),
    include_str!("migrations/0007.sql"),
];

/// The version of a file with all steps done.
pub(crate) fn latest() -> u32 {
    u32::try_from(STEPS.len()).unwrap_or(u32::MAX)
}

pub(crate) fn version(connection: &Connection) -> rusqlite::Result<u32> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Does the steps that the file lacks.
pub(crate) fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    migrate_with(connection, STEPS)
}

fn migrate_with(connection: &mut Connection, steps: &[&str]) -> rusqlite::Result<()> {
    for (number, step) in (1_u32..).zip(steps) {
        let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        // Asked inside the transaction: another process may have done the step meanwhile.
        if version(&transaction)? < number {
            transaction.execute_batch(step)?;
            transaction.pragma_update(None, "user_version", number)?;
            transaction.commit()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_done_once_and_one_that_fails_leaves_no_trace() {
        let mut connection = Connection::open_in_memory().unwrap();
        let first = "CREATE TABLE a (x)";
        migrate_with(&mut connection, &[first]).unwrap();
        migrate_with(&mut connection, &[first]).unwrap();
        assert_eq!(version(&connection).unwrap(), 1);

        migrate_with(&mut connection, &[first, "CREATE TABLE b (x); CREATE TABLE a (x)"]).unwrap_err();
        let tables: u32 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).unwrap();
        assert_eq!((version(&connection).unwrap(), tables), (1, 1));

        migrate_with(&mut connection, &[first, "CREATE TABLE b (x)"]).unwrap();
        assert_eq!(version(&connection).unwrap(), 2);
    }

    #[test]
    fn a_file_of_any_earlier_version_becomes_one_of_today_and_keeps_its_rows() {
        let tables_of = |connection: &Connection| {
            let sql = "SELECT group_concat(sql, ';') FROM (SELECT sql FROM sqlite_schema ORDER BY name)";
            connection.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap()
        };
        let mut new = Connection::open_in_memory().unwrap();
        migrate(&mut new).unwrap();
        for earlier in 1..STEPS.len() {
            let mut connection = Connection::open_in_memory().unwrap();
            migrate_with(&mut connection, &STEPS[..earlier]).unwrap();
            connection
                .execute(
                    "INSERT INTO usage (key, thread, day, input, cached, output, reasoning, turns)
                       VALUES ('k', 't', '2026-01-31', 1, 2, 3, 4, 5)",
                    [],
                )
                .unwrap();
            migrate(&mut connection).unwrap();
            assert_eq!((version(&connection).unwrap(), tables_of(&connection)), (latest(), tables_of(&new)));
            let kept: u32 = connection.query_row("SELECT turns FROM usage", [], |row| row.get(0)).unwrap();
            assert_eq!(kept, 5, "from version {earlier}");
        }
    }
}
