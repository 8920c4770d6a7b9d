//! The sessions of legacy callers over HTTP. A session that nobody uses is a few hundred bytes: what its caller said of itself
//! and has set. The service behind it, which costs a hundred times as much, runs while a request of the session is answered, and
//! is given the handshake of its caller anew each time.

mod opening;
mod standalone;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use futures_util::{Stream, StreamExt as _, stream};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, InitializeRequest, InitializeRequestParams, LoggingLevel, NumberOrString,
    ServerJsonRpcMessage,
};
use rmcp::service::serve_server_with_ct;
use rmcp::transport::WorkerTransport;
use rmcp::transport::streamable_http_server::SessionManager;
use rmcp::transport::streamable_http_server::session::local::{
    EventIdParseError, LocalSessionHandle, SessionConfig, SessionError, StreamableHttpMessageReceiver,
    create_local_session,
};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::caller::Caller;
use crate::changes::Subscriptions;
use crate::endpoint::Endpoint;
use crate::far::in_turn;
use crate::host::Host;
use crate::post::lock;
pub(crate) use opening::{Opened, OpeningSlot};
use opening::{Opening, OpeningTransport};
use standalone::Standalone;

/// All sessions, as the HTTP service of `rmcp` asks for them.
pub(crate) struct Sessions {
    host: Host,
    /// Ends every session.
    stop: CancellationToken,
    open: Mutex<HashMap<SessionId, Arc<Session>>>,
    /// Those whose handshake is under way.
    opening: Mutex<HashMap<SessionId, Opening>>,
}

/// One session.
pub(crate) struct Session {
    id: SessionId,
    pub(crate) caller: Caller,
    /// Tells this session from all others, and opens none.
    pub(crate) owner: Arc<str>,
    /// What the caller said of itself, as JSON.
    params: Box<str>,
    pub(crate) settings: Arc<CallerSettings>,
    activity: Mutex<Activity>,
    standalone: Mutex<Standalone>,
    closed: CancellationToken,
    _place: OwnedSemaphorePermit,
}

/// What a caller has set and is to be kept for as long as its connection.
pub(crate) struct CallerSettings {
    pub(crate) level: Mutex<Option<LoggingLevel>>,
    pub(crate) subscriptions: Arc<Subscriptions>,
}

#[derive(Default)]
struct Activity {
    /// Requests that are being answered, and calls that run on though their caller has lost its connection.
    uses: usize,
    service: Option<RunningSession>,
}

struct RunningSession {
    handle: LocalSessionHandle,
    /// Cancelled when it is over.
    over: CancellationToken,
}

/// One use of a session. With the last one its service ends.
pub(crate) struct SessionUse(Arc<Session>);

