//! The rows of a fault run beside the list of faults, and what is missing.

use anyhow::{Context as _, Result};
use serde::Deserialize;

pub(super) struct Table {
    pub(super) text: String,
    /// Why the run has failed, if it has.
    pub(super) complaint: Option<String>,
}

/// What a test says of the fault that it played.
#[derive(Deserialize)]
struct Row {
    fault: String,
    rounds: u32,
    seed: u64,
    verdict: String,
    why: Option<String>,
    measured: String,
}

/// A line of the list.
struct Listed<'a> {
    fault: &'a str,
    oracle: &'a str,
}

impl Table {
    /// `listed` is the page with the list, `rows` the rows, one line of JSON each.
    pub(super) fn of(listed: &str, rows: &str) -> Result<Self> {
        let rows: Vec<Row> =
            rows.lines().map(serde_json::from_str).collect::<Result<_, _>>().context("a row is not of its shape")?;
        let mut lines = vec![["fault", "rounds", "verdict", "measured", "oracle"].map(str::to_owned)];
        let (mut failed, mut missing) = (Vec::new(), Vec::new());
        for Listed { fault, oracle } in faults(listed) {
            let row = rows.iter().find(|row| row.fault == fault);
            match row {
                None => missing.push(fault),
                Some(row) if row.verdict == "FAILED" => {
                    failed.push(format!("{fault} (SWITCHBOARD_FAULTS_SEED={})", row.seed));
                }
                Some(_) => {}
            }
            let [rounds, verdict, measured] =
                row.map_or_else(|| ["–", "NOT PLAYED", ""].map(str::to_owned), Row::cells);
            lines.push([fault.to_owned(), rounds, verdict, measured, oracle.to_owned()]);
        }
        let complaint = match (&failed[..], &missing[..]) {
            ([], []) => None,
            ([], _) => Some(format!("not played: {}", missing.join(", "))),
            (_, []) => Some(format!("failed: {}", failed.join(", "))),
            _ => Some(format!("failed: {}; not played: {}", failed.join(", "), missing.join(", "))),
        };
        Ok(Self { text: aligned(&lines), complaint })
    }
}

impl Row {
    fn cells(&self) -> [String; 3] {
        let measured = self.why.as_ref().unwrap_or(&self.measured);
        [self.rounds.to_string(), self.verdict.clone(), measured.clone()]
    }
}

/// Each column as wide as its widest cell; the last one, which is prose, as it is.
fn aligned(lines: &[[String; 5]]) -> String {
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default();
    let widths = [width(0), width(1), width(2), width(3)];
    let line = |line: &[String; 5]| {
        let cells = line.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}  "));
        format!("{}{}\n", cells.collect::<String>(), line[4])
    };
    lines.iter().map(line).collect()
}

/// The lines of the page's one table, without its head.
fn faults(page: &str) -> impl Iterator<Item = Listed<'_>> {
    let lines = page.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    lines.take_while(|line| line.starts_with('|')).filter_map(|line| {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        Some(Listed { fault: cells.next()?, oracle: cells.nth(1)? })
    })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::Table;

    const PAGE: &str = "# Faults\n\n| fault | played | holds |\n|---|---|---|\n| killed | SIGKILL | ends once |\n| flood | much | bounded |\n\nMore.\n";
    const KILLED: &str =
        r#"{"fault":"killed","rounds":30,"seed":7,"verdict":"held","why":null,"measured":"end 12 ms"}"#;
    const FLOOD: &str = r#"{"fault":"flood","rounds":1,"seed":9,"verdict":"FAILED","why":null,"measured":""}"#;

    fn check(rows: &[&str], expected: &Expect) {
        let table = Table::of(PAGE, &rows.join("\n")).unwrap();
        expected.assert_eq(&format!("{}→ {:?}\n", table.text, table.complaint));
    }

    #[test]
    fn a_fault_that_failed_is_named_with_its_seed() {
        check(
            &[KILLED, FLOOD],
            &expect![[r#"
                fault   rounds  verdict  measured   oracle
                killed  30      held     end 12 ms  ends once
                flood   1       FAILED              bounded
                → Some("failed: flood (SWITCHBOARD_FAULTS_SEED=9)")
            "#]],
        );
    }

    #[test]
    fn a_fault_that_was_not_played_fails_the_run() {
        check(
            &[KILLED],
            &expect![[r#"
                fault   rounds  verdict     measured   oracle
                killed  30      held        end 12 ms  ends once
                flood   –       NOT PLAYED             bounded
                → Some("not played: flood")
            "#]],
        );
    }
}
