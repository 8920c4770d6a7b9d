//! A client of one worker: starts it, shakes hands, makes calls.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use supervise::{Exit, Ladder, Launch, SpawnError};
use wire::{Event, Json, Limits, NotOpen, Outcome, PeerError, Refused, RequestId};

use crate::handshake::{Greeting, Handshake, INITIALIZED, Initialize, Next};
use crate::link::Link;

/// How long a worker may take to answer `initialize`; a first start in a fresh home was measured at 0.6 s.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(20);
/// How long any other call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// How many events may come before the answer that a call waits for.
const BACKLOG_MAX: usize = 10_000;

/// A worker that is ready for calls.
pub struct Client {
    link: Link,
    greeting: Greeting,
    /// Events that came while a call was waited for.
    backlog: VecDeque<Event>,
}

/// Where and how a thread works.
#[derive(Clone, Debug)]
pub struct ThreadOptions {
    /// Its directory.
    pub cwd: PathBuf,
    /// Its model; the worker's own choice if absent.
    pub model: Option<String>,
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is no process.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The process is no worker, or not one that we can talk to.
    #[error("the handshake failed: {cause}. {exit}")]
    Handshake {
        /// What went wrong.
        cause: CallError,
        /// How the process then ended, with its last words.
        exit: Box<Exit>,
    },
}

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The call was not made.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The worker answered with an error.
    #[error("the worker refused {method}: {} (code {})", error.message, error.code)]
    Failed {
        /// The call.
        method: Box<str>,
        /// The worker's error.
        error: PeerError,
    },
    /// The call ended without an answer.
    #[error("{method} got no answer: {reason}")]
    Unanswered {
        /// The call.
        method: Box<str>,
        /// Why.
        reason: &'static str,
    },
    /// The answer is not what the protocol says.
    #[error("the answer to {method} has no {field}: the worker speaks another protocol")]
    Unexpected {
        /// The call.
        method: Box<str>,
        /// What is missing.
        field: &'static str,
    },
}

impl Client {
    /// Starts a worker and shakes hands with it.
    ///
    /// # Errors
    /// [`StartError`]; the process, if there was one, is gone by then.
    pub async fn start(launch: &Launch, initialize: Initialize) -> Result<Self, StartError> {
        let child = launch.spawn(supervise::Limits::default())?;
        let mut client = Self {
            link: Link::new(child, Limits::default()),
            greeting: Greeting::default(),
            backlog: VecDeque::new(),
        };
        match client.shake_hands(initialize).await {
            Ok(greeting) => Ok(Self { greeting, ..client }),
            Err(cause) => {
                let exit = client.stop().await.into();
                Err(StartError::Handshake { cause, exit })
            }
        }
    }

    /// What the worker said of itself.
    #[must_use]
    pub fn greeting(&self) -> &Greeting {
        &self.greeting
    }

