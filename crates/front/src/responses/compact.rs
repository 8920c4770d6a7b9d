//! `/v1/responses/compact`: a conversation is made short by a turn of its own, of which nothing is kept.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use serde_json::{Value, json};
use workers::{Afterwards, Profile};

use super::memory::Memory;
use super::previous;
use crate::Desk;
use crate::ask::{Answering, Asked, Choice, Margin, Step, admit, revoked};
use crate::error::{Code, Error};
use crate::guard::parse;
use crate::idempotency::Progress;
use crate::keys::Caller;
use crate::models::choose;
use crate::openai::plan::TurnPlan;
use crate::openai::reading::{End, Piece};
use crate::openai::request::{Form, Request};
use crate::openai::responses::compaction;
use crate::openai::responses::items::listed;
use crate::openai::responses::object::{Name, told};
use crate::openai::tools::Tools;

/// What a response may be asked for, and a summary is not.
const PASSED_OVER: [&str; 6] = ["stream", "background", "store", "tools", "tool_choice", "text"];

pub(crate) async fn compact(State(desk): State<Arc<Desk>>, caller: Caller, body: Bytes) -> Result<Response, Error> {
    let arrived = Instant::now();
    let mut body: Value = parse(&body)?;
    let passed_over = take_out(&mut body);
    let (request, before) = previous::read(&desk, &caller, &body, &mut Memory::default()).await?;
    let name = Name::new();
    let (mut items, said) = match &before.retelling {
        Some(retelling) => (retelling.items(&desk).await?, retelling.said(&desk).await?),
        None => (Vec::new(), before.said),
    };
    let (request, terms) = request.told_after(said)?;
    items.extend(listed(&terms.input, |prefix, place| name.input_item(prefix, place)));
    let mut messages = request.messages;
    messages.push(compaction::question());
    let ignored = request.ignored.iter().copied().chain(passed_over).collect();
    let (tools, form, afterwards) = (Tools::default(), Form::Text, Afterwards::Goes);
    let request = Request { messages, tools, form, afterwards, ignored, ..request };
    let chosen = choose(&desk, &caller, &request.model).await?;
    let permit = admit(&desk, &caller, &request).await?;
    let margin = Margin::new(arrived, &permit, &request);
    let plan = TurnPlan { going_on: None, ..TurnPlan::new(&request, &chosen.as_plain().as_ref(), &caller.key) };
    let answering = Answering::new(&desk, permit, Progress::default());
    let profile = Profile { shows_work: false, ..chosen.profile };
    let asked =
        Arc::new(Asked { desk: Arc::clone(&desk), caller: caller.orderer(), profile, request, plan, retelling: None });
    let mut choice = Choice::new(&asked, &answering);
    drop(asked);
    let summary = read(&mut choice, &answering).await;
    let usage = choice.usage().unwrap_or_default();
    let object = summary.map(|summary| {
        Json(json!({
            "id": name.id(),
            "object": "response.compaction",
            "created_at": crate::unix_seconds(),
            "output": compaction::items(&name, &items, &summary),
            "usage": told(&usage),
        }))
    });
    Ok(margin.beside(object))
}

/// Takes out what is passed over; the names of what would have made a difference.
fn take_out(body: &mut Value) -> Vec<&'static str> {
    let Some(fields) = body.as_object_mut() else { return Vec::new() };
    let happens_anyway = [Value::Null, json!(false), json!([]), json!("auto"), json!("none")];
    let mut is_missed = |name: &&str| fields.remove(*name).is_some_and(|value| !happens_anyway.contains(&value));
    PASSED_OVER.into_iter().filter(|name| is_missed(name)).collect()
}

async fn read(choice: &mut Choice, answering: &Answering) -> Result<String, Error> {
    let mut said = String::new();
    let mut ended = std::pin::pin!(answering.permit.revoked());
    poll_fn(|context| {
        if ended.as_mut().poll(context).is_ready() {
            choice.cancel();
            return Poll::Ready(Err(revoked()));
        }
        loop {
            let step = choice.poll_step(context, |piece| match piece {
                Piece::Message(_) | Piece::TakenBack => said.clear(),
                Piece::Content(text) => said.push_str(&text.to_str()),
                _ => {}
            });
            match step {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Step::On) => {}
                Poll::Ready(Step::Ended(End::Failed(error))) => return Poll::Ready(Err(error)),
                Poll::Ready(Step::Ended(_)) => return Poll::Ready(Ok(())),
            }
        }
    })
    .await?;
    if said.trim().is_empty() {
        return Err(Error::new(Code::ProviderFailed, "the model gave no summary").after_work());
    }
    Ok(said)
}
