//! The table of a trial with one API, from the rows that the tests left: a line for each scenario, a column for each client; pure.

use anyhow::{Context as _, Result};
use serde::Deserialize;

/// The workers that every client is tried with.
const WORKERS: [&str; 2] = ["demo", "codex"];

pub(super) struct Table {
    /// In Markdown, with what clients cannot do below it.
    pub(super) text: String,
    /// What failed or was not played, if anything.
    pub(super) complaint: Option<String>,
}

/// What came of one scenario.
#[derive(Deserialize)]
struct Row {
    api: String,
    client: String,
    worker: String,
    scenario: String,
    outcome: Outcome,
    why: String,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Passed,
    Cannot,
    Failed,
}

/// What a scenario comes to when it comes to the same with every worker.
enum Cell<'a> {
    Passed,
    Cannot(&'a str),
}

impl Table {
    /// `rows` are lines of JSON, those of one client and worker in the order of the scenarios.
    pub(super) fn of(api: &str, clients: &[&str], rows: &str) -> Result<Self> {
        let mut rows: Vec<Row> =
            rows.lines().map(serde_json::from_str).collect::<Result<_, _>>().context("a row is not of its shape")?;
        rows.retain(|row| row.api == api);
        let mut text = format!("| | {} |\n|---|{}\n", clients.join(" | "), "---|".repeat(clients.len()));
        let (mut lacks, mut complaints) = (Vec::new(), Vec::new());
        for scenario in scenarios(&rows) {
            let name = scenario.replace('_', " ");
            text += &format!("| {name} |");
            for client in clients {
                let played = rows.iter().filter(|row| row.client == *client && row.scenario == scenario);
                text += match cell(&played.collect::<Vec<_>>()) {
                    Ok(Cell::Passed) => " ✓ |",
                    Ok(Cell::Cannot(why)) => {
                        lacks.push(Lack { client, why, name: name.clone() });
                        " – |"
                    }
                    Err(complaint) => {
                        complaints.push(format!("{api} {client}, {name}: {complaint}"));
                        " FAILED |"
                    }
                };
            }
            text += "\n";
        }
        if rows.is_empty() {
            complaints.push(format!("nothing of {api} was played"));
        }
        let complaint = (!complaints.is_empty()).then(|| complaints.join("\n"));
        Ok(Self { text: format!("{text}\n{}", notes(clients, &lacks)), complaint })
    }
}

/// What a client cannot do.
struct Lack<'a> {
    client: &'a str,
    why: &'a str,
    name: String,
}

/// A line for each client and reason.
fn notes(clients: &[&str], lacks: &[Lack<'_>]) -> String {
    let mut notes = String::new();
    for client in clients {
        let mut theirs: Vec<&Lack<'_>> = lacks.iter().filter(|lack| lack.client == *client).collect();
        while let Some(why) = theirs.first().map(|lack| lack.why) {
            let (same, others): (Vec<_>, Vec<_>) = theirs.into_iter().partition(|lack| lack.why == why);
            let names: Vec<_> = same.iter().map(|lack| format!("*{}*", lack.name)).collect();
            notes += &format!("- {client} has no {}: {why}\n", names.join(", "));
            theirs = others;
        }
    }
    notes
}

fn scenarios(rows: &[Row]) -> Vec<&str> {
    let mut scenarios = Vec::new();
    for row in rows {
        if !scenarios.contains(&row.scenario.as_str()) {
            scenarios.push(row.scenario.as_str());
        }
    }
    scenarios
}

fn cell<'a>(played: &[&'a Row]) -> Result<Cell<'a>, String> {
    let failed = played.iter().filter(|row| row.outcome == Outcome::Failed);
    let failed: Vec<String> = failed.map(|row| format!("with {}: {}", row.worker, row.why)).collect();
    match played {
        _ if !failed.is_empty() => Err(failed.join("; ")),
        rows if !WORKERS.iter().all(|worker| rows.iter().any(|row| row.worker == *worker)) => {
            Err("not played with every worker".to_owned())
        }
        rows if rows.iter().all(|row| row.outcome == Outcome::Passed) => Ok(Cell::Passed),
        [first, rest @ ..] if rest.iter().all(|row| row.outcome == first.outcome) => Ok(Cell::Cannot(&first.why)),
        _ => Err("the workers differ".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::Table;

    fn row(client: &str, worker: &str, scenario: &str, outcome: &str, why: &str) -> String {
        let row = serde_json::json!({"api": "chat", "client": client, "worker": worker, "scenario": scenario, "outcome": outcome, "why": why});
        format!("{row}\n")
    }

    fn both(client: &str, scenario: &str, outcome: &str, why: &str) -> String {
        row(client, "demo", scenario, outcome, why) + &row(client, "codex", scenario, outcome, why)
    }

    fn check(rows: &str, expected: &Expect) {
        let table = Table::of("chat", &["openai 3", "llm 1"], rows).unwrap();
        expected.assert_eq(&format!("{}→ {:?}\n", table.text, table.complaint));
    }

    #[test]
    fn what_a_client_cannot_do_is_said_below() {
        let rows = both("openai 3", "text", "passed", "")
            + &both("openai 3", "failed_once", "passed", "")
            + &both("openai 3", "retry", "passed", "")
            + &both("llm 1", "text", "passed", "")
            + &both("llm 1", "failed_once", "cannot", "retries by itself")
            + &both("llm 1", "retry", "cannot", "retries by itself");
        check(
            &rows,
            &expect![[r#"
            | | openai 3 | llm 1 |
            |---|---|---|
            | text | ✓ | ✓ |
            | failed once | ✓ | – |
            | retry | ✓ | – |

            - llm 1 has no *failed once*, *retry*: retries by itself
            → None
        "#]],
        );
    }

    #[test]
    fn what_failed_with_one_worker_or_was_not_played_is_complained_of() {
        let rows =
            row("openai 3", "demo", "text", "passed", "") + &row("openai 3", "codex", "text", "failed", "no text");
        check(
            &(rows + &row("llm 1", "demo", "text", "passed", "")),
            &expect![[r#"
            | | openai 3 | llm 1 |
            |---|---|---|
            | text | FAILED | FAILED |

            → Some("chat openai 3, text: with codex: no text\nchat llm 1, text: not played with every worker")
        "#]],
        );
    }
}
