//! The accept loop: a deadline for headers, a cap on connections, patience when descriptors run out, a graceful end.
//!
//! Beyond the cap a connection is answered with 503 and closed: callers that waited in the kernel's backlog would not know
//! why. Those answers are bounded themselves; beyond that bound the connection is closed without a word.
//! The control socket is served by the same loop; `control.rs` decides about its peers.

mod control;

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::header;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tower_service::Service;

use crate::error::{Code, Error};
use crate::half_close::{CallerSocket, HalfCloseStream, RequestBody, ResponseProgress};
use crate::lock::lock;
use crate::metrics::Metrics;
use crate::stall::Stalling;
use crate::tls::Tls;
pub(crate) use control::ControlPeer;
pub use control::ControlSocket;

/// What a listener allows.
#[derive(Clone, Debug)]
pub struct ConnectionLimits {
    /// How many connections are served at once.
    pub connections_max: usize,
    /// How many connections beyond that are told so at once; the rest is closed without a word.
    pub turned_away_max: usize,
    /// How long one that is turned away may take to read why.
    pub turned_away_timeout: Duration,
    /// How long the TLS handshake may take, then the head of a request, and how long a connection may be idle.
    pub header_timeout: Duration,
    /// How long a peer may take nothing of what is written to it.
    pub write_timeout: Duration,
    /// How much of a request's head, and of what waits to be written, is held for one connection.
    pub buffer_bytes_max: usize,
    /// How long to pause when no descriptor is left: doubled from the first to the second.
    pub pause_min: Duration,
    /// See `pause_min`.
    pub pause_max: Duration,
    /// How long running responses may go on after the stop.
    pub grace: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            connections_max: 16_384,
            turned_away_max: 64,
            turned_away_timeout: Duration::from_secs(1),
            header_timeout: Duration::from_secs(10),
            write_timeout: Duration::from_secs(30),
            buffer_bytes_max: 16 * 1024,
            pause_min: Duration::from_millis(20),
            pause_max: Duration::from_secs(1),
            grace: Duration::from_secs(10),
        }
    }
}

impl ConnectionLimits {
    /// Divides half of the descriptors among the listeners. The other half is for workers and the store, so that a flood of
    /// callers never keeps a worker from being restarted, and none of the listeners keeps the operator out.
    pub(crate) fn divide(self, descriptors_max: u64) -> ListenerLimits {
        let half = usize::try_from(descriptors_max / 2).unwrap_or(usize::MAX);
        let at_most = |max: usize| Self { connections_max: max.max(1), ..self.clone() };
        let (control, workers) = ((half / 8).min(CONTROL_CONNECTIONS_MAX), (half / 4).min(WORKER_CONNECTIONS_MAX));
        ListenerLimits {
            callers: at_most(self.connections_max.min(half - control - workers)),
            control: at_most(control),
            workers: at_most(workers),
        }
    }
}

/// The most connections of the control socket, however many descriptors there are.
const CONTROL_CONNECTIONS_MAX: usize = 256;

/// The most connections of workers, where they have a listener of their own.
const WORKER_CONNECTIONS_MAX: usize = 1024;

/// What each listener allows.
pub(crate) struct ListenerLimits {
    pub(crate) callers: ConnectionLimits,
    pub(crate) control: ConnectionLimits,
    pub(crate) workers: ConnectionLimits,
}

/// Where a request comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub SocketAddr);

/// What connections are accepted from.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Tls(TcpListener, Tls),
    Control(ControlSocket),
}

/// A connection that was accepted.
enum AcceptedConnection {
    Tcp(TcpStream, SocketAddr),
    Tls(TcpStream, SocketAddr, TlsAcceptor),
    Control(UnixStream, control::PeerCheck),
}

impl Listener {
    async fn accept(&self) -> io::Result<AcceptedConnection> {
        match self {
            Self::Tcp(listener) => listener.accept().await.map(|(stream, peer)| AcceptedConnection::Tcp(stream, peer)),
            Self::Tls(listener, tls) => {
                listener.accept().await.map(|(stream, peer)| AcceptedConnection::Tls(stream, peer, tls.acceptor()))
            }
            Self::Control(control) => {
                control.accept().await.map(|(stream, check)| AcceptedConnection::Control(stream, check))
            }
        }
    }
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Self::Tcp(listener)
    }
}

/// What becomes of a connection that a request has taken over: it goes on in its place, counts as open, and ends with the server.
#[derive(Clone)]
pub(crate) struct Takeover {
    next: Arc<Mutex<Option<Next>>>,
    stopping: watch::Receiver<()>,
}

