//! The endpoint over its two ways: Streamable HTTP, as a service that whoever speaks HTTP mounts, and a pipe.

use std::convert::Infallible;
use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use rmcp::ServiceExt;
use rmcp::model::ProtocolVersion;
use rmcp::transport::common::http_header::{HEADER_MCP_METHOD, HEADER_MCP_PROTOCOL_VERSION};
use rmcp::transport::streamable_http_server::SessionManager as _;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, oneshot};
use tokio_util::bytes::Bytes;
use tokio_util::sync::CancellationToken;

use crate::caller::Caller;
use crate::endpoint::Endpoint;
use crate::host::Host;
use crate::visits::{Refusal, Visits};

/// Places that are kept for those who come, at most.
const PLACES_MIN: usize = 64;

/// The endpoint for callers over Streamable HTTP. Clones are the same.
#[derive(Clone)]
pub struct HttpEndpoint {
    service: StreamableHttpService<Endpoint, LocalSessionManager>,
    connections: Arc<LocalSessionManager>,
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
        let mut connections = LocalSessionManager::default();
        // It would end a connection whose call waits for a person; `visits` knows which are in use.
        connections.session_config.keep_alive = None;
        let connections = Arc::new(connections);
        let idle_max = host.shared().limits.caller_idle_max;
        let places = Arc::clone(&host.shared().listeners);
        // However many one key has, others find room.
        let visits = Arc::new(Visits::new((host.shared().limits.listeners_max / 2).max(1)));
        let places_min = (host.shared().limits.listeners_max / 16).clamp(1, PLACES_MIN);
        let made_for = host.clone();
        let make = move || Endpoint::new(&made_for).ok_or_else(|| io::Error::other("too many callers are connected"));
        let service = StreamableHttpService::new(make, Arc::clone(&connections), config);
        Self {
            service,
            connections,
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
    pub async fn answer<B>(&self, request: Request<B>) -> Response<BoxBody<Bytes, Infallible>>
    where
        B: Body + Send + 'static,
        B::Data: Send + 'static,
        B::Error: Display,
    {
        let key = request.extensions().get::<Caller>().map_or_else(Arc::default, |caller| Arc::clone(&caller.key));
        let named = connection_in(request.headers());
        let visit = match self.visits.enter(named.as_deref(), &key) {
            Ok(visit) => visit,
            // As if there were no such connection.
            Err(Refusal::NotTheirs) => return refused(StatusCode::NOT_FOUND, "Not Found: Session not found"),
            Err(Refusal::TooMany) => {
                return refused(
                    StatusCode::TOO_MANY_REQUESTS,
                    "too many requests of this key are under way: end some first",
                );
            }
        };
        if named.is_none() {
            self.close(self.visits.give_up(self.idle_max, Instant::now())).await;
            // Whoever leaves one connection after the other must not keep all others out.
            if self.places.available_permits() < self.places_min {
                self.close(self.visits.make_room().into_iter().collect()).await;
            }
        }
        if named.is_none() && !is_modern(request.headers()) {
            return self.connect(key, request).await;
        }
        let awaited = is_answered_once(&request).then(|| Awaited::new(&self.awaited));
        let is_farewell = request.method() == Method::DELETE;
        let mut response = self.service.handle(request).await;
        // Official clients take anything but these two for a failure to end the connection.
        if is_farewell && response.status() == StatusCode::ACCEPTED {
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        if let Some(id) = named.filter(|_| is_farewell && response.status().is_success()) {
            self.visits.close(&id);
        }
        // In use until its last byte is sent.
        match response.body().size_hint().exact() {
            None => response.map(|body| body.map_frame(move |frame| (frame, &visit, &awaited).0).boxed()),
            Some(_) => response,
        }
    }

    /// Makes a connection for a legacy caller, in a task of its own: one that is made while its caller leaves must not be forgotten.
    async fn connect<B>(&self, key: Arc<str>, request: Request<B>) -> Response<BoxBody<Bytes, Infallible>>
    where
        B: Body + Send + 'static,
        B::Data: Send + 'static,
        B::Error: Display,
    {
        let (endpoint, (sender, receiver)) = (self.clone(), oneshot::channel());
        self.host.shared().own(async move {
            let response = endpoint.service.handle(request).await;
            let made = connection_in(response.headers());
            if let Some(id) = &made {
                endpoint.visits.open(id, key, Instant::now());
            }
            if sender.send(response).is_err() {
                let unheard = made.inspect(|id| endpoint.visits.close(id));
                endpoint.close(unheard.into_iter().collect()).await;
            }
        });
        let gone = || refused(StatusCode::SERVICE_UNAVAILABLE, "the server ends");
        receiver.await.unwrap_or_else(|_| gone())
    }

    /// Ends the connections of a key that is not valid any more.
    pub async fn end_of(&self, key: &str) {
        self.close(self.visits.end_of(key)).await;
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

    /// Ends connections that are forgotten already; so whoever waits for it must not be able to stop it.
    async fn close(&self, forgotten: Vec<Box<str>>) {
        if forgotten.is_empty() {
            return;
        }
        let (connections, (closing, closed)) = (Arc::clone(&self.connections), oneshot::channel::<()>());
        self.host.shared().own(async move {
            for id in forgotten {
                if let Err(error) = connections.close_session(&(*id).into()).await {
                    tracing::debug!(%error, "the connection of a caller was gone already");
                }
            }
            drop(closing);
        });
        // It ends by being dropped.
        _ = closed.await;
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

fn connection_in(headers: &HeaderMap) -> Option<Box<str>> {
    headers.get("mcp-session-id").and_then(|id| id.to_str().ok()).map(Into::into)
}

fn refused(status: StatusCode, why: &'static str) -> Response<BoxBody<Bytes, Infallible>> {
    let mut response = Response::new(Full::from(why).boxed());
    *response.status_mut() = status;
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
