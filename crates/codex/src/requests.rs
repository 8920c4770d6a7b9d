//! What a worker is told when nobody decides: every request fails closed, and none is left without an answer.

use serde_json::json;
use wire::{Json, PeerError};

use crate::event::RequestKind;

/// The answer to a request that no rule, hook, person or caller will answer; `reason` reaches the worker where the
/// protocol has a place for it.
///
/// # Errors
/// The error to answer with, for requests that have no way to say no.
pub fn declined(method: &str, reason: &str) -> Result<Json, PeerError> {
    let answer = match RequestKind::of(method) {
        RequestKind::Command | RequestKind::FileChange if method.starts_with("item/") => {
            json!({"decision": "decline"})
        }
        RequestKind::Command | RequestKind::FileChange => json!({"decision": "denied"}),
        RequestKind::Permissions => json!({"permissions": {}, "scope": "turn"}),
        RequestKind::UserInput => json!({"answers": {}}),
        RequestKind::Elicitation => json!({"action": "decline"}),
        RequestKind::ToolCall => {
            json!({"contentItems": [{"type": "inputText", "text": reason}], "success": false})
        }
        RequestKind::AuthTokens
        | RequestKind::Attestation
        | RequestKind::CurrentTime
        | RequestKind::Unknown => return Err(refusal(reason)),
    };
    Json::of(&answer).map_err(|_| refusal(reason))
}

fn refusal(reason: &str) -> PeerError {
    PeerError {
        code: -32601,
        message: reason.into(),
        data: None,
    }
}