/// Why a session does not do what it is asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionFailure {
    #[error("there is no such session")]
    NotFound,
    #[error("no call is under way whose stream could be resumed")]
    NothingToResume,
    #[error(transparent)]
    Service(#[from] SessionError),
    #[error(transparent)]
    EventId(#[from] EventIdParseError),
}

impl Sessions {
    pub(crate) fn new(host: &Host, stop: CancellationToken) -> Self {
        Self { host: host.clone(), stop, open: Mutex::default(), opening: Mutex::default() }
    }

    /// Keeps a session whose handshake is over.
    pub(crate) fn keep(&self, id: &str, caller: Caller, opened: Opened) {
        let shared = self.host.shared();
        let id: SessionId = id.into();
        let session = Session {
            id: Arc::clone(&id),
            caller,
            owner: Uuid::new_v4().to_string().into(),
            params: opened.params,
            settings: Arc::new(CallerSettings {
                level: Mutex::default(),
                subscriptions: Arc::new(Subscriptions::new(Arc::clone(shared))),
            }),
            activity: Mutex::default(),
            standalone: Mutex::new(Standalone::new(shared.latest_change())),
            closed: self.stop.child_token(),
            _place: opened.place,
        };
        lock(&self.open).insert(id, Arc::new(session));
    }

    /// Ends a session, with its calls and streams.
    pub(crate) fn close(&self, id: &str) {
        let closed = lock(&self.open).remove(id);
        if let Some(session) = closed {
            session.closed.cancel();
        }
    }

    /// Uses a session for as long as what is returned is kept.
    pub(crate) fn enter(&self, id: &str) -> Option<SessionUse> {
        let session = lock(&self.open).get(id).cloned()?;
        Some(session.enter())
    }

    fn get(&self, id: &str) -> Result<Arc<Session>, SessionFailure> {
        lock(&self.open).get(id).cloned().ok_or(SessionFailure::NotFound)
    }
}

impl Session {
    pub(crate) fn enter(self: &Arc<Self>) -> SessionUse {
        lock(&self.activity).uses += 1;
        SessionUse(Arc::clone(self))
    }

    /// The service behind the session, which ends with the last [`SessionUse`].
    fn service(self: &Arc<Self>, host: &Host) -> LocalSessionHandle {
        let service = &mut lock(&self.activity).service;
        match service {
            Some(running) if !running.over.is_cancelled() => running.handle.clone(),
            _ => service.insert(self.start(host)).handle.clone(),
        }
    }

    fn running(&self) -> Option<LocalSessionHandle> {
        lock(&self.activity).service.as_ref().map(|running| running.handle.clone())
    }

    /// Starts a service and begins with its handshake, before which nothing else reaches it.
    fn start(self: &Arc<Self>, host: &Host) -> RunningSession {
        let mut config = SessionConfig::default();
        // It would end a session whose call waits for a person.
        config.keep_alive = None;
        let (handle, worker) = create_local_session(Arc::clone(&self.id), config);
        let over = self.closed.child_token();
        let initialized = {
            let (handle, message) = (handle.clone(), self.initialize_message());
            in_turn(async move { handle.initialize(message).await })
        };
        let endpoint = Endpoint::of_session(host, self);
        let transport = WorkerTransport::spawn(worker);
        let (session, logging, token, ending) =
            (Arc::clone(self), handle.clone(), over.clone(), over.clone().drop_guard());
        host.shared().own(async move {
            let (service, _) = tokio::join!(serve_server_with_ct(endpoint, transport, token), initialized);
            if let (Ok(service), Ok(logged)) = (service, logging.establish_common_channel().await) {
                session.pass_on(logged).await;
                _ = service.waiting().await;
            }
            drop(ending);
        });
        RunningSession { handle, over }
    }

    fn initialize_message(&self) -> ClientJsonRpcMessage {
        // It was made of such parameters.
        let params: InitializeRequestParams = serde_json::from_str(&self.params).unwrap_or_default();
        let request = ClientRequest::InitializeRequest(InitializeRequest::new(params));
        ClientJsonRpcMessage::request(request, NumberOrString::Number(0))
    }

    /// Passes on what the service says that belongs to no request: what tool servers log.
    async fn pass_on(&self, mut logged: StreamableHttpMessageReceiver) {
        while let Some(mut message) = logged.inner.recv().await {
            // The ids of this stream are the numbers of changes.
            message.event_id = None;
            self.tell(message).await;
        }
    }
}

impl Drop for SessionUse {
    fn drop(&mut self) {
        let idle = {
            let mut activity = lock(&self.0.activity);
            activity.uses -= 1;
            if activity.uses == 0 { activity.service.take() } else { None }
        };
        if let Some(running) = idle {
            running.over.cancel();
        }
    }
}

impl SessionManager for Sessions {
    type Error = SessionFailure;
    type Transport = OpeningTransport;

    async fn create_session(&self) -> Result<(SessionId, OpeningTransport), SessionFailure> {
        let id: SessionId = Uuid::new_v4().to_string().into();
        let (opening, transport) = opening::pair();
        lock(&self.opening).insert(Arc::clone(&id), opening);
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, SessionFailure> {
        let opening = lock(&self.opening).remove(id).ok_or(SessionFailure::NotFound)?;
        opening.exchange(message).await.map_err(|oneshot::error::RecvError { .. }| SessionFailure::NotFound)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, SessionFailure> {
        Ok(lock(&self.open).contains_key(id))
    }

    /// Whoever serves this ends sessions by [`Sessions::close`]; here only the end of a handshake is told.
    async fn close_session(&self, id: &SessionId) -> Result<(), SessionFailure> {
        lock(&self.opening).remove(id);
        Ok(())
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionFailure> {
        let handle = self.get(id)?.service(&self.host);
        let receiver = handle.establish_request_wise_channel().await?;
        handle.push_message(message, receiver.http_request_id).await?;
        Ok(streamed(receiver))
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), SessionFailure> {
        // Where no call is under way there is nothing to be cancelled and nothing to be answered.
        if let Some(handle) = self.get(id)?.running() {
            handle.push_message(message, None).await?;
        }
        Ok(())
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionFailure> {
        Ok(self.get(id)?.listen(self.host.shared().changes()))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionFailure> {
        let session = self.get(id)?;
        if is_of_standalone(&last_event_id) {
            return Ok(session.listen_from(&last_event_id, self.host.shared().changes()).left_stream());
        }
        let handle = session.running().ok_or(SessionFailure::NothingToResume)?;
        Ok(streamed(handle.resume(last_event_id.parse()?).await?).right_stream())
    }
}

/// Whether an event with this id came on the stream that belongs to no request; those of a request have its number behind a `/`.
pub(crate) fn is_of_standalone(event_id: &str) -> bool {
    !event_id.contains('/')
}

fn streamed(
    mut receiver: StreamableHttpMessageReceiver,
) -> impl Stream<Item = ServerSseMessage> + Send + Sync + 'static {
    stream::poll_fn(move |context| receiver.inner.poll_recv(context))
}
