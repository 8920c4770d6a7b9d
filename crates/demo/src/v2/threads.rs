//! Calls that change a thread or put it away.

use serde::Deserialize;
use serde_json::{Value, json};

use super::history;
use super::shapes::{ThreadAlone, ThreadShape};
use crate::home::{Shelf, read_thread};
use crate::lines::Refusal;
use crate::record::Record;
use crate::shapes::Status;
use crate::stage::Call;
use crate::turn;
use crate::worker::Worker;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ThreadIdParams {
    pub(super) thread_id: String,
}

pub(super) fn unsubscribe(worker: &mut Worker, call: &Call, params: &ThreadIdParams) -> Result<(), Refusal> {
    let id = checked_id(&params.thread_id, "thread")?;
    let now = worker.stage.now;
    let was_subscribed = worker.threads.get_mut(id).map(|thread| thread.unsubscribe(call.connection, now));
    let status = match was_subscribed {
        None => "notLoaded",
        Some(true) => "unsubscribed",
        Some(false) => "notSubscribed",
    };
    worker.set_alarms(id);
    worker.stage.answer(call, &json!({"status": status}));
    Ok(())
}

/// Unloads a thread if nobody has listened to it for long enough.
pub(crate) fn unload_quiet(worker: &mut Worker, id: &str) {
    let Ok((stage, thread)) = worker.loaded(id) else { return };
    if thread.unload_due().is_some_and(|due| due <= stage.now.instant) {
        thread.set_status(Status::NotLoaded, stage);
        stage.tell_all("thread/closed", &json!({"threadId": id}));
        worker.threads.remove(id);
    }
}

pub(super) fn archive(worker: &mut Worker, call: &Call, params: &ThreadIdParams) -> Result<(), Refusal> {
    let id = checked_id(&params.thread_id, "session")?;
    let failed = |error: std::io::Error| Refusal::invalid(format!("cannot archive thread {id}: {error}"));
    match worker.threads.get(id) {
        Some(thread) if thread.is_ephemeral() => return Err(no_rollout(id)),
        Some(_) => {
            let (stage, thread) = worker.thread(id);
            turn::abort(thread, stage);
            thread.keep(&Record::Settings(thread.settings.clone()), stage);
            if let Some(path) = history::path(thread) {
                stage.home.archive(path).map_err(failed)?;
            }
            thread.set_status(Status::NotLoaded, stage);
            worker.threads.remove(id);
        }
        None => {
            let path = worker.stage.home.find(id, Shelf::Active).ok_or_else(|| no_rollout(id))?;
            worker.stage.home.archive(&path).map_err(failed)?;
        }
    }
    worker.stage.answer(call, &json!({}));
    worker.stage.tell_all("thread/archived", &json!({"threadId": id}));
    Ok(())
}

pub(super) fn unarchive(worker: &mut Worker, call: &Call, params: &ThreadIdParams) -> Result<(), Refusal> {
    let id = checked_id(&params.thread_id, "session")?;
    if worker.threads.contains_key(id) {
        return Err(Refusal::invalid(format!("thread {id} already has an active writer")));
    }
    let missing = || Refusal::invalid(format!("no archived rollout found for thread id {id}"));
    let stage = &mut worker.stage;
    let archived = stage.home.find(id, Shelf::Archived).ok_or_else(missing)?;
    let stored = read_thread(&archived).ok_or_else(missing)?;
    let path = stage.home.unarchive(&archived, &stored.thread).map_err(|_| missing())?;
    stage.answer(call, &ThreadAlone { thread: &ThreadShape::of_stored(&stored, &path) });
    stage.tell_all("thread/unarchived", &json!({"threadId": id}));
    Ok(())
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ThreadSetNameParams {
    thread_id: String,
    name: String,
}

pub(super) fn set_name(worker: &mut Worker, call: &Call, params: &ThreadSetNameParams) -> Result<(), Refusal> {
    let id = checked_id(&params.thread_id, "thread")?;
    let (stage, thread) = worker.loaded(id)?;
    thread.name = Some(params.name.clone());
    thread.keep(&Record::Named(params.name.clone()), stage);
    stage.answer(call, &json!({}));
    stage.tell_all("thread/name/updated", &json!({"threadId": id, "threadName": params.name}));
    Ok(())
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ThreadInjectItemsParams {
    thread_id: String,
    items: Vec<Value>,
}

pub(super) fn inject_items(worker: &mut Worker, call: &Call, params: ThreadInjectItemsParams) -> Result<(), Refusal> {
    let id = checked_id(&params.thread_id, "thread")?;
    let (stage, thread) = worker.loaded(id)?;
    if params.items.is_empty() {
        return Err(Refusal::invalid("items must not be empty"));
    }
    if let Some(at) = params.items.iter().position(|item| item.get("type").is_none()) {
        return Err(Refusal::invalid(format!("items[{at}] is not a valid response item: missing field `type`")));
    }
    thread.inject(params.items, stage);
    stage.answer(call, &json!({}));
    Ok(())
}

pub(super) fn no_rollout(id: &str) -> Refusal {
    Refusal::invalid(format!("no rollout found for thread id {id}"))
}

/// Refuses what is no UUID, in the words of the UUID parser; some calls speak of a session, some of a thread.
pub(super) fn checked_id<'a>(id: &'a str, what: &str) -> Result<&'a str, Refusal> {
    if let Some((at, found)) = id.char_indices().find(|(_, c)| !c.is_ascii_hexdigit() && *c != '-') {
        return Err(Refusal::invalid(format!(
            "invalid {what} id: invalid character: expected an optional prefix of `urn:uuid:` followed by [0-9a-fA-F-], found `{found}` at {}",
            at + 1
        )));
    }
    let digits = id.chars().filter(char::is_ascii_hexdigit).count();
    if digits != 32 {
        return Err(Refusal::invalid(format!(
            "invalid {what} id: invalid length: expected length 32 for simple format, found {digits}"
        )));
    }
    Ok(id)
}
