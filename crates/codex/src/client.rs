//! A client of one worker. Clones of it share one connection; any number of calls, threads and turns may be under way
//! at once, and whatever is dropped is given up.

mod calling;
mod connect;
mod options;
mod pending;
pub mod permissions;
mod plan;
mod thread;
mod turn;
mod upkeep;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::Stream;
use serde::de::IgnoredAny;
use supervise::Ladder;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use wire::{Json, Outcome};

pub use connect::StartError;
pub use options::Options;
pub use pending::{AnswerError, Pending, Requests};
pub use permissions::{PathAccess, PermissionProfile};
pub use plan::{ApprovalPolicy, Input, Sandbox, ThreadOptions, Tool, TurnOptions};
pub use thread::{Thread, ThreadPage, ThreadSummary};
pub use turn::{Finished, Turn};
pub use upkeep::ModelSummary;

use crate::abilities::{Abilities, Dialect, Unable};
use crate::backoff::{self, OVERLOADED};
use crate::dialect::Line;
use crate::driver::Shared;
use crate::error::CallError;
use crate::event::ConnectionEvent;
use crate::exchange::EventsKey;
use crate::handshake::Greeting;
use crate::protocol::Call;
use crate::transport::End;
use crate::waits::bounded;
use calling::Calling;

/// A worker that is ready for calls.
///
/// When the last clone and the last turn are dropped, a worker that is a process of ours is killed; [`Client::stop`]
/// lets it end by itself.
#[derive(Clone)]
pub struct Client {
    link: Arc<Link>,
    call_timeout: Duration,
}

/// One connection and its task.
pub(crate) struct Link {
    pub(crate) shared: Arc<Shared>,
    pid: Option<u32>,
    greeting: Greeting,
    abilities: Abilities,
    has_experimental_api: bool,
    /// Ends with this.
    _task: JoinSet<()>,
}

impl Client {
    /// What the worker said of itself.
    #[must_use]
    pub fn greeting(&self) -> &Greeting {
        &self.link.greeting
    }

    /// What the worker can do, and which dialect it is spoken to in.
    #[must_use]
    pub fn abilities(&self) -> &Abilities {
        &self.link.abilities
    }

    /// The same client with another deadline for each of its calls.
    #[must_use]
    pub fn with_timeout(&self, call_timeout: Duration) -> Self {
        Self { call_timeout, ..self.clone() }
    }

    /// Calls a method of the protocol, with its own types.
    ///
    /// # Errors
    /// [`CallError`]; its `work_may_have_run` says whether the call may be made again without harm.
    pub async fn call<C: Call>(&self, params: C::Params) -> Result<C::Answer, CallError> {
        if C::EXPERIMENTAL {
            self.need_experimental(C::METHOD)?;
        }
        let unwritable = |error: serde_json::Error| CallError::Unwritable {
            method: C::METHOD.into(),
            reason: error.to_string().into(),
        };
        let params = Json::of(&params).map_err(unwritable)?;
        self.need_stable_fields(C::METHOD, C::EXPERIMENTAL_FIELDS, &params)?;
        let params = (params.get() != "null").then_some(params);
        let method = self.link.abilities.name_of(C::METHOD)?;
        let result = self.send(Line { method: method.into(), params }).await?;
        serde_json::from_str(result.get()).map_err(|error| CallError::unexpected(method, &error, &result))
    }

