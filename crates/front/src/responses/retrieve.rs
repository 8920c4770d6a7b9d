//! Responses that are asked for again: one that is being made as it is now, any other as it was kept. A response belongs to the key that
//! it was made for; to another there is none.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use store::Change;
use tokio::time::timeout;
use workers::Turn;

use super::book::Live;
use super::following::{events_gone, not_in_background};
use super::json_response;
use super::limits::CANCEL_TIMEOUT;
use super::listing::{Page, list};
use super::stored::{load_response, read_record};
use super::wish::{Wanted, Wish};
use crate::Desk;
use crate::api::Asked;
use crate::ask::stream_response;
use crate::body::tree_bytes;
use crate::error::{Code, Error};
use crate::keys::Caller;
use crate::memory_budget::MemoryLease;
use crate::openai::responses::conversation::Conversation;
use crate::openai::responses::record::Record;

/// The status of a response that is only hidden.
pub(super) const DELETED: &str = "deleted";

pub(crate) async fn get(
    State(desk): State<Arc<Desk>>,
    caller: Caller,
    Path(id): Path<String>,
    Asked(wish): Asked<Wish>,
) -> Result<Response, Error> {
    let live = desk.responses.find(&id, &caller.key);
    if let Wanted::Events { after } = wish.read()? {
        let Some(live) = live else {
            let found = find(&desk, &caller, &id).await?;
            return Err(if found.is_of_the_background { events_gone() } else { not_in_background() });
        };
        return Ok(stream_response(Body::from_stream(live.events_after(after, desk.heartbeat)?)));
    }
    match live.filter(|live| !live.status().is_over()) {
        Some(live) => current_response(&desk, &caller, &live),
        None => find(&desk, &caller, &id).await?.into_response(),
    }
}

pub(crate) async fn cancel(
    State(desk): State<Arc<Desk>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    let not_alone = || Error::new(Code::InvalidValue, "Cannot cancel a synchronous response.").about("response_id");
    let Some(live) = desk.responses.find(&id, &caller.key) else {
        let found = find(&desk, &caller, &id).await?;
        return if found.is_of_the_background { found.into_response() } else { Err(not_alone()) };
    };
    if !live.is_in_background() {
        return Err(not_alone());
    }
    live.cancel();
    match timeout(CANCEL_TIMEOUT, live.over()).await {
        Ok(()) => find(&desk, &caller, &id).await?.into_response(),
        Err(_) => current_response(&desk, &caller, &live),
    }
}

/// A copy of a response that is being made, which counts against the memory budget until it is sent.
fn current_response(desk: &Desk, caller: &Caller, live: &Live) -> Result<Response, Error> {
    let mut memory = desk.bodies.memory().lease(&caller.key);
    let object = live.object();
    memory.resize(object.len())?;
    Ok(json_response(memory.hold_text(object)))
}

