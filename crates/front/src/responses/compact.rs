//! `/v1/responses/compact`: a conversation is made short by a turn of its own, of which nothing is kept.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Instant;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use serde_json::{Value, json};
use workers::{Afterwards, Profile};

use super::previous;
use crate::Desk;
use crate::ask::{Answering, Asked, Choice, Margin, Step, admit, revoked};
use crate::body::{held_bytes, parse};
use crate::error::{Code, Error};
use crate::idempotency::Progress;
use crate::keys::Caller;
use crate::memory_budget::MemoryLease;
use crate::models::choose;
use crate::openai::plan::TurnPlan;
use crate::openai::reading::{End, Piece};
use crate::openai::request::{Form, Request};
use crate::openai::responses::compaction;
use crate::openai::responses::items::listed;
use crate::openai::responses::object::{Name, told};
use crate::openai::responses::record::messages;
use crate::openai::tools::Tools;
use crate::quota::Permit;

/// What a response may be asked for, and a summary is not.
const PASSED_OVER: [&str; 6] = ["stream", "background", "store", "tools", "tool_choice", "text"];

pub(crate) async fn compact(State(desk): State<Arc<Desk>>, caller: Caller, body: Bytes) -> Result<Response, Error> {
    let arrived = Instant::now();
    let (bodies, key) = (Arc::clone(&desk.bodies), Arc::clone(&caller.key));
    let Prepared { asked, permit, name, items, items_memory } =
        bodies.work(body, &key, |body, memory| prepare(desk, caller, body, memory)).await?;
    let margin = Margin::new(arrived, &permit, &asked.request);
    let answering = Answering::new(&asked.desk, permit, Progress::default(), items_memory);
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

/// What is to be asked, and that it may be.
struct Prepared {
    asked: Arc<Asked>,
    permit: Permit,
    name: Name,
    /// What is made short.
    items: Vec<Value>,
    /// For the items, until the answer, which has them again.
    items_memory: MemoryLease,
}

async fn prepare(desk: Arc<Desk>, caller: Caller, body: Bytes, mut memory: MemoryLease) -> Result<Prepared, Error> {
    let mut value: Value = parse(&body)?;
    drop(body);
    let passed_over = take_out(&mut value);
    let (request, before) = previous::read(&desk, &caller, value, &Mutex::default(), &mut memory).await?;
    let name = Name::new();
    let (mut items, said) = match &before.retelling {
        Some(retelling) => {
            let convert = |items: Vec<Value>| (items.clone(), messages(items));
            let bytes = memory.bytes();
            let loaded = retelling.load(&desk, &mut memory, convert).await?;
            // They are held twice.
            memory.grow_by(memory.bytes() - bytes)?;
            loaded
        }
        None => (Vec::new(), before.said),
    };
    let (request, terms) = request.told_after(said)?;
    items.extend(listed(&terms.input, |prefix, place| name.input_item(prefix, place)));
    let mut messages = request.messages;
    messages.push(compaction::question());
    let ignored = request.ignored.iter().copied().chain(passed_over).collect();
    let (tools, form, afterwards) = (Tools::default(), Form::Text, Afterwards::Goes);
    let request = Request { messages, tools, form, afterwards, ignored, ..request };
    let asked_bytes = held_bytes(&request.messages);
    // The items have the same texts.
    memory.grow_to(2 * asked_bytes)?;
    let asked_memory = memory.split(asked_bytes);
    let chosen = choose(&desk, &caller, &request.model).await?;
    let permit = admit(&desk, &caller, &request).await?;
    let plan = TurnPlan { going_on: None, ..TurnPlan::new(&request, &chosen.as_plain().as_ref(), &caller.key) };
    let (caller, profile) = (caller.orderer(), Profile { shows_work: false, ..chosen.profile });
    let asked =
        Arc::new(Asked { desk, caller, profile, request, plan, retelling: None, memory: Arc::new(asked_memory) });
    Ok(Prepared { asked, permit, name, items, items_memory: memory })
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