    /// Calls any method, with any parameters, as they are.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn raw(&self, method: &str, params: Option<Json>) -> Result<Json, CallError> {
        self.send(Line { method: method.into(), params }).await
    }

    /// Whether the worker knows a method, for whoever must know before anything is begun.
    ///
    /// # Errors
    /// [`CallError`], as the call would have.
    pub fn need<C: Call>(&self) -> Result<(), CallError> {
        if C::EXPERIMENTAL {
            self.need_experimental(C::METHOD)?;
        }
        self.v2_method(C::METHOD).map(drop)
    }

    /// What happens on the connection outside of turns; the first reader is told what has happened so far. A reader that
    /// falls behind by more than the limit is told how much it has missed.
    #[must_use]
    pub fn events(&self) -> Events {
        let key = self.link.shared.exchange().attach_events();
        Events { link: Arc::clone(&self.link), key }
    }

    /// The requests that no callback decides, each to be answered before its deadline. There is one such stream; `None`
    /// if somebody has it. Without it they are declined at once.
    #[must_use]
    pub fn requests(&self) -> Option<Requests> {
        Requests::attach(&self.link)
    }

    /// Stops the worker, or closes the link to one that listens elsewhere, and says how that went. Turns that run are
    /// lost; every other handle finds the connection over.
    pub async fn stop(self) -> Arc<End> {
        self.stop_with(Ladder::default()).await
    }

    /// The same with other waits on the way to SIGKILL.
    pub async fn stop_with(self, ladder: Ladder) -> Arc<End> {
        self.link.shared.stop(ladder);
        self.link.shared.ended().await
    }

    /// Sends nothing more, and ends the connection: what is dropped from now on interrupts and declines nothing. A worker
    /// that listens goes on as it was; one that is a process of ours is stopped.
    pub fn cut(&self) {
        self.link.shared.exchange().connection.close();
        self.link.shared.stop(Ladder::default());
    }

    /// Whether nothing more will happen on the connection; [`Self::ended`] says how that came about.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.link.shared.exchange().has_ended()
    }

    /// How the connection ended, once it has.
    pub async fn ended(&self) -> Arc<End> {
        self.link.shared.ended().await
    }

    pub(crate) fn need_experimental(&self, what: &str) -> Result<(), CallError> {
        if self.link.has_experimental_api { Ok(()) } else { Err(CallError::Experimental { what: what.into() }) }
    }

    /// A field that is not written is no field; the worker would refuse any other that is experimental.
    fn need_stable_fields(&self, method: &str, experimental: &[&str], params: &Json) -> Result<(), CallError> {
        if self.link.has_experimental_api || experimental.is_empty() {
            return Ok(());
        }
        let fields: BTreeMap<Cow<'_, str>, IgnoredAny> = params.parse().unwrap_or_default();
        match experimental.iter().find(|field| fields.contains_key(**field)) {
            Some(field) => self.need_experimental(&format!("{method}.{field}")),
            None => Ok(()),
        }
    }

    /// Makes a call until it has a result, its deadline passes, or the worker refuses it for another reason than overload.
    async fn send(&self, line: Line) -> Result<Json, CallError> {
        if &*line.method == "initialize" {
            return Err(CallError::AlreadyInitialized);
        }
        let deadline = self.deadline();
        let mut failures = 0;
        loop {
            match Calling::start(&self.link.shared, &line, deadline)?.await {
                Outcome::Answered(result) => return Ok(result),
                Outcome::Failed(error) if error.code == OVERLOADED => {
                    failures += 1;
                    let Some(again) = try_again(failures, deadline) else {
                        return Err(CallError::of(&line.method, Outcome::Failed(error)));
                    };
                    sleep_until(again).await;
                }
                other => return Err(CallError::of(&line.method, other)),
            }
        }
    }

    /// What the worker calls a method that the dialect of old does not have.
    pub(crate) fn v2_method<'a>(&self, method: &'a str) -> Result<&'a str, CallError> {
        let abilities = self.abilities();
        match abilities.dialect {
            Dialect::V2 => Ok(abilities.name_of(method)?),
            Dialect::V1 => Err(Unable { what: method.into(), version: abilities.version }.into()),
        }
    }

    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + bounded(self.call_timeout)
    }
}

/// When to call an overloaded worker again; `None` if that is not before the deadline.
pub(crate) fn try_again(failures: u32, deadline: Instant) -> Option<Instant> {
    let again = Instant::now() + backoff::wait(failures, fastrand::f64());
    (again < deadline).then_some(again)
}

/// What happens on a connection outside of turns.
pub struct Events {
    link: Arc<Link>,
    key: EventsKey,
}

impl Events {
    /// The next event; `None` when the connection is over. Cancel-safe.
    pub async fn next(&mut self) -> Option<ConnectionEvent> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl Stream for Events {
    type Item = ConnectionEvent;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<ConnectionEvent>> {
        self.link.shared.exchange().poll_events(self.key, context)
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.link.shared.exchange().detach_events(self.key);
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("user_agent", &self.link.greeting.user_agent).finish_non_exhaustive()
    }
}
