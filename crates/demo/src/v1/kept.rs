//! Calls about conversations that were kept: resume one, list them, put one away.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{NewConversationParams, open};
use crate::clock::Utc;
use crate::home::{Home, Shelf, Unopened, read_thread};
use crate::items::{Body, text_of};
use crate::lines::{self, Refusal};
use crate::record::Stored;
use crate::stage::{Call, Stage};
use crate::thread::Thread;
use crate::worker::Worker;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResumeConversationParams {
    path: Option<PathBuf>,
    conversation_id: Option<String>,
    history: Option<Vec<Value>>,
    overrides: Option<NewConversationParams>,
}

/// Loads a conversation, or makes one of a history that the client gives. Nobody listens to it yet, and its turns are numbered from the beginning.
pub(super) fn resume(worker: &mut Worker, call: &Call, params: ResumeConversationParams) -> Result<(), Refusal> {
    if let Some(history) = params.history {
        told(worker, call, history, params.overrides.unwrap_or_default());
        return Ok(());
    }
    let path = match (params.path, params.conversation_id) {
        (Some(path), _) => path,
        (None, Some(id)) => {
            let missing = || Refusal::invalid(format!("no rollout found for conversation id {id}"));
            worker.stage.home.find(&id, Shelf::Active).ok_or_else(missing)?
        }
        (None, None) => return Err(Refusal::invalid("either path or conversation id must be provided")),
    };
    let unread = || Refusal::invalid(format!("failed to load rollout `{}`: no such conversation", path.display()));
    let stored = read_thread(&path).ok_or_else(unread)?;
    let id = stored.thread.id.clone();
    if !worker.threads.contains_key(&id) {
        let file = Home::open_thread(path.clone()).map_err(|unopened| match unopened {
            Unopened::HasWriter => Refusal::invalid(format!("conversation {id} already has an active writer")),
            Unopened::Io(error) => Refusal::invalid(format!("failed to load rollout `{}`: {error}", path.display())),
        })?;
        worker.threads.insert(id.clone(), Thread::resumed(&stored, file));
    }
    let (stage, thread) = worker.thread(&id);
    if let Some(overrides) = params.overrides {
        overrides.apply(&mut thread.settings);
    }
    let (model, messages) = (&thread.settings.model, messages(&stored));
    answer(
        stage,
        call,
        &json!({"conversationId": id, "model": model, "initialMessages": messages, "rolloutPath": path}),
    );
    Ok(())
}

/// What was said before is for the model's eyes alone.
fn told(worker: &mut Worker, call: &Call, history: Vec<Value>, params: NewConversationParams) {
    let mut opened = open(worker, params);
    let (stage, thread) = worker.thread(opened["conversationId"].as_str().unwrap_or_default());
    thread.inject(history, stage);
    opened["initialMessages"] = json!([]);
    answer(stage, call, &opened);
}

fn answer(stage: &mut Stage, call: &Call, resumed: &Value) {
    let configured = json!({
        "sessionId": resumed["conversationId"], "model": resumed["model"], "reasoningEffort": null, "historyLogId": 0,
        "historyEntryCount": 0, "initialMessages": resumed["initialMessages"], "rolloutPath": resumed["rolloutPath"],
    });
    stage.outputs.send(call.connection, lines::unstamped_notification("sessionConfigured", &configured));
    stage.answer(call, resumed);
}

/// What was said, as the messages of its events.
fn messages(stored: &Stored) -> Vec<Value> {
    let items = stored.turns.iter().flat_map(|turn| &turn.items);
    let message = |body: &Body| match body {
        Body::UserMessage { content, .. } => {
            Some(json!({"type": "user_message", "message": text_of(content), "images": []}))
        }
        Body::AgentMessage { text, .. } => Some(json!({"type": "agent_message", "message": text})),
        _ => None,
    };
    items.filter_map(|item| message(&item.body)).collect()
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListConversationsParams {
    page_size: Option<usize>,
    cursor: Option<String>,
}

/// The conversations that were kept, the newest first.
pub(super) fn list(worker: &mut Worker, call: &Call, params: &ListConversationsParams) {
    const PAGE_SIZE: usize = 25;
    let files = worker.stage.home.files(Shelf::Active).into_iter();
    let mut kept: Vec<(Stored, PathBuf)> = files.filter_map(|path| Some((read_thread(&path)?, path))).collect();
    let place =
        |stored: &Stored| format!("{}|{}", Utc::from_unix_ms(stored.thread.created_ms).file_stamp(), stored.thread.id);
    kept.sort_by_key(|(stored, _)| std::cmp::Reverse(place(stored)));
    kept.retain(|(stored, _)| params.cursor.as_ref().is_none_or(|cursor| place(stored) < *cursor));
    let page = &kept[..kept.len().min(params.page_size.unwrap_or(PAGE_SIZE).max(1))];
    let items: Vec<Value> = page.iter().map(|(stored, path)| {
        json!({
            "conversationId": stored.thread.id, "path": path, "preview": stored.preview(),
            "timestamp": Utc::from_unix_ms(stored.thread.created_ms).rfc3339(), "modelProvider": stored.settings.model_provider,
        })
    }).collect();
    let next = page.last().filter(|_| page.len() < kept.len()).map(|(stored, _)| place(stored));
    worker.stage.answer(call, &json!({"items": items, "nextCursor": next}));
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ArchiveConversationParams {
    conversation_id: String,
    rollout_path: PathBuf,
}

pub(super) fn archive(worker: &mut Worker, call: &Call, params: &ArchiveConversationParams) -> Result<(), Refusal> {
    let ArchiveConversationParams { conversation_id, rollout_path } = params;
    let found = worker.stage.home.find(conversation_id, Shelf::Active).filter(|path| path == rollout_path);
    let path = found.ok_or_else(|| {
        Refusal::invalid(format!(
            "rollout path `{}` does not match conversation id {conversation_id}",
            rollout_path.display()
        ))
    })?;
    worker.threads.remove(conversation_id);
    worker.stage.home.archive(&path).map_err(|error| Refusal::invalid(format!("failed to archive: {error}")))?;
    worker.stage.answer(call, &json!({}));
    Ok(())
}
