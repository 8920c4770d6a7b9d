//! The one table of everything that a caller can be told went wrong: status, type, code.
//! An error carries a `message` for the caller and, apart from it, a `cause` for the log: what happened inside never
//! reaches the caller. An error cannot have the status of a success.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// Why a request was refused.
#[derive(Debug)]
pub(crate) struct Error {
    code: Code,
    message: String,
    cause: Option<String>,
    retry_after: Option<Duration>,
}

macro_rules! table {
    ($($code:ident $status:ident $kind:literal $name:literal)*) => {
        /// A row of the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Code { $($code),* }

        impl Code {
            #[cfg(test)]
            pub(crate) const ALL: &[Self] = &[$(Self::$code),*];

            fn row(self) -> (StatusCode, &'static str, &'static str) {
                match self { $(Self::$code => (StatusCode::$status, $kind, $name)),* }
            }
        }
    };
}

table! {
    HostMissing         BAD_REQUEST            "invalid_request_error" "host_missing"
    InvalidJson         BAD_REQUEST            "invalid_request_error" "invalid_json"
    InvalidValue        BAD_REQUEST            "invalid_request_error" "invalid_value"
    BodyIncomplete      BAD_REQUEST            "invalid_request_error" "body_incomplete"
    KeyMissing          UNAUTHORIZED           "authentication_error"  "key_missing"
    KeyInvalid          UNAUTHORIZED           "authentication_error"  "key_invalid"
    HostRefused         FORBIDDEN              "permission_error"      "host_refused"
    OriginRefused       FORBIDDEN              "permission_error"      "origin_refused"
    ScopeMissing        FORBIDDEN              "permission_error"      "scope_missing"
    RouteNotFound       NOT_FOUND              "not_found_error"       "route_not_found"
    TurnNotFound        NOT_FOUND              "not_found_error"       "turn_not_found"
    ThreadNotFound      NOT_FOUND              "not_found_error"       "thread_not_found"
    ApprovalNotFound    NOT_FOUND              "not_found_error"       "approval_not_found"
    WorkerNotFound      NOT_FOUND              "not_found_error"       "worker_not_found"
    LinkNotValid        NOT_FOUND              "not_found_error"       "link_not_valid"
    MethodNotAllowed    METHOD_NOT_ALLOWED     "invalid_request_error" "method_not_allowed"
    BodyTimeout         REQUEST_TIMEOUT        "invalid_request_error" "body_timeout"
    ApprovalDecided     CONFLICT               "conflict_error"        "approval_decided"
    ApprovalChanged     CONFLICT               "conflict_error"        "approval_changed"
    TurnOver            CONFLICT               "conflict_error"        "turn_over"
    BodyTooLarge        PAYLOAD_TOO_LARGE      "invalid_request_error" "body_too_large"
    ContentTypeRefused  UNSUPPORTED_MEDIA_TYPE "invalid_request_error" "content_type_refused"
    VerdictNotOffered   UNPROCESSABLE_ENTITY   "invalid_request_error" "verdict_not_offered"
    TooManyFailures     TOO_MANY_REQUESTS      "rate_limit_error"      "too_many_failures"
    Busy                TOO_MANY_REQUESTS      "rate_limit_error"      "busy"
    Internal            INTERNAL_SERVER_ERROR  "server_error"          "internal"
    WorkerFailed        BAD_GATEWAY            "server_error"          "worker_failed"
    NotReady            SERVICE_UNAVAILABLE    "unavailable_error"     "not_ready"
    Draining            SERVICE_UNAVAILABLE    "unavailable_error"     "draining"
    StoreUnavailable    SERVICE_UNAVAILABLE    "unavailable_error"     "store_unavailable"
    TooManyConnections  SERVICE_UNAVAILABLE    "unavailable_error"     "too_many_connections"
}

impl Error {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), cause: None, retry_after: None }
    }

    /// Adds what only the log may say.
    pub(crate) fn caused_by(self, cause: impl std::fmt::Display) -> Self {
        Self { cause: Some(cause.to_string()), ..self }
    }

    /// Adds when it is worth to try again.
    pub(crate) fn retry_after(self, wait: Duration) -> Self {
        Self { retry_after: Some(wait), ..self }
    }

    /// The whole response as it stands on the wire, for a connection that is closed before anything is read of it.
    pub(crate) fn to_wire(&self) -> String {
        let (status, ..) = self.code.row();
        let body = self.body();
        let retry_after = self.retry_seconds().map(|seconds| format!("retry-after: {seconds}\r\n")).unwrap_or_default();
        format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{retry_after}connection: close\r\n\r\n{body}",
            body.len(),
        )
    }

    fn body(&self) -> String {
        #[derive(Serialize)]
        struct Told<'a> {
            message: &'a str,
            #[serde(rename = "type")]
            kind: &'static str,
            code: &'static str,
        }
        let (_, kind, code) = self.code.row();
        let told = serde_json::to_string(&Told { message: &self.message, kind, code });
        format!(r#"{{"error":{}}}"#, told.unwrap_or_default())
    }

    /// Rounded up: who comes back earlier would be refused again.
    fn retry_seconds(&self) -> Option<u64> {
        self.retry_after.map(|wait| wait.as_millis().div_ceil(1000).max(1).try_into().unwrap_or(u64::MAX))
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let (status, _, code) = self.code.row();
        let cause = self.cause.as_deref().unwrap_or("-");
        if status.is_server_error() {
            tracing::warn!(code, said = self.message, cause, "a request failed");
        } else {
            tracing::debug!(code, said = self.message, cause, "a request was refused");
        }
        let mut response = (status, [(header::CONTENT_TYPE, "application/json")], self.body()).into_response();
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = self.retry_seconds() {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use expect_test::expect;

    use super::{Code, Error};

    #[test]
    fn every_row_is_an_error_with_a_code_of_its_own_and_stands_in_the_documentation() {
        let page = include_str!("../../../docs/operator-api.md");
        let mut names = BTreeSet::new();
        for code in Code::ALL {
            let (status, kind, name) = code.row();
            assert!(status.is_client_error() || status.is_server_error(), "{code:?}");
            assert!(names.insert(name), "{name} stands twice");
            let row = format!("| {} | `{kind}` | `{name}` |", status.as_u16());
            assert!(page.contains(&row), "docs/operator-api.md lacks: {row}");
        }
    }

    #[test]
    fn a_connection_beyond_the_cap_reads_a_whole_response() {
        let error = Error::new(Code::TooManyConnections, "too many connections; try again soon")
            .retry_after(Duration::from_millis(1200));
        expect![[r#"
            HTTP/1.1 503 Service Unavailable
            content-type: application/json
            content-length: 117
            retry-after: 2
            connection: close

            {"error":{"message":"too many connections; try again soon","type":"unavailable_error","code":"too_many_connections"}}"#]]
        .assert_eq(&error.to_wire().replace('\r', ""));
    }
}
