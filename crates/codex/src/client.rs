//! A client of one worker: starts it, shakes hands, makes calls.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use supervise::{Exit, Ladder, Launch, SpawnError};
use wire::{Event, Json, Limits, NotOpen, Outcome, PeerError, Refused, RequestId};

use crate::backlog::Backlog;
use crate::handshake::{Greeting, Handshake, INITIALIZED, Initialize, Next};
use crate::link::Link;
use crate::requests::answered_at_once;

/// How long a worker may take to answer `initialize`; a first start in a fresh home was measured at 0.6 s.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(20);
/// How long any other call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// A worker that is ready for calls.
pub struct Client {
    link: Link,
    greeting: Greeting,
    backlog: Backlog,
}

/// Where and how a thread works.
#[derive(Clone, Debug)]
pub struct ThreadOptions {
    /// Its directory.
    pub cwd: String,
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
    /// The call ended without an answer that could be used.
    #[error("{method} got no answer: {outcome}")]
    Unanswered {
        /// The call.
        method: Box<str>,
        /// How it ended.
        outcome: Outcome,
    },
    /// More came before the answer than may wait.
    #[error("{method} was given up: the worker sent too much else before its answer")]
    Drowned {
        /// The call.
        method: Box<str>,
    },
    /// The answer is not what the protocol says.
    #[error("the answer to {method} has no {field} with an id: the worker speaks another protocol")]
    Unexpected {
        /// The call.
        method: Box<str>,
        /// What is missing.
        field: &'static str,
    },
}

impl CallError {
    /// Whether the worker may have done, or still be doing, what the call asked.
    #[must_use]
    pub fn work_may_have_run(&self) -> bool {
        match self {
            Self::Refused(_) => false,
            Self::Unanswered { outcome, .. } => outcome.work_may_have_run(),
            Self::Failed { .. } | Self::Drowned { .. } | Self::Unexpected { .. } => true,
        }
    }
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
            backlog: Backlog::default(),
        };
        match client.shake_hands(initialize).await {
            Ok(greeting) => Ok(Self { greeting, ..client }),
            Err(cause) => Err(StartError::Handshake { cause, exit: client.stop().await.into() }),
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
        self.id_from("thread/start", &options.params(), "thread").await
    }

    /// Loads a thread that an earlier worker has kept, and returns its id.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn resume_thread(&mut self, thread: &str, options: &ThreadOptions) -> Result<Box<str>, CallError> {
        let mut params = options.params();
        params["threadId"] = json!(thread);
        params["excludeTurns"] = json!(true);
        self.id_from("thread/resume", &params, "thread").await
    }

    /// Starts a turn with a text, and returns its id.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn start_turn(&mut self, thread: &str, text: &str) -> Result<Box<str>, CallError> {
        let params = json!({"threadId": thread, "input": [{"type": "text", "text": text}]});
        self.id_from("turn/start", &params, "turn").await
    }

    /// Asks the worker to stop a turn. Its end is the truth, not the answer: a second interrupt is never answered.
    ///
    /// # Errors
    /// [`Refused`], and then nothing was sent.
    pub fn interrupt(&mut self, thread: &str, turn: &str) -> Result<(), Refused> {
        let params = encode(&json!({"threadId": thread, "turnId": turn}));
        self.link.call("turn/interrupt", &params, CALL_TIMEOUT).map(drop)
    }

    /// Answers a request of the worker.
    ///
    /// # Errors
    /// [`NotOpen`] for a second answer.
    pub fn answer(&mut self, request: &RequestId, outcome: Result<&Json, &PeerError>) -> Result<(), NotOpen> {
        self.link.answer(request, outcome)
    }

    /// The next event; `None` when the worker is gone. Requests that wait for nobody are answered here and not shown.
    /// Cancel-safe.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            let event = match self.backlog.pop() {
                Some(event) => event,
                None => self.link.next().await?,
            };
            if let Some(event) = self.answer_at_once(event) {
                return Some(event);
            }
        }
    }

    /// Stops the worker and its process group, and says how it ended.
    pub async fn stop(self) -> Exit {
        self.link.stop(Ladder::default()).await
    }

    /// Why the worker hears nothing any more, if that is so.
    #[must_use]
    pub fn deafness(&self) -> Option<String> {
        self.link.stdin_end().map(|end| end.to_string())
    }

    async fn shake_hands(&mut self, initialize: Initialize) -> Result<Greeting, CallError> {
        let (mut handshake, mut params) = Handshake::start(initialize);
        loop {
            let outcome = self.outcome("initialize", &params, HANDSHAKE_TIMEOUT).await?;
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

    async fn id_from(&mut self, method: &str, params: &Value, field: &'static str) -> Result<Box<str>, CallError> {
        let result = match self.outcome(method, params, CALL_TIMEOUT).await? {
            Outcome::Answered(result) => result.parse::<Value>().unwrap_or_default(),
            other => return Err(no_result(method, other)),
        };
        let id = result[field]["id"].as_str().map(Box::from);
        id.ok_or_else(|| CallError::Unexpected { method: method.into(), field })
    }

    async fn outcome(&mut self, method: &str, params: &Value, timeout: Duration) -> Result<Outcome, CallError> {
        let call = self.link.call(method, &encode(params), timeout)?;
        while let Some(event) = self.link.next().await {
            match event {
                Event::Settled { call: settled, outcome } if settled == call => return Ok(outcome),
                other => {
                    if let Some(event) = self.answer_at_once(other) {
                        self.backlog.push(event);
                    }
                }
            }
            if self.backlog.is_full() {
                self.link.cancel(call);
                return Err(CallError::Drowned { method: method.into() });
            }
        }
        // A connection that is over settles every call before it says so.
        Err(CallError::Refused(Refused::Closed))
    }

    fn answer_at_once(&mut self, event: Event) -> Option<Event> {
        let Event::Request(request) = &event else {
            return Some(event);
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let Some(answer) = answered_at_once(&request.method, now.as_secs()) else {
            return Some(event);
        };
        // It has just been opened, so it can be answered.
        _ = self.link.answer(&request.id, answer.as_ref());
        None
    }
}

impl ThreadOptions {
    /// The safe defaults, said explicitly: the worker's own configuration may say otherwise.
    fn params(&self) -> Value {
        let mut params = json!({"cwd": self.cwd, "sandbox": "read-only", "approvalPolicy": "on-request"});
        if let Some(model) = &self.model {
            params["model"] = json!(model);
        }
        params
    }
}

fn encode(params: &Value) -> Json {
    Json::of(params).expect("a JSON value can be written")
}

fn no_result(method: &str, outcome: Outcome) -> CallError {
    match outcome {
        Outcome::Failed(error) => CallError::Failed { method: method.into(), error },
        outcome => CallError::Unanswered { method: method.into(), outcome },
    }
}
