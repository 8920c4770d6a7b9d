//! Calls that read threads: one, many, and their turns and items page by page.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::paging::{Page, Scope, SortDirection, page};
use super::shapes::{ReadStateShape, ThreadShape};
use super::threads::checked_id;
use crate::clock::Utc;
use crate::home::{Shelf, read_thread};
use crate::items::{Body, Item};
use crate::lines::Refusal;
use crate::record::Stored;
use crate::shapes::{ItemsView, TurnShape, TurnStatus};
use crate::stage::Call;
use crate::thread::{Kept, Thread};
use crate::worker::Worker;

/// The file of a loaded thread.
pub(super) fn path(thread: &Thread) -> Option<&Path> {
    match &thread.kept {
        Kept::File(file) => Some(file.path()),
        Kept::Ephemeral | Kept::NotYet => None,
    }
}

/// What the file of a loaded thread says, and what runs now, which the file takes for cut.
pub(super) fn stored(thread: &Thread) -> Option<Stored> {
    let mut stored = read_thread(path(thread)?)?;
    if let (Some(turn), Some(last)) = (&thread.turn, stored.turns.last_mut())
        && last.id == turn.id
    {
        last.status = TurnStatus::InProgress;
        for item in &mut last.items {
            if let Some(parked) = turn.parked.iter().find(|parked| parked.item.id() == item.id()) {
                *item = parked.item.clone();
            }
        }
    }
    Some(stored)
}