    /// Starts a thread, and returns its id.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn start_thread(&mut self, options: &ThreadOptions) -> Result<Box<str>, CallError> {
        let params = options.params();
        let result = self.call("thread/start", params, CALL_TIMEOUT).await?;
        thread_id("thread/start", &result)
    }

    /// Loads a thread that an earlier worker has kept, and returns its id.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn resume_thread(
        &mut self,
        thread: &str,
        options: &ThreadOptions,
    ) -> Result<Box<str>, CallError> {
        let mut params = options.params();
        params["threadId"] = json!(thread);
        params["excludeTurns"] = json!(true);
        let result = self.call("thread/resume", params, CALL_TIMEOUT).await?;
        thread_id("thread/resume", &result)
    }

    /// Starts a turn with a text, and returns its id.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn start_turn(&mut self, thread: &str, text: &str) -> Result<Box<str>, CallError> {
        let params = json!({"threadId": thread, "input": [{"type": "text", "text": text}]});
        let result = self.call("turn/start", params, CALL_TIMEOUT).await?;
        id_in("turn/start", &result, "turn")
    }

    /// Asks the worker to stop a turn. Its end is the truth, not the answer: a second interrupt is never answered.
    ///
    /// # Errors
    /// [`Refused`], and then nothing was sent.
    pub fn interrupt(&mut self, thread: &str, turn: &str) -> Result<(), Refused> {
        let params = encode(&json!({"threadId": thread, "turnId": turn}));
        self.link
            .call("turn/interrupt", &params, CALL_TIMEOUT)
            .map(drop)
    }

    /// Answers a request of the worker.
    ///
    /// # Errors
    /// [`NotOpen`] for a second answer.
    pub fn answer(
        &mut self,
        request: &RequestId,
        outcome: Result<&Json, &PeerError>,
    ) -> Result<(), NotOpen> {
        self.link.answer(request, outcome)
    }

    /// The next event; `None` when the worker is gone. Cancel-safe.
    pub async fn next(&mut self) -> Option<Event> {
        match self.backlog.pop_front() {
            Some(event) => Some(event),
            None => self.link.next().await,
        }
    }

    /// Stops the worker and all that it started.
    pub async fn stop(self) -> Exit {
        self.link.stop(Ladder::default()).await
    }

    async fn shake_hands(&mut self, initialize: Initialize) -> Result<Greeting, CallError> {
        let (mut handshake, mut params) = Handshake::start(initialize);
        loop {
            let outcome = self
                .outcome("initialize", &params, HANDSHAKE_TIMEOUT)
                .await?;
            match handshake.handle(outcome) {
                Next::Retry(again) => params = again,
                Next::Ready(greeting) => {
                    self.link.notify(INITIALIZED)?;
                    return Ok(greeting);
                }
                Next::Failed(outcome) => return Err(no_result("initialize", outcome)),
            }
        }
    }

    async fn call(
        &mut self,
        method: &str,
        params: Value,
        timeout: Duration,
    ) -> Result<Json, CallError> {
        match self.outcome(method, &params, timeout).await? {
            Outcome::Answered(result) => Ok(result),
            other => Err(no_result(method, other)),
        }
    }

    async fn outcome(
        &mut self,
        method: &str,
        params: &Value,
        timeout: Duration,
    ) -> Result<Outcome, CallError> {
        let call = self.link.call(method, &encode(params), timeout)?;
        loop {
            match self.link.next().await {
                Some(Event::Settled {
                    call: settled,
                    outcome,
                }) if settled == call => return Ok(outcome),
                Some(_) if self.backlog.len() == BACKLOG_MAX => {
                    return Err(unanswered(
                        method,
                        "the worker sends too much else: stop it",
                    ));
                }
                Some(event) => self.backlog.push_back(event),
                None => return Err(unanswered(method, "the worker is gone")),
            }
        }
    }
}

impl ThreadOptions {
    /// The safe defaults, said explicitly: the worker's own configuration may say otherwise.
    fn params(&self) -> Value {
        let mut params = json!({
            "cwd": self.cwd,
            "sandbox": "read-only",
            "approvalPolicy": "on-request",
        });
        if let Some(model) = &self.model {
            params["model"] = json!(model);
        }
        params
    }
}

fn encode(params: &Value) -> Json {
    Json::of(params).expect("a JSON value can be written")
}

fn thread_id(method: &str, result: &Json) -> Result<Box<str>, CallError> {
    id_in(method, result, "thread")
}

fn id_in(method: &str, result: &Json, field: &'static str) -> Result<Box<str>, CallError> {
    let result: Value = result.parse().unwrap_or_default();
    let id = result[field]["id"].as_str().map(Box::from);
    id.ok_or_else(|| CallError::Unexpected {
        method: method.into(),
        field,
    })
}

fn no_result(method: &str, outcome: Outcome) -> CallError {
    match outcome {
        Outcome::Failed(error) => CallError::Failed {
            method: method.into(),
            error,
        },
        Outcome::TimedOut(_) => unanswered(method, "its deadline passed"),
        Outcome::TooLong => unanswered(method, "the answer is longer than the limit for a line"),
        Outcome::Unreadable(_) => unanswered(method, "the answer cannot be read"),
        Outcome::Closed(_) => unanswered(method, "the worker closed the connection"),
        Outcome::Answered(_) | Outcome::Cancelled(_) => unanswered(method, "it was given up"),
    }
}

fn unanswered(method: &str, reason: &'static str) -> CallError {
    CallError::Unanswered {
        method: method.into(),
        reason,
    }
}
