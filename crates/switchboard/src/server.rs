//! A running server, as the other commands see it: found by its control socket, or by its address.
//! Each request has a connection of its own: a command makes few, and the server is on this machine or behind a tunnel.

mod announcement;
mod control;
mod events;
mod request;
mod tls;

use std::fmt;
use std::io;
use std::path::Path;
use std::time::Duration;

use hyper::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

pub(crate) use announcement::{Announced, Announcement, announce, remove_left_behind};
pub(crate) use control::{ControlSocketGuard, bind_control};
pub(crate) use events::Events;
use request::{Access, Address, Answer};

use crate::config::{Config, Secret};

/// How long any answer may take. A restart of a worker is the slowest that is asked for.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the server may take to be reached.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A server that can be asked.
#[derive(Debug)]
pub(crate) struct Server {
    access: Access,
    /// Where callers with a key reach it.
    url: String,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServerError {
    #[error("no server runs here (nothing in {}): start one with `switchboard serve`, or name one with --server", .0.display())]
    NotRunning(Box<Path>),
    #[error("--server needs a key: set SWITCHBOARD_KEY")]
    NoKey,
    #[error("{0:?} is no address of a server: write https://HOST:PORT, or http://HOST:PORT on this machine")]
    BadAddress(String),
    #[error("http:// to {0} would send the key in clear text: use https://, or a tunnel to an address of this machine")]
    ClearText(String),
    #[error("the server at {address} cannot be reached: {error}")]
    Unreachable { address: String, error: io::Error },
    #[error("the server at {address} has not answered within {}", crate::config::show_duration(*.after))]
    TooSlow { address: String, after: Duration },
    #[error("{message}")]
    Refused { status: u16, code: String, message: String },
    #[error("the answer of the server is not understood: {0}")]
    Unexpected(String),
}

impl Server {
    /// The server that `--server` names, else the one that runs with this configuration.
    pub(crate) fn find(named: Option<&str>, config: &Config) -> Result<Self, ServerError> {
        match named {
            Some(address) => Self::at(address, config.key.clone().ok_or(ServerError::NoKey)?),
            None => Self::running(&config.state_dir),
        }
    }

    /// The server at this address.
    pub(crate) fn at(address: &str, key: Secret) -> Result<Self, ServerError> {
        let address: Address = address.parse()?;
        Ok(Self { url: address.url(), access: Access::Key(address, key) })
    }

    /// The server that keeps its state there.
    pub(crate) fn running(state_dir: &Path) -> Result<Self, ServerError> {
        let not_running = || ServerError::NotRunning(state_dir.into());
        let Announcement { url, started_ms, .. } = Announcement::read(state_dir).ok_or_else(not_running)?;
        let socket = control::socket(state_dir).map_err(|_| not_running())?;
        Ok(Self { access: Access::Control { socket, run: started_ms }, url })
    }

    /// Its MCP endpoint, as the tool crate reaches it.
    pub(crate) fn mcp(&self) -> tools::Remote {
        match &self.access {
            Access::Key(_, key) => tools::Remote::Url { url: format!("{self}/mcp"), token: key.reveal().into() },
            Access::Control { socket, run } => tools::Remote::Control { socket: socket.clone(), run: *run },
        }
    }

    /// What a route says of which the status matters more than success.
    pub(crate) async fn look<T: DeserializeOwned>(&self, path: &str) -> Result<(u16, T), ServerError> {
        let looking = async {
            let (status, answer) = self.ask(Method::GET, path, Vec::new()).await?;
            Ok((status, read(&answer.whole().await?)?))
        };
        timeout(ANSWER_TIMEOUT, looking).await.map_err(|_| self.too_slow(ANSWER_TIMEOUT))?
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ServerError> {
        read(&self.answer(Method::GET, path, Vec::new()).await?)
    }

    pub(crate) async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, ServerError> {
        let body = serde_json::to_vec(body).map_err(|error| ServerError::Unexpected(error.to_string()))?;
        read(&self.answer(Method::POST, path, body).await?)
    }

    /// What the server tells from here on.
    pub(crate) async fn events(&self, path: &str) -> Result<Events, ServerError> {
        Ok(Events::new(self.send(Method::GET, path, Vec::new()).await?))
    }

    async fn answer(&self, method: Method, path: &str, body: Vec<u8>) -> Result<Vec<u8>, ServerError> {
        let whole = async { self.send(method, path, body).await?.whole().await };
        timeout(ANSWER_TIMEOUT, whole).await.map_err(|_| self.too_slow(ANSWER_TIMEOUT))?
    }

    /// Sends a request; an answer that is none of success is an error.
    async fn send(&self, method: Method, path: &str, body: Vec<u8>) -> Result<Answer, ServerError> {
        match self.ask(method, path, body).await? {
            (200..=299, answer) => Ok(answer),
            (status, answer) => Err(request::refusal(status, &answer.whole().await?)),
        }
    }

    async fn ask(&self, method: Method, path: &str, body: Vec<u8>) -> Result<(u16, Answer), ServerError> {
        let connecting = timeout(CONNECT_TIMEOUT, self.access.connect());
        let connection = connecting.await.map_err(|_| self.too_slow(CONNECT_TIMEOUT))??;
        connection.send(method, path, body).await
    }

    fn too_slow(&self, after: Duration) -> ServerError {
        ServerError::TooSlow { address: self.access.to_string(), after }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, ServerError> {
    serde_json::from_slice(body).map_err(|error| ServerError::Unexpected(error.to_string()))
}
