//! The name of every request: the response carries it, and so does whatever is logged meanwhile, so that who reports a
//! failure can be helped by who reads the log.

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use tracing::Instrument as _;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Names a request. What a caller sends under this name is not taken: nothing of a stranger's choice gets into the log.
pub(crate) async fn name(request: Request, next: Next) -> Response {
    let id = format!("req_{}", uuid::Uuid::now_v7().simple());
    // Of the highest level, so that no level of the log leaves it out.
    let span = tracing::error_span!("request", id);
    let mut response = next.run(request).instrument(span).await;
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}
