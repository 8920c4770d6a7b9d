//! What a worker can ask, and what it is told when nobody decides: every request fails closed, and none is left without
//! an answer.

use serde::Serialize;
use serde_json::{Value, json};
use wire::{Json, PeerError};

/// What a request asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestKind {
    /// May this command run?
    Command,
    /// May these files change?
    FileChange,
    /// May the sandbox be wider?
    Permissions,
    /// A question to the person.
    UserInput,
    /// A tool server's question to the person.
    Elicitation,
    /// A call of the caller's own tool.
    ToolCall,
    /// Fresh tokens of the account.
    AuthTokens,
    /// A proof of the client's identity.
    Attestation,
    /// What time is it?
    CurrentTime,
    /// Something newer than we are.
    Unknown,
}

impl RequestKind {
    /// What a request with this method asks, in either dialect.
    #[must_use]
    pub fn of(method: &str) -> Self {
        match method {
            "item/commandExecution/requestApproval" | "execCommandApproval" => Self::Command,
            "item/fileChange/requestApproval" | "applyPatchApproval" => Self::FileChange,
            "item/permissions/requestApproval" => Self::Permissions,
            "item/tool/requestUserInput" => Self::UserInput,
            "mcpServer/elicitation/request" => Self::Elicitation,
            "item/tool/call" => Self::ToolCall,
            "account/chatgptAuthTokens/refresh" => Self::AuthTokens,
            "attestation/generate" => Self::Attestation,
            "currentTime/read" => Self::CurrentTime,
            _ => Self::Unknown,
        }
    }
}

/// The answer to a request that waits for nobody; `None` for those that somebody is to decide. `unix_seconds` is now.
#[must_use]
pub fn answered_at_once(method: &str, unix_seconds: u64) -> Option<Result<Json, PeerError>> {
    match RequestKind::of(method) {
        RequestKind::CurrentTime => Some(answer(&json!({"currentTimeAt": unix_seconds}))),
        RequestKind::AuthTokens | RequestKind::Attestation => {
            Some(Err(refusal("nothing is configured to answer this")))
        }
        RequestKind::Unknown => Some(Err(refusal("unknown request"))),
        RequestKind::Command
        | RequestKind::FileChange
        | RequestKind::Permissions
        | RequestKind::UserInput
        | RequestKind::Elicitation
        | RequestKind::ToolCall => None,
    }
}

/// The answer to a request that no rule, hook, person or caller will answer; `reason` reaches the worker where the
/// protocol has a place for it.
///
/// # Errors
/// The error to answer with, for requests that have no way to say no.
pub fn declined(method: &str, reason: &str) -> Result<Json, PeerError> {
    match RequestKind::of(method) {
        RequestKind::Command | RequestKind::FileChange if method.starts_with("item/") => {
            answer(&json!({"decision": "decline"}))
        }
        RequestKind::Command | RequestKind::FileChange => answer(&json!({"decision": "denied"})),
        RequestKind::Permissions => answer(&json!({"permissions": {}, "scope": "turn"})),
        RequestKind::UserInput => answer(&json!({"answers": {}})),
        RequestKind::Elicitation => answer(&json!({"action": "decline"})),
        RequestKind::ToolCall => {
            answer(&json!({"contentItems": [{"type": "inputText", "text": reason}], "success": false}))
        }
        RequestKind::AuthTokens | RequestKind::Attestation | RequestKind::CurrentTime | RequestKind::Unknown => {
            Err(refusal(reason))
        }
    }
}

fn answer(result: &Value) -> Result<Json, PeerError> {
    Ok(written(result))
}

/// A JSON value as text.
pub(crate) fn written(value: &Value) -> Json {
    Json::of(value).expect("a JSON value can be written")
}

/// The parameters of a message that has none.
pub(crate) fn nothing() -> Json {
    written(&json!({}))
}

fn refusal(reason: &str) -> PeerError {
    PeerError { code: -32601, message: reason.into(), data: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_asked_for_what_only_we_can_answer() {
        let time = answered_at_once("currentTime/read", 17).expect("at once").expect("a result");
        assert_eq!(time.get(), r#"{"currentTimeAt":17}"#);
        assert!(matches!(answered_at_once("attestation/generate", 17), Some(Err(_))));
        assert!(matches!(answered_at_once("holo/deck", 17), Some(Err(_))));
        assert!(answered_at_once("item/tool/call", 17).is_none());
    }

    #[test]
    fn what_nobody_decides_is_declined_in_the_words_of_its_dialect() {
        let answer = |method| declined(method, "why").map_or_else(|error| error.message, |json| json.get().into());
        assert_eq!(&*answer("item/fileChange/requestApproval"), r#"{"decision":"decline"}"#);
        assert_eq!(&*answer("execCommandApproval"), r#"{"decision":"denied"}"#);
        assert_eq!(
            &*answer("item/tool/call"),
            r#"{"contentItems":[{"text":"why","type":"inputText"}],"success":false}"#
        );
        assert_eq!(&*answer("holo/deck"), "why");
    }
}
