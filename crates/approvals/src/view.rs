//! An approval as people and programs read it: what comes from the model is escaped, and stands raw only in `params`.

use serde::{Serialize, Serializer};
use serde_json::Value;
use store::ApprovalState;

use crate::escape;
use crate::record;
use crate::shown::Origin;
use crate::stamp::Stamp;
use crate::verdict::{By, Verdict};
use crate::who::Kind;

/// An approval as it is shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct View {
    /// Its id.
    pub id: String,
    /// What it asks.
    pub kind: Kind,
    /// The method that asked.
    pub method: String,
    /// How far it is.
    #[serde(serialize_with = "as_word")]
    pub state: ApprovalState,
    /// Where it comes from.
    #[serde(flatten)]
    pub origin: Origin,
    /// The key that started the turn.
    pub key: Option<String>,
    /// The words of the command, escaped.
    pub command: Option<Vec<String>>,
    /// The directory, escaped.
    pub cwd: Option<String>,
    /// Why the model wants it, in its own words, escaped; not to be trusted.
    pub reason: Option<String>,
    /// The file changes, line by line, escaped.
    pub changes: Option<Vec<String>>,
    /// All parameters, line by line, escaped.
    pub details: Vec<String>,
    /// The verdicts that may be given.
    pub offers: Vec<&'static str>,
    /// The hash of all this; a decision brings it back.
    pub shown_hash: String,
    /// When it was asked.
    pub created_at: Stamp,
    /// When it is denied if nobody decides.
    pub deadline_at: Option<Stamp>,
    /// The decision, once there is one.
    pub decided: Option<DecidedView>,
    /// The parameters as they came.
    pub params: Value,
}

/// A decision as it is shown: without the content of an answer, which may be a secret.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DecidedView {
    /// The name of the verdict.
    pub verdict: &'static str,
    /// Why it was denied, escaped.
    pub reason: Option<String>,
    /// Who decided.
    #[serde(flatten)]
    pub by: By,
    /// When.
    pub at: Stamp,
}

impl View {
    /// `None` if the row is not one that this version wrote.
    pub(crate) fn of(row: &store::Approval) -> Option<Self> {
        let shown = record::shown_of(row)?;
        let details = serde_json::to_string_pretty(&shown.params).unwrap_or_default();
        Some(Self {
            id: row.id.clone(),
            kind: shown.kind,
            method: shown.method,
            state: row.state,
            origin: shown.origin,
            key: shown.key,
            command: shown.command.map(|words| escape::shortened(words.iter().map(String::as_str), "words")),
            cwd: shown.cwd.as_deref().map(escape::excerpt),
            reason: shown.params.get("reason").and_then(Value::as_str).map(escape::excerpt),
            changes: shown.changes.as_deref().map(escape::lines),
            details: escape::lines(&details),
            offers: shown.offers.names(),
            shown_hash: row.shown_hash.clone(),
            created_at: Stamp(row.created_at),
            deadline_at: row.deadline_at.map(Stamp),
            decided: record::decided_of(row).map(|decided| DecidedView {
                verdict: Verdict::name(&decided.verdict),
                reason: decided.verdict.reason().map(escape::excerpt),
                by: decided.by,
                at: decided.at,
            }),
            params: shown.params,
        })
    }
}

fn as_word<S: Serializer>(state: &ApprovalState, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(state.as_str())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;
    use crate::shown::Shown;
    use crate::shown::tests::command;

    #[test]
    fn people_see_what_a_terminal_would_hide() {
        let shown = Shown {
            params: json!({"reason": "safe\u{202e}!", "command": "touch \u{200b}x"}),
            changes: Some("-a\n+b\r".into()),
            ..command(&["touch", "\u{200b}x"])
        };
        let view = View::of(&record::pending_row("a", &shown, Stamp(0), Stamp(600_000))).unwrap();
        let shown = View { params: Value::Null, shown_hash: "…".into(), ..view };
        expect![[r#"
            {
              "id": "a",
              "kind": "command",
              "method": "item/commandExecution/requestApproval",
              "state": "pending",
              "group": "main",
              "worker": "main-0",
              "thread": "th",
              "turn": "tu",
              "item": "it",
              "request": "0",
              "key": null,
              "command": [
                "touch",
                "<U+200B>x"
              ],
              "cwd": "/srv",
              "reason": "safe<U+202E>!",
              "changes": [
                "-a",
                "+b<U+000D>"
              ],
              "details": [
                "{",
                "  \"command\": \"touch <U+200B>x\",",
                "  \"reason\": \"safe<U+202E>!\"",
                "}"
              ],
              "offers": [
                "allow",
                "allow_for_session",
                "deny",
                "cancel"
              ],
              "shown_hash": "…",
              "created_at": "1970-01-01T00:00:00.000Z",
              "deadline_at": "1970-01-01T00:10:00.000Z",
              "decided": null,
              "params": null
            }"#]]
        .assert_eq(&serde_json::to_string_pretty(&shown).unwrap());
    }
}
