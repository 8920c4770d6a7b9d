//! `/api/config`: what the configuration file says that is not in effect yet, and accepting it. Whoever follows the file
//! answers; an acceptance names the content that was shown, so that a file that changed since is not accepted.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

use crate::Desk;
use crate::body::Posted;
use crate::error::{Code, Error};
use crate::keys::Caller;

/// How many requests of operators wait for the configuration watcher.
const REQUESTS_MAX: usize = 16;

/// A request of an operator to whoever follows the configuration file.
#[derive(Debug)]
pub enum ConfigRequest {
    /// Reads the file now, and shows what waits.
    Show(oneshot::Sender<ConfigView>),
    /// Accepts the tool servers of the content with this hash.
    Accept {
        /// As [`ConfigView::hash`] shows it.
        hash: String,
        /// The accepted tool servers, or why there are none.
        reply: oneshot::Sender<Result<ConfigAccepted, ConfigConflict>>,
    },
}

/// What the configuration file says that is not in effect.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ConfigView {
    /// The file; none if the server follows none.
    pub file: Option<String>,
    /// The SHA-256 of the file's content, if tool servers of it wait.
    pub hash: Option<String>,
    /// The tool servers that wait for acceptance.
    pub pending: Vec<PendingServer>,
    /// The keys that count after a restart.
    pub after_restart: Vec<String>,
    /// Why the file cannot be used as it is now.
    pub problems: Vec<String>,
}

/// A tool server that waits for acceptance. Values of variables and headers can be secrets, so only their names are shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PendingServer {
    /// Its name.
    pub server: String,
    /// The keys in which it differs from the one that runs under its name; empty for a new one.
    pub changed: Vec<&'static str>,
    /// The program and its arguments.
    pub command: Option<Vec<String>>,
    /// Where the program starts.
    pub cwd: Option<String>,
    /// The names of the variables that the program is given.
    pub variables: Vec<String>,
    /// Where it is, if it is no process of ours.
    pub url: Option<String>,
    /// The names of the headers that are sent there.
    pub headers: Vec<String>,
}

/// What was accepted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConfigAccepted {
    /// The SHA-256 of the accepted content.
    pub hash: String,
    /// The tool servers that were new or changed in it.
    pub accepted: Vec<String>,
}

/// Why a content was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigConflict {
    /// No tool server waits.
    NothingPending,
    /// Another content waits.
    OtherContent,
}

/// The way from the routes to the configuration watcher.
#[must_use]
pub fn config_requests() -> (mpsc::Sender<ConfigRequest>, mpsc::Receiver<ConfigRequest>) {
    mpsc::channel(REQUESTS_MAX)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Acceptance {
    hash: String,
}

pub(crate) async fn show(State(desk): State<Arc<Desk>>) -> Result<Json<ConfigView>, Error> {
    let Some(requests) = &desk.config_requests else { return Ok(Json(ConfigView::default())) };
    let (reply, view) = oneshot::channel();
    requests.send(ConfigRequest::Show(reply)).await.map_err(|_| stopping())?;
    view.await.map(Json).map_err(|_| stopping())
}

pub(crate) async fn accept(
    State(desk): State<Arc<Desk>>,
    caller: Caller,
    Posted(Acceptance { hash }, _memory): Posted<Acceptance>,
) -> Result<Json<ConfigAccepted>, Error> {
    let Some(requests) = &desk.config_requests else { return Err(ConfigConflict::NothingPending.into()) };
    let (reply, answer) = oneshot::channel();
    requests.send(ConfigRequest::Accept { hash, reply }).await.map_err(|_| stopping())?;
    let accepted = answer.await.map_err(|_| stopping())??;
    let servers = accepted.accepted.join(" ");
    tracing::info!(hash = accepted.hash, servers, by = &*caller.key, "configuration change accepted");
    Ok(Json(accepted))
}

fn stopping() -> Error {
    Error::new(Code::Draining, "the server is stopping and does not follow its configuration any more")
}

impl From<ConfigConflict> for Error {
    fn from(conflict: ConfigConflict) -> Self {
        let message = match conflict {
            ConfigConflict::NothingPending => "no change of the configuration waits for acceptance",
            ConfigConflict::OtherContent => {
                "the configuration file has changed since it was shown; look at it again with `switchboard config`"
            }
        };
        Self::new(Code::ConfigChanged, message)
    }
}
