//! The part of the page about the client: one row a version, one column a check; pure.

use anyhow::Result;

use super::cells::{Cell, Row, checks, escaped, line, rule};

const HEAD: &str = "
## The client

What `codex::Client` can do with each of them. A version that cannot do something is not asked to: the client refuses the call
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

pub(super) fn part(rows: &[Row]) -> Result<String> {
    let columns = checks(rows)?;
    let mut part = HEAD.to_owned();
    part += &line("codex", &columns);
    part += &rule(columns.len() + 1);
    for row in rows {
        let cells: Vec<String> = row.cells.iter().map(|(_, cell)| shown(cell)).collect();
        part += &line(&row.version, &cells);
    }
    Ok(part + TAIL)
}

fn shown(cell: &Cell) -> String {
    escaped(&match cell {
        Cell::Passed(found) if found.is_empty() => "yes".to_owned(),
        Cell::Passed(found) => found.clone(),
        Cell::Absent(why) => format!("no: {why}"),
        Cell::Failed(why) => format!("**fails**: {why}"),
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    #[test]
    fn every_cell_that_is_not_passed_says_why() {
        let rows = r#"[
            {"version": "1.2.3", "cells": [["one", {"passed": "v1"}], ["two", {"absent": "use a newer one"}]]},
            {"version": "1.3.0", "cells": [["one", {"passed": ""}], ["two", {"failed": "a | b\nc"}]]}
        ]"#;
        let part = super::part(&serde_json::from_str::<Vec<_>>(rows).unwrap()).unwrap();
        let table: Vec<&str> = part.lines().filter(|line| line.starts_with("| ")).take(3).collect();
        expect![[r#"
            | codex | one | two |
            | 1.2.3 | v1 | no: use a newer one |
            | 1.3.0 | yes | **fails**: a \| b c |"#]]
        .assert_eq(&table.join("\n"));
    }
}
