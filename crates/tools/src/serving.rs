//! The endpoint over its two ways: Streamable HTTP, as a service that whoever speaks HTTP mounts, and a pipe.

use std::convert::Infallible;
use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use rmcp::model::{ErrorCode, ProtocolVersion};
use rmcp::transport::common::http_header::{
    HEADER_LAST_EVENT_ID, HEADER_MCP_METHOD, HEADER_MCP_PROTOCOL_VERSION, HEADER_SESSION_ID,
};
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, ServiceExt};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, oneshot};
use tokio_util::bytes::Bytes;
use tokio_util::sync::CancellationToken;

use crate::caller::Caller;
use crate::endpoint::Endpoint;
use crate::host::Host;
use crate::sessions::{OpeningSlot, Sessions, is_of_standalone};
use crate::visits::{Refusal, Visits};

/// Places that are kept for those who come, at most.
const PLACES_MIN: usize = 64;
/// The JSON-RPC code of a refusal that is over when the caller has less under way.
const TOO_MANY: i32 = -32000;

/// The endpoint for callers over Streamable HTTP. Clones are the same.
#[derive(Clone)]
pub struct HttpEndpoint {
    service: StreamableHttpService<Endpoint, Sessions>,
    sessions: Arc<Sessions>,
    visits: Arc<Visits>,
    idle_max: Duration,
    places: Arc<Semaphore>,
    /// When there are fewer places, room is made for each caller that comes.
    places_min: usize,
    stop: CancellationToken,
    host: Host,
    /// Requests whose answers are not sent yet.
    awaited: Arc<AtomicUsize>,
}

/// A request whose answer is not sent yet.
struct Awaited(Arc<AtomicUsize>);

impl Awaited {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl HttpEndpoint {
    /// The endpoint of a host, for bodies of at most `body_bytes_max`.
    #[must_use]
    pub fn new(host: &Host, body_bytes_max: usize) -> Self {
        let stop = CancellationToken::new();
        let config = StreamableHttpServerConfig::default()
            .with_cancellation_token(stop.child_token())
            .with_max_request_body_bytes(body_bytes_max)
            .with_json_response(true)
            // Whoever mounts it has checked `Host` and `Origin` by its own list.
            .disable_allowed_hosts()
            .disable_allowed_origins();
        let sessions = Arc::new(Sessions::new(host, stop.child_token()));
        let idle_max = host.shared().limits.caller_idle_max;
        let places = Arc::clone(&host.shared().listeners);
        let visits = Arc::new(Visits::new(&host.shared().limits));
        let places_min = (host.shared().limits.listeners_max / 16).clamp(1, PLACES_MIN);
        let made_for = host.clone();
        let make = move || Endpoint::new(&made_for).ok_or_else(|| io::Error::other("too many callers are connected"));
        let service = StreamableHttpService::new(make, Arc::clone(&sessions), config);
        Self {
            service,
            sessions,
            visits,
            idle_max,
            places,
            places_min,
            stop,
            host: host.clone(),
            awaited: Arc::default(),
        }
    }

    /// Answers one request, which has a [`Caller`] among its extensions.
    pub async fn answer<B>(&self, mut request: Request<B>) -> Response<BoxBody<Bytes, Infallible>>
    where
        B: Body + Send + 'static,
        B::Data: Send + 'static,
        B::Error: Display,
    {
        let caller = request.extensions().get::<Caller>().cloned().unwrap_or_else(|| Caller::new("", ""));
        let named = session_in(request.headers());
        let visit = match self.visits.enter(named.as_deref(), &caller.key) {
            Ok(visit) => visit,
            // As if there were no such session.
            Err(Refusal::NotTheirs) => return not_found(),
            Err(Refusal::TooMany) => {
                return too_many("too many requests of this key are under way: end some first", Duration::from_secs(1));
            }
        };
        let Some(id) = named else {
            for forgotten in self.visits.give_up(self.idle_max, Instant::now()) {
                self.sessions.close(&forgotten);
            }
            // Whoever leaves one session after the other must not keep all others out.
            if self.places.available_permits() < self.places_min
                && let Some(forgotten) = self.visits.make_room()
            {
                self.sessions.close(&forgotten);
            }
            let slot = OpeningSlot::default();
            request.extensions_mut().insert(slot.clone());
            if is_modern(request.headers()) {
                let awaited = is_answered_once(&request).then(|| Awaited::new(&self.awaited));
                let response = self.service.handle(request).await;
                let response = self.open(&slot, caller, response);
                return until_sent(response, (visit, awaited));
            }
            return self.connect(slot, caller, request).await;
        };
        let session_use = if needs_service(&request) { self.sessions.enter(&id) } else { None };
        let awaited = is_answered_once(&request).then(|| Awaited::new(&self.awaited));
        let is_farewell = request.method() == Method::DELETE;
        let mut response = self.service.handle(request).await;
        if is_farewell && response.status() == StatusCode::ACCEPTED {
            // Official clients take anything but this and 200 for a failure to end the session.
            *response.status_mut() = StatusCode::NO_CONTENT;
            self.visits.close(&id);
            self.sessions.close(&id);
        }
        until_sent(response, (visit, awaited, session_use))
    }

