//! The endpoint over its two ways: Streamable HTTP, as a service that whoever speaks HTTP mounts, and a pipe.

use std::convert::Infallible;
use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::Stream;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use rmcp::ServiceExt;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::common::server_side_http::ServerSseMessage;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{SessionId, SessionManager};
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, oneshot};
use tokio_util::bytes::Bytes;
use tokio_util::sync::CancellationToken;

use crate::caller::Caller;
use crate::endpoint::Endpoint;
use crate::host::{Host, Shared};
use crate::visits::{Refusal, Visits};

/// Places that are kept for those who come, at most.
const PLACES_MIN: usize = 64;

/// The endpoint for callers over Streamable HTTP. Clones are the same.
#[derive(Clone)]
pub struct HttpEndpoint {
    service: StreamableHttpService<Endpoint, Connections>,
    connections: Arc<Connections>,
    visits: Arc<Visits>,
    idle_max: Duration,
    places: Arc<Semaphore>,
    /// When there are fewer places, room is made for each caller that comes.
    places_min: usize,
    stop: CancellationToken,
    shared: Arc<Shared>,
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
        // However many one key has, others find room.
        let visits = Arc::new(Visits::new((host.shared().limits.listeners_max / 2).max(1)));
        let mut sessions = LocalSessionManager::default();
        // It would end a connection whose call waits for a person; `visits` knows which are in use.
        sessions.session_config.keep_alive = None;
        let connections = Arc::new(Connections { sessions, visits: Arc::clone(&visits) });
        let idle_max = host.shared().limits.caller_idle_max;
        let places = Arc::clone(&host.shared().listeners);
        let places_min = (host.shared().limits.listeners_max / 16).clamp(1, PLACES_MIN);
        let (shared, host) = (Arc::clone(host.shared()), host.clone());
        let make = move || Endpoint::new(&host).ok_or_else(|| io::Error::other("too many callers are connected"));
        let service = StreamableHttpService::new(make, Arc::clone(&connections), config);
        Self { service, connections, visits, idle_max, places, places_min, stop, shared }
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
        let is_farewell = request.method() == Method::DELETE;
        let mut response = self.service.handle(request).await;
        // Official clients take anything but these two for a failure to end the connection.
        if is_farewell && response.status() == StatusCode::ACCEPTED {
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        match (named, connection_in(response.headers())) {
            (Some(id), _) if is_farewell && response.status().is_success() => self.visits.close(&id),
            (None, Some(made)) => self.visits.open(&made, key, Instant::now()),
            _ => {}
        }
        // In use until its last byte is sent.
        match response.body().size_hint().exact() {
            None => response.map(|body| body.map_frame(move |frame| (frame, &visit).0).boxed()),
            Some(_) => response,
        }
    }

    /// Ends the connections of a key that is not valid any more.
    pub async fn end_of(&self, key: &str) {
        self.close(self.visits.end_of(key)).await;
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
        self.shared.own(async move {
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

/// The connections of `rmcp`, each of which is known to `visits` from its first moment: a caller may leave before it is told of
/// its own, and then nobody else would ever end that.
struct Connections {
    sessions: LocalSessionManager,
    visits: Arc<Visits>,
}

type Made = <LocalSessionManager as SessionManager>::Transport;
type Unmade = <LocalSessionManager as SessionManager>::Error;

impl SessionManager for Connections {
    type Error = Unmade;
    type Transport = Made;

    async fn create_session(&self) -> Result<(SessionId, Made), Unmade> {
        let (id, transport) = self.sessions.create_session().await?;
        self.visits.begin(&id, Instant::now());
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Unmade> {
        self.sessions.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Unmade> {
        self.sessions.has_session(id).await
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Unmade> {
        self.sessions.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Unmade> {
        self.sessions.create_stream(id, message).await
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Unmade> {
        self.sessions.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Unmade> {
        self.sessions.create_standalone_stream(id).await
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Unmade> {
        self.sessions.resume(id, last_event_id).await
    }
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
