//! An approval as the store keeps it. What was shown beside the parameters stands with them in one JSON object, so that
//! a later run can show the very same.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::ApprovalState;

use crate::offers::Offers;
use crate::shown::{Origin, Shown};
use crate::stamp::Stamp;
use crate::verdict::{By, Decided, Verdict, Withdrawal};
use crate::who::Kind;

/// The content of the `params` column.
#[derive(Serialize, Deserialize)]
struct Sheet {
    params: Value,
    command: Option<Vec<String>>,
    cwd: Option<String>,
    changes: Option<String>,
    offers: Offers,
}

/// The row of a request that waits.
pub(crate) fn pending_row(id: &str, shown: &Shown, created: Stamp, deadline: Stamp) -> store::Approval {
    let sheet = Sheet {
        params: shown.params.clone(),
        command: shown.command.clone(),
        cwd: shown.cwd.clone(),
        changes: shown.changes.clone(),
        offers: shown.offers.clone(),
    };
    let origin = shown.origin.clone();
    store::Approval {
        id: id.into(),
        group: origin.group,
        worker: origin.worker,
        thread: origin.thread,
        turn: origin.turn,
        item: origin.item,
        request: origin.request,
        method: shown.method.clone(),
        kind: shown.kind.name().into(),
        key: shown.key.clone().unwrap_or_default(),
        params: json(&sheet),
        shown_hash: shown.hash(),
        state: ApprovalState::Pending,
        verdict: None,
        reason: None,
        decided_by: None,
        created_at: created.0,
        deadline_at: Some(deadline.0),
        decided_at: None,
    }
}

/// The same row with its decision. A secret answer is not written down.
pub(crate) fn decided_row(row: &store::Approval, decided: &Decided) -> store::Approval {
    let is_secret = Kind::named(&row.kind).is_none_or(Kind::answer_is_secret);
    let verdict = if is_secret { decided.verdict.without_content() } else { decided.verdict.clone() };
    store::Approval {
        state: state_of(decided),
        verdict: Some(json(&verdict)),
        reason: verdict.reason().map(str::to_owned),
        decided_by: Some(json(&decided.by)),
        decided_at: Some(decided.at.0),
        ..row.clone()
    }
}

fn state_of(decided: &Decided) -> ApprovalState {
    match (&decided.by, &decided.verdict) {
        (By::Withdrawn { why: Withdrawal::WorkerGone }, _) => ApprovalState::Orphaned,
        (By::Withdrawn { .. }, _) => ApprovalState::Resolved,
        (By::Deadline, _) => ApprovalState::Expired,
        (_, Verdict::Deny { .. }) => ApprovalState::Denied,
        (_, Verdict::Cancel) => ApprovalState::Cancelled,
        _ => ApprovalState::Allowed,
    }
}

/// What a row showed; `None` if it is not one that this version wrote.
pub(crate) fn shown_of(row: &store::Approval) -> Option<Shown> {
    let Sheet { params, command, cwd, changes, offers } = serde_json::from_str(&row.params).ok()?;
    Some(Shown {
        kind: Kind::named(&row.kind)?,
        origin: Origin {
            group: row.group.clone(),
            worker: row.worker.clone(),
            thread: row.thread.clone(),
            turn: row.turn.clone(),
            item: row.item.clone(),
            request: row.request.clone(),
        },
        method: row.method.clone(),
        params,
        command,
        cwd,
        changes,
        offers,
        key: Some(row.key.clone()).filter(|key| !key.is_empty()),
    })
}

/// The decision of a row, if it has one.
pub(crate) fn decided_of(row: &store::Approval) -> Option<Decided> {
    Some(Decided {
        verdict: serde_json::from_str(row.verdict.as_deref()?).ok()?,
        by: serde_json::from_str(row.decided_by.as_deref()?).ok()?,
        at: Stamp(row.decided_at?),
    })
}

/// The decision with which a repeated request may be answered: one that somebody made, as a whole.
pub(crate) fn repeatable(row: &store::Approval) -> Option<Decided> {
    let is_secret = Kind::named(&row.kind)?.answer_is_secret();
    decided_of(row).filter(|decided| !is_secret && !matches!(decided.by, By::Withdrawn { .. }))
}

pub(crate) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("what we wrote ourselves can be written as JSON")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::shown::tests::command;

    #[test]
    fn a_row_shows_the_same_again() {
        let shown = Shown { changes: Some("+x".into()), key: Some("k".into()), ..command(&["touch", "x"]) };
        let row = pending_row("a", &shown, Stamp(1), Stamp(2));
        let again = shown_of(&row).unwrap();
        assert_eq!(again, shown);
        assert_eq!(again.hash(), row.shown_hash);
    }

    #[test]
    fn a_secret_answer_is_not_written_down_and_never_repeated() {
        let shown = Shown { kind: Kind::AuthTokens, ..command(&[]) };
        let decided = Decided {
            verdict: Verdict::Answer(json!({"accessToken": "canary"})),
            by: By::Hook { name: "tokens".into() },
            at: Stamp(3),
        };
        let row = decided_row(&pending_row("a", &shown, Stamp(1), Stamp(2)), &decided);
        assert!(!format!("{row:?}").contains("canary"));
        assert_eq!(row.state, ApprovalState::Allowed);
        assert_eq!(repeatable(&row), None);
    }

    #[test]
    fn a_decision_comes_back_and_its_state_says_how_it_ended() {
        let row = pending_row("a", &command(&["ls"]), Stamp(1), Stamp(2));
        let ada = || By::Person { name: "ada".into() };
        for (verdict, by, state) in [
            (Verdict::AllowForSession, ada(), ApprovalState::Allowed),
            (Verdict::deny("no"), ada(), ApprovalState::Denied),
            (Verdict::Cancel, ada(), ApprovalState::Cancelled),
            (Verdict::deny("late"), By::Deadline, ApprovalState::Expired),
            (Verdict::Cancel, By::Withdrawn { why: Withdrawal::TurnOver }, ApprovalState::Resolved),
            (Verdict::Cancel, By::Withdrawn { why: Withdrawal::WorkerGone }, ApprovalState::Orphaned),
        ] {
            let decided = Decided { verdict, by, at: Stamp(3) };
            let row = decided_row(&row, &decided);
            assert_eq!(row.state, state);
            assert_eq!(decided_of(&row), Some(decided));
        }
    }
}