/// Forgets a response. One that others went on from is part of what they were told: it is only hidden, until they go too.
pub(crate) async fn delete(
    State(desk): State<Arc<Desk>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, Error> {
    let live = desk.responses.find(&id, &caller.key);
    if let Some(live) = &live {
        desk.responses.remove(&id);
        timeout(CANCEL_TIMEOUT, live.over()).await.ok();
    }
    // What was left to be written a moment ago counts.
    desk.store.flush().await.ok();
    let (own_id, key) = (id.clone(), caller.key.to_string());
    let look = desk
        .store
        .read(move |reader| Ok((reader.response_summary(&own_id, &key)?, reader.is_gone_on_from(&own_id, &key)?)));
    let (summary, is_needed) = look.await?;
    // Conversations have rows of the same table, and a route of their own.
    match summary.filter(|summary| summary.status != DELETED && !Conversation::is_id(&id)) {
        Some(summary) if !desk.pool.waiting_calls(&summary.turn).is_empty() => {
            let read = |record: Record, memory: &mut MemoryLease| {
                memory.grow_by(tree_bytes(record.response.get()))?;
                Ok(record.output())
            };
            let mut memory = desk.bodies.memory().lease(&caller.key);
            let output = find_record(&desk, &id, &mut memory, read).await?;
            let_go(&desk, &caller, &summary.turn, &output);
        }
        Some(_) => {}
        // One that has only begun may not be kept yet.
        None if live.is_some() => {}
        None => return Err(not_found(&id)),
    }
    let mut memory = desk.bodies.memory().lease(&caller.key);
    let hidden = match is_needed {
        true => load_response(&desk, id.clone(), &mut memory, |row, _| Ok(row)).await?,
        false => None,
    };
    let change = match hidden {
        Some(row) => Change::Response(store::Response { status: DELETED.into(), ..row }),
        None => Change::ResponseGone { id: id.clone() },
    };
    desk.store.commit(vec![change]).await?;
    Ok(Json(json!({"id": id, "object": "response", "deleted": true})))
}

pub(crate) async fn input_items(
    State(desk): State<Arc<Desk>>,
    caller: Caller,
    Path(id): Path<String>,
    Asked(page): Asked<Page>,
) -> Result<Response, Error> {
    let mut memory = desk.bodies.memory().lease(&caller.key);
    let page = Arc::new(page);
    let list_input = move |record: Record, memory: &mut MemoryLease| {
        memory.grow_by(tree_bytes(record.input.get()))?;
        Ok(list(record.input(), &page)?.to_string())
    };
    let listed = find_record(&desk, &id, &mut memory, list_input).await?;
    Ok(json_response(memory.hold_text(listed)))
}

/// A turn that waits for outputs which nobody can send any more waits in vain.
fn let_go(desk: &Desk, caller: &Caller, turn: &str, output: &[Value]) {
    let waiting = desk.pool.waiting_calls(turn);
    let is_waiting = |item: &Value| waiting.iter().any(|call| item["call_id"] == **call);
    if !waiting.is_empty() && output.iter().any(is_waiting) {
        desk.pool.parked_turn(turn, &caller.orderer()).into_iter().for_each(Turn::cancel);
    }
}

/// A stored response, and the memory that it takes.
struct LeasedResponse {
    response: Box<RawValue>,
    is_of_the_background: bool,
    memory: MemoryLease,
}

impl LeasedResponse {
    fn into_response(self) -> Result<Response, Error> {
        Ok(json_response(self.memory.hold_text(Box::<str>::from(self.response).into())))
    }
}

async fn find(desk: &Desk, caller: &Caller, id: &str) -> Result<LeasedResponse, Error> {
    let mut memory = desk.bodies.memory().lease(&caller.key);
    let read = |record: Record, memory: &mut MemoryLease| {
        memory.grow_by(tree_bytes(record.response.get()))?;
        Ok((record.is_of_the_background(), record.response))
    };
    let (is_of_the_background, response) = find_record(desk, id, &mut memory, read).await?;
    Ok(LeasedResponse { response, is_of_the_background, memory })
}

/// Loads the record of a response that is not hidden, and reads what is needed of it.
async fn find_record<T: Send + 'static>(
    desk: &Desk,
    id: &str,
    memory: &mut MemoryLease,
    read: impl Fn(Record, &mut MemoryLease) -> Result<T, Error> + Clone + Send + 'static,
) -> Result<T, Error> {
    // What was left to be written a moment ago counts.
    desk.store.flush().await.ok();
    let parse = move |row: store::Response, memory: &mut MemoryLease| match read_record(&row, memory)? {
        Some(record) if row.status != DELETED => read(record, memory).map(Some),
        _ => Ok(None),
    };
    load_response(desk, id.to_owned(), memory, parse).await?.flatten().ok_or_else(|| not_found(id))
}

fn not_found(id: &str) -> Error {
    Error::new(Code::ResponseNotFound, format!("Response with id '{id}' not found."))
}
