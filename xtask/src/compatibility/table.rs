//! The page, from the cells: one row a version, one column a check; pure.

use anyhow::{Result, bail};
use serde::Deserialize;

/// What came of all checks of one version, in the order of the columns.
#[derive(Debug, Deserialize)]
pub(super) struct Row {
    version: String,
    cells: Vec<(String, Cell)>,
}

/// What came of one check.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Cell {
    Passed(String),
    Absent(String),
    Failed(String),
}

const HEAD: &str = "\
# Compatibility

<!-- Written by `cargo xtask compatibility`; `cargo xtask test` checks that it is still true. -->

What `codex::Client` can do with each tested version of codex: every cell was found with the real binary from npm, in a home
of its own, with a stand-in for the model. A version that cannot do something is not asked to: the client refuses the call
with the words in the cell.

";

const TAIL: &str = "
| column | holds if |
|---|---|
| handshake | the worker says its version, and the dialect that works with it is chosen: v1 is conversations, v2 threads and turns |
| streamed turn | the text arrives whole and in pieces, and the turn ends once, as completed |
| usage | the tokens of two turns are counted, and their sum |
| interrupt | a turn that speaks is stopped, ends as interrupted, and the thread goes on; so with one that has just begun, and one that is dropped |
| resume | a second process goes on with the thread, and the model is given what was said before; the first is stopped once it lists the thread, for 0.45 loses what it has not written yet |
| command approval | the callback is asked once; what it allows runs, what it denies does not, and the turn completes |
| client tools | the agent calls a tool of the caller's and goes on with its answer |
| steer | what is said while the agent speaks changes the same turn |
";

pub(super) fn page(rows: &[Row]) -> Result<String> {
    let Some(first) = rows.first() else { bail!("the checks found no version") };
    let columns: Vec<&str> = first.cells.iter().map(|(check, _)| check.as_str()).collect();
    let mut page = HEAD.to_owned();
    page += &line("codex", &columns);
    page += &format!("|{}\n", "---|".repeat(columns.len() + 1));
    for row in rows {
        if !row.cells.iter().map(|(check, _)| check.as_str()).eq(columns.iter().copied()) {
            bail!("codex {} was not checked for {columns:?}", row.version);
        }
        let cells: Vec<String> = row.cells.iter().map(|(_, cell)| shown(cell)).collect();
        page += &line(&row.version, &cells);
    }
    Ok(page + TAIL)
}

fn line(first: &str, cells: &[impl AsRef<str>]) -> String {
    let cells: String = cells.iter().map(|cell| format!(" {} |", cell.as_ref())).collect();
    format!("| {first} |{cells}\n")
}

fn shown(cell: &Cell) -> String {
    let text = match cell {
        Cell::Passed(found) if found.is_empty() => "yes".to_owned(),
        Cell::Passed(found) => found.clone(),
        Cell::Absent(why) => format!("no: {why}"),
        Cell::Failed(why) => format!("**fails**: {why}"),
    };
    text.replace('|', "\\|").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::{Row, page};

    fn rows(json: &str) -> Vec<Row> {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn every_cell_that_is_not_passed_says_why() {
        let rows = rows(
            r#"[
            {"version": "1.2.3", "cells": [["one", {"passed": "v1"}], ["two", {"absent": "use a newer one"}]]},
            {"version": "1.3.0", "cells": [["one", {"passed": ""}], ["two", {"failed": "a | b\nc"}]]}
        ]"#,
        );
        let page = page(&rows).unwrap();
        let table: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).take(3).collect();
        expect![[r#"
            | codex | one | two |
            | 1.2.3 | v1 | no: use a newer one |
            | 1.3.0 | yes | **fails**: a \| b c |"#]]
        .assert_eq(&table.join("\n"));
    }

    #[test]
    fn rows_that_were_checked_for_other_things_are_refused() {
        let rows = rows(
            r#"[
            {"version": "1.2.3", "cells": [["one", {"passed": ""}]]},
            {"version": "1.3.0", "cells": [["two", {"passed": ""}]]}
        ]"#,
        );
        assert_eq!(page(&rows).unwrap_err().to_string(), r#"codex 1.3.0 was not checked for ["one"]"#);
        assert_eq!(page(&[]).unwrap_err().to_string(), "the checks found no version");
    }
}
