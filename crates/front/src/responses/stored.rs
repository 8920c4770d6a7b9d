//! Responses that are read from the store. A short request can name long ones, so they count against the memory budget
//! before they are loaded and parsed, and long ones are parsed on threads of their own. The key of the lease is whose
//! responses they are.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use store::{ReadError, Reader};

use super::limits::ResponseLimits;
use super::memory::Memory;
use super::recovery::recover;
use super::retrieve::DELETED;
use crate::Desk;
use crate::body::{parsed_bytes, tree_bytes};
use crate::error::Error;
use crate::lock::lock;
use crate::memory_budget::MemoryLease;
use crate::openai::responses::conversation::Conversation;
use crate::openai::responses::items::references;
use crate::openai::responses::object::{Name, Status};
use crate::openai::responses::record::Record;
use crate::openai::responses::request::Links;

/// A conversation, and the memory that it takes.
pub(super) struct LoadedConversation {
    pub(super) conversation: Conversation,
    /// The id of its last response.
    pub(super) last: Option<String>,
    pub(super) memory: MemoryLease,
}

/// An item that requests can name, and what each mention of it takes.
pub(super) struct NamedItem {
    pub(super) value: Value,
    pub(super) bytes: usize,
}

impl LoadedConversation {
    /// A copy of its items, which counts against this lease.
    pub(super) fn copy_items(&self, memory: &mut MemoryLease) -> Result<Vec<Value>, Error> {
        memory.grow_by(self.memory.bytes())?;
        Ok(self.conversation.items.clone())
    }
}

/// Responses to load, which are known to be there, and the sum of their sizes.
#[derive(Default)]
struct Selection {
    ids: Vec<String>,
    bytes: usize,
}

/// The sizes of the stored responses that a request names, added up as often as it names them. What its connection remembers is
/// not read from the store.
pub(super) async fn named_bytes(
    desk: &Desk,
    key: &str,
    body: &Value,
    remembered: &Mutex<Memory>,
) -> Result<usize, Error> {
    let Links { previous, conversation } = Links::read(body)?;
    let previous = previous.filter(|previous| !lock(remembered).holds(previous));
    let mut mentions: HashMap<String, usize> = HashMap::new();
    for id in references(&body["input"]).filter_map(|id| Some(Name::of_item(id)?.0.id())) {
        *mentions.entry(id).or_default() += 1;
        // Too many are refused later, before any of them is read.
        if mentions.len() > desk.responses.limits.references_max {
            return Ok(0);
        }
    }
    if mentions.is_empty() && previous.is_none() && conversation.is_none() {
        return Ok(0);
    }
    let key = key.to_owned();
    let mut conversation = conversation;
    let sum = move |reader: &Reader| {
        let mut bytes = 0_usize;
        for (id, count) in mentions {
            let summary = reader.response_summary(&id, &key)?;
            bytes = bytes.saturating_add(summary.map_or(0, |summary| summary.body_bytes.saturating_mul(count)));
        }
        let mut next = previous.or(conversation.clone()).map(String::from);
        while let Some(summary) = next.map(|id| reader.response_summary(&id, &key)).transpose()?.flatten() {
            bytes = bytes.saturating_add(summary.body_bytes);
            // A conversation is loaded with its last response.
            next = conversation.take().and(summary.previous);
        }
        Ok(bytes)
    };
    Ok(desk.store.read(sum).await?)
}

/// Loads a response and parses it. One that an earlier run of the server left unfinished has the end that it has by now.
pub(super) async fn load_response<T, P>(
    desk: &Desk,
    id: String,
    memory: &mut MemoryLease,
    parse: P,
) -> Result<Option<T>, Error>
where
    T: Send + 'static,
    P: Fn(store::Response, &mut MemoryLease) -> Result<T, Error> + Clone + Send + 'static,
{
    enum Loaded<T> {
        Parsed(T),
        Unfinished(store::Response),
    }
    let parse_finished = {
        let parse = parse.clone();
        move |row: store::Response, memory: &mut MemoryLease| match Status::of(&row.status) {
            Some(status) if !status.is_over() => Ok(Loaded::Unfinished(row)),
            _ => parse(row, memory).map(Loaded::Parsed),
        }
    };
    match load_one(desk, id, memory, parse_finished).await? {
        None => Ok(None),
        Some(Loaded::Parsed(parsed)) => Ok(Some(parsed)),
        Some(Loaded::Unfinished(row)) => {
            let row = recover(desk, row).await;
            let bytes = row.body.len();
            let parse_row = |mut own| async move { Ok((parse(row, &mut own)?, own)) };
            run_apart(desk, bytes, memory, parse_row).await.map(Some)
        }
    }
}

/// The record of a row, unless that cannot be read.
pub(super) fn read_record(row: &store::Response, memory: &mut MemoryLease) -> Result<Option<Record>, Error> {
    memory.grow_by(row.body.len())?;
    Ok(Record::read(&row.body))
}

/// Loads a conversation, which belongs to this lease.
pub(super) async fn load_conversation(
    desk: &Desk,
    id: String,
    mut memory: MemoryLease,
) -> Result<Option<LoadedConversation>, Error> {
    let parse = |row: store::Response, memory: &mut MemoryLease| {
        let bytes = tree_bytes(&row.body);
        memory.grow_by(bytes)?;
        let conversation: Option<Conversation> = serde_json::from_str(&row.body).ok();
        Ok(conversation.map(|conversation| (conversation, row.previous, bytes)))
    };
    let Some((conversation, last, bytes)) = load_one(desk, id, &mut memory, parse).await?.flatten() else {
        return Ok(None);
    };
    memory.resize(bytes)?;
    Ok(Some(LoadedConversation { conversation, last, memory }))
}

