//! What the agent does, as lines for whoever reads its reasoning: commands, edits, searches, and what it waits for. Whatever
//! comes from the model is escaped, so that no line can pretend to be another.

use approvals::escaped;
use codex::{Item, PlanStep, RequestKind, TurnEvent};
use serde_json::Value;

/// How much of a command or a query is shown.
const SHOWN_CHARS_MAX: usize = 300;

/// The line of an event, if it has one.
pub(crate) fn line(event: &TurnEvent) -> Option<String> {
    match event {
        TurnEvent::ItemStarted { item } => begun(item),
        TurnEvent::ItemCompleted { item } => done(item),
        TurnEvent::Plan { steps, .. } => Some(steps.iter().map(step).collect::<Vec<_>>().join("\n")),
        TurnEvent::Compacted => Some("the history was made shorter".into()),
        TurnEvent::ToolProgress { message, .. } => Some(shown(message)),
        TurnEvent::Error { error, will_retry: true } => Some(format!("trying again: {}", shown(&error.message))),
        TurnEvent::ApprovalWanted { request, kind, .. } => Some(format!(
            "waiting for a decision ({}): switchboard approvals {}, or POST /api/approvals/{request}/decide",
            decided(*kind),
            words(*kind, request),
        )),
        TurnEvent::ApprovalResolved { .. } => Some("the decision is made".into()),
        _ => None,
    }
}

fn decided(kind: RequestKind) -> &'static str {
    match kind {
        RequestKind::Command => "may this command run",
        RequestKind::FileChange => "may these files change",
        RequestKind::Permissions => "may it do more",
        RequestKind::UserInput | RequestKind::Elicitation => "a question",
        _ => "a request",
    }
}

/// What a person types to decide it. Of an elicitation only its parameters say whether there is a form to be filled in.
fn words(kind: RequestKind, request: &str) -> String {
    match kind {
        RequestKind::UserInput => format!("answer {request} JSON (or deny)"),
        RequestKind::Elicitation => format!("allow {request} (or answer with JSON, or deny)"),
        _ => format!("allow {request} (or deny)"),
    }
}

fn begun(item: &Item) -> Option<String> {
    match &*item.kind {
        "command_execution" => Some(format!("$ {}", shown(&item.command()?))),
        "mcp_tool_call" => {
            let raw: Value = item.raw.parse().ok()?;
            Some(format!("calls {} of {}", text(&raw["tool"])?, text(&raw["server"])?))
        }
        _ => None,
    }
}

fn done(item: &Item) -> Option<String> {
    let raw = || item.raw.parse::<Value>().ok();
    match (&*item.kind, item.status.as_deref()) {
        ("command_execution", Some("completed")) => None,
        ("command_execution", Some("declined")) => Some("the command was declined".into()),
        ("command_execution", _) => match raw()?["exitCode"].as_i64() {
            Some(code) => Some(format!("the command failed with exit code {code}")),
            None => Some("the command failed".into()),
        },
        ("file_change", Some("completed")) => {
            let raw = raw()?;
            let paths = raw["changes"].as_array()?.iter().filter_map(|change| text(&change["path"]));
            Some(format!("edited {}", paths.collect::<Vec<_>>().join(", ")))
        }
        ("file_change", Some("declined")) => Some("the edit was declined".into()),
        ("web_search", _) => Some(format!("searched for {}", text(&raw()?["query"])?)),
        ("mcp_tool_call", Some("failed")) => Some("the tool failed".into()),
        _ => None,
    }
}

fn step(step: &PlanStep) -> String {
    let mark = match &*step.status {
        "completed" => "x",
        "in_progress" => ">",
        _ => " ",
    };
    format!("[{mark}] {}", shown(&step.step))
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(shown)
}

fn shown(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let rest = if line.len() < text.len() || line.chars().count() > SHOWN_CHARS_MAX { "…" } else { "" };
    format!("{}{rest}", escaped(&line.chars().take(SHOWN_CHARS_MAX).collect::<String>()))
}

#[cfg(test)]
mod tests {
    use codex::{Json, RequestKind, TurnEvent};

    use super::line;

    #[test]
    fn who_waits_is_told_what_to_type() {
        let told = |kind| {
            let params = Json::of(&()).unwrap();
            line(&TurnEvent::ApprovalWanted { request: "a".into(), kind, item: None, params }).unwrap()
        };
        for (kind, words) in [
            (RequestKind::Command, "(may this command run): switchboard approvals allow a (or deny), or POST "),
            (RequestKind::UserInput, "(a question): switchboard approvals answer a JSON (or deny), or POST "),
            (
                RequestKind::Elicitation,
                "(a question): switchboard approvals allow a (or answer with JSON, or deny), or POST ",
            ),
        ] {
            let told = told(kind);
            assert!(told.contains(words), "{told}");
        }
    }
}
