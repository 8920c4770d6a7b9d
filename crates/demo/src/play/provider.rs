//! What the worker says when the model provider fails, in the real worker's words and error kinds.

use serde_json::{Value, json};

use crate::shapes::TurnError;

/// An HTTP status from the provider: what is said while it is retried (if it is), and what is said in the end.
pub(super) fn http(code: u16) -> (Option<TurnError>, TurnError) {
    match code {
        400 => (None, error(BODY_400, json!("other"))),
        429 => {
            let text = "exceeded retry limit, last status: 429 Too Many Requests";
            let info = json!({"responseTooManyFailedAttempts": {"httpStatusCode": 429}});
            (Some(reconnecting(Some(429), text)), error(text, info))
        }
        500 => (Some(reconnecting(None, HIGH_DEMAND)), error(HIGH_DEMAND, json!("internalServerError"))),
        code => {
            let text = format!(
                "unexpected status {code}{reason}: {message}, url: http://127.0.0.1:0/v1/responses",
                reason = reason(code),
                message = if code == 401 { "Incorrect API key".to_owned() } else { format!("mock error {code}") },
            );
            let info = json!({"httpConnectionFailed": {"httpStatusCode": code}});
            (Some(reconnecting(Some(code), &text)), error(&text, info))
        }
    }
}

pub(super) fn context_overflow() -> TurnError {
    error(
        "Codex ran out of room in the model's context window. Start a new thread or clear earlier history before retrying.",
        json!("contextWindowExceeded"),
    )
}

pub(super) fn quota() -> TurnError {
    error("Quota exceeded. Check your plan and billing details.", json!("usageLimitExceeded"))
}

/// A stream that the provider cut: first retried, then given up.
pub(super) fn cut() -> (TurnError, TurnError) {
    (reconnecting(None, CUT), error(CUT, json!("other")))
}

/// A provider that no connection can be made to.
pub(super) fn unreachable() -> TurnError {
    error(NO_CONNECTION, json!({"httpConnectionFailed": {"httpStatusCode": null}}))
}

/// What is said while such a provider is tried again.
pub(crate) fn waiting_for_network() -> TurnError {
    TurnError { message: "Reconnecting... waiting for network".to_owned(), ..reconnecting(None, NO_CONNECTION) }
}

const NO_CONNECTION: &str = "Connection failed: error sending request";
const CUT: &str = "stream disconnected before completion: stream closed before response.completed";
const HIGH_DEMAND: &str = "We’re currently experiencing high demand, which may cause temporary errors.";
const BODY_400: &str = r#"{"error":{"code":"context_length_exceeded","message":"Your input exceeds the context window of this model.","type":"invalid_request_error"}}"#;

fn error(message: &str, codex_error_info: Value) -> TurnError {
    TurnError { message: message.to_owned(), codex_error_info, additional_details: None, misalignment: () }
}

fn reconnecting(status: Option<u16>, details: &str) -> TurnError {
    TurnError {
        message: "Reconnecting... 1/1".to_owned(),
        codex_error_info: json!({"responseStreamDisconnected": {"httpStatusCode": status}}),
        additional_details: Some(details.to_owned()),
        misalignment: (),
    }
}

fn reason(code: u16) -> &'static str {
    match code {
        401 => " Unauthorized",
        403 => " Forbidden",
        404 => " Not Found",
        502 => " Bad Gateway",
        503 => " Service Unavailable",
        504 => " Gateway Timeout",
        _ => "",
    }
}