/// Loads the output items of these responses, by id. Those beyond the limit are left out, as if there were none.
pub(super) async fn load_outputs(
    desk: &Desk,
    ids: Vec<String>,
    memory: &mut MemoryLease,
) -> Result<HashMap<String, Vec<NamedItem>>, Error> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let (key, bytes_max) = (Arc::clone(memory.key()), desk.responses.limits.references_bytes_max);
    let select = move |reader: &Reader| {
        let mut selection = Selection::default();
        for id in ids {
            let Some(summary) = reader.response_summary(&id, &key)? else { continue };
            if summary.status != DELETED && selection.bytes + summary.body_bytes <= bytes_max {
                selection.bytes += summary.body_bytes;
                selection.ids.push(id);
            }
        }
        Ok(selection)
    };
    let selection = desk.store.read(select).await?;
    let parse = |rows: Vec<store::Response>, memory: &mut MemoryLease| {
        let mut outputs = HashMap::new();
        for row in rows {
            let Some(record) = read_record(&row, memory)? else { continue };
            memory.grow_by(tree_bytes(record.response.get()))?;
            let named = |value: Value| NamedItem { bytes: parsed_bytes(value.to_string().as_bytes()), value };
            outputs.insert(row.id, record.output().into_iter().map(named).collect());
        }
        Ok(outputs)
    };
    load(desk, selection, memory, parse).await
}

/// Loads the items of the responses back from this one, the oldest first, and converts them together with whether these
/// are all.
pub(super) async fn load_items_back_from<T: Send + 'static>(
    desk: &Desk,
    last: Option<String>,
    memory: &mut MemoryLease,
    convert: impl FnOnce(Vec<Value>, bool) -> T + Send + 'static,
) -> Result<T, Error> {
    let (key, limits) = (Arc::clone(memory.key()), desk.responses.limits.clone());
    let (selection, is_whole) = desk.store.read(move |reader| select_back(reader, &key, last, &limits)).await?;
    let count = selection.ids.len();
    let parse = move |rows: Vec<store::Response>, memory: &mut MemoryLease| {
        let (mut items, is_whole) = (Vec::new(), is_whole && rows.len() == count);
        for row in rows.into_iter().rev() {
            let Some(record) = read_record(&row, memory)? else { continue };
            memory.grow_by(tree_bytes(record.input.get()) + tree_bytes(record.response.get()))?;
            items.extend(record.items());
        }
        Ok(convert(items, is_whole))
    };
    load(desk, selection, memory, parse).await
}

fn select_back(
    reader: &Reader,
    key: &str,
    last: Option<String>,
    limits: &ResponseLimits,
) -> Result<(Selection, bool), ReadError> {
    let (mut selection, mut next) = (Selection::default(), last);
    while let Some(id) = next {
        let Some(summary) = reader.response_summary(&id, key)? else { return Ok((selection, false)) };
        let bytes = selection.bytes + summary.body_bytes;
        if selection.ids.len() >= limits.conversation_responses_max || bytes > limits.conversation_bytes_max {
            return Ok((selection, false));
        }
        selection.bytes = bytes;
        selection.ids.push(id);
        next = summary.previous;
    }
    Ok((selection, true))
}

async fn load_one<T: Send + 'static>(
    desk: &Desk,
    id: String,
    memory: &mut MemoryLease,
    parse: impl FnOnce(store::Response, &mut MemoryLease) -> Result<T, Error> + Send + 'static,
) -> Result<Option<T>, Error> {
    let (own_id, key) = (id.clone(), Arc::clone(memory.key()));
    let summary = desk.store.read(move |reader| reader.response_summary(&own_id, &key)).await?;
    let Some(summary) = summary else { return Ok(None) };
    let selection = Selection { ids: vec![id], bytes: summary.body_bytes };
    let parse_row =
        |mut rows: Vec<store::Response>, memory: &mut MemoryLease| rows.pop().map(|row| parse(row, memory)).transpose();
    load(desk, selection, memory, parse_row).await
}

/// Loads responses and parses them.
async fn load<T: Send + 'static>(
    desk: &Desk,
    selection: Selection,
    memory: &mut MemoryLease,
    parse: impl FnOnce(Vec<store::Response>, &mut MemoryLease) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let Selection { ids, bytes } = selection;
    memory.grow_by(bytes)?;
    let (store, key) = (desk.store.clone(), Arc::clone(memory.key()));
    // They are loaded where they are parsed, so that those who wait for a thread hold nothing.
    let load_rows = |mut own| async move {
        let rows = store.read(move |reader| {
            let found = ids.iter().filter_map(|id| reader.response(id, &key).transpose());
            found.collect::<Result<Vec<_>, _>>()
        });
        Ok((parse(rows.await?, &mut own)?, own))
    };
    run_apart(desk, bytes, memory, load_rows).await
}

/// Runs work on so many bytes of stored responses away from the runtime. It is given the whole lease, and returns it.
async fn run_apart<T: Send + 'static, F>(
    desk: &Desk,
    bytes: usize,
    memory: &mut MemoryLease,
    work: impl FnOnce(MemoryLease) -> F,
) -> Result<T, Error>
where
    F: Future<Output = Result<(T, MemoryLease), Error>> + Send + 'static,
{
    let (key, own) = (Arc::clone(memory.key()), memory.split(memory.bytes()));
    let (worked, own) = desk.bodies.stored_threads().run(&key, bytes, work(own)).await?;
    memory.absorb(own);
    Ok(worked)
}
