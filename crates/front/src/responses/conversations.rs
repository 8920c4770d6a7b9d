//! `/v1/conversations`: conversations that callers make, and name in the requests that belong to them.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::response::Response;
use serde_json::{Value, json};
use store::Change;

use super::book::Locked;
use super::json_response;
use super::listing::{Page, list};
use super::stored::{LoadedConversation, load_conversation, load_items_back_from};
use crate::Desk;
use crate::api::Asked;
use crate::body::{ParsedBody, parse};
use crate::error::{Code, Error};
use crate::keys::Caller;
use crate::memory_budget::MemoryLease;
use crate::openai::read::{Bad, Fields};
use crate::openai::responses::conversation::Conversation;
use crate::openai::responses::items;
use crate::openai::responses::request::metadata;

/// What the row of a conversation has in the place of a response's status.
const STATUS: &str = "conversation";
/// How many items a conversation may begin with.
const ITEMS_MAX: usize = 20;

pub(crate) async fn create(State(desk): State<Arc<Desk>>, caller: Caller, body: Bytes) -> Result<Json<Value>, Error> {
    let key = Arc::clone(&caller.key);
    let make = move |body: Bytes, memory: MemoryLease| async move {
        let (id, conversation) = new_conversation(&body)?;
        Ok((change(&key, &id, to_json(&conversation), None), conversation.to_object(&id), memory))
    };
    let (change, object, _memory) = desk.bodies.work(body, &caller.key, make).await?;
    write(&desk, change).await?;
    Ok(Json(object))
}

fn new_conversation(body: &[u8]) -> Result<(String, Conversation), Error> {
    let body = if body.is_empty() { json!({}) } else { parse(body)? };
    let fields = Fields::of(&body)?;
    let given = fields.list("items")?.unwrap_or_default();
    if given.len() > ITEMS_MAX {
        return Err(Bad::value(format!("must hold {ITEMS_MAX} items at most, not {}", given.len())).at("items").into());
    }
    let given = Value::from(given);
    items::read(&given, &|_| None).map_err(|bad| bad.at("items"))?;
    let metadata = metadata(fields)?;
    drop(body);
    let id = Conversation::new_id();
    let items = items::listed(&given, |prefix, place| format!("{prefix}_{}i{place:04x}", &id["conv_".len()..]));
    Ok((id, Conversation { created_at: crate::unix_seconds(), metadata, items }))
}

pub(crate) async fn get(
    State(desk): State<Arc<Desk>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, Error> {
    let found = find(&desk, &id, lease(&desk, &caller)).await?;
    Ok(Json(found.conversation.to_object(&id)))
}

/// Gives it other metadata.
pub(crate) async fn update(
    State(desk): State<Arc<Desk>>,
    caller: Caller,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<Json<Value>, Error> {
    let read = |body: Bytes, memory| async move { ParsedBody::read(&body, memory) };
    let ParsedBody { value, memory: _body_memory } = desk.bodies.work(body, &caller.key, read).await?;
    let _locked = lock(&desk, &caller.key, &id)?;
    let LoadedConversation { conversation, last, memory } = find(&desk, &id, lease(&desk, &caller)).await?;
    let (key, bytes) = (Arc::clone(&caller.key), memory.bytes());
    let make = async move {
        let changed = Conversation { metadata: metadata(Fields::of(&value)?)?, ..conversation };
        Ok((change(&key, &id, to_json(&changed), last), changed.to_object(&id)))
    };
    let (change, object) = desk.bodies.threads().run(&caller.key, bytes, make).await?;
    write(&desk, change).await?;
    Ok(Json(object))
}

/// Forgets it; its responses stay.
pub(crate) async fn delete(
    State(desk): State<Arc<Desk>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, Error> {
    let _locked = lock(&desk, &caller.key, &id)?;
    check_id(&id)?;
    desk.store.flush().await.ok();
    let (own_id, key) = (id.clone(), caller.key.to_string());
    let found = desk.store.read(move |reader| reader.response_summary(&own_id, &key)).await?;
    found.ok_or_else(|| not_found(&id))?;
    desk.store.note(Change::ResponseGone { id: id.clone() });
    desk.store.flush().await?;
    Ok(Json(json!({"id": id, "object": "conversation.deleted", "deleted": true})))
}

/// All that was said in it.
pub(crate) async fn items(
    State(desk): State<Arc<Desk>>,
    caller: Caller,
    Path(id): Path<String>,
    Asked(page): Asked<Page>,
) -> Result<Response, Error> {
    let LoadedConversation { conversation, last, mut memory } = find(&desk, &id, lease(&desk, &caller)).await?;
    let mut all = conversation.items;
    let list_all = move |items: Vec<Value>, _| {
        all.extend(items);
        list(all, &page).map(|listed| listed.to_string())
    };
    let listed = load_items_back_from(&desk, last, &mut memory, list_all).await??;
    Ok(json_response(memory.hold_text(listed)))
}

fn lease(desk: &Desk, caller: &Caller) -> MemoryLease {
    desk.bodies.memory().lease(&caller.key)
}

/// Makes it nobody else's for a while.
pub(super) fn lock(desk: &Desk, key: &Arc<str>, id: &str) -> Result<Locked, Error> {
    let why = || format!("a response is being made in the conversation {id:?}; wait for its end");
    desk.responses.lock_conversation(key, id).ok_or_else(|| Error::new(Code::ConversationLocked, why()))
}

/// Loads the conversation, which belongs to this lease.
pub(super) async fn find(desk: &Desk, id: &str, memory: MemoryLease) -> Result<LoadedConversation, Error> {
    check_id(id)?;
    // Where it stood a moment ago may not be written yet.
    desk.store.flush().await.ok();
    load_conversation(desk, id.to_owned(), memory).await?.ok_or_else(|| not_found(id))
}

fn check_id(id: &str) -> Result<(), Error> {
    if Conversation::is_id(id) { Ok(()) } else { Err(not_found(id)) }
}

fn not_found(id: &str) -> Error {
    Error::new(Code::ConversationNotFound, format!("Conversation with id '{id}' not found."))
}

pub(super) fn to_json(conversation: &Conversation) -> String {
    serde_json::to_string(conversation).expect("JSON can be written")
}

/// It as it is now.
pub(super) fn change(key: &str, id: &str, json: String, last: Option<String>) -> Change {
    Change::Response(store::Response {
        id: id.into(),
        key: key.into(),
        thread: String::new(),
        turn: String::new(),
        previous: last,
        status: STATUS.into(),
        body: json,
        created_at: i64::try_from(crate::unix_seconds()).unwrap_or(i64::MAX).saturating_mul(1000),
        expires_at: None,
    })
}

async fn write(desk: &Desk, change: Change) -> Result<(), Error> {
    desk.store.note(change);
    Ok(desk.store.flush().await?)
}
