//! What holds for any body that a caller sends. The targets `chat_request` and `response_request` of `fuzz/` call these.

use codex::{ApprovalPolicy, Sandbox};
use serde_json::{Value, json};
use workers::Profile;

use super::message::Message;
use super::models::Chosen;
use super::plan::{TurnPlan, Whence};
use super::read::Bad;
use super::request::Request;
use super::responses::items;
use super::responses::request::ResponseRequest;
use crate::body::parse;
use crate::error::Error;

/// A refusal quotes no more of a body than a person wants to read; as JSON that may be six times as long.
const REFUSAL_BYTES_MAX: usize = 32 * 1024;

/// A chat request becomes a plan or a refusal, and a caller that goes on with the answer finds its thread.
///
/// # Panics
/// If that does not hold.
pub fn chat_request(bytes: &[u8]) {
    let Some(body) = body(bytes) else { return };
    let request = match Request::read(&body) {
        Ok(request) => request,
        Err(bad) => return check_refusal(bad),
    };
    let Some(mut said) = planned(request).map(|plan| plan.said) else { return };
    said.add(&Message::Assistant { text: "an answer".into(), calls: Vec::new() });
    let mut later = body;
    let Some(messages) = later.get_mut("messages").and_then(Value::as_array_mut) else { return };
    messages.push(json!({"role": "assistant", "content": "an answer"}));
    messages.push(json!({"role": "user", "content": "and now?"}));
    // Calls without results cannot be followed by an answer.
    let Ok(later) = Request::read(&later) else { return };
    let from = planned(later).and_then(|plan| plan.going_on).map(|going_on| going_on.from);
    assert_eq!(from, Some(Whence::History(said.to_hash())));
}

/// A request of the Responses API becomes a plan or a refusal, whatever was said before it.
///
/// # Panics
/// If that does not hold.
pub fn response_request(bytes: &[u8]) {
    let Some(mut body) = body(bytes) else { return };
    // No parameter of the API: what was said before comes from the store.
    let before = body.as_object_mut().and_then(|fields| fields.remove("said_before")).unwrap_or_else(|| json!([]));
    let before = items::read(&before, &|_| None).map(|before| before.messages).unwrap_or_default();
    let kept = body["input"].as_array().cloned().unwrap_or_default();
    let find = |id: &str| kept.iter().find(|item| item["id"] == id && item["type"] != "item_reference").cloned();
    let read = ResponseRequest::read(&body, &find).and_then(|request| request.told_after(before));
    match read {
        Ok((request, terms)) => {
            assert!(terms.echo.is_object());
            planned(request);
        }
        Err(bad) => check_refusal(bad),
    }
}

fn body(bytes: &[u8]) -> Option<Value> {
    parse(bytes).map_err(|error: Error| check_error(&error)).ok()
}

/// The plan, held to be the same each time.
fn planned(mut request: Request) -> Option<TurnPlan> {
    let profile = profile();
    request.tools.rename(&profile);
    let chosen = Chosen { profile: &profile, model: None, effort: None };
    let (plan, again) = (TurnPlan::new(&request, &chosen, "key"), TurnPlan::new(&request, &chosen, "key"));
    assert_eq!(plan.made_of, again.made_of);
    assert_eq!(plan.said.to_hash(), again.said.to_hash());
    Some(plan)
}

fn check_refusal(bad: Bad) {
    check_error(&bad.into());
}

fn check_error(error: &Error) {
    let body = error.body();
    let read: Value = serde_json::from_str(&body).unwrap_or_else(|why| panic!("{why}: {body}"));
    assert!(read["error"]["message"].is_string(), "{body}");
    assert!(body.len() <= REFUSAL_BYTES_MAX, "a refusal of {} bytes", body.len());
}

fn profile() -> Profile {
    Profile {
        name: "codex".into(),
        group: None,
        cwd: Some("/home/dev/project".into()),
        sandbox: Sandbox::WorkspaceWrite,
        approval_policy: ApprovalPolicy::OnRequest,
        model: None,
        effort: None,
        decision_timeout: None,
        is_plain: false,
        shows_work: true,
        readable: Vec::new(),
        trusted_projects: Vec::new(),
        network: false,
        allow_unconfined: false,
    }
}

#[cfg(test)]
mod tests {
    use super::{chat_request, response_request};

    #[test]
    fn the_corpus_of_chat_requests_is_read() {
        testkit::corpus::replay("chat_request", chat_request);
    }

    #[test]
    fn the_corpus_of_response_requests_is_read() {
        testkit::corpus::replay("response_request", response_request);
    }
}
