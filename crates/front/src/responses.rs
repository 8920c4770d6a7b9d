//! `/v1/responses`: a request becomes a plan, the plan a turn, and the turn a response, which is kept and can be asked for again.

mod book;
mod compact;
pub(crate) mod conversations;
mod draft;
mod following;
mod keeping;
mod left;
mod limits;
mod listing;
mod memory;
mod previous;
mod recovery;
mod responding;
mod retrieve;
pub(crate) mod socket;
mod stored;
mod talk;
mod wish;

use std::future::ready;
use std::sync::Arc;
use std::time::Instant;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt as _;
use futures_util::stream::once;

pub(crate) use book::Book;
pub(crate) use compact::compact;
pub(crate) use left::find_again;
pub use limits::ResponseLimits;
pub(crate) use previous::Retelling;
pub(crate) use retrieve::{cancel, delete, get, input_items};
pub(crate) use socket::open;

use crate::Desk;
use crate::ask::stream_response;
use crate::error::{Code, Error};
use crate::idempotency::{Name as Called, Progress, RequestHash, Shape};
use crate::keys::Caller;
use crate::openai::chunks::DONE;
use crate::openai::reading::WorkForm;
use crate::openai::request::Delivery;
use draft::{Draft, Place};
use responding::Audience;

/// The header by which a caller asks to see what the agent does as items of their own types.
const WORK: &str = "x-switchboard-work";

pub(crate) async fn create(
    State(desk): State<Arc<Desk>>,
    caller: Caller,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Error> {
    let work_form = work_form(&headers)?;
    match Called::of(&headers, &caller.key)? {
        None => answer(desk, caller, body, work_form, Progress::default()).await,
        Some(called) => {
            let answers = Arc::clone(&desk.answers);
            let form = headers.get(WORK).map_or(&b"lines"[..], HeaderValue::as_bytes);
            // The same body may be asked of another route, or in another form.
            let hash = RequestHash::of(&[b"responses ", form, b"\n", &body]);
            let make =
                move |progress| async move { answer(desk, caller, body, work_form, progress).await.into_response() };
            answers.give(called, Shape::Responses, hash, make).await
        }
    }
}

async fn answer(
    desk: Arc<Desk>,
    caller: Caller,
    body: Bytes,
    work_form: WorkForm,
    progress: Progress,
) -> Result<Response, Error> {
    let arrived = Instant::now();
    let draft = Draft::receive(&desk, &caller, body, Arc::default()).await?.showing(work_form);
    let margin = draft.margin(arrived);
    Ok(margin.beside(told(&desk, &caller, draft, progress).await))
}

/// What is told at once: all of a response, or the beginning of it.
async fn told(desk: &Arc<Desk>, caller: &Caller, draft: Draft, progress: Progress) -> Result<Response, Error> {
    match (draft.place(), draft.delivery()) {
        (Place::Background, delivery) => {
            let mut responding = draft.make(desk, caller, progress.clone(), Audience::Later);
            // What is refused at once is nothing to come back for.
            responding.begun_soon().await?;
            let (object, events) = responding.seen(desk.heartbeat)?;
            // From here on it is made, also if its caller goes.
            progress.begin();
            // Nobody says so when the server ends; the next start finds what is stored.
            desk.responses.run(responding).await.unwrap_or(Ok(()))?;
            Ok(match delivery {
                Delivery::Whole => json_response(desk.bodies.memory().lease(&caller.key).hold_text(object)),
                _ => stream_response(Body::from_stream(events)),
            })
        }
        (Place::Here, Delivery::Whole) => {
            let object = draft.make(desk, caller, progress, Audience::AtTheEnd).finish().await?;
            Ok(json_response(desk.bodies.memory().lease(&caller.key).hold_text(object)))
        }
        (Place::Here, _) => {
            let mut responding = draft.make(desk, caller, progress, Audience::Now);
            responding.begun_soon().await?;
            let done = once(ready(Ok(Bytes::from_static(DONE))));
            Ok(stream_response(Body::from_stream(responding.chain(done))))
        }
    }
}

/// How the caller wants to see what the agent does.
fn work_form(headers: &HeaderMap) -> Result<WorkForm, Error> {
    match headers.get(WORK).map(HeaderValue::as_bytes) {
        None | Some(b"lines") => Ok(WorkForm::Lines),
        Some(b"items") => Ok(WorkForm::Items),
        Some(_) => Err(Error::new(Code::InvalidValue, format!("the header {WORK} must be `lines` or `items`"))),
    }
}

fn json_response(object: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], object.into()).into_response()
}