/// What is known of a thread, loaded or not.
fn find(worker: &Worker, id: &str) -> Option<Stored> {
    match worker.threads.get(id) {
        Some(thread) => stored(thread),
        None => read_thread(&worker.stage.home.find(id, Shelf::Active)?),
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ThreadReadParams {
    thread_id: String,
    #[serde(default)]
    include_turns: bool,
}

pub(super) fn read(worker: &mut Worker, call: &Call, params: &ThreadReadParams) -> Result<(), Refusal> {
    let id = checked_id(&params.thread_id, "thread")?;
    let loaded = worker.threads.get(id);
    match loaded.map(|thread| &thread.kept) {
        Some(Kept::Ephemeral) if params.include_turns => {
            return Err(Refusal::invalid("ephemeral threads do not support includeTurns"));
        }
        Some(Kept::NotYet) if params.include_turns => {
            return Err(Refusal::of(Refusal::METHOD_NOT_FOUND, "list_turns is not supported yet"));
        }
        _ => {}
    }
    let stored = find(worker, id);
    let (mut shape, read_state) = match (loaded, &stored) {
        (Some(thread), _) => {
            let read_state = path(thread).map(|_| ReadStateShape::of(&thread.read_state, id));
            (ThreadShape::of(thread, &worker.stage), read_state)
        }
        (None, Some(stored)) => {
            let path = worker.stage.home.find(id, Shelf::Active).unwrap_or_default();
            (ThreadShape::of_stored(stored, &path), Some(ReadStateShape::of(&stored.read_state, id)))
        }
        (None, None) => return Err(not_loaded(id)),
    };
    let read_state = serde_json::to_value(read_state).unwrap_or_default();
    if params.include_turns {
        shape.turns = stored.map_or_else(Vec::new, |stored| stored.turns);
        let summary = "Full-history hydration is deprecated for paginated threads; omit `includeTurns` or set it to \
                       `false`, then page with `thread/turns/list` and `thread/items/list`.";
        let notice = json!({"summary": summary, "details": null});
        worker.stage.tell(&[call.connection], "deprecationNotice", &notice);
    }
    worker.stage.answer(call, &json!({"thread": shape, "readState": read_state}));
    Ok(())
}

fn not_loaded(id: &str) -> Refusal {
    Refusal::invalid(format!("thread not loaded: {id}"))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ThreadListParams {
    cursor: Option<String>,
    limit: Option<usize>,
    archived: Option<bool>,
    search_term: Option<String>,
    cwd: Option<serde_json::Value>,
}

/// Stored threads, the latest first.
pub(super) fn list(worker: &mut Worker, call: &Call, params: &ThreadListParams) -> Result<(), Refusal> {
    let shelf = if params.archived == Some(true) { Shelf::Archived } else { Shelf::Active };
    let files = worker.stage.home.files(shelf);
    let mut found: Vec<_> = files.iter().filter_map(|path| Some((read_thread(path)?, path))).collect();
    found.retain(|(stored, _)| !stored.turns.is_empty() && params.admits(stored));
    found.sort_by(|(one, _), (other, _)| (other.recency_ms, &other.thread.id).cmp(&(one.recency_ms, &one.thread.id)));
    if let Some(cursor) = &params.cursor {
        if !cursor.ends_with('Z') {
            return Err(Refusal::invalid(format!("invalid cursor: {cursor}")));
        }
        found.retain(|(stored, _)| Utc::from_unix_ms(stored.recency_ms).rfc3339() < *cursor);
    }
    let limit = page(params.limit);
    let has_more = found.len() > limit;
    found.truncate(limit);
    let cursor = |at: Option<&(Stored, _)>| at.map(|(stored, _)| Utc::from_unix_ms(stored.recency_ms).rfc3339());
    let (backwards_cursor, next_cursor) = (cursor(found.first()), cursor(found.last()).filter(|_| has_more));
    let mut data = Vec::new();
    let mut read_states = BTreeMap::new();
    for (stored, path) in &found {
        let id = stored.thread.id.clone();
        let (shape, read_state) = match worker.threads.get(&id) {
            Some(thread) => (ThreadShape::of(thread, &worker.stage), &thread.read_state),
            None => (ThreadShape::of_stored(stored, path), &stored.read_state),
        };
        let read_state = ReadStateShape::of(read_state, &id);
        data.push(shape.listed());
        read_states.insert(id, serde_json::to_value(read_state).unwrap_or_default());
    }
    let result = ListedThreads { data, read_states, next_cursor, backwards_cursor };
    worker.stage.answer(call, &result);
    Ok(())
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListedThreads {
    data: Vec<ThreadShape>,
    read_states: BTreeMap<String, serde_json::Value>,
    next_cursor: Option<String>,
    backwards_cursor: Option<String>,
}

impl ThreadListParams {
    fn admits(&self, stored: &Stored) -> bool {
        let cwd = &stored.settings.cwd;
        let in_cwd = match &self.cwd {
            None | Some(serde_json::Value::Null) => true,
            Some(serde_json::Value::Array(several)) => several.iter().any(|wanted| wanted == cwd),
            Some(wanted) => wanted == cwd,
        };
        in_cwd && self.search_term.as_ref().is_none_or(|term| stored.preview().contains(term))
    }
}

/// The name and the two fields show in the error for parameters that are a list.
#[derive(Debug, Deserialize)]
pub(super) struct ThreadLoadedListParams {
    cursor: Option<String>,
    limit: Option<usize>,
}

pub(super) fn list_loaded(worker: &mut Worker, call: &Call, params: &ThreadLoadedListParams) -> Result<(), Refusal> {
    let after = params.cursor.as_deref().unwrap_or_default();
    let mut ids: Vec<&String> = worker.threads.keys().filter(|id| id.as_str() > after).collect();
    let limit = params.limit.unwrap_or(usize::MAX).max(1);
    let next_cursor = (ids.len() > limit).then(|| ids[limit - 1].clone());
    ids.truncate(limit);
    let result = json!({"data": ids, "nextCursor": next_cursor});
    worker.stage.answer(call, &result);
    Ok(())
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ThreadTurnsListParams {
    thread_id: String,
    cursor: Option<String>,
    limit: Option<usize>,
    sort_direction: Option<SortDirection>,
    items_view: Option<ItemsView>,
}

pub(super) fn list_turns(worker: &mut Worker, call: &Call, params: &ThreadTurnsListParams) -> Result<(), Refusal> {
    let id = checked_id(&params.thread_id, "thread")?;
    let stored = find(worker, id).ok_or_else(|| not_loaded(id))?;
    let view = params.items_view.unwrap_or(ItemsView::Summary);
    let turns: Vec<TurnShape> = stored.turns.into_iter().map(|turn| viewed(turn, view)).collect();
    let direction = params.sort_direction.unwrap_or(SortDirection::Desc);
    let page = Page::cut(turns, id, Scope::Turns, params.cursor.as_deref(), params.limit, direction)?;
    worker.stage.answer(call, &page);
    Ok(())
}

fn viewed(mut turn: TurnShape, view: ItemsView) -> TurnShape {
    turn.items_view = view;
    match view {
        ItemsView::Full => {}
        ItemsView::NotLoaded => turn.items.clear(),
        ItemsView::Summary => {
            let last = turn.items.iter().rposition(|item| matches!(item.body, Body::AgentMessage { .. }));
            let mut at = 0;
            turn.items.retain(|item| {
                at += 1;
                matches!(item.body, Body::UserMessage { .. }) || Some(at - 1) == last
            });
        }
    }
    turn
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ThreadItemsListParams {
    thread_id: String,
    turn_id: Option<String>,
    cursor: Option<String>,
    limit: Option<usize>,
    sort_direction: Option<SortDirection>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ListedItem {
    turn_id: String,
    started_at_ms: u64,
    completed_at_ms: Option<u64>,
    item: Item,
}

pub(super) fn list_items(worker: &mut Worker, call: &Call, params: &ThreadItemsListParams) -> Result<(), Refusal> {
    let id = checked_id(&params.thread_id, "thread")?;
    let stored = find(worker, id).ok_or_else(|| not_loaded(id))?;
    let turns = stored.turns.into_iter().filter(|turn| params.turn_id.as_ref().is_none_or(|wanted| *wanted == turn.id));
    let items: Vec<ListedItem> = turns
        .flat_map(|turn| {
            turn.items.into_iter().map(move |item| ListedItem {
                turn_id: turn.id.clone(),
                started_at_ms: item.started_at_ms,
                completed_at_ms: item.completed_at_ms,
                item,
            })
        })
        .collect();
    let direction = params.sort_direction.unwrap_or(SortDirection::Asc);
    let page = Page::cut(items, id, Scope::Items, params.cursor.as_deref(), params.limit, direction)?;
    worker.stage.answer(call, &page);
    Ok(())
}
