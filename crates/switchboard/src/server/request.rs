//! One request and its answer, over a connection of its own.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::str::FromStr;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response, Uri};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::ServerError;
use crate::config::Secret;

/// The longest answer that is read whole; lists are paged well below it.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Where a server listens, on this machine.
#[derive(Clone, Debug)]
pub(super) struct Address(String);

/// A connection that nothing was asked on.
pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    address: Address,
    driver: JoinSet<()>,
}

/// The answer to a request, as it comes.
pub(crate) struct Answer {
    body: Incoming,
    address: Address,
    /// Ends with this.
    _driver: JoinSet<()>,
}

impl Address {
    pub(super) fn of(address: SocketAddr) -> Self {
        Self(address.to_string())
    }

    pub(super) async fn connect(&self) -> Result<Connection, ServerError> {
        let stream = TcpStream::connect(&self.0).await.map_err(|error| self.unreachable(error))?;
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| self.unreachable(io::Error::other(error)))?;
        let mut driver = JoinSet::new();
        // What goes wrong with the connection is told by the request on it.
        driver.spawn(async { _ = connection.await });
        Ok(Connection { sender, address: self.clone(), driver })
    }

    fn unreachable(&self, error: io::Error) -> ServerError {
        ServerError::Unreachable { address: self.0.clone(), error }
    }
}

impl FromStr for Address {
    type Err = ServerError;

    fn from_str(text: &str) -> Result<Self, ServerError> {
        let bad = || ServerError::BadAddress(text.into());
        let uri: Uri = text.parse().map_err(|_| bad())?;
        let is_bare = uri.path() == "/" || uri.path().is_empty();
        let authority =
            uri.authority().filter(|_| uri.scheme_str() == Some("http") && is_bare && uri.query().is_none());
        let authority = authority.filter(|authority| !authority.as_str().contains('@')).ok_or_else(bad)?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        let is_here =
            host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback());
        if !is_here {
            return Err(ServerError::ClearText(host.into()));
        }
        Ok(Self(format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(80))))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Connection {
    pub(super) async fn send(
        mut self,
        method: Method,
        path: &str,
        key: &Secret,
        body: Vec<u8>,
    ) -> Result<(u16, Answer), ServerError> {
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", key.reveal())).map_err(|_| ServerError::NoKey)?;
        bearer.set_sensitive(true);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &self.address.0)
            .header(AUTHORIZATION, bearer)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::from(body))
            .map_err(|error| ServerError::Unexpected(error.to_string()))?;
        let response = self.sender.send_request(request).await;
        let response = response.map_err(|error| self.address.unreachable(io::Error::other(error)))?;
        Ok((response.status().as_u16(), Answer::new(response, self.address, self.driver)))
    }
}

impl Answer {
    fn new(response: Response<Incoming>, address: Address, driver: JoinSet<()>) -> Self {
        Self { body: response.into_body(), address, _driver: driver }
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
                Some(Err(error)) => return Err(self.address.unreachable(io::Error::other(error))),
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
