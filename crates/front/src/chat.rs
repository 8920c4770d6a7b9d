//! `/v1/chat/completions`: a request becomes a plan, the plan one turn for each choice, and their events the answer.

mod stream;
mod whole;

use std::sync::Arc;
use std::time::Instant;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use crate::Desk;
use crate::ask::{Answering, Asked, Choice, Margin, admit, begun_soon};
use crate::error::Error;
use crate::guard::parse;
use crate::idempotency::{Name, Progress, Shape};
use crate::keys::Caller;
use crate::models::choose;
use crate::openai::chunks::Heading;
use crate::openai::plan::TurnPlan;
use crate::openai::request::{Delivery, Request};

pub(crate) async fn complete(
    State(desk): State<Arc<Desk>>,
    caller: Caller,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Error> {
    let parsed = parse(&body)?;
    match Name::of(&headers, &caller.key)? {
        None => answer(desk, caller, parsed, Progress::default()).await,
        Some(name) => {
            let answers = Arc::clone(&desk.answers);
            let make = |progress| async { answer(desk, caller, parsed, progress).await.into_response() };
            answers.give(name, Shape::Chat, &body, make).await
        }
    }
}

async fn answer(desk: Arc<Desk>, caller: Caller, body: Value, progress: Progress) -> Result<Response, Error> {
    let arrived = Instant::now();
    let mut request = Request::read(&body)?;
    drop(body);
    let chosen = choose(&desk, &caller, &request.model).await?;
    request.tools.rename(&chosen.profile);
    let permit = admit(&desk, &caller, &request).await?;
    let margin = Margin::new(arrived, &permit, &request);
    let plan = TurnPlan::new(&request, &chosen.as_ref(), &caller.key);
    let (delivery, count) = (request.delivery, request.choices);
    let (answering, heading) = (Answering::new(&desk, permit, progress), heading(&request));
    let asked =
        Arc::new(Asked { desk, caller: caller.orderer(), profile: chosen.profile, request, plan, retelling: None });
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

fn heading(request: &Request) -> Heading {
    Heading {
        id: format!("chatcmpl-{}", uuid::Uuid::now_v7().simple()).into(),
        created: crate::unix_seconds(),
        model: request.model.clone(),
        tells_usage: request.delivery == Delivery::StreamWithUsage,
        tells_functions: request.tools.are_functions,
    }
}