type Next = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Takeover {
    fn new(stopping: watch::Receiver<()>) -> Self {
        Self { next: Arc::default(), stopping }
    }

    /// Changes once the server is to stop; what then still runs has the grace of a response.
    pub(crate) fn stopping(&self) -> watch::Receiver<()> {
        self.stopping.clone()
    }

    /// Goes on with this once the request is answered.
    pub(crate) fn go_on(&self, next: impl Future<Output = ()> + Send + 'static) {
        *lock(&self.next) = Some(Box::pin(next));
    }

    fn take(&self) -> Option<Next> {
        lock(&self.next).take()
    }
}

/// Serves until `stop` is done and the last connection has ended or was cut.
pub(crate) async fn serve(
    listener: impl Into<Listener>,
    router: Router,
    limits: ConnectionLimits,
    metrics: Arc<Metrics>,
    stop: impl Future<Output = ()>,
) {
    let listener = listener.into();
    let places = Arc::new(Semaphore::new(limits.connections_max));
    let (stopping, _) = watch::channel(());
    let mut door =
        Door { router, limits, metrics, stopping, places, served: JoinSet::new(), turned_away: JoinSet::new() };
    let mut stop = pin!(stop);
    let mut pause = Pause::new(&door.limits);
    loop {
        tokio::select! {
            biased;
            () = &mut stop => break,
            Some(_) = door.served.join_next() => {}
            Some(_) = door.turned_away.join_next() => {}
            () = pause.over() => pause.end(),
            accepted = listener.accept(), if !pause.is_on() => match accepted {
                Ok(accepted) => {
                    pause.reset();
                    door.open(accepted);
                }
                Err(error) => {
                    door.metrics.accept_failures.inc();
                    pause.begin_for(&error);
                }
            },
        }
    }
    drop(listener);
    door.close().await;
}

/// The connections that are open.
struct Door {
    router: Router,
    limits: ConnectionLimits,
    metrics: Arc<Metrics>,
    stopping: watch::Sender<()>,
    places: Arc<Semaphore>,
    served: JoinSet<()>,
    turned_away: JoinSet<()>,
}

impl Door {
    fn open(&mut self, accepted: AcceptedConnection) {
        match Arc::clone(&self.places).try_acquire_owned() {
            Ok(place) => {
                let (router, limits) = (self.router.clone(), self.limits.clone());
                let stopping = self.stopping.subscribe();
                let open = self.metrics.open_connection();
                self.served.spawn(async move {
                    serve_accepted(accepted, router, limits, stopping).await;
                    release(open, place);
                });
            }
            Err(_) => {
                self.metrics.connections_refused.inc();
                if self.turned_away.len() < self.limits.turned_away_max {
                    let timeout = self.limits.turned_away_timeout;
                    let turning_away = async move {
                        match accepted {
                            AcceptedConnection::Tcp(stream, _) => turn_away(stream).await,
                            // It would read why only after a handshake, which is what there is no room for.
                            AcceptedConnection::Tls(..) => Ok(()),
                            AcceptedConnection::Control(stream, _) => turn_away(stream).await,
                        }
                    };
                    self.turned_away.spawn(async move {
                        let _ = tokio::time::timeout(timeout, turning_away).await;
                    });
                }
            }
        }
    }

    /// Idle connections end at once, the others when their response has; what then is left is cut.
    async fn close(mut self) {
        self.stopping.send_replace(());
        let all = async { while self.served.join_next().await.is_some() {} };
        if tokio::time::timeout(self.limits.grace, all).await.is_err() {
            tracing::warn!(connections = self.served.len(), "the grace is over; cutting connections");
        }
        self.served.shutdown().await;
        self.turned_away.shutdown().await;
    }
}

/// The place is free before the gauge says so, never the other way round.
fn release(open: impl Sized, place: OwnedSemaphorePermit) {
    drop(place);
    drop(open);
}

async fn serve_accepted(
    accepted: AcceptedConnection,
    router: Router,
    limits: ConnectionLimits,
    stopping: watch::Receiver<()>,
) {
    match accepted {
        AcceptedConnection::Tcp(stream, peer) => {
            // Small events must not wait for the acknowledgement of the one before.
            let _ = stream.set_nodelay(true);
            serve_connection(stream, Peer(peer), router, limits, stopping).await;
        }
        AcceptedConnection::Tls(stream, peer, acceptor) => {
            let _ = stream.set_nodelay(true);
            if let Some(stream) = shake_hands(stream, peer, &acceptor, limits.header_timeout, stopping.clone()).await {
                serve_connection(stream, Peer(peer), router, limits, stopping).await;
            }
        }
        AcceptedConnection::Control(stream, check) => match check.run().await {
            Ok(peer) => serve_connection(stream, peer, router, limits, stopping).await,
            Err(peer) => peer.answer(stream, limits.header_timeout).await,
        },
    }
}

