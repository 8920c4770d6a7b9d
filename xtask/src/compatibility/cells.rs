//! What the checks have found, as they write it down: a row for each version, a cell for each check.

use anyhow::{Result, bail};
use serde::Deserialize;

/// What came of all checks of one version, in their order.
#[derive(Debug, Deserialize)]
pub(super) struct Row {
    pub(super) version: String,
    pub(super) cells: Vec<(String, Cell)>,
}

/// What came of one check.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Cell {
    Passed(String),
    Absent(String),
    Failed(String),
}

/// The names of the checks, which are the same for all versions.
pub(super) fn checks(rows: &[Row]) -> Result<Vec<&str>> {
    let names = |row: &'_ Row| -> Vec<String> { row.cells.iter().map(|(check, _)| check.clone()).collect() };
    let Some(first) = rows.first() else { bail!("the checks found no version") };
    if let Some(other) = rows.iter().find(|row| names(row) != names(first)) {
        bail!("codex {} was not checked for {:?}", other.version, names(first));
    }
    Ok(first.cells.iter().map(|(check, _)| check.as_str()).collect())
}

/// One line of a table.
pub(super) fn line(first: &str, cells: &[impl AsRef<str>]) -> String {
    let cells: String = cells.iter().map(|cell| format!(" {} |", cell.as_ref())).collect();
    format!("| {first} |{cells}\n")
}

/// The line below a table's head.
pub(super) fn rule(columns: usize) -> String {
    format!("|{}\n", "---|".repeat(columns))
}

/// As it may stand in a cell.
pub(super) fn escaped(text: &str) -> String {
    text.replace('|', "\\|").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::{Row, checks};

    #[test]
    fn rows_that_were_checked_for_other_things_are_refused() {
        let rows: Vec<Row> = serde_json::from_str(
            r#"[
            {"version": "1.2.3", "cells": [["one", {"passed": ""}]]},
            {"version": "1.3.0", "cells": [["two", {"passed": ""}]]}
        ]"#,
        )
        .unwrap();
        assert_eq!(checks(&rows).unwrap_err().to_string(), r#"codex 1.3.0 was not checked for ["one"]"#);
        assert_eq!(checks(&[]).unwrap_err().to_string(), "the checks found no version");
    }
}
