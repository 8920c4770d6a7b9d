//! What a request goes on from: the responses before it, back to the first, and the items that it only names.

use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::memory::Memory;
use super::retrieve::DELETED;
use super::stored::{LoadedConversation, load_items_back_from, load_outputs, load_response, read_record};
use super::talk::Talk;
use crate::Desk;
use crate::body::tree_bytes;
use crate::error::{Code, Error};
use crate::keys::Caller;
use crate::lock::lock;
use crate::memory_budget::MemoryLease;
use crate::openai::message::Message;
use crate::openai::plan::After;
use crate::openai::responses::conversation::Conversation;
use crate::openai::responses::items::references;
use crate::openai::responses::object::{Name, Status};
use crate::openai::responses::record::messages;
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

/// A response to go on from.
struct Answered {
    /// Without its body.
    row: store::Response,
    made_of: Box<str>,
    history: Option<Box<str>>,
    said: Vec<Message>,
}

impl Answered {
    fn read(row: store::Response, memory: &mut MemoryLease) -> Result<Option<Self>, Error> {
        let Some(record) = read_record(&row, memory)? else { return Ok(None) };
        memory.grow_by(tree_bytes(record.response.get()))?;
        let said = record.answered();
        let row = store::Response { body: String::new(), ..row };
        Ok(Some(Self { row, made_of: record.made_of, history: record.history, said }))
    }
}

/// Reads a request and what it goes on from, which its connection may remember.
pub(super) async fn read(
    desk: &Desk,
    caller: &Caller,
    body: Value,
    connection_memory: &Mutex<Memory>,
    memory: &mut MemoryLease,
) -> Result<(ResponseRequest, Before), Error> {
    let links = Links::read(&body)?;
    let remembered = match links.previous.as_deref() {
        Some(previous) => lock(connection_memory).find(previous, memory)?,
        None => None,
    };
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
        Some(id) => Some(Talk::begin(desk, id, desk.bodies.memory().lease(&caller.key)).await?),
        None => None,
    };
    let last = talk.as_ref().and_then(|talk| talk.loaded.last.clone());
    let sought = links.previous.as_deref().filter(|_| remembered.is_none());
    let answered = match sought.map(str::to_owned).or(last) {
        Some(id) => load_response(desk, id, memory, Answered::read).await?.flatten(),
        None => None,
    };
    let outputs = load_outputs(desk, named, memory).await?;
    let item = |id: &str| {
        let (name, place) = Name::of_item(id)?;
        outputs.get(&name.id())?.get(place)
    };
    // Each mention is a copy.
    memory.grow_by(references(&body["input"]).filter_map(item).map(|item| item.bytes).sum())?;
    let request = ResponseRequest::read(&body, &|id| Some(item(id)?.value.clone()))?;
    drop(body);
    let previous = links.previous.as_deref().or(talk.as_ref().and_then(|talk| talk.loaded.last.as_deref()));
    let begins_with = talk.as_ref().map(|talk| Arc::clone(&talk.loaded));
    let before = match (previous, remembered) {
        (None, _) => {
            let items = begins_with.map(|begins_with| begins_with.copy_items(memory)).transpose()?;
            Before { said: messages(items.unwrap_or_default()), ..Before::default() }
        }
        (Some(_), Some(remembered)) => remembered,
        // Part of what a conversation was told, but nobody's to name.
        (Some(previous), None)
            if talk.is_none() && answered.as_ref().is_some_and(|answered| is_hidden(&answered.row)) =>
        {
            return Err(not_found(previous));
        }
        (Some(previous), None) => before(desk, previous, answered, begins_with, memory).await?,
    };
    Ok((request, Before { talk, ..before }))
}

async fn before(
    desk: &Desk,
    previous: &str,
    answered: Option<Answered>,
    begins_with: Option<Arc<LoadedConversation>>,
    memory: &mut MemoryLease,
) -> Result<Before, Error> {
    let Some(Answered { row, made_of, history, said }) = answered else { return Err(not_found(previous)) };
    match Status::of(&row.status) {
        Some(Status::Queued | Status::InProgress) => return Err(not_over(previous)),
        Some(status @ (Status::Failed | Status::Cancelled)) => {
            let why = format!("the response {previous:?} is {}; go on from the one before it", status.word());
            return Err(Error::new(Code::PreviousNotOver, why).about("previous_response_id"));
        }
        // One that is only hidden is still part of what was said.
        Some(Status::Completed | Status::Incomplete) | None => {}
    }
    let retelling = Retelling { last: previous.into(), begins_with, told: said.len() };
    let last = Some(previous.into());
    // One that was made without a turn has no thread.
    if row.thread.is_empty() || history.is_none() {
        return Ok(Before { said: retelling.said(desk, memory).await?, last, ..Before::default() });
    }
    let after = After {
        thread: row.thread.as_str().into(),
        turn: row.turn.as_str().into(),
        made_of,
        told: said.len(),
        history,
    };
    Ok(Before { said, retelling: Some(retelling), after: Some(after), last, talk: None })
}

/// What was said before a request, for a thread that does not know it: read only when it is needed.
pub(crate) struct Retelling {
    /// The last response.
    last: Box<str>,
    /// The conversation that it belongs to, whose items stand before the first.
    begins_with: Option<Arc<LoadedConversation>>,
    /// How many of the request's messages are the end of it.
    pub(crate) told: usize,
}

impl Retelling {
    /// All of it.
    pub(crate) async fn said(&self, desk: &Desk, memory: &mut MemoryLease) -> Result<Vec<Message>, Error> {
        self.load(desk, memory, messages).await
    }

    /// Loads all its items, as they are listed, and converts them.
    pub(super) async fn load<T: Send + 'static>(
        &self,
        desk: &Desk,
        memory: &mut MemoryLease,
        convert: impl FnOnce(Vec<Value>) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let copied = self.begins_with.as_ref().map(|begins_with| begins_with.copy_items(memory)).transpose()?;
        let mut all = copied.unwrap_or_default();
        let convert = move |items: Vec<Value>, is_whole: bool| {
            all.extend(items);
            is_whole.then(|| convert(all))
        };
        let converted = load_items_back_from(desk, Some(self.last.to_string()), memory, convert).await?;
        converted.ok_or_else(|| {
            let why = "not all earlier responses of this conversation are kept any more, and no thread holds them; send the whole conversation";
            Error::new(Code::PreviousNotFound, why).about("previous_response_id")
        })
    }
}

fn is_hidden(row: &store::Response) -> bool {
    row.status == DELETED || Conversation::is_id(&row.id)
}

fn not_found(previous: &str) -> Error {
    let why = format!("Previous response with id '{previous}' not found.");
    Error::new(Code::PreviousNotFound, why).about("previous_response_id")
}

fn not_over(previous: &str) -> Error {
    let why = format!("the response {previous:?} is not over yet; wait for its end, or cancel it");
    Error::new(Code::PreviousNotOver, why).about("previous_response_id")
}
