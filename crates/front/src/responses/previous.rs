//! What a request goes on from: the responses before it, back to the first, and the items that it only names.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use store::{ReadError, Reader};

use super::limits::ResponseLimits;
use super::memory::Memory;
use super::recovery::recover;
use super::retrieve::DELETED;
use super::talk::Talk;
use crate::Desk;
use crate::error::{Code, Error};
use crate::keys::Caller;
use crate::lock::lock;
use crate::openai::message::Message;
use crate::openai::plan::After;
use crate::openai::responses::conversation::Conversation;
use crate::openai::responses::items::references;
use crate::openai::responses::object::{Name, Status};
use crate::openai::responses::record::{Record, messages};
use crate::openai::responses::request::{Links, ResponseRequest};

/// What was said before.
#[derive(Default)]
pub(super) struct Before {
    /// All of it, or its end alone.
    pub(super) said: Vec<Message>,
    /// The rest, if that is only its end.
    pub(super) retelling: Option<Retelling>,
    /// The turn to go on after.
    pub(super) after: Option<After>,
    /// The last response, whether it was named or is the last of a conversation.
    pub(super) last: Option<Box<str>>,
    pub(super) talk: Option<Talk>,
}

/// What the store has of it.
#[derive(Default)]
struct Found {
    /// The response to go on from.
    last: Option<store::Response>,
    named: HashMap<String, store::Response>,
}

impl Found {
    fn is_hidden(&self) -> bool {
        self.last.as_ref().is_some_and(|row| row.status == DELETED || Conversation::is_id(&row.id))
    }
}

/// Reads a request and what it goes on from, which its connection may remember.
pub(super) async fn read(
    desk: &Desk,
    caller: &Caller,
    body: &Value,
    memory: &Mutex<Memory>,
) -> Result<(ResponseRequest, Before), Error> {
    let links = Links::read(body)?;
    let remembered = links.previous.as_deref().and_then(|previous| lock(memory).find(previous));
    let mut named: Vec<String> = references(body.get("input").unwrap_or(&Value::Null))
        .filter_map(|id| Some(Name::of_item(id)?.0.id()))
        .collect();
    named.sort_unstable();
    named.dedup();
    let limits = &desk.responses.limits;
    if named.len() > limits.references_max {
        let why = format!("`input` names items of {} responses; {} at most can be", named.len(), limits.references_max);
        return Err(Error::new(Code::InvalidValue, why).about("input"));
    }
    if let Some(previous) = &links.previous
        && desk.responses.is_running(previous, &caller.key)
    {
        return Err(not_over(previous));
    }
    let talk = match &links.conversation {
        Some(id) => Some(Talk::begin(desk, &caller.key, id).await?),
        None => None,
    };
    let last = talk.as_ref().and_then(|talk| talk.last.clone());
    let sought = links.previous.as_deref().filter(|_| remembered.is_none());
    let (key, previous) = (caller.key.to_string(), sought.map(str::to_owned).or(last));
    let found = if previous.is_none() && named.is_empty() {
        Found::default()
    } else {
        let named_bytes_max = limits.references_bytes_max;
        let mut found = desk.store.read(move |reader| find(reader, &key, previous, named, named_bytes_max)).await?;
        if let Some(last) = found.last.take() {
            found.last = Some(recover(desk, last).await);
        }
        found
    };
    let outputs: HashMap<&str, Vec<Value>> =
        found.named.iter().filter_map(|(id, row)| Some((id.as_str(), Record::read(&row.body)?.output()))).collect();
    let item = |id: &str| {
        let (name, place) = Name::of_item(id)?;
        outputs.get(name.id().as_str())?.get(place).cloned()
    };
    let request = ResponseRequest::read(body, &item)?;
    let previous = links.previous.as_deref().or(talk.as_ref().and_then(|talk| talk.last.as_deref()));
    let begins_with = talk.as_ref().map(|talk| talk.conversation.items.clone()).unwrap_or_default();
    let before = match (previous, remembered) {
        (None, _) => Before { said: messages(begins_with), ..Before::default() },
        (Some(_), Some(remembered)) => remembered,
        // Part of what a conversation was told, but nobody's to name.
        (Some(previous), None) if talk.is_none() && found.is_hidden() => return Err(not_found(previous)),
        (Some(previous), None) => before(desk, &caller.key, previous, &found, begins_with).await?,
    };
    Ok((request, Before { talk, ..before }))
}

/// The responses back from this one, the newest first, and whether these are all.
pub(super) async fn chain_of(
    desk: &Desk,
    key: &str,
    last: Option<String>,
) -> Result<(Vec<store::Response>, bool), Error> {
    let (key, limits) = (key.to_owned(), desk.responses.limits.clone());
    Ok(desk.store.read(move |reader| chain(reader, &key, last, &limits)).await?)
}

