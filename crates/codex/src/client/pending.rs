//! The requests that no callback decides, for whoever wants to decide them later: a person, a rule, a caller's tool.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::Stream;
use wire::{Json, NotOpen, PeerError, RequestId};

use super::{Client, Link};
use crate::decision::{Decision, Ruling, Undecidable};
use crate::event::Item;
use crate::exchange::Asked;
use crate::protocol::Request;

/// The stream of requests that wait for a decision. What it has not handed out when it is dropped is declined.
pub struct Requests {
    link: Arc<Link>,
}

/// A request that waits. Dropping it decides nothing: it can still be answered by its id, until its deadline.
pub struct Pending {
    /// What is asked.
    pub asked: Asked,
    link: Arc<Link>,
}

/// Why a request was not answered.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// It has its answer already, its deadline has passed, or its turn is over.
    #[error(transparent)]
    NotOpen(#[from] NotOpen),
    /// That is no answer to it.
    #[error(transparent)]
    Undecidable(#[from] Undecidable),
    /// The answer cannot be written as JSON, or belongs to another request.
    #[error("that is no answer to {method}: {reason}")]
    Unwritable {
        /// The request.
        method: Box<str>,
        /// Why not.
        reason: Box<str>,
    },
}

impl Requests {
    pub(super) fn attach(link: &Arc<Link>) -> Option<Self> {
        link.shared.exchange().attach_requests()?;
        Some(Self { link: Arc::clone(link) })
    }

    /// The next request; `None` when the connection is over. Cancel-safe.
    pub async fn next(&mut self) -> Option<Pending> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl Stream for Requests {
    type Item = Pending;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Pending>> {
        let asked = self.link.shared.exchange().poll_requests(context);
        asked.map(|asked| asked.map(|asked| Pending { asked, link: Arc::clone(&self.link) }))
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        self.link.shared.change(crate::exchange::Exchange::detach_requests);
    }
}

impl Pending {
    /// Decides it.
    ///
    /// # Errors
    /// [`AnswerError`]; the request then still waits, unless it is not open any more.
    pub fn decide(&self, decision: &Decision) -> Result<(), AnswerError> {
        match decision.rule(&self.asked)? {
            Ruling::Answer(answer) => Ok(self.answer_raw(answer.as_ref())?),
            Ruling::Later => Ok(()),
        }
    }

    /// Answers it with its own type.
    ///
    /// # Errors
    /// [`AnswerError`].
    pub fn answer<R: Request>(&self, answer: &R::Answer) -> Result<(), AnswerError> {
        let method = &self.asked.method;
        let unwritable = |reason: String| AnswerError::Unwritable { method: method.clone(), reason: reason.into() };
        if **method != *R::METHOD {
            return Err(unwritable(format!("it answers {}", R::METHOD)));
        }
        let json = Json::of(answer).map_err(|error| unwritable(error.to_string()))?;
        Ok(self.answer_raw(Ok(&json))?)
    }

    /// Waits until it needs no decision any more: it is answered, its deadline has passed, or its turn or the connection is
    /// over. Cancel-safe.
    pub async fn settled(&self) {
        poll_fn(|context| self.link.shared.exchange().poll_moot(&self.asked.id, context)).await;
    }

    /// Answers it as it is.
    ///
    /// # Errors
    /// [`NotOpen`].
    pub fn answer_raw(&self, answer: Result<&Json, &PeerError>) -> Result<(), NotOpen> {
        self.link.shared.change(|exchange| exchange.answer(&self.asked.id, answer))
    }
}

impl Client {
    /// Every request that waits for a decision, whoever has it; the `request` of an event is the raw text of its id.
    #[must_use]
    pub fn open_requests(&self) -> Vec<Asked> {
        self.link.shared.exchange().open_requests()
    }

    /// An item that a turn of ours has begun and not finished: what a request about a file change does not say itself.
    #[must_use]
    pub fn open_item(&self, thread: &str, item: &str) -> Option<Item> {
        self.link.shared.exchange().open_item(thread, item)
    }

    /// Whether a thread waits for a decision.
    #[must_use]
    pub fn is_waiting(&self, thread: &str) -> bool {
        self.link.shared.exchange().is_waiting(thread)
    }

    /// Answers a request by its id, for whoever has kept no [`Pending`]: a callback that said [`Decision::Later`].
    ///
    /// # Errors
    /// [`AnswerError`].
    pub fn decide(&self, request: &RequestId, decision: &Decision) -> Result<(), AnswerError> {
        let asked = self.link.shared.exchange().asked(request).ok_or_else(|| NotOpen(request.clone()))?;
        Pending { asked, link: Arc::clone(&self.link) }.decide(decision)
    }

    /// Answers a request by its id, as it is.
    ///
    /// # Errors
    /// [`NotOpen`].
    pub fn answer_raw(&self, request: &RequestId, answer: Result<&Json, &PeerError>) -> Result<(), NotOpen> {
        self.link.shared.change(|exchange| exchange.answer(request, answer))
    }
}
