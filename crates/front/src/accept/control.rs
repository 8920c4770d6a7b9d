//! The control socket, by which the command line of the same user reaches the server without a key. Each connection is
//! judged once, when it is accepted, by the process that opened it.

use std::convert::Infallible;
use std::io;
use std::os::unix::net;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::response::{IntoResponse as _, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use supervise::{ControlPeerPolicy, PeerRefusal};
use tokio::net::unix::UCred;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::Listener;
use crate::error::{Code, Error};

/// How many peers are examined at once. Each takes a thread for as long as `/proc` takes to answer, which a hostile peer
/// can delay.
const CHECKS_MAX: usize = 16;

/// How long a peer may take to be examined, waiting included.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// How many refused peers are answered at once; any more are cut, so that they keep no place from the operator.
const REFUSED_MAX: usize = 64;

/// The control socket.
pub struct ControlSocket {
    listener: UnixListener,
    lineage: Arc<ControlPeerPolicy>,
    checks: Arc<Semaphore>,
    /// The places of refused peers that are being answered.
    refused: Arc<Semaphore>,
    /// How many peers were refused.
    refusals: Arc<AtomicU64>,
}

impl ControlSocket {
    /// Serves a socket that is bound, to the peers that `lineage` admits.
    ///
    /// # Errors
    /// The socket cannot be watched.
    pub fn new(listener: net::UnixListener, lineage: ControlPeerPolicy) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(listener)?;
        let (lineage, checks) = (Arc::new(lineage), Arc::new(Semaphore::new(CHECKS_MAX)));
        let refused = Arc::new(Semaphore::new(REFUSED_MAX));
        Ok(Self { listener, lineage, checks, refused, refusals: Arc::default() })
    }

    pub(super) async fn accept(&self) -> io::Result<(UnixStream, PeerCheck)> {
        let (stream, _) = self.listener.accept().await?;
        let check = PeerCheck {
            credentials: stream.peer_cred(),
            lineage: Arc::clone(&self.lineage),
            checks: Arc::clone(&self.checks),
            refused: Arc::clone(&self.refused),
            refusals: Arc::clone(&self.refusals),
        };
        Ok((stream, check))
    }
}

impl From<ControlSocket> for Listener {
    fn from(control: ControlSocket) -> Self {
        Self::Control(control)
    }
}

/// The user of this server; each request on its connection carries this.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ControlPeer;

/// A peer that is to be examined.
pub(super) struct PeerCheck {
    credentials: io::Result<UCred>,
    lineage: Arc<ControlPeerPolicy>,
    checks: Arc<Semaphore>,
    refused: Arc<Semaphore>,
    refusals: Arc<AtomicU64>,
}

impl PeerCheck {
    pub(super) async fn run(self) -> Result<ControlPeer, RefusedPeer> {
        let Self { credentials, lineage, checks, refused, refusals } = self;
        let (pid, uid) = credentials.as_ref().map_or((None, None), |peer| (peer.pid(), Some(peer.uid())));
        let checking = async {
            let credentials = credentials.map_err(|_| PeerRefusal::Unknown)?;
            let permit = checks.acquire_owned().await.map_err(|_| PeerRefusal::Unknown)?;
            let check = move || {
                let checked = lineage.check(credentials.pid(), credentials.uid());
                drop(permit);
                checked
            };
            spawn_blocking(check).await.unwrap_or(Err(PeerRefusal::Unknown))
        };
        let checked = timeout(CHECK_TIMEOUT, checking).await.unwrap_or(Err(PeerRefusal::Unknown));
        checked.map(|()| ControlPeer).map_err(|refusal| {
            let count = refusals.fetch_add(1, Ordering::Relaxed) + 1;
            // A peer that tries in a loop does not fill the log.
            if count.is_power_of_two() {
                tracing::warn!(%refusal, pid, uid, count, "control connection refused");
            }
            RefusedPeer { refusal, place: refused.try_acquire_owned().ok() }
        })
    }
}

/// A peer that must use the TCP address with a key.
pub(super) struct RefusedPeer {
    refusal: PeerRefusal,
    /// None if too many others are being answered.
    place: Option<OwnedSemaphorePermit>,
}

impl RefusedPeer {
    /// Answers one request with the reason, and closes the connection.
    pub(super) async fn answer(self, stream: UnixStream, limit: Duration) {
        let Some(_place) = self.place else { return };
        let refusal = self.refusal;
        let answer = service_fn(move |_: hyper::Request<Incoming>| async move {
            let remedy = "use the server's address with --server and a key in SWITCHBOARD_KEY \
                          (workers have tools by their own access already)";
            let error = Error::new(Code::PeerRefused, format!("{refusal}: {remedy}"));
            Ok::<Response, Infallible>(error.into_response())
        });
        let connection = http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), answer);
        // It may have gone, or have sent what is no request.
        let _ = timeout(limit, connection).await;
    }
}

#[cfg(test)]
mod adversary {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    async fn exchange(place: Option<OwnedSemaphorePermit>) -> String {
        let (mut peer, stream) = UnixStream::pair().unwrap();
        let refused = RefusedPeer { refusal: PeerRefusal::Descendant, place };
        // Two requests at once: a connection that is kept open would answer both.
        peer.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        refused.answer(stream, Duration::from_secs(60)).await;
        let mut answer = Vec::new();
        // The second request is never read, so the end is a reset.
        let _ = peer.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    }

    #[tokio::test]
    async fn a_refused_peer_gets_one_answer_and_keeps_no_connection() {
        let places = Arc::new(Semaphore::new(1));
        let answer = exchange(Arc::clone(&places).try_acquire_owned().ok()).await;
        assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("peer_refused"), "{answer}");
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
        assert_eq!(places.available_permits(), 1);
    }

    #[tokio::test]
    async fn a_refused_peer_too_many_is_cut() {
        assert_eq!(exchange(None).await, "");
    }
}
