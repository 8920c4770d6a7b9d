//! Responses that are read from the store. A short request can name long ones, so they count against the memory budget
//! before they are loaded, and are parsed on the store's threads.

use std::collections::HashMap;

use serde_json::Value;
use store::{ReadError, Reader};

use super::limits::ResponseLimits;
use super::recovery::recover;
use super::retrieve::DELETED;
use crate::Desk;
use crate::body::parsed_bytes;
use crate::error::Error;
use crate::memory_budget::MemoryLease;
use crate::openai::responses::conversation::Conversation;
use crate::openai::responses::record::Record;

/// Responses to load, which are known to be there, and the sum of their sizes.
#[derive(Default)]
struct Selection {
    ids: Vec<String>,
    bytes: usize,
}

/// A response, with what its body says.
pub(super) struct StoredResponse {
    pub(super) row: store::Response,
    pub(super) record: Option<Record>,
}

/// The response with this id. One that an earlier run of the server left unfinished comes with the end that it has by now.
pub(super) async fn response(
    desk: &Desk,
    key: &str,
    id: String,
    memory: &mut MemoryLease,
) -> Result<Option<StoredResponse>, Error> {
    let parse = |row: store::Response| (Record::read(&row.body), row);
    let Some((record, row)) = load_one(desk, key, id, memory, parse).await? else { return Ok(None) };
    let status = row.status.clone();
    let row = recover(desk, row).await;
    let record = if row.status == status { record } else { Record::read(&row.body) };
    Ok(Some(StoredResponse { row, record }))
}

/// The conversation with this id, and the id of its last response.
pub(super) async fn conversation(
    desk: &Desk,
    key: &str,
    id: String,
    memory: &mut MemoryLease,
) -> Result<Option<(Conversation, Option<String>)>, Error> {
    let parse = |row: store::Response| Some((serde_json::from_str(&row.body).ok()?, row.previous));
    Ok(load_one(desk, key, id, memory, parse).await?.flatten())
}

/// The output items of these responses, by id. Those beyond the limit are left out, as if there were none.
pub(super) async fn outputs(
    desk: &Desk,
    key: &str,
    ids: Vec<String>,
    memory: &mut MemoryLease,
) -> Result<HashMap<String, Vec<Value>>, Error> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let (own_key, bytes_max) = (key.to_owned(), desk.responses.limits.references_bytes_max);
    let select = move |reader: &Reader| {
        let mut selection = Selection::default();
        for id in ids {
            let Some(size) = reader.response_size(&id, &own_key)? else { continue };
            if selection.bytes + size.body_bytes <= bytes_max {
                selection.bytes += size.body_bytes;
                selection.ids.push(id);
            }
        }
        Ok(selection)
    };
    let selection = desk.store.read(select).await?;
    let parse = |rows: Vec<store::Response>| {
        let rows = rows.into_iter().filter(|row| row.status != DELETED);
        rows.filter_map(|row| Some((row.id, Record::read(&row.body)?.output()))).collect()
    };
    load(desk, key, selection, memory, parse).await
}

/// The items of the responses back from this one, the oldest first, and whether these are all.
pub(super) async fn items_back_from(
    desk: &Desk,
    key: &str,
    last: Option<String>,
    memory: &mut MemoryLease,
) -> Result<(Vec<Value>, bool), Error> {
    let (own_key, limits) = (key.to_owned(), desk.responses.limits.clone());
    let (selection, is_whole) = desk.store.read(move |reader| select_back(reader, &own_key, last, &limits)).await?;
    let count = selection.ids.len();
    let parse = move |rows: Vec<store::Response>| {
        let records = rows.iter().rev().filter_map(|row| Record::read(&row.body));
        (records.flat_map(|record| record.items()).collect(), is_whole && rows.len() == count)
    };
    load(desk, key, selection, memory, parse).await
}

fn select_back(
    reader: &Reader,
    key: &str,
    last: Option<String>,
    limits: &ResponseLimits,
) -> Result<(Selection, bool), ReadError> {
    let (mut selection, mut next) = (Selection::default(), last);
    while let Some(id) = next {
        let Some(size) = reader.response_size(&id, key)? else { return Ok((selection, false)) };
        let bytes = selection.bytes + size.body_bytes;
        if selection.ids.len() >= limits.conversation_responses_max || bytes > limits.conversation_bytes_max {
            return Ok((selection, false));
        }
        selection.bytes = bytes;
        selection.ids.push(id);
        next = size.previous;
    }
    Ok((selection, true))
}

async fn load_one<T: Send + 'static>(
    desk: &Desk,
    key: &str,
    id: String,
    memory: &mut MemoryLease,
    parse: impl FnOnce(store::Response) -> T + Send + 'static,
) -> Result<Option<T>, Error> {
    let (own_id, own_key) = (id.clone(), key.to_owned());
    let size = desk.store.read(move |reader| reader.response_size(&own_id, &own_key)).await?;
    let Some(size) = size else { return Ok(None) };
    let selection = Selection { ids: vec![id], bytes: size.body_bytes };
    load(desk, key, selection, memory, |mut rows| rows.pop().map(parse)).await
}

/// Loads responses and makes something of them, which belongs to this lease.
async fn load<T: Send + 'static>(
    desk: &Desk,
    key: &str,
    selection: Selection,
    memory: &mut MemoryLease,
    parse: impl FnOnce(Vec<store::Response>) -> T + Send + 'static,
) -> Result<T, Error> {
    let (key, mut own) = (key.to_owned(), memory.split(0));
    own.grow_by(selection.bytes)?;
    let loaded = desk.store.read(move |reader| {
        let found = selection.ids.iter().filter_map(|id| reader.response(id, &key).transpose());
        let rows = found.collect::<Result<Vec<_>, _>>()?;
        let bytes = rows.iter().map(|row| parsed_bytes(row.body.as_bytes())).sum();
        Ok(own.grow_by(bytes).map(|()| (parse(rows), own)))
    });
    let (parsed, own) = loaded.await??;
    memory.absorb(own);
    Ok(parsed)
}
