//! Questions of tool servers that no caller can be asked: an elicitation waits for a person like every approval does, roots are
//! none, and anything else is refused.

use std::sync::Arc;

use approvals::{Kind, Origin, Verdict, Wanted};
use rmcp::ErrorData;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::connection::Question;
use crate::host::Shared;
use crate::waiting::Waiting;

/// Stands in the place of a group of workers; no group can be called so.
pub(crate) const GROUP: &str = "tool servers";

/// Answers the question, however long that takes; if its server ends meanwhile, nobody is asked any more.
pub(crate) async fn answer(shared: Arc<Shared>, server: Arc<str>, question: Question) {
    let outcome = tokio::select! {
        outcome = decide(&shared, &server, &question.method, &question.params) => outcome,
        () = question.is_moot() => return,
    };
    question.answer(outcome).await;
}

/// What the answer is.
pub(crate) async fn decide(
    shared: &Arc<Shared>,
    server: &str,
    method: &str,
    params: &Value,
) -> Result<Value, ErrorData> {
    match method {
        "elicitation/create" => Ok(elicited(shared, server, params).await),
        _ => answer_of_nobody(method),
    }
}

/// What the answer is where nobody can be asked.
pub(crate) fn answer_of_nobody(method: &str) -> Result<Value, ErrorData> {
    match method {
        "roots/list" => Ok(json!({ "roots": [] })),
        "elicitation/create" => Ok(json!({ "action": "decline" })),
        _ => Err(ErrorData::invalid_request(format!("no caller here can be asked `{method}`"), None)),
    }
}

async fn elicited(shared: &Arc<Shared>, server: &str, params: &Value) -> Value {
    let declined = json!({ "action": "decline" });
    let Some(approvals) = &shared.approvals else { return declined };
    let id = Uuid::now_v7().to_string();
    let wanted = Wanted {
        kind: Kind::Elicitation,
        origin: origin(server, "", &id),
        method: "elicitation/create".into(),
        params: params.to_string(),
        command: None,
        cwd: None,
        changes: None,
        key: None,
        offers: None,
        timeout: Some(shared.limits.input_timeout),
    };
    let Ok(waiting) = Waiting::begin(shared, approvals, wanted).await else { return declined };
    match waiting.decided().await.verdict {
        Verdict::Answer(content) if content.get("action").is_some() => content,
        Verdict::Answer(content) => json!({ "action": "accept", "content": content }),
        Verdict::Allow | Verdict::AllowForSession | Verdict::AllowWithAmendment(_) => json!({ "action": "accept" }),
        Verdict::Deny { .. } => declined,
        Verdict::Cancel => json!({ "action": "cancel" }),
    }
}

/// Where a question of a tool server, or about one, comes from.
pub(crate) fn origin(server: &str, caller: &str, id: &str) -> Origin {
    Origin {
        group: GROUP.into(),
        worker: server.into(),
        thread: caller.into(),
        turn: id.into(),
        item: None,
        request: json!(id).to_string(),
    }
}
