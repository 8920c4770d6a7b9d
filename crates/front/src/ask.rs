//! What is asked of the workers in the name of an OpenAI client, whichever API it speaks: a plan becomes a turn, and the turn is read
//! to its end.

mod begin;
mod choice;
mod vigil;

use std::num::NonZero;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use codex::Usage;
use tracing::Span;
use workers::{Caller as Orderer, Profile};

pub(crate) use choice::{Choice, Step, begun_soon, refused};
pub(crate) use vigil::{Vigil, Woken};

use crate::Desk;
use crate::error::{Code, Error};
use crate::idempotency::Progress;
use crate::keys::Caller;
use crate::memory_budget::MemoryLease;
use crate::openai::plan::TurnPlan;
use crate::openai::request::Request;
use crate::quota::{Claim, Permit};
use crate::responses::Retelling;

/// What a choice needs until its turn has begun: a long conversation is not held for longer.
pub(crate) struct Asked {
    pub desk: Arc<Desk>,
    pub caller: Orderer,
    pub profile: Profile,
    pub request: Request,
    pub plan: TurnPlan,
    /// What a new thread must be told besides, and is only read then.
    pub retelling: Option<Retelling>,
    /// Of all this, and of the orders that are made of it.
    pub memory: Arc<MemoryLease>,
}

/// What every choice of one answer works with.
pub(crate) struct Answering {
    pub desk: Arc<Desk>,
    pub permit: Permit,
    pub progress: Progress,
    /// For what is held until the end of the answer.
    _memory: MemoryLease,
    /// Names the request in the log, also when its head is long sent.
    pub span: Span,
}

impl Answering {
    pub(crate) fn new(desk: &Arc<Desk>, permit: Permit, progress: Progress, memory: MemoryLease) -> Arc<Self> {
        Arc::new(Self { desk: Arc::clone(desk), permit, progress, _memory: memory, span: Span::current() })
    }
}

/// Lets a request through, whether it begins its turns or brings one the results that it waits for. One that is refused has
/// changed nothing, so that the same results can be brought again.
pub(crate) async fn admit(desk: &Desk, caller: &Caller, request: &Request) -> Result<Permit, Error> {
    let limits = &caller.limits;
    let most = [
        (limits.turns_max, "run", "turns at the same time"),
        (limits.requests_per_minute, "send", "requests in a minute, and each choice counts as one"),
    ];
    for (max, verb, what) in most {
        if let Some(max) = max.map(NonZero::get).filter(|max| *max < request.choices) {
            let why = format!("`n` is {}, but this key may {verb} {max} {what}", request.choices);
            return Err(Error::new(Code::InvalidValue, why).about("n"));
        }
    }
    desk.quotas.admit(caller, Claim::turns(request.choices, request.tokens())).await
}

/// What the head of an answer says besides, however it ends.
pub(crate) struct Margin {
    arrived: Instant,
    headers: HeaderMap,
}

impl Margin {
    pub(crate) fn new(arrived: Instant, permit: &Permit, request: &Request) -> Self {
        Self { arrived, headers: permit.headers().chain(ignored(request)).collect() }
    }

    /// Writes it beside an answer, or beside the refusal.
    pub(crate) fn beside(self, answer: impl IntoResponse) -> Response {
        let mut response = answer.into_response();
        let passed = u64::try_from(self.arrived.elapsed().as_millis()).unwrap_or(u64::MAX);
        response.headers_mut().extend(self.headers);
        response.headers_mut().insert("openai-processing-ms", HeaderValue::from(passed));
        response
    }
}

/// What is not done, for the caller to know.
fn ignored(request: &Request) -> Option<(HeaderName, HeaderValue)> {
    let names = HeaderValue::from_str(&request.ignored.join(", ")).ok().filter(|names| !names.is_empty())?;
    Some((HeaderName::from_static("x-switchboard-ignored"), names))
}

pub(crate) fn revoked() -> Error {
    Error::new(Code::KeyInvalid, "this key was revoked while its request was answered").after_work()
}

pub(crate) fn add_usage(sum: &mut Option<Usage>, more: Option<Usage>) {
    if let Some(more) = more {
        sum.get_or_insert_default().add(&more);
    }
}

/// An answer that is sent as it comes.
pub(crate) fn stream_response(events: Body) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream; charset=utf-8"),
        (header::CACHE_CONTROL, "no-cache"),
        // What proxies of the nginx kind understand: pass it on as it comes.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, events).into_response()
}