    /// Opens a session for a legacy caller, in a task of its own: one that is opened while its caller leaves must not be forgotten.
    async fn connect<B>(
        &self,
        slot: OpeningSlot,
        caller: Caller,
        request: Request<B>,
    ) -> Response<BoxBody<Bytes, Infallible>>
    where
        B: Body + Send + 'static,
        B::Data: Send + 'static,
        B::Error: Display,
    {
        let (endpoint, (sender, receiver)) = (self.clone(), oneshot::channel());
        self.host.shared().own(async move {
            let response = endpoint.service.handle(request).await;
            let response = endpoint.open(&slot, caller, response);
            let opened = session_in(response.headers());
            if sender.send(response).is_err()
                && let Some(unheard) = opened
            {
                endpoint.visits.close(&unheard);
                endpoint.sessions.close(&unheard);
            }
        });
        let gone = || refused(StatusCode::SERVICE_UNAVAILABLE, "the server ends");
        receiver.await.unwrap_or_else(|_| gone())
    }

    /// Keeps the session that was opened with this response, if one was and its key may have one more.
    fn open(
        &self,
        slot: &OpeningSlot,
        caller: Caller,
        mut response: Response<BoxBody<Bytes, Infallible>>,
    ) -> Response<BoxBody<Bytes, Infallible>> {
        let Some(id) = session_in(response.headers()) else { return response };
        let Some(opened) = slot.take() else {
            // Its handshake was refused.
            response.headers_mut().remove(HEADER_SESSION_ID);
            return response;
        };
        // Before its visit is known: whoever finds the one finds the other.
        let key = Arc::clone(&caller.key);
        self.sessions.keep(&id, caller, opened);
        if let Err(retry_after) = self.visits.open(&id, key, self.idle_max, Instant::now()) {
            self.sessions.close(&id);
            return too_many("this key has a quarter of all MCP sessions: end some first", retry_after);
        }
        response
    }

    /// Ends the sessions of a key that is not valid any more.
    pub fn end_of(&self, key: &str) {
        for forgotten in self.visits.end_of(key) {
            self.sessions.close(&forgotten);
        }
    }

    /// Waits until every request that has an answer has had it, at most for so long.
    pub async fn answered(&self, within: Duration) {
        const LOOK: Duration = Duration::from_millis(20);
        let all_answered = async {
            while self.awaited.load(Ordering::Relaxed) > 0 {
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::time::timeout(within, all_answered).await.ok();
    }

    /// Ends every connection.
    pub fn end(&self) {
        self.stop.cancel();
    }
}

/// Whether the answer has an end: callers listen for as long as they like.
fn is_answered_once<B>(request: &Request<B>) -> bool {
    let method = request.headers().get(HEADER_MCP_METHOD).map(HeaderValue::as_bytes);
    request.method() == Method::POST && method != Some(b"subscriptions/listen")
}

/// Whether a request stands for itself: those of the older era have no such header, or an older version in it.
fn is_modern(headers: &HeaderMap) -> bool {
    let version = headers.get(HEADER_MCP_PROTOCOL_VERSION).and_then(|version| version.to_str().ok());
    version.is_some_and(|version| version >= ProtocolVersion::V_2026_07_28.as_str())
}

/// Whether the service of its session has to run for a request. The stream that belongs to no request needs none.
fn needs_service<B>(request: &Request<B>) -> bool {
    let last_event_id = request.headers().get(HEADER_LAST_EVENT_ID).and_then(|id| id.to_str().ok());
    match *request.method() {
        Method::POST => true,
        Method::GET => last_event_id.is_some_and(|id| !is_of_standalone(id)),
        _ => false,
    }
}

fn session_in(headers: &HeaderMap) -> Option<Box<str>> {
    headers.get(HEADER_SESSION_ID).and_then(|id| id.to_str().ok()).map(Into::into)
}

/// Keeps what stands for a response until its last byte is sent.
fn until_sent<T: Send + Sync + 'static>(
    response: Response<BoxBody<Bytes, Infallible>>,
    kept: T,
) -> Response<BoxBody<Bytes, Infallible>> {
    match response.body().size_hint().exact() {
        None => response.map(|body| body.map_frame(move |frame| (frame, &kept).0).boxed()),
        Some(_) => response,
    }
}

fn not_found() -> Response<BoxBody<Bytes, Infallible>> {
    refused(StatusCode::NOT_FOUND, "Not Found: Session not found")
}

fn refused(status: StatusCode, why: &'static str) -> Response<BoxBody<Bytes, Infallible>> {
    let mut response = Response::new(Full::from(why).boxed());
    *response.status_mut() = status;
    response
}

/// What a key is told that has its share, as HTTP and as JSON-RPC.
fn too_many(why: &str, retry_after: Duration) -> Response<BoxBody<Bytes, Infallible>> {
    let error = ErrorData::new(ErrorCode(TOO_MANY), why.to_owned(), None);
    let body = json!({ "jsonrpc": "2.0", "id": null, "error": error }).to_string();
    let mut response = Response::new(Full::from(body).boxed());
    *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(RETRY_AFTER, retry_after.as_secs().max(1).into());
    response
}

/// Serves one caller over a pipe, until it closes its end.
///
/// # Errors
/// The caller never said what it speaks.
pub async fn serve_pipe(
    host: &Host,
    caller: Caller,
    reader: impl AsyncRead + Send + Unpin + 'static,
    writer: impl AsyncWrite + Send + Unpin + 'static,
) -> io::Result<()> {
    let endpoint = Endpoint::of(host, caller).ok_or_else(|| io::Error::other("too many callers are connected"))?;
    let served = endpoint.serve((reader, writer)).await.map_err(io::Error::other)?;
    served.waiting().await.map(drop).map_err(io::Error::other)
}
