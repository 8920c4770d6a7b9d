//! The one table of everything that a caller can be told went wrong: status, type, code.
//! An error carries a `message` for the caller and, apart from it, a `cause` for the log: what happened inside never
//! reaches the caller. An error cannot have the status of a success.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// How long a refusal may be, and what it says of the place: both may quote the request, which can have megabytes.
const QUOTED_BYTES_MAX: usize = 2048;

/// Why a request was refused.
#[derive(Debug)]
pub(crate) struct Error {
    code: Code,
    message: String,
    /// The place in the request that is meant, such as `messages[2].role`.
    param: Option<String>,
    cause: Option<String>,
    retry: Retry,
    /// What the head of the response says besides.
    headers: Box<[(HeaderName, HeaderValue)]>,
}

/// Whether it is worth to send the same request again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Retry {
    /// As the status says.
    Unsaid,
    /// After this time.
    After(Duration),
    /// Not at all: a turn has begun, and would run twice.
    Never(Option<Duration>),
}

macro_rules! table {
    ($($code:ident $status:ident $kind:literal $name:literal)*) => {
        /// A row of the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Code { $($code),* }

        impl Code {
            #[cfg(test)]
            pub(crate) const ALL: &[Self] = &[$(Self::$code),*];

            pub(crate) fn row(self) -> (StatusCode, &'static str, &'static str) {
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
    ModelMissing        BAD_REQUEST            "invalid_request_error" "model_required"
    Unsupported         BAD_REQUEST            "invalid_request_error" "unsupported_value"
    WorkerUnable        BAD_REQUEST            "invalid_request_error" "unsupported_by_worker"
    ContextTooLong      BAD_REQUEST            "invalid_request_error" "context_length_exceeded"
    ProviderRejected    BAD_REQUEST            "invalid_request_error" "provider_rejected"
    ContentRefused      BAD_REQUEST            "invalid_request_error" "content_policy_violation"
    KeyInvalid          UNAUTHORIZED           "authentication_error"  "invalid_api_key"
    HostRefused         FORBIDDEN              "permission_error"      "host_refused"
    OriginRefused       FORBIDDEN              "permission_error"      "origin_refused"
    PeerRefused         FORBIDDEN              "permission_error"      "peer_refused"
    ScopeMissing        FORBIDDEN              "permission_error"      "scope_missing"
    ProfileRefused      FORBIDDEN              "permission_error"      "profile_refused"
    ModelNotFound       NOT_FOUND              "invalid_request_error" "model_not_found"
    RouteNotFound       NOT_FOUND              "not_found_error"       "route_not_found"
    TurnNotFound        NOT_FOUND              "not_found_error"       "turn_not_found"
    ThreadNotFound      NOT_FOUND              "not_found_error"       "thread_not_found"
    ApprovalNotFound    NOT_FOUND              "not_found_error"       "approval_not_found"
    WorkerNotFound      NOT_FOUND              "not_found_error"       "worker_not_found"
    ToolServerNotFound  NOT_FOUND              "not_found_error"       "tool_server_not_found"
    KeyNotFound         NOT_FOUND              "not_found_error"       "key_not_found"
    ResponseNotFound    NOT_FOUND              "invalid_request_error" "response_not_found"
    ConversationNotFound NOT_FOUND             "invalid_request_error" "conversation_not_found"
    ConversationLocked  CONFLICT               "invalid_request_error" "conversation_locked"
    PreviousNotFound    BAD_REQUEST            "invalid_request_error" "previous_response_not_found"
    PreviousNotOver     BAD_REQUEST            "invalid_request_error" "previous_response_not_over"
    SocketTooOld        BAD_REQUEST            "invalid_request_error" "websocket_connection_limit_reached"
    LinkNotValid        NOT_FOUND              "not_found_error"       "link_not_valid"
    MethodNotAllowed    METHOD_NOT_ALLOWED     "invalid_request_error" "method_not_allowed"
    SlowConsumer        REQUEST_TIMEOUT        "invalid_request_error" "slow_consumer"
    BodyTimeout         REQUEST_TIMEOUT        "invalid_request_error" "body_timeout"
    ApprovalDecided     CONFLICT               "conflict_error"        "approval_decided"
    ApprovalChanged     CONFLICT               "conflict_error"        "approval_changed"
    ConfigChanged       CONFLICT               "conflict_error"        "config_changed"
    TurnOver            CONFLICT               "conflict_error"        "turn_over"
    TurnIsRead          CONFLICT               "conflict_error"        "turn_is_read"
    ResponseInProgress  CONFLICT               "conflict_error"        "response_in_progress"
    TurnInterrupted     CONFLICT               "conflict_error"        "turn_interrupted"
    BodyTooLarge        PAYLOAD_TOO_LARGE      "invalid_request_error" "request_entity_too_large"
    ContentTypeRefused  UNSUPPORTED_MEDIA_TYPE "invalid_request_error" "content_type_refused"
    EncodingRefused     UNSUPPORTED_MEDIA_TYPE "invalid_request_error" "unsupported_encoding"
    IdempotencyReused   UNPROCESSABLE_ENTITY   "invalid_request_error" "idempotency_key_reused"
    VerdictNotOffered   UNPROCESSABLE_ENTITY   "invalid_request_error" "verdict_not_offered"
    UpgradeRequired     UPGRADE_REQUIRED       "invalid_request_error" "upgrade_required"
    TooManyFailures     TOO_MANY_REQUESTS      "rate_limit_error"      "too_many_failures"
    Busy                TOO_MANY_REQUESTS      "rate_limit_error"      "worker_busy"
    RateLimited         TOO_MANY_REQUESTS      "rate_limit_error"      "rate_limited"
    ConcurrencyExceeded TOO_MANY_REQUESTS      "rate_limit_error"      "concurrency_exceeded"
    InsufficientQuota   TOO_MANY_REQUESTS      "insufficient_quota"    "insufficient_quota"
    ProviderBusy        TOO_MANY_REQUESTS      "rate_limit_error"      "rate_limit_exceeded"
    Internal            INTERNAL_SERVER_ERROR  "server_error"          "internal"
    WorkerFailed        BAD_GATEWAY            "server_error"          "worker_failed"
    ProviderFailed      BAD_GATEWAY            "server_error"          "provider_failed"
    ProviderRefusesUs   BAD_GATEWAY            "server_error"          "provider_unauthorized"
    Stalled             GATEWAY_TIMEOUT        "server_error"          "idle_timeout"
    ProviderOverloaded  SERVICE_UNAVAILABLE    "unavailable_error"     "provider_overloaded"
    WorkerExited        SERVICE_UNAVAILABLE    "unavailable_error"     "worker_exited"
    NotReady            SERVICE_UNAVAILABLE    "unavailable_error"     "worker_not_ready"
    Draining            SERVICE_UNAVAILABLE    "unavailable_error"     "draining"
    StoreUnavailable    SERVICE_UNAVAILABLE    "unavailable_error"     "store_unavailable"
    TooManyConnections  SERVICE_UNAVAILABLE    "unavailable_error"     "too_many_connections"
    MemoryExhausted     SERVICE_UNAVAILABLE    "unavailable_error"     "memory_exhausted"
}

impl Error {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        let (status, ..) = code.row();
        let message = if status.is_client_error() { shortened(message.into()) } else { message.into() };
        Self { code, message, param: None, cause: None, retry: Retry::Unsaid, headers: Box::default() }
    }

    /// Adds which part of the request is meant.
    pub(crate) fn about(self, param: impl Into<String>) -> Self {
        Self { param: Some(shortened(param.into())), ..self }
    }

    /// Adds what only the log may say.
    pub(crate) fn caused_by(self, cause: impl std::fmt::Display) -> Self {
        Self { cause: Some(cause.to_string()), ..self }
    }

    /// Adds when it is worth to try again.
    pub(crate) fn retry_after(self, wait: Duration) -> Self {
        let retry = match self.retry {
            Retry::Never(_) => Retry::Never(Some(wait)),
            Retry::Unsaid | Retry::After(_) => Retry::After(wait),
        };
        Self { retry, ..self }
    }

    /// Says that a turn has begun: clients that repeat requests by themselves must not repeat this one.
    pub(crate) fn after_work(self) -> Self {
        Self { retry: Retry::Never(self.wait()), ..self }
    }

    /// Adds what the head of its response is to say.
    pub(crate) fn beside(self, headers: impl IntoIterator<Item = (HeaderName, HeaderValue)>) -> Self {
        Self { headers: headers.into_iter().collect(), ..self }
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

    /// Whether the same request may succeed later.
    pub(crate) fn is_temporary(&self) -> bool {
        matches!(self.code.row().0, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
    }

    /// The word for it, in the table.
    pub(crate) fn code_name(&self) -> &'static str {
        self.code.row().2
    }

    pub(crate) fn code(&self) -> Code {
        self.code
    }

    /// What the caller is told.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// What a caller is told, as a response's body or as the last event of a stream.
    pub(crate) fn body(&self) -> String {
        format!(r#"{{"error":{}}}"#, self.told())
    }

    /// The same as a frame of a WebSocket, which has neither status nor headers of its own.
    pub(crate) fn frame(&self) -> String {
        let (status, ..) = self.code.row();
        let wait = self.retry_seconds().map(|seconds| format!(r#","headers":{{"retry-after":"{seconds}"}}"#));
        let (status, told, wait) = (status.as_u16(), self.told(), wait.unwrap_or_default());
        format!(r#"{{"type":"error","status":{status},"error":{told}{wait}}}"#)
    }

    fn told(&self) -> String {
        #[derive(Serialize)]
        struct Told<'a> {
            message: &'a str,
            #[serde(rename = "type")]
            kind: &'static str,
            param: Option<&'a str>,
            code: &'static str,
        }
        let (_, kind, code) = self.code.row();
        let told = Told { message: &self.message, kind, param: self.param.as_deref(), code };
        serde_json::to_string(&told).unwrap_or_default()
    }

    /// Writes down what happened; nobody else is told the cause.
    pub(crate) fn log(&self) {
        let (status, _, code) = self.code.row();
        let cause = self.cause.as_deref().unwrap_or("-");
        if status.is_server_error() {
            tracing::warn!(code, said = self.message, cause, "a request failed");
        } else {
            tracing::debug!(code, said = self.message, cause, "a request was refused");
        }
    }

    fn wait(&self) -> Option<Duration> {
        match self.retry {
            Retry::Unsaid => None,
            Retry::After(wait) => Some(wait),
            Retry::Never(wait) => wait,
        }
    }

    /// Rounded up: who comes back earlier would be refused again.
    fn retry_seconds(&self) -> Option<u64> {
        self.wait().map(|wait| wait.as_millis().div_ceil(1000).max(1).try_into().unwrap_or(u64::MAX))
    }

    fn write_retry(&self, headers: &mut HeaderMap) {
        if let Some(seconds) = self.retry_seconds() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
            headers.insert("retry-after-ms", HeaderValue::from(seconds.saturating_mul(1000)));
        }
        if matches!(self.retry, Retry::Never(_)) {
            headers.insert("x-should-retry", HeaderValue::from_static("false"));
        }
    }
}

/// Cuts a text that quotes a request, or a part of one, at the limit.
fn shortened(mut text: String) -> String {
    if text.len() > QUOTED_BYTES_MAX {
        text.truncate(text.floor_char_boundary(QUOTED_BYTES_MAX));
        text.push('…');
    }
    text
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        self.log();
        let (status, ..) = self.code.row();
        let mut response = (status, [(header::CONTENT_TYPE, "application/json")], self.body()).into_response();
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"api\""));
        }
        self.write_retry(response.headers_mut());
        response.headers_mut().extend(self.headers);
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
    fn a_refusal_quotes_no_more_than_a_person_reads() {
        let long = "é".repeat(1 << 20);
        let refusal = Error::new(Code::InvalidValue, format!("there is no {long}")).about(long.clone());
        assert!(refusal.body().len() < 8 * 1024, "{} bytes", refusal.body().len());
        assert!(refusal.message().ends_with("é…"));
    }

    #[test]
    fn a_connection_beyond_the_cap_reads_a_whole_response() {
        let error = Error::new(Code::TooManyConnections, "too many connections; try again soon")
            .retry_after(Duration::from_millis(1200));
        expect![[r#"
            HTTP/1.1 503 Service Unavailable
            content-type: application/json
            content-length: 130
            retry-after: 2
            connection: close

            {"error":{"message":"too many connections; try again soon","type":"unavailable_error","param":null,"code":"too_many_connections"}}"#]]
        .assert_eq(&error.to_wire().replace('\r', ""));
    }
}
