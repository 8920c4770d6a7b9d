//! The part of the page about conversations over HTTP: one row a check, one column a version, and what there is to say of a
//! cell once, below; pure.

use anyhow::Result;

use super::cells::{Cell, Row, checks, escaped, line, rule};

const HEAD: &str = "
## Chat

What a caller of `/v1/chat/completions` gets through Switchboard with each of them, as far as it depends on the version. What a
version cannot do is refused with `400 unsupported_by_worker` and the words below, where X is the version; nothing is left out
without a word, and nothing hangs.

";

const TAIL: &str = "
| feature | holds if |
|---|---|
| answer | the whole text comes, and the reason why it ends |
| stream | the text comes in pieces, with one end |
| usage | tokens in, out and cached are those that the model provider counted, in answers and in streams |
| system prompt | the agent's model is told it as instructions, beside its own |
| history | earlier messages, calls and results reach the model of a new thread as they are: roles, order, ids |
| going on | a conversation goes on in its own thread |
| branches | two requests go on from one place at the same time, and neither hears of the other |
| tools | a call of the caller's tool ends the answer; its result resumes the very same turn |
| parallel calls | all calls of one answer of the model come, and all results reach it |
| late results | results that no turn waits for any more are told to a new one, with all that was said before, and it goes on |
| output schema | the model is held to the schema |
| image | it reaches the model as it is |
| reasoning | its summary is `reasoning_content`, and its tokens are counted |
| caller gone | the turn is interrupted |
| provider errors | 429, 400 and 5xx, too long a context, a stream that is cut: each comes as the error that it is |
| plain model | `codex-plain` has no instructions but the caller's, and its model no tool that reads or changes the machine |
| private files | for a caller that is no operator, an agent cannot read the worker's login and configuration; versions that cannot enforce it serve operators, and profiles with `allow_unconfined` |
| project configuration | a program that a repository's own `.codex/config.toml` names is not started in a writable thread, nor is the repository trusted |
";

pub(super) fn part(rows: &[Row]) -> Result<String> {
    let checks = checks(rows)?;
    let versions: Vec<&str> = rows.iter().map(|row| row.version.as_str()).collect();
    let mut part = HEAD.to_owned();
    part += &line("feature", &versions);
    part += &rule(versions.len() + 1);
    let mut notes = Notes::default();
    for (index, check) in checks.iter().enumerate() {
        let cells: Vec<String> = rows.iter().map(|row| notes.shown(&row.cells[index].1, &row.version)).collect();
        part += &line(check, &cells);
    }
    Ok(part + &notes.list() + TAIL)
}

/// What is said of cells; the same words have the same number.
#[derive(Default)]
struct Notes {
    texts: Vec<String>,
}

impl Notes {
    fn shown(&mut self, cell: &Cell, version: &str) -> String {
        match cell {
            Cell::Passed(found) if found.is_empty() => "yes".to_owned(),
            Cell::Passed(found) => format!("yes {}", self.number(found, version)),
            Cell::Absent(why) => format!("no {}", self.number(why, version)),
            Cell::Failed(why) => format!("**fails** {}", self.number(why, version)),
        }
    }

    fn number(&mut self, text: &str, version: &str) -> String {
        let text = escaped(&text.replace(version, "X"));
        let known = self.texts.iter().position(|other| *other == text);
        let index = known.unwrap_or_else(|| {
            self.texts.push(text);
            self.texts.len() - 1
        });
        format!("({})", index + 1)
    }

    fn list(&self) -> String {
        let lines = self.texts.iter().enumerate().map(|(index, text)| format!("{}. {text}\n", index + 1));
        format!("\n{}", lines.collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    #[test]
    fn what_is_said_of_cells_stands_below_once() {
        let rows = r#"[
            {"version": "1.2.3", "cells": [["one", {"passed": ""}], ["two", {"absent": "codex 1.2.3 cannot"}]]},
            {"version": "1.3.0", "cells": [["one", {"passed": "so so"}], ["two", {"absent": "codex 1.3.0 cannot"}]]}
        ]"#;
        let part = super::part(&serde_json::from_str::<Vec<_>>(rows).unwrap()).unwrap();
        let table = part.strip_prefix(super::HEAD).and_then(|part| part.strip_suffix(super::TAIL)).unwrap();
        expect![[r"
            | feature | 1.2.3 | 1.3.0 |
            |---|---|---|
            | one | yes | yes (1) |
            | two | no (2) | no (2) |

            1. so so
            2. codex X cannot
        "]]
        .assert_eq(table);
    }
}
