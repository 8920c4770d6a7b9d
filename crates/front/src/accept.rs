//! The accept loop: a deadline for headers, a cap on connections, patience when descriptors run out, a graceful end.
//!
//! Beyond the cap a connection is answered with 503 and closed: callers that waited in the kernel's backlog would not know
//! why. Those answers are bounded themselves; beyond that bound the connection is closed without a word.

use std::convert::Infallible;
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
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tower_service::Service;

use crate::error::{Code, Error};
use crate::lock::lock;
use crate::metrics::Metrics;
use crate::stall::Stalling;

/// What a listener allows.
#[derive(Clone, Debug)]
pub struct ConnectionLimits {
    /// How many connections are served at once.
    pub connections_max: usize,
    /// How many connections beyond that are told so at once; the rest is closed without a word.
    pub turned_away_max: usize,
    /// How long one that is turned away may take to read why.
    pub turned_away_timeout: Duration,
    /// How long the head of a request may take, and how long a connection may be idle.
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
            buffer_bytes_max: 64 * 1024,
            pause_min: Duration::from_millis(20),
            pause_max: Duration::from_secs(1),
            grace: Duration::from_secs(10),
        }
    }
}

impl ConnectionLimits {
    /// The same with no more connections than half of the descriptors: the other half is for workers and the store, so
    /// that a flood of callers never keeps a worker from being restarted.
    #[must_use]
    pub fn within(self, descriptors_max: u64) -> Self {
        let half = usize::try_from(descriptors_max / 2).unwrap_or(usize::MAX);
        Self { connections_max: self.connections_max.min(half.max(1)), ..self }
    }
}

/// Where a request comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub SocketAddr);

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
    listener: TcpListener,
    router: Router,
    limits: ConnectionLimits,
    metrics: Arc<Metrics>,
    stop: impl Future<Output = ()>,
) {
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
                Ok((stream, peer)) => {
                    pause.reset();
                    door.open(stream, peer);
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
    fn open(&mut self, stream: TcpStream, peer: SocketAddr) {
        match Arc::clone(&self.places).try_acquire_owned() {
            Ok(place) => {
                let stopping = self.stopping.subscribe();
                let serving = serve_connection(stream, peer, self.router.clone(), self.limits.clone(), stopping);
                let open = self.metrics.open_connection();
                self.served.spawn(async move {
                    serving.await;
                    release(open, place);
                });
            }
            Err(_) => {
                self.metrics.connections_refused.inc();
                if self.turned_away.len() < self.limits.turned_away_max {
                    let timeout = self.limits.turned_away_timeout;
                    self.turned_away.spawn(async move {
                        let _ = tokio::time::timeout(timeout, turn_away(stream)).await;
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

async fn serve_connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    limits: ConnectionLimits,
    mut stopping: watch::Receiver<()>,
) {
    // Small events must not wait for the acknowledgement of the one before.
    let _ = stream.set_nodelay(true);
    let takeover = Takeover::new(stopping.clone());
    let offered = takeover.clone();
    let answer = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(Peer(peer));
        if request.headers().contains_key(header::UPGRADE) {
            request.extensions_mut().insert(offered.clone());
        }
        let mut router = router.clone();
        async move { answer(&mut router, request).await }
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
        tracing::debug!(%peer, %error, "a connection ended early");
    }
    if let Some(next) = takeover.take() {
        next.await;
    }
}

async fn answer(router: &mut Router, request: hyper::Request<Incoming>) -> Result<Response, Infallible> {
    Service::<Request<Incoming>>::call(router, request).await
}

/// Says why and waits until the peer has closed: closing first, with its request unread, would take the answer back.
async fn turn_away(mut stream: TcpStream) -> io::Result<()> {
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
