//! One request and its answer, over a connection of its own.

use std::fmt;
use std::io;
use std::str::FromStr;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response, Uri};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use supervise::SocketPath;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinSet;

use super::{ServerError, tls};
use crate::config::Secret;

/// The longest answer that is read whole; lists are paged well below it.
const ANSWER_BYTES_MAX: usize = 128 << 20;

/// The host of a control socket, which takes any.
const CONTROL_HOST: &str = "switchboard";

/// How a server is reached, on this machine.
#[derive(Clone, Debug)]
pub(super) enum Access {
    /// At its address, with a key.
    Key(Address, Secret),
    /// By its control socket.
    Control {
        socket: SocketPath,
        /// Which run of the server it belongs to.
        run: u64,
    },
}

/// Where a server listens for callers with a key.
#[derive(Clone, Debug)]
pub(super) struct Address {
    scheme: Scheme,
    host: String,
    port: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    /// In clear text, on this machine alone.
    Http,
    Https,
}

/// A connection that nothing was asked on.
pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    access: Access,
    driver: JoinSet<()>,
}

/// The answer to a request, as it comes.
pub(crate) struct Answer {
    body: Incoming,
    access: Access,
    /// Ends with this.
    _driver: JoinSet<()>,
}

impl Access {
    pub(super) async fn connect(&self) -> Result<Connection, ServerError> {
        match self {
            Self::Key(address, _) => {
                let place = (address.bare_host(), address.port);
                let stream = TcpStream::connect(place).await.map_err(|error| self.unreachable(error))?;
                match address.scheme {
                    Scheme::Http => self.greet(stream).await,
                    Scheme::Https => {
                        let stream = tls::connect(stream, address.bare_host()).await;
                        self.greet(stream.map_err(|error| self.unreachable(error))?).await
                    }
                }
            }
            Self::Control { socket, .. } => {
                let stream = UnixStream::connect(socket.short()).await.map_err(|error| match error.kind() {
                    // What a server that was killed has left behind.
                    io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => not_running(socket),
                    _ => self.unreachable(error),
                })?;
                self.greet(stream).await
            }
        }
    }

    async fn greet(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    ) -> Result<Connection, ServerError> {
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| self.unreachable(io::Error::other(error)))?;
        let mut driver = JoinSet::new();
        // What goes wrong with the connection is told by the request on it.
        driver.spawn(async { _ = connection.await });
        Ok(Connection { sender, access: self.clone(), driver })
    }

    fn unreachable(&self, error: io::Error) -> ServerError {
        ServerError::Unreachable { address: self.to_string(), error }
    }
}

fn not_running(socket: &SocketPath) -> ServerError {
    let path = socket.path();
    ServerError::NotRunning(path.parent().unwrap_or(path).into())
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(address, _) => address.fmt(f),
            Self::Control { socket, .. } => socket.path().display().fmt(f),
        }
    }
}

impl FromStr for Address {
    type Err = ServerError;

    fn from_str(text: &str) -> Result<Self, ServerError> {
        let bad = || ServerError::BadAddress(text.into());
        let uri: Uri = text.parse().map_err(|_| bad())?;
        let is_bare = uri.path() == "/" || uri.path().is_empty();
        let (scheme, port) = match uri.scheme_str() {
            Some("http") => (Scheme::Http, 80),
            Some("https") => (Scheme::Https, 443),
            _ => return Err(bad()),
        };
        let authority = uri.authority().filter(|_| is_bare && uri.query().is_none());
        let authority = authority.filter(|authority| !authority.as_str().contains('@')).ok_or_else(bad)?;
        let port = authority.port_u16().unwrap_or(port);
        let address = Self { scheme, host: authority.host().into(), port };
        if scheme == Scheme::Http && !address.is_here() {
            return Err(ServerError::ClearText(address.bare_host().into()));
        }
        Ok(address)
    }
}

impl Address {
    pub(super) fn url(&self) -> String {
        let scheme = match self.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
        };
        format!("{scheme}://{self}")
    }

    /// Without the brackets of IPv6.
    fn bare_host(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    fn is_here(&self) -> bool {
        let address = self.bare_host().parse::<std::net::IpAddr>();
        self.bare_host() == "localhost" || address.is_ok_and(|ip| ip.to_canonical().is_loopback())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl Connection {
    pub(super) async fn send(
        mut self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<(u16, Answer), ServerError> {
        let request = Request::builder().method(method).uri(path).header(CONTENT_TYPE, "application/json");
        let request = match &self.access {
            Access::Key(address, key) => {
                let bearer = HeaderValue::from_str(&format!("Bearer {}", key.reveal()));
                let mut bearer = bearer.map_err(|_| ServerError::NoKey)?;
                bearer.set_sensitive(true);
                request.header(HOST, address.to_string()).header(AUTHORIZATION, bearer)
            }
            Access::Control { .. } => request.header(HOST, CONTROL_HOST),
        };
        let request = request.body(Full::from(body)).map_err(|error| ServerError::Unexpected(error.to_string()))?;
        let response = self.sender.send_request(request).await;
        let response = response.map_err(|error| self.access.unreachable(io::Error::other(error)))?;
        Ok((response.status().as_u16(), Answer::new(response, self.access, self.driver)))
    }
}

impl Answer {
    fn new(response: Response<Incoming>, access: Access, driver: JoinSet<()>) -> Self {
        Self { body: response.into_body(), access, _driver: driver }
    }

    /// All of it.
    pub(super) async fn whole(mut self) -> Result<Vec<u8>, ServerError> {
        let mut whole = Vec::new();
        while let Some(part) = self.next().await? {
            whole.extend_from_slice(&part);
            if whole.len() > ANSWER_BYTES_MAX {
                return Err(ServerError::Unexpected(format!("it is longer than {ANSWER_BYTES_MAX} bytes")));
            }
        }
        Ok(whole)
    }

    /// The next piece of it. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, ServerError> {
        loop {
            match self.body.frame().await {
                None => return Ok(None),
                Some(Ok(frame)) => {
                    if let Ok(part) = frame.into_data() {
                        return Ok(Some(part));
                    }
                }
                Some(Err(error)) => return Err(self.access.unreachable(io::Error::other(error))),
            }
        }
    }
}

/// What the server says of a request that it refuses.
pub(super) fn refusal(status: u16, body: &[u8]) -> ServerError {
    #[derive(Deserialize)]
    struct Body {
        error: Told,
    }
    #[derive(Deserialize)]
    struct Told {
        message: String,
        #[serde(default)]
        code: String,
    }
    match serde_json::from_slice(body) {
        Ok(Body { error: Told { message, code } }) => ServerError::Refused { status, code, message },
        Err(_) => ServerError::Unexpected(format!("status {status} without an explanation; is this Switchboard?")),
    }
}