fn chain(
    reader: &Reader,
    key: &str,
    last: Option<String>,
    limits: &ResponseLimits,
) -> Result<(Vec<store::Response>, bool), ReadError> {
    let (mut chain, mut next, mut bytes) = (Vec::new(), last, 0);
    while let Some(id) = next.take() {
        let row = reader.response(&id, key)?;
        bytes += row.as_ref().map_or(0, |row| row.body.len());
        let is_within = chain.len() < limits.conversation_responses_max && bytes <= limits.conversation_bytes_max;
        let Some(row) = row.filter(|_| is_within) else { return Ok((chain, false)) };
        next.clone_from(&row.previous);
        chain.push(row);
    }
    Ok((chain, true))
}

async fn before(
    desk: &Desk,
    key: &Arc<str>,
    previous: &str,
    found: &Found,
    begins_with: Vec<Value>,
) -> Result<Before, Error> {
    let Some(row) = &found.last else { return Err(not_found(previous)) };
    match Status::of(&row.status) {
        Some(Status::Queued | Status::InProgress) => return Err(not_over(previous)),
        Some(status @ (Status::Failed | Status::Cancelled)) => {
            let why = format!("the response {previous:?} is {}; go on from the one before it", status.word());
            return Err(Error::new(Code::PreviousNotOver, why).about("previous_response_id"));
        }
        // One that is only hidden is still part of what was said.
        Some(Status::Completed | Status::Incomplete) | None => {}
    }
    let record = Record::read(&row.body).ok_or_else(|| not_found(previous))?;
    let said = record.answered();
    let retelling = Retelling { key: Arc::clone(key), last: previous.into(), begins_with, told: said.len() };
    let last = Some(previous.into());
    // One that was made without a turn has no thread.
    if row.thread.is_empty() || record.history.is_none() {
        return Ok(Before { said: retelling.said(desk).await?, last, ..Before::default() });
    }
    let after = After {
        thread: row.thread.as_str().into(),
        turn: row.turn.as_str().into(),
        made_of: record.made_of,
        told: said.len(),
        history: record.history,
    };
    Ok(Before { said, retelling: Some(retelling), after: Some(after), last, talk: None })
}

/// What was said before a request, for a thread that does not know it: read only when it is needed.
pub(crate) struct Retelling {
    key: Arc<str>,
    /// The last response.
    last: Box<str>,
    /// What stands before the first.
    begins_with: Vec<Value>,
    /// How many of the request's messages are the end of it.
    pub(crate) told: usize,
}

impl Retelling {
    /// All of it.
    pub(crate) async fn said(&self, desk: &Desk) -> Result<Vec<Message>, Error> {
        Ok(messages(self.items(desk).await?))
    }

    /// The same as items, as they are listed.
    pub(super) async fn items(&self, desk: &Desk) -> Result<Vec<Value>, Error> {
        let (chain, is_whole) = chain_of(desk, &self.key, Some(self.last.to_string())).await?;
        if !is_whole {
            let why = "not all earlier responses of this conversation are kept any more, and no thread holds them; send the whole conversation";
            return Err(Error::new(Code::PreviousNotFound, why).about("previous_response_id"));
        }
        let records = chain.iter().rev().filter_map(|row| Record::read(&row.body));
        Ok(self.begins_with.iter().cloned().chain(records.flat_map(|record| record.items())).collect())
    }
}

fn find(
    reader: &Reader,
    key: &str,
    previous: Option<String>,
    named: Vec<String>,
    named_bytes_max: usize,
) -> Result<Found, ReadError> {
    let last = previous.map(|id| reader.response(&id, key)).transpose()?.flatten();
    let (mut rows, mut bytes) = (HashMap::new(), 0);
    for id in named {
        let row = reader.response(&id, key)?.filter(|row| row.status != DELETED);
        bytes += row.as_ref().map_or(0, |row| row.body.len());
        // What is beyond is told to be unknown.
        if let Some(row) = row.filter(|_| bytes <= named_bytes_max) {
            rows.insert(id, row);
        }
    }
    Ok(Found { last, named: rows })
}

fn not_found(previous: &str) -> Error {
    let why = format!("Previous response with id '{previous}' not found.");
    Error::new(Code::PreviousNotFound, why).about("previous_response_id")
}

fn not_over(previous: &str) -> Error {
    let why = format!("the response {previous:?} is not over yet; wait for its end, or cancel it");
    Error::new(Code::PreviousNotOver, why).about("previous_response_id")
}
