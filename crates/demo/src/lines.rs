//! Writes messages as lines, in the worker's key order: `emittedAtMs` last on notifications, `error` before `id`, no
//! `jsonrpc` anywhere.

use serde::Serialize;
use serde_json::Value;

use crate::clock::Now;
use crate::incoming::CallId;

/// Why a call was refused; `code` is -32600 for nearly everything.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Refusal {
    code: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Value>,
    message: String,
}

impl Refusal {
    pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
    pub(crate) const INVALID_PARAMS: i64 = -32602;
    pub(crate) const OVERLOADED: i64 = -32001;
    const INVALID_REQUEST: i64 = -32600;

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::of(Self::INVALID_REQUEST, message)
    }

    pub(crate) fn of(code: i64, message: impl Into<String>) -> Self {
        Self { code, data: None, message: message.into() }
    }

    pub(crate) fn with_data(self, data: Value) -> Self {
        Self { data: Some(data), ..self }
    }
}

pub(crate) fn notification(method: &str, params: &impl Serialize, now: Now) -> Vec<u8> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Notification<'a, P> {
        method: &'a str,
        params: &'a P,
        emitted_at_ms: u64,
    }
    line(&Notification { method, params, emitted_at_ms: now.unix_ms })
}

/// A notification as workers sent it before `emittedAtMs` existed.
pub(crate) fn unstamped_notification(method: &str, params: &impl Serialize) -> Vec<u8> {
    #[derive(Serialize)]
    struct Notification<'a, P> {
        method: &'a str,
        params: &'a P,
    }
    line(&Notification { method, params })
}

pub(crate) fn request(id: u64, method: &str, params: &impl Serialize) -> Vec<u8> {
    #[derive(Serialize)]
    struct Request<'a, P> {
        method: &'a str,
        id: u64,
        params: &'a P,
    }
    line(&Request { method, id, params })
}

pub(crate) fn result(id: &CallId, result: &impl Serialize) -> Vec<u8> {
    #[derive(Serialize)]
    struct Success<'a, R> {
        id: &'a CallId,
        result: &'a R,
    }
    line(&Success { id, result })
}

/// An error; `id` is absent only for what is not a call.
pub(crate) fn error(id: Option<&CallId>, error: &Refusal) -> Vec<u8> {
    #[derive(Serialize)]
    struct Failure<'a> {
        error: &'a Refusal,
        id: Option<&'a CallId>,
    }
    line(&Failure { error, id })
}

fn line(message: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(message).expect("messages have string keys and no failing fields");
    bytes.push(b'\n');
    bytes
}
