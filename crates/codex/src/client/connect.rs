//! How a client comes to be: a process or a socket, the handshake, one probe of what the worker can do.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;
use std::{env, io};

use supervise::{Ladder, Launch, Owner, Rlimits, SpawnError};
use tokio::task::JoinSet;
use tokio::time::Instant;
use wire::Outcome;

use super::calling::Calling;
use super::{Client, Link, Options};
use crate::abilities::{Abilities, Dialect, PROBE};
use crate::dialect::{Line, Reader};
use crate::driver::{Shared, drive};
use crate::endpoint::Endpoint;
use crate::error::CallError;
use crate::exchange::Exchange;
use crate::handshake::{Greeting, Handshake, INITIALIZED, Next};
use crate::native;
use crate::requests::written;
use crate::tap::Tap;
use crate::transport::{ConnectError, End, Transport};
use crate::waits::bounded;

/// Where codex keeps its configuration and its threads.
const HOME_VARIABLE: &str = "CODEX_HOME";
/// How long the worker may think about a method that it does not have.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is no process.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// There is no command to start.
    #[error("the command line of the worker is empty: name its program, such as codex app-server")]
    NoCommand,
    /// We have no directory to start it in.
    #[error("the current directory cannot be used: {0}")]
    NoDirectory(io::Error),
    /// There is no socket.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// What is there is no worker, or not one that we can talk to.
    #[error("the handshake failed: {cause}. {end}")]
    Handshake {
        /// What went wrong.
        cause: CallError,
        /// How the process then ended, with its last words, or the socket.
        end: Arc<End>,
    },
}

impl Client {
    /// Starts a worker by its command line, such as `["codex", "app-server"]`, in our own directory and with our
    /// `CODEX_HOME`. Of the environment it sees what a program needs to find its user, its tools and its language; keys
    /// and proxies it sees only if [`Client::start`] is given a [`Launch`] that names them in `env`.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn spawn<A>(command: impl IntoIterator<Item = A>, options: Options) -> Result<Self, StartError>
    where
        A: Into<OsString>,
    {
        let mut command = command.into_iter().map(Into::into);
        let home = env::var_os(HOME_VARIABLE).map(|home| (HOME_VARIABLE.into(), home));
        let program = command.next().ok_or(StartError::NoCommand)?;
        let native = native::locate(program.as_ref(), env::var_os("PATH").as_deref());
        let launch = Launch {
            program: native.binary.into(),
            args: command.collect(),
            cwd: env::current_dir().map_err(StartError::NoDirectory)?,
            env: native.env.into_iter().chain(home).collect(),
            owner: Owner::generate(),
            rlimits: Rlimits::default(),
        };
        Self::start(&launch, options).await
    }

    /// Starts a worker as a process of ours, and shakes hands with it over its stdin and stdout.
    ///
    /// # Errors
    /// [`StartError`]; the process, if there was one, is gone by then.
    pub async fn start(launch: &Launch, options: Options) -> Result<Self, StartError> {
        let child = launch.spawn(supervise::Limits::default())?;
        Self::establish(Transport::child(child), options).await
    }

    /// Connects to a worker that listens, and shakes hands with it.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn connect(endpoint: &Endpoint, options: Options) -> Result<Self, StartError> {
        let transport = Transport::connect(endpoint, options.socket_limits).await?;
        Self::establish(transport, options).await
    }

    async fn establish(transport: Transport, options: Options) -> Result<Self, StartError> {
        let callbacks = Arc::new(options.callbacks.clone());
        let mut exchange =
            Exchange::new(options.limits.clone(), callbacks.patience, callbacks.methods(), options.json_rpc_field);
        exchange.tap = Tap::new(options.frames_bytes_max);
        if callbacks.expects_reader() {
            exchange.expect_requests();
        }
        let pid = transport.pid();
        let shared = Arc::new(Shared::new(exchange));
        let mut task = JoinSet::new();
        task.spawn(drive(Arc::clone(&shared), transport, callbacks));
        match introduce(&shared, &options).await {
            Ok((greeting, abilities)) => {
                if abilities.dialect == Dialect::V1 {
                    shared.exchange().reader = Reader::V1(Box::default());
                }
                // The second attempt at `initialize` asks for nothing.
                let has_experimental_api = options.experimental_api && greeting.fallback.is_none();
                let link = Link { shared, pid, greeting, abilities, has_experimental_api, _task: task };
                Ok(Self { link: Arc::new(link), call_timeout: options.call_timeout })
            }
            Err(cause) => {
                shared.stop(Ladder::default());
                Err(StartError::Handshake { cause, end: shared.ended().await })
            }
        }
    }
}

/// The handshake, then the probe: no other call leaves before `initialized`.
async fn introduce(shared: &Arc<Shared>, options: &Options) -> Result<(Greeting, Abilities), CallError> {
    let deadline = Instant::now() + bounded(options.handshake_timeout);
    let (mut handshake, mut params) = Handshake::start(options.initialize());
    let greeting = loop {
        let line = Line { method: "initialize".into(), params: Some(written(&params)) };
        match handshake.handle(Calling::start(shared, &line, deadline)?.await) {
            Next::Retry(again) => params = again,
            Next::Ready(greeting) => break greeting,
            Next::Failed(outcome) => return Err(CallError::of("initialize", outcome)),
        }
    };
    shared.change(|exchange| exchange.connection.notify(INITIALIZED, None))?;
    let deadline = Instant::now() + PROBE_TIMEOUT;
    let probe = Calling::start(shared, &Line { method: PROBE.into(), params: None }, deadline)?.await;
    if let Outcome::Closed(_) = probe {
        return Err(CallError::of(PROBE, probe));
    }
    let abilities = Abilities::judge(&greeting, &probe);
    abilities.name_of(abilities.first_call())?;
    Ok((greeting, abilities))
}
