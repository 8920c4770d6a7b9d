//! From an endpoint to an open WebSocket: reach it, prove it, upgrade it, all within one deadline.

use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::header::AUTHORIZATION;
use tokio_tungstenite::tungstenite::http::{Request, Response, StatusCode};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use super::pipe::Pipe;
use super::socket::SocketLimits;
use crate::endpoint::{Address, Endpoint, Security};

/// How much of a refusal's text is passed on.
const REASON_CHARS_MAX: usize = 200;

/// Why there is no link to a worker that was said to listen.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Nobody is there.
    #[error("cannot reach {endpoint}: {error}; does a worker listen there?")]
    Unreachable {
        /// Where.
        endpoint: String,
        /// What the system said.
        error: io::Error,
    },
    /// The path leads to something else.
    #[error("{endpoint} is not a socket: name the one that the worker was told to listen on")]
    NotASocket {
        /// Where.
        endpoint: String,
    },
    /// TLS cannot be spoken, or the other side is not the expected one.
    #[error("{endpoint} cannot be trusted: {reason}")]
    Untrusted {
        /// Where.
        endpoint: String,
        /// Why not.
        reason: String,
    },
    /// An HTTP server is there and says no.
    #[error("{endpoint} refused with {status}: {reason}")]
    Refused {
        /// Where.
        endpoint: String,
        /// Its HTTP status.
        status: u16,
        /// In its own words; the status in words where it has none.
        reason: String,
    },
    /// Something is there that does not speak WebSocket.
    #[error("{endpoint} does not speak WebSocket ({reason}): name a worker started with `app-server --listen`")]
    NotAWorker {
        /// Where.
        endpoint: String,
        /// What it did instead.
        reason: String,
    },
    /// It took too long.
    #[error("{endpoint} let {connect_timeout:?} pass without opening a connection")]
    TimedOut {
        /// Where.
        endpoint: String,
        /// How long it was given.
        connect_timeout: Duration,
    },
}

pub(super) async fn connect(endpoint: &Endpoint, limits: SocketLimits) -> Result<WebSocketStream<Pipe>, ConnectError> {
    let connect_timeout = limits.connect_timeout;
    let opened = timeout(connect_timeout, async { upgrade(dial(endpoint).await?, endpoint, limits).await });
    opened.await.unwrap_or_else(|_| Err(ConnectError::TimedOut { endpoint: endpoint.to_string(), connect_timeout }))
}

async fn dial(endpoint: &Endpoint) -> Result<Pipe, ConnectError> {
    let unreachable = |error| ConnectError::Unreachable { endpoint: endpoint.to_string(), error };
    match &endpoint.address {
        Address::Unix(path) if is_other_file(path) => Err(ConnectError::NotASocket { endpoint: endpoint.to_string() }),
        Address::Unix(path) => {
            let stream = UnixStream::connect(path).await.map_err(unreachable)?;
            let listener = stream.peer_cred().map_err(unreachable)?.uid();
            match endpoint.user {
                Some(user) if user != listener => {
                    let reason = format!("a process of uid {listener} listens there, and not one of uid {user}");
                    Err(ConnectError::Untrusted { endpoint: endpoint.to_string(), reason })
                }
                _ => Ok(Pipe::new(stream)),
            }
        }
        Address::Tcp { security, host, port, .. } => {
            let stream = reach(host, *port, *security).await.map_err(unreachable)?;
            // Calls are small and somebody waits for each.
            stream.set_nodelay(true).map_err(unreachable)?;
            match security {
                Security::ClearText => Ok(Pipe::new(stream)),
                Security::Tls => prove(stream, host, endpoint).await,
            }
        }
    }
}

fn is_other_file(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| !found.file_type().is_socket())
}

async fn reach(host: &str, port: u16, security: Security) -> io::Result<TcpStream> {
    let found = lookup_host((host, port)).await?;
    // A hosts file may say that localhost is elsewhere.
    let allowed: Vec<_> =
        found.filter(|address| security == Security::Tls || address.ip().to_canonical().is_loopback()).collect();
    if allowed.is_empty() {
        return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, format!("{host} has no address that may be used")));
    }
    TcpStream::connect(allowed.as_slice()).await
}

async fn prove(stream: TcpStream, host: &str, endpoint: &Endpoint) -> Result<Pipe, ConnectError> {
    let untrusted = |reason: String| ConnectError::Untrusted { endpoint: endpoint.to_string(), reason };
    let roots = match &endpoint.authorities {
        Some(authorities) => store(authorities.clone()),
        None => store(system_authorities().await),
    };
    if roots.is_empty() {
        let reason = "no certificate authority is known here: install ca-certificates or set SSL_CERT_FILE";
        return Err(untrusted(reason.into()));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| untrusted(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).map_err(|error| untrusted(error.to_string()))?;
    let proven = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    proven.map(Pipe::new).map_err(|error| untrusted(error.to_string()))
}

/// Read anew for each connection, so that a renewed store needs no restart.
async fn system_authorities() -> Vec<CertificateDer<'static>> {
    let loaded = tokio::task::spawn_blocking(rustls_native_certs::load_native_certs).await;
    loaded.map_or_else(|_| Vec::new(), |loaded| loaded.certs)
}

fn store(authorities: Vec<CertificateDer<'static>>) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(authorities);
    roots
}

async fn upgrade(pipe: Pipe, endpoint: &Endpoint, limits: SocketLimits) -> Result<WebSocketStream<Pipe>, ConnectError> {
    let config = WebSocketConfig::default()
        .max_message_size(Some(limits.message_bytes_max))
        .max_frame_size(Some(limits.message_bytes_max));
    let opened = match request(endpoint) {
        Ok(request) => client_async_with_config(request, pipe, Some(config)).await,
        Err(error) => Err(error),
    };
    opened.map(|(socket, _)| socket).map_err(|error| match error {
        tungstenite::Error::Http(response) => refusal(endpoint, &response),
        other => ConnectError::NotAWorker { endpoint: endpoint.to_string(), reason: other.to_string() },
    })
}

fn request(endpoint: &Endpoint) -> tungstenite::Result<Request<()>> {
    let mut request = match &endpoint.address {
        Address::Unix(_) => "ws://localhost/".into_client_request()?,
        address @ Address::Tcp { .. } => address.to_string().into_client_request()?,
    };
    if let Some(authorization) = &endpoint.authorization {
        request.headers_mut().insert(AUTHORIZATION, authorization.clone());
    }
    Ok(request)
}

fn refusal(endpoint: &Endpoint, response: &Response<Option<Vec<u8>>>) -> ConnectError {
    let status: StatusCode = response.status();
    let body = String::from_utf8_lossy(response.body().as_deref().unwrap_or_default());
    // Some answer with all that they were sent, and a secret shows in no text of ours.
    let body = match endpoint.token() {
        Some(token) => body.replace(token, "…").into(),
        None => body,
    };
    let said = supervise::escaped(&body.trim().chars().take(REASON_CHARS_MAX).collect::<String>());
    let reason = if said.is_empty() { status.canonical_reason().unwrap_or("no reason").to_owned() } else { said };
    ConnectError::Refused { endpoint: endpoint.to_string(), status: status.as_u16(), reason }
}
