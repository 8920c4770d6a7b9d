//! How a turn's failure is told to the caller of the OpenAI API: one table from the worker's class of error to ours.

use std::time::Duration;

use codex::{TurnError, TurnStatus};
use serde_json::Value;

use crate::error::{Code, Error};
use crate::hide_paths::hide_paths;

/// How soon to come back to a model provider that is busy, where it does not say.
const PROVIDER_RETRY: Duration = Duration::from_secs(20);
/// How soon a worker, or a server, that ended has been started again.
const WORKER_RETRY: Duration = Duration::from_secs(5);

/// What an error of a worker comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comes {
    /// To this.
    To(Code),
    /// To what the provider's own code says, or else its status, see [`STATUSES`].
    ByStatus,
    /// To what the provider's own code says, if the message holds one, see [`PROVIDER_CODES`].
    ByProviderCode,
}

/// The worker's classes of errors, and our own (the last five).
pub(crate) const KINDS: &[(&str, Comes)] = &[
    ("context_window_exceeded", Comes::To(Code::ContextTooLong)),
    ("session_budget_exceeded", Comes::To(Code::InsufficientQuota)),
    ("usage_limit_exceeded", Comes::To(Code::InsufficientQuota)),
    ("rate_limit_exceeded", Comes::To(Code::ProviderBusy)),
    ("flex_unavailable", Comes::To(Code::ProviderBusy)),
    ("server_overloaded", Comes::To(Code::ProviderOverloaded)),
    ("policy_capacity_unavailable", Comes::To(Code::ProviderOverloaded)),
    ("model_not_found", Comes::To(Code::ModelNotFound)),
    ("cyber_policy", Comes::To(Code::ContentRefused)),
    ("misalignment_policy_violation", Comes::To(Code::ContentRefused)),
    ("too_many_denials", Comes::To(Code::TurnInterrupted)),
    ("internal_server_error", Comes::To(Code::ProviderFailed)),
    ("unauthorized", Comes::To(Code::ProviderRefusesUs)),
    ("bad_request", Comes::To(Code::ProviderRejected)),
    ("thread_rollback_failed", Comes::To(Code::WorkerFailed)),
    ("sandbox_error", Comes::To(Code::WorkerFailed)),
    ("active_turn_not_steerable", Comes::To(Code::WorkerFailed)),
    ("http_connection_failed", Comes::ByStatus),
    ("response_stream_connection_failed", Comes::ByStatus),
    ("response_stream_disconnected", Comes::ByStatus),
    ("response_too_many_failed_attempts", Comes::ByStatus),
    ("other", Comes::ByProviderCode),
    ("worker_lost", Comes::To(Code::WorkerExited)),
    ("server_stopping", Comes::To(Code::Draining)),
    ("provider_unreachable", Comes::To(Code::ProviderFailed)),
    ("stalled", Comes::To(Code::Stalled)),
    ("slow_consumer", Comes::To(Code::SlowConsumer)),
];

/// What the status of a model provider comes to; any other is [`Code::ProviderFailed`].
pub(crate) const STATUSES: &[(u16, Code)] = &[
    (400, Code::ProviderRejected),
    (401, Code::ProviderRefusesUs),
    (403, Code::ProviderRefusesUs),
    (404, Code::ProviderRejected),
    (413, Code::ContextTooLong),
    (422, Code::ProviderRejected),
    (429, Code::ProviderBusy),
    (503, Code::ProviderOverloaded),
];

/// What a model provider's own code comes to; any other is [`Code::ProviderRejected`].
pub(crate) const PROVIDER_CODES: &[(&str, Code)] = &[
    ("context_length_exceeded", Code::ContextTooLong),
    ("insufficient_quota", Code::InsufficientQuota),
    ("rate_limit_exceeded", Code::ProviderBusy),
    ("model_not_found", Code::ModelNotFound),
    ("content_policy_violation", Code::ContentRefused),
];

/// What makes a response incomplete and not failed: our code, or the worker's words; and the reason for it.
const INCOMPLETE: &[(Option<Code>, &str, &str)] = &[
    (Some(Code::ContentRefused), "Incomplete response returned, reason: content_filter", "content_filter"),
    (None, "Incomplete response returned, reason: max_output_tokens", "max_output_tokens"),
];

/// Why a response is incomplete, if it is not a failure that ended it.
pub(crate) fn incomplete_reason(error: &Error) -> Option<&'static str> {
    let is_so =
        |(code, words, _): &&(Option<Code>, &str, &str)| Some(error.code()) == *code || error.message().contains(words);
    INCOMPLETE.iter().find(is_so).map(|(.., reason)| *reason)
}

