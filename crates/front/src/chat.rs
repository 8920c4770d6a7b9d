//! `/v1/chat/completions`: a request becomes a plan, the plan one turn for each choice, and their events the answer.

mod stream;
mod whole;

use std::sync::Arc;
use std::time::Instant;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};

use crate::Desk;
use crate::ask::{Answering, Asked, Choice, Margin, admit, begun_soon};
use crate::body::{held_bytes, lasting_bytes, parse};
use crate::error::Error;
use crate::idempotency::{Name, Progress, RequestHash, Shape};
use crate::keys::Caller;
use crate::memory_budget::MemoryLease;
use crate::models::choose;
use crate::openai::chunks::Heading;
use crate::openai::plan::TurnPlan;
use crate::openai::request::{Delivery, Request};
use crate::quota::Permit;

pub(crate) async fn complete(
    State(desk): State<Arc<Desk>>,
    caller: Caller,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Error> {
    match Name::of(&headers, &caller.key)? {
        None => answer(desk, caller, body, Progress::default()).await,
        Some(name) => {
            let (answers, hash) = (Arc::clone(&desk.answers), RequestHash::of(&[&body]));
            let make = |progress| async { answer(desk, caller, body, progress).await.into_response() };
            answers.give(name, Shape::Chat, hash, make).await
        }
    }
}

async fn answer(desk: Arc<Desk>, caller: Caller, body: Bytes, progress: Progress) -> Result<Response, Error> {
    let arrived = Instant::now();
    let (bodies, key) = (Arc::clone(&desk.bodies), Arc::clone(&caller.key));
    let (asked, permit, lasting) = bodies.work(body, &key, |body, lease| prepare(desk, caller, body, lease)).await?;
    let margin = Margin::new(arrived, &permit, &asked.request);
    let (delivery, count) = (asked.request.delivery, asked.request.choices);
    let (answering, heading) = (Answering::new(&asked.desk, permit, progress, lasting), heading(&asked.request));
    let mut choices: Vec<_> = (0..count).map(|_| Choice::new(&asked, &answering)).collect();
    drop(asked);
    let answered = match delivery {
        Delivery::Whole => whole::answer(&answering, &heading, &mut choices).await,
        Delivery::Stream | Delivery::StreamWithUsage => {
            begun_soon(&mut choices).await.map(|()| stream::answer(answering, heading, choices))
        }
    };
    Ok(margin.beside(answered))
}

/// What is to be asked, and that it may be.
async fn prepare(
    desk: Arc<Desk>,
    caller: Caller,
    body: Bytes,
    mut lease: MemoryLease,
) -> Result<(Arc<Asked>, Permit, MemoryLease), Error> {
    let body_bytes = body.len();
    let mut request = Request::read(&parse(&body)?)?;
    drop(body);
    let chosen = choose(&desk, &caller, &request.model).await?;
    request.tools.rename(&chosen.profile);
    let plan = TurnPlan::new(&request, &chosen.as_ref(), &caller.key);
    let lasting_bytes = lasting_bytes(body_bytes, &request.messages);
    lease.resize(held_bytes(&request.messages) + lasting_bytes)?;
    let lasting = lease.split(lasting_bytes);
    // At last: what is refused for another reason does not count as a request of its key.
    let permit = admit(&desk, &caller, &request).await?;
    let (caller, profile) = (caller.orderer(), chosen.profile);
    Ok((
        Arc::new(Asked { desk, caller, profile, request, plan, retelling: None, memory: Arc::new(lease) }),
        permit,
        lasting,
    ))
}

fn heading(request: &Request) -> Heading {
    Heading {
        id: format!("chatcmpl-{}", uuid::Uuid::now_v7().simple()).into(),
        created: crate::unix_seconds(),
        model: request.model.clone(),
        tells_usage: request.delivery == Delivery::StreamWithUsage,
        tells_functions: request.tools.are_functions,
    }
}