/// `None` if the peer speaks no TLS, or is too slow at it. It holds a place meanwhile, as any connection.
async fn shake_hands(
    stream: TcpStream,
    peer: SocketAddr,
    acceptor: &TlsAcceptor,
    timeout: Duration,
    mut stopping: watch::Receiver<()>,
) -> Option<TlsStream<TcpStream>> {
    let shaken = tokio::select! {
        shaken = tokio::time::timeout(timeout, acceptor.accept(stream)) => shaken,
        _ = stopping.changed() => return None,
    };
    match shaken {
        Ok(Ok(stream)) => Some(stream),
        Ok(Err(error)) => {
            tracing::debug!(%peer, %error, "TLS handshake failed");
            None
        }
        Err(_) => {
            tracing::debug!(%peer, "TLS handshake timed out");
            None
        }
    }
}

/// Each request carries `peer`, by which the guard knows where it comes from.
async fn serve_connection(
    stream: impl CallerSocket + Send + 'static,
    peer: impl Clone + fmt::Debug + Send + Sync + 'static,
    router: Router,
    limits: ConnectionLimits,
    mut stopping: watch::Receiver<()>,
) {
    let progress = ResponseProgress::default();
    let stream = HalfCloseStream::new(stream, progress.clone());
    let takeover = Takeover::new(stopping.clone());
    let (offered, carried) = (takeover.clone(), peer.clone());
    let answer = service_fn(move |mut request: hyper::Request<Incoming>| {
        let progress = progress.clone();
        request.extensions_mut().insert(carried.clone());
        if request.headers().contains_key(header::UPGRADE) {
            request.extensions_mut().insert(offered.clone());
        }
        let mut router = router.clone();
        let request = progress.begin(request);
        async move { answer(&mut router, request, progress).await }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(limits.buffer_bytes_max)
        .serve_connection(TokioIo::new(Stalling::new(stream, limits.write_timeout)), answer)
        .with_upgrades();
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        _ = stopping.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(?peer, %error, "connection ended early");
    }
    if let Some(next) = takeover.take() {
        next.await;
    }
}

async fn answer(
    router: &mut Router,
    request: hyper::Request<RequestBody>,
    progress: ResponseProgress,
) -> Result<Response, Infallible> {
    let response = Service::<Request<RequestBody>>::call(router, request).await?;
    Ok(progress.until_end_of(response))
}

/// Says why and waits until the peer has closed: closing first, with its request unread, would take the answer back.
async fn turn_away(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    let error = Error::new(Code::TooManyConnections, "too many connections; close some or try again soon")
        .retry_after(Duration::from_secs(1));
    stream.write_all(error.to_wire().as_bytes()).await?;
    stream.shutdown().await?;
    let mut ignored = [0; 1024];
    while stream.read(&mut ignored).await? > 0 {}
    Ok(())
}

/// The wait after an `accept` that failed for lack of descriptors or memory. The listener stays readable then, so that a
/// loop without it would spin.
struct Pause {
    min: Duration,
    max: Duration,
    next: Duration,
    until: Option<tokio::time::Instant>,
}

impl Pause {
    fn new(limits: &ConnectionLimits) -> Self {
        Self { min: limits.pause_min, max: limits.pause_max, next: limits.pause_min, until: None }
    }

    fn begin_for(&mut self, error: &io::Error) {
        if !is_exhaustion(error) {
            tracing::debug!(%error, "a connection was gone before it was accepted");
            return;
        }
        if self.next == self.min {
            tracing::warn!(%error, "cannot accept connections for now; raise the limit of open files");
        }
        self.until = Some(tokio::time::Instant::now() + self.next);
        self.next = (self.next * 2).min(self.max);
    }

    fn is_on(&self) -> bool {
        self.until.is_some()
    }

    async fn over(&self) {
        match self.until {
            Some(until) => tokio::time::sleep_until(until).await,
            None => std::future::pending().await,
        }
    }

    fn end(&mut self) {
        self.until = None;
    }

    fn reset(&mut self) {
        self.next = self.min;
    }
}

fn is_exhaustion(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let exhausted = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    error.raw_os_error().is_some_and(|code| exhausted.iter().any(|errno| errno.raw_os_error() == code))
}

#[cfg(test)]
mod tests;