/// Why a turn did not come to its end; it has run, so that nobody is to repeat it without being asked.
pub(crate) fn failure(status: TurnStatus, error: Option<&TurnError>) -> Error {
    let is_cut = error.is_some_and(|error| error.kind.as_deref() == Some("slow_consumer"));
    let code = match (status, error) {
        (TurnStatus::Interrupted, _) if !is_cut => Code::TurnInterrupted,
        (_, Some(error)) => code_of(error, status),
        (TurnStatus::Lost, None) => Code::WorkerExited,
        (_, None) => Code::ProviderFailed,
    };
    let message = match (status, error) {
        (TurnStatus::Interrupted, _) if !is_cut => "the turn was interrupted".to_owned(),
        (_, Some(error)) => said_by(error),
        (_, None) => "the worker did not say why the turn failed".to_owned(),
    };
    let told = match ours(code) {
        Some(ours) => Error::new(code, ours).caused_by(message),
        // Several clients know this one by its words.
        None if code == Code::ContextTooLong => Error::new(
            code,
            format!(
                "this model's maximum context length is exceeded: the conversation exceeds the context window ({message})"
            ),
        ),
        None => Error::new(code, message),
    };
    let told = told.after_work();
    match code {
        Code::ProviderBusy | Code::ProviderOverloaded => told.retry_after(PROVIDER_RETRY),
        Code::WorkerExited | Code::Draining => told.retry_after(WORKER_RETRY),
        _ => told,
    }
}

/// Our own words, where the worker's are for whoever runs it: how its process ended and what it wrote last, or a provider's
/// refusal, which may show a part of our login.
fn ours(code: Code) -> Option<&'static str> {
    match code {
        Code::WorkerExited => Some("the worker ended before the turn did; another takes its place"),
        Code::Draining => Some("the server is shutting down; ask again when it is back"),
        Code::ProviderRefusesUs => Some("the model provider refuses this server's login; its operator can renew it"),
        _ => None,
    }
}

fn code_of(error: &TurnError, status: TurnStatus) -> Code {
    let named = error.kind.as_deref().and_then(|kind| KINDS.iter().find(|(name, _)| *name == kind));
    match named {
        Some((_, Comes::To(code))) => *code,
        Some((_, Comes::ByStatus)) => by_provider_code(error).unwrap_or_else(|| {
            let row = STATUSES.iter().find(|(status, _)| Some(*status) == error.http_status);
            row.map_or(Code::ProviderFailed, |(_, code)| *code)
        }),
        Some((_, Comes::ByProviderCode)) => by_provider_code(error).unwrap_or_else(|| match provider_error(error) {
            Some(_) => Code::ProviderRejected,
            None => Code::ProviderFailed,
        }),
        None if status == TurnStatus::Lost => Code::WorkerExited,
        None => Code::ProviderFailed,
    }
}

fn by_provider_code(error: &TurnError) -> Option<Code> {
    let provider = provider_error(error)?;
    PROVIDER_CODES.iter().find(|(name, _)| provider["code"] == **name).map(|(_, code)| *code)
}

/// A message that holds a provider's whole answer is told by its own words.
fn said_by(error: &TurnError) -> String {
    let provider = provider_error(error).and_then(|provider| provider["message"].as_str().map(str::to_owned));
    hide_paths(&provider.unwrap_or_else(|| error.message.to_string()))
}

/// The `error` of a model provider's answer, where the worker's message is that or ends with it.
fn provider_error(error: &TurnError) -> Option<Value> {
    let answer: Value = serde_json::from_str(&error.message[error.message.find('{')?..]).ok()?;
    answer.get("error").filter(|error| error.is_object()).cloned()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::KINDS;

    #[test]
    fn every_class_of_the_protocol_has_its_row() {
        let schema: Value = serde_json::from_str(include_str!("../../../../schema/app-server.json")).unwrap();
        let ways = schema["definitions"]["v2"]["CodexErrorInfo"]["anyOf"].as_array().unwrap();
        let words = ways.iter().flat_map(|way| way["enum"].as_array().into_iter().flatten().filter_map(Value::as_str));
        let objects = ways.iter().flat_map(|way| way["properties"].as_object().into_iter().flatten());
        let classes: Vec<_> = words.chain(objects.map(|(name, _)| name.as_str())).map(to_snake_case).collect();
        assert!(classes.len() > 20, "{classes:?}");
        for class in classes {
            assert!(KINDS.iter().any(|(kind, _)| *kind == class), "{class} has no row");
        }
    }

    fn to_snake_case(name: &str) -> String {
        let letters = name.chars().map(|letter| match letter.is_ascii_uppercase() {
            true => format!("_{}", letter.to_ascii_lowercase()),
            false => letter.to_string(),
        });
        letters.collect()
    }
}
