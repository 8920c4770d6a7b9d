//! A worker's request in the words of the approvals.

use approvals::{Kind, Origin, Wanted};
use codex::{Asked, Client, RequestKind};
use serde_json::Value;

use super::Asker;

/// How much of a command is repeated to the agent when it was denied.
const COMMAND_CHARS_MAX: usize = 200;

pub(super) fn of(asked: &Asked, asker: &Asker, group: &str, worker: &str, client: &Client) -> Wanted {
    let params: Value = asked.params.parse().unwrap_or_default();
    let item = ["itemId", "callId", "call_id"].iter().find_map(|name| params[name].as_str());
    Wanted {
        kind: kind(asked.kind),
        origin: Origin {
            group: group.into(),
            worker: worker.into(),
            thread: asker.thread.to_string(),
            turn: asker.turn.to_string(),
            item: item.map(Into::into),
            request: asked.id.as_raw().into(),
        },
        method: asked.method.to_string(),
        params: asked.params.get().into(),
        command: argv(&params["command"]),
        cwd: params["cwd"].as_str().map(Into::into),
        changes: item.and_then(|item| changes(client, &asker.thread, item)),
        key: Some(asker.key.to_string()).filter(|key| !key.is_empty()),
        offers: None,
        timeout: asker.decision_timeout,
    }
}

/// What the thread is told in its next turn, since the worker has no place for the reason of a denial.
pub(super) fn denial(asked: &Asked, reason: &str) -> String {
    let params: Value = asked.params.parse().unwrap_or_default();
    let what = match (argv(&params["command"]), asked.kind) {
        (Some(command), _) => {
            let command: String = command.join(" ").chars().take(COMMAND_CHARS_MAX).collect();
            format!("the command `{command}`")
        }
        (None, RequestKind::FileChange) => "the file change".into(),
        (None, RequestKind::Permissions) => "the wider permissions".into(),
        (None, _) => "the request".into(),
    };
    format!("Earlier, {what} was declined by the person who decides. Their reason: {reason}")
}

/// What a file change would change: its item says it, the request does not.
fn changes(client: &Client, thread: &str, item: &str) -> Option<String> {
    let item: Value = client.open_item(thread, item)?.raw.parse().ok()?;
    item.get("changes").map(ToString::to_string)
}

/// The words of a command: newer workers say it as one line, older ones as a list.
fn argv(command: &Value) -> Option<Vec<String>> {
    match command {
        Value::String(line) => Some(shlex::split(line).unwrap_or_else(|| vec![line.clone()])),
        Value::Array(words) => words.iter().map(|word| word.as_str().map(str::to_owned)).collect(),
        _ => None,
    }
}

fn kind(kind: RequestKind) -> Kind {
    match kind {
        RequestKind::Command => Kind::Command,
        RequestKind::FileChange => Kind::FileChange,
        RequestKind::Permissions => Kind::Permissions,
        RequestKind::Elicitation => Kind::Elicitation,
        RequestKind::AuthTokens => Kind::AuthTokens,
        RequestKind::Attestation => Kind::Attestation,
        RequestKind::UserInput | RequestKind::ToolCall | RequestKind::CurrentTime | RequestKind::Unknown => {
            Kind::UserInput
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::argv;

    #[test]
    fn a_command_is_taken_apart_as_a_shell_would_or_left_whole() {
        let words = |command| argv(&command).map(|words| words.join("|"));
        assert_eq!(words(json!("/bin/bash -lc 'touch x'")).as_deref(), Some("/bin/bash|-lc|touch x"));
        assert_eq!(words(json!(["touch", "a b"])).as_deref(), Some("touch|a b"));
        assert_eq!(words(json!("echo 'unfinished")).as_deref(), Some("echo 'unfinished"));
        assert_eq!(words(json!(["touch", 1])), None);
        assert_eq!(words(json!(null)), None);
    }
}
