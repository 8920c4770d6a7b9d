//! The control socket, by which the command line of the same user reaches the server without a key. Each connection is
//! judged once, when it is accepted, by the process that opened it.

use std::io;
use std::os::unix::net;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use supervise::{ControlPeerPolicy, PeerRefusal};
use tokio::net::unix::UCred;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::Listener;

/// How many peers are examined at once. Each takes a thread for as long as `/proc` takes to answer, which a hostile peer
/// can delay.
const CHECKS_MAX: usize = 16;

/// How long a peer may take to be examined, waiting included.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// The control socket.
pub struct ControlSocket {
    listener: UnixListener,
    lineage: Arc<ControlPeerPolicy>,
    checks: Arc<Semaphore>,
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
        Ok(Self { listener, lineage, checks, refusals: Arc::default() })
    }

    pub(super) async fn accept(&self) -> io::Result<(UnixStream, PeerCheck)> {
        let (stream, _) = self.listener.accept().await?;
        let (lineage, checks, refusals) =
            (Arc::clone(&self.lineage), Arc::clone(&self.checks), Arc::clone(&self.refusals));
        let credentials = stream.peer_cred();
        Ok((stream, PeerCheck { credentials, lineage, checks, refusals }))
    }
}

impl From<ControlSocket> for Listener {
    fn from(control: ControlSocket) -> Self {
        Self::Control(control)
    }
}

/// The verdict on a control connection; each request on it carries the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControlPeer {
    /// The user of this server.
    Admitted,
    /// A peer that must use the TCP address with a key.
    Refused(PeerRefusal),
}

/// A peer that is to be examined.
pub(super) struct PeerCheck {
    credentials: io::Result<UCred>,
    lineage: Arc<ControlPeerPolicy>,
    checks: Arc<Semaphore>,
    refusals: Arc<AtomicU64>,
}

impl PeerCheck {
    pub(super) async fn run(self) -> ControlPeer {
        let Self { credentials, lineage, checks, refusals } = self;
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
        match timeout(CHECK_TIMEOUT, checking).await.unwrap_or(Err(PeerRefusal::Unknown)) {
            Ok(()) => ControlPeer::Admitted,
            Err(refusal) => {
                let count = refusals.fetch_add(1, Ordering::Relaxed) + 1;
                // A peer that tries in a loop does not fill the log.
                if count.is_power_of_two() {
                    tracing::warn!(%refusal, pid, uid, count, "control connection refused");
                }
                ControlPeer::Refused(refusal)
            }
        }
    }
}
