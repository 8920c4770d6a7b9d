//! Rust code that decides a worker's requests: a function or an async function per kind of request. Callbacks run off
//! the read path, several at once, each until its request needs no decision any more; one that panics or cannot decide
//! has declined.

use std::collections::HashMap;
use std::fmt;
use std::future::{Future, IntoFuture, Ready, poll_fn, ready};
use std::pin::Pin;
use std::sync::Arc;

use tokio::task::JoinSet;
use wire::{Json, PeerError, RequestId};

use crate::decision::{Decision, Ruling};
use crate::driver::Shared;
use crate::exchange::{Asked, Patience};
use crate::protocol::{
    DynamicToolCallOutputContentItem, DynamicToolCallOutputContentItemInputText, DynamicToolCallResponse, Request,
};
use crate::requests::{self, RequestKind};

/// Who decides what. A callback that owns a `Client` keeps its worker alive until [`Client::stop`](crate::Client::stop).
#[derive(Clone, Default)]
pub struct Callbacks {
    by_kind: HashMap<RequestKind, Callback>,
    by_method: HashMap<&'static str, Callback>,
    /// Requests that are otherwise answered at once, left to the stream of requests.
    deferred: Vec<&'static str>,
    pub(crate) patience: Patience,
}

type Callback = Arc<dyn Fn(Asked) -> Pin<Box<dyn Future<Output = Ruling> + Send>> + Send + Sync>;

/// A typed answer to one request, or a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply<A> {
    /// This.
    Answer(A),
    /// No, and why.
    Refuse(String),
}

impl Reply<DynamicToolCallResponse> {
    /// The result of a tool, as text.
    #[must_use]
    pub fn text(text: &str) -> Self {
        let text = DynamicToolCallOutputContentItemInputText { text: text.into() };
        let content_items = vec![DynamicToolCallOutputContentItem::InputText(text)];
        Self::Answer(DynamicToolCallResponse { content_items, success: true })
    }
}

/// So that a callback may be a plain function.
impl<A> IntoFuture for Reply<A> {
    type Output = Self;
    type IntoFuture = Ready<Self>;

    fn into_future(self) -> Self::IntoFuture {
        ready(self)
    }
}

impl Callbacks {
    /// Nobody decides anything: whatever is asked is declined, unless somebody reads the stream of requests.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Decides commands, file changes, permissions or elicitations, in either dialect. The callback is a function that
    /// returns a [`Decision`], or an async one. It must not block its thread.
    #[must_use]
    pub fn on_approval<F, D>(mut self, kind: RequestKind, callback: F) -> Self
    where
        F: Fn(Asked) -> D + Send + Sync + 'static,
        D: IntoFuture<Output = Decision>,
        D::IntoFuture: Send + 'static,
    {
        let callback = Arc::new(callback);
        let erased: Callback = Arc::new(move |asked| {
            let callback = Arc::clone(&callback);
            Box::pin(async move {
                let decision = callback(asked.clone()).into_future().await;
                decision.rule(&asked).unwrap_or_else(|error| declined(&asked, &error.to_string()))
            })
        });
        self.by_kind.insert(kind, erased);
        self
    }

    /// Answers one request of the protocol with its own type; wins over [`Self::on_approval`]. An async callback may take
    /// as long as the request's deadline allows; what is to wait without one is for [`Client::requests`](crate::Client::requests).
    #[must_use]
    pub fn on<R, F, D>(mut self, callback: F) -> Self
    where
        R: Request,
        R::Params: Send + 'static,
        F: Fn(R::Params) -> D + Send + Sync + 'static,
        D: IntoFuture<Output = Reply<R::Answer>>,
        D::IntoFuture: Send + 'static,
    {
        let callback = Arc::new(callback);
        let erased: Callback = Arc::new(move |asked| {
            let callback = Arc::clone(&callback);
            Box::pin(async move {
                let params = match asked.typed::<R>() {
                    Ok(params) => params,
                    Err(error) => return declined(&asked, &format!("the request cannot be read: {error}")),
                };
                match callback(params).into_future().await {
                    Reply::Answer(answer) => Json::of(&answer)
                        .map_or_else(|error| declined(&asked, &error.to_string()), |json| Ruling::Answer(Ok(json))),
                    Reply::Refuse(reason) => declined(&asked, &reason),
                }
            })
        });
        self.by_method.insert(R::METHOD, erased);
        self
    }

    /// Leaves requests to [`Client::requests`](crate::Client::requests) that are otherwise answered at once, by their
    /// methods: fresh tokens of the account, a proof of the client's identity.
    #[must_use]
    pub fn deferring(mut self, methods: &[&'static str]) -> Self {
        self.deferred.extend_from_slice(methods);
        self
    }

    /// How long a decision may take.
    #[must_use]
    pub fn with_patience(self, patience: Patience) -> Self {
        Self { patience, ..self }
    }

    /// The requests that somebody here wants to answer, whatever is otherwise done with them.
    pub(crate) fn methods(&self) -> Vec<&'static str> {
        self.by_method.keys().chain(&self.deferred).copied().collect()
    }

    /// Starts to decide a request, or leaves it to the reader of the stream of requests.
    pub(crate) fn decide(&self, asked: Asked, shared: &Arc<Shared>, deciding: &mut JoinSet<()>) {
        let callback = self.by_method.get(&*asked.method).or_else(|| self.by_kind.get(&asked.kind));
        let Some(callback) = callback.cloned() else {
            return shared.change(|exchange| exchange.leave_to_reader(&asked.id));
        };
        let undecided = Undecided { shared: Arc::clone(shared), request: asked.id.clone(), is_open: true };
        deciding.spawn(async move {
            // Called in here, so that a function that takes its time or panics does it in its own task.
            let ruling = async { callback(asked).await };
            tokio::select! {
                biased;
                ruling = ruling => match ruling {
                    Ruling::Answer(answer) => undecided.answer(answer.as_ref()),
                    Ruling::Later => undecided.leave(),
                },
                // Its deadline has passed, its turn is over, or somebody else has answered.
                () = undecided.moot() => undecided.leave(),
            }
        });
    }
}

impl fmt::Debug for Callbacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut methods: Vec<_> = self.by_method.keys().collect();
        methods.sort_unstable();
        f.debug_struct("Callbacks")
            .field("kinds", &self.by_kind.len())
            .field("methods", &methods)
            .finish_non_exhaustive()
    }
}

fn declined(asked: &Asked, reason: &str) -> Ruling {
    Ruling::Answer(requests::declined(&asked.method, reason))
}

/// A request that a callback decides: if it ends without a decision, the request is declined.
struct Undecided {
    shared: Arc<Shared>,
    request: RequestId,
    is_open: bool,
}

impl Undecided {
    fn answer(mut self, answer: Result<&Json, &PeerError>) {
        self.is_open = false;
        // Its deadline may have passed, or its turn: then the first answer has won.
        _ = self.shared.change(|exchange| exchange.answer(&self.request, answer));
    }

    /// Waits until the request needs no decision any more.
    async fn moot(&self) {
        poll_fn(|context| self.shared.exchange().poll_moot(&self.request, context)).await;
    }

    fn leave(mut self) {
        self.is_open = false;
    }
}

impl Drop for Undecided {
    fn drop(&mut self) {
        if self.is_open {
            self.shared.change(|exchange| exchange.decline(&self.request, "the callback failed"));
        }
    }
}
