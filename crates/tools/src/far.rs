//! The far end of a connection: a process of ours, line by line, or a server over HTTP, message by message. It never waits
//! to send, and what it reads is always one message as a line.

mod bounded;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod http;
mod pipes;

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use supervise::{Exit, Ladder, Launch, Owner, SpawnError};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::limits::Limits;
use crate::settings::{Reach, Server};
pub(crate) use bounded::Bounded;
use http::Http;
pub(crate) use http::{client, in_turn, words};
use pipes::Pipes;

/// The far end.
pub(crate) enum Far {
    Process(Box<Pipes>),
    Http(Box<Http>),
}

/// What happened at the far end.
#[derive(Debug)]
pub(crate) enum Arrived {
    /// Lines can be taken.
    Lines,
    /// What was queued could be written.
    Room,
    /// A message could not be brought there, or so it seems; the number is that of the request in it.
    Undelivered { number: Option<i64>, why: String, may_have_arrived: bool },
    /// The server has forgotten us, and so did not take this request.
    Forgotten { number: Option<i64>, why: String },
    /// Nothing more will be heard.
    Ended,
}

/// One line that was read.
pub(crate) enum Line<'a> {
    Whole(&'a [u8]),
    TooLong { head: &'a [u8], tail: &'a [u8] },
}

/// How a connection ended.
#[derive(Clone, Debug)]
pub(crate) enum End {
    /// The process ended so.
    Process(Arc<Exit>),
    /// The link was given up, or the server gave it up.
    Link,
}

impl Far {
    /// Starts the process, or makes ready to connect, if that does not take too long: a program can lie where nothing answers.
    pub(crate) async fn open(server: &Server, owner: Owner, limits: &Limits) -> Result<Self, OpenError> {
        let within = server.timeouts.spawn;
        let (server, limits) = (server.clone(), limits.clone());
        let opening = spawn_blocking(move || Self::open_now(&server, owner, &limits));
        match timeout(within, opening).await {
            Ok(Ok(opened)) => opened,
            Ok(Err(error)) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                Err(_) => Err(OpenError::TooSlow(within)),
            },
            Err(_) => Err(OpenError::TooSlow(within)),
        }
    }

    fn open_now(server: &Server, owner: Owner, limits: &Limits) -> Result<Self, OpenError> {
        match &server.reach {
            Reach::Process { command, env, cwd, rlimits } => {
                let (program, args) = command.split_first().ok_or(OpenError::NoCommand)?;
                let launch = Launch {
                    program: program.clone(),
                    args: args.to_vec(),
                    cwd: cwd.clone(),
                    env: env.clone(),
                    owner,
                    rlimits: *rlimits,
                };
                // How long a server may read nothing is judged where it is known whether it works meanwhile.
                let child = launch.spawn(supervise::Limits { write_timeout: Duration::MAX, ..Default::default() })?;
                let pipes = Pipes::new(child, limits.line_bytes_max, server.timeouts.call);
                Ok(Self::Process(Box::new(pipes)))
            }
            Reach::Http { url, headers } => {
                let http = Http::open(url, headers, server.timeouts.spawn, limits.line_bytes_max);
                let http = http.map_err(OpenError::Http)?;
                Ok(Self::Http(Box::new(http)))
            }
        }
    }

    /// The process, if it is one of ours.
    pub(crate) fn pid(&self) -> Option<u32> {
        match self {
            Self::Process(pipes) => Some(pipes.pid()),
            Self::Http(_) => None,
        }
    }

    /// How the process has ended, if it has.
    pub(crate) async fn exit(&mut self) -> Option<Exit> {
        match self {
            Self::Process(pipes) => pipes.exit().await,
            Self::Http(_) => None,
        }
    }

    /// The processor time that the process has used.
    pub(crate) fn processor_time(&self) -> Option<Duration> {
        match self {
            Self::Process(pipes) => pipes.processor_time(),
            Self::Http(_) => None,
        }
    }

    /// The end of what the process wrote to stderr.
    pub(crate) fn stderr(&self) -> String {
        match self {
            Self::Process(pipes) => pipes.stderr(),
            Self::Http(_) => String::new(),
        }
    }

    /// Whether more may be sent now.
    pub(crate) fn has_room(&self) -> bool {
        match self {
            Self::Process(pipes) => pipes.has_room(),
            Self::Http(http) => http.has_room(),
        }
    }

    /// Whether so much waits to be sent that not even an answer is kept.
    pub(crate) fn is_full(&self) -> bool {
        match self {
            Self::Process(pipes) => pipes.is_full(),
            Self::Http(http) => http.is_full(),
        }
    }

    /// Sends a line with its ending. Never waits.
    pub(crate) fn send(&mut self, line: Vec<u8>) {
        match self {
            Self::Process(pipes) => pipes.send(line),
            Self::Http(http) => http.send(&line),
        }
    }

    /// Waits until something happens. Cancel-safe.
    pub(crate) async fn arrived(&mut self) -> Arrived {
        match self {
            Self::Process(pipes) => pipes.arrived().await,
            Self::Http(http) => http.arrived().await,
        }
    }

    /// It has shown that it is at work: what it does not read meanwhile it may read later.
    pub(crate) fn is_at_work(&mut self) {
        if let Self::Process(pipes) = self {
            pipes.is_at_work();
        }
    }

    /// Hands over every line that was read.
    pub(crate) fn take(&mut self, each: impl FnMut(Line<'_>)) {
        match self {
            Self::Process(pipes) => pipes.take(each),
            Self::Http(http) => http.take(each),
        }
    }

    /// Begins anew with a server over HTTP; a process goes on.
    pub(crate) fn reopen(&mut self) {
        if let Self::Http(http) = self {
            http.reopen();
        }
    }

    /// Ends it, with all that it started.
    pub(crate) async fn stop(self, ladder: Ladder) -> End {
        match self {
            Self::Process(pipes) => End::Process(Arc::new(pipes.stop(ladder).await)),
            Self::Http(http) => {
                http.close().await;
                End::Link
            }
        }
    }
}

/// Why there is no far end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error("`command` is empty: name the program and its arguments")]
    NoCommand,
    #[error("it was not started within {0:?}")]
    TooSlow(Duration),
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    #[error("{0}")]
    Http(String),
}
