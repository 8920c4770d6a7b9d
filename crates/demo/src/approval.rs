//! What needs a person's approval, and what a client's answer means.

use std::path::Path;

use serde_json::{Value, json};

use crate::deeds;
use crate::incoming::Outcome;
use crate::items::{Body, Item, ItemStatus};
use crate::made_up;
use crate::options::Dialect;
use crate::perform;
use crate::play::Shell;
use crate::shapes::{ApprovalPolicy, Status};
use crate::speech::Event;
use crate::stage::Stage;
use crate::thread::Thread;
use crate::turn::{self, Parked, Turn};
use crate::{v1, v2};

/// Whether something may be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Run,
    Ask,
    /// Only the model hears of it.
    Refuse,
}

/// What a client decided.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Accept,
    AcceptForSession,
    /// The command and all that begin like it.
    AcceptPrefix(Vec<String>),
    Decline,
    Cancel,
    /// An answer that is none.
    Invalid,
}

pub(crate) fn of_command(thread: &Thread, shell: &Shell) -> Verdict {
    let words = made_up::first_command(&shell.command);
    let allowed = thread.allowed.commands.contains(&shell.command)
        || thread.allowed.prefixes.iter().any(|prefix| words.starts_with(prefix));
    match &thread.settings.approval_policy {
        _ if allowed => Verdict::Run,
        ApprovalPolicy::Untrusted => Verdict::Ask,
        ApprovalPolicy::Never if shell.escalated => Verdict::Refuse,
        ApprovalPolicy::OnRequest | ApprovalPolicy::Granular(_) if shell.escalated && is_sandboxed(thread) => {
            Verdict::Ask
        }
        _ => Verdict::Run,
    }
}

pub(crate) fn of_patch(thread: &Thread, path: &str) -> Verdict {
    match &thread.settings.approval_policy {
        _ if thread.allowed.files.iter().any(|file| file == path) => Verdict::Run,
        ApprovalPolicy::Untrusted => Verdict::Ask,
        _ if is_writable(thread, path) => Verdict::Run,
        ApprovalPolicy::Never => Verdict::Refuse,
        ApprovalPolicy::OnRequest | ApprovalPolicy::Granular(_) => Verdict::Ask,
    }
}

/// Takes the first answer to a request and plays on. A later one, or one to no request, is ignored.
pub(crate) fn answered(thread: &mut Thread, request: u64, outcome: &Outcome, stage: &mut Stage) {
    let Some(mut turn) = thread.turn.take() else {
        return;
    };
    let Some(at) = turn.parked.iter().position(|parked| parked.request == request) else {
        thread.turn = Some(turn);
        return;
    };
    let Parked { item, .. } = turn.parked.remove(at);
    let cancelled = if matches!(item.body, Body::DynamicToolCall(_)) {
        let output = tool_answered(thread, &turn.id, item, outcome, stage);
        turn.outputs.extend(output);
        if turn.parked.is_empty() {
            turn::follow(thread, &mut turn, stage);
        }
        false
    } else {
        let decision = match stage.dialect {
            Dialect::V1 => v1::decision(outcome),
            Dialect::V2 => v2::decision(outcome),
        };
        thread.say(Event::Resolved { request }, stage);
        decided(thread, &mut turn, item, &decision, stage);
        decision == Decision::Cancel
    };
    thread.turn = Some(turn);
    if cancelled {
        turn::abort(thread, stage);
    } else {
        turn::advance(thread, stage);
    }
}

fn decided(thread: &mut Thread, turn: &mut Turn, item: Item, decision: &Decision, stage: &mut Stage) {
    let is_command = matches!(item.body, Body::CommandExecution(_));
    remember(thread, &item, decision);
    match decision {
        Decision::Decline | Decision::Cancel if is_command => {
            let item = with_status(item, ItemStatus::Declined);
            perform::complete(thread, &turn.id, item, stage);
            thread.set_status(Status::ACTIVE, stage);
            return;
        }
        _ => thread.set_status(Status::ACTIVE, stage),
    }
    match decision {
        // The real worker leaves a cancelled patch without an end.
        Decision::Cancel => {}
        Decision::Decline => drop(perform::complete(thread, &turn.id, with_status(item, ItemStatus::Declined), stage)),
        Decision::Invalid => drop(perform::complete(thread, &turn.id, with_status(item, ItemStatus::Failed), stage)),
        Decision::Accept | Decision::AcceptForSession | Decision::AcceptPrefix(_) if is_command => {
            deeds::allowed_command(thread, turn, item, stage);
        }
        Decision::Accept | Decision::AcceptForSession | Decision::AcceptPrefix(_) => {
            deeds::allowed_patch(thread, turn, item, stage);
        }
    }
}

fn remember(thread: &mut Thread, item: &Item, decision: &Decision) {
    match (decision, &item.body) {
        (Decision::AcceptForSession, Body::CommandExecution(command)) => {
            thread.allowed.commands.push(command.asked().to_owned());
        }
        (Decision::AcceptForSession, Body::FileChange { changes, .. }) => {
            thread.allowed.files.extend(changes.iter().map(|change| change.path.clone()));
        }
        (Decision::AcceptPrefix(prefix), _) => thread.allowed.prefixes.push(prefix.clone()),
        _ => {}
    }
}

fn with_status(mut item: Item, wanted: ItemStatus) -> Item {
    match &mut item.body {
        Body::CommandExecution(command) => command.status = wanted,
        Body::FileChange { status, .. } => *status = wanted,
        _ => {}
    }
    item
}

/// The call is over; what the model is told of it.
fn tool_answered(
    thread: &mut Thread,
    turn: &str,
    mut item: Item,
    outcome: &Outcome,
    stage: &mut Stage,
) -> Option<(String, Value)> {
    let Body::DynamicToolCall(call) = &mut item.body else {
        return None;
    };
    let (content, success) = match outcome {
        Outcome::Refused => (said("dynamic tool request failed"), false),
        Outcome::Result(result) => match (result.get("contentItems"), result.get("success")) {
            (Some(Value::Array(content)), Some(Value::Bool(success))) => (content.clone(), *success),
            _ => (said("dynamic tool response was invalid"), false),
        },
    };
    call.status = if success { ItemStatus::Completed } else { ItemStatus::Failed };
    let told = (call.id.clone(), output_of(&content));
    call.content_items = Some(content);
    call.success = Some(success);
    call.duration_ms = Some(stage.now.unix_ms.saturating_sub(item.started_at_ms));
    perform::complete(thread, turn, item, stage);
    Some(told)
}

/// One text is told as it is, more as pieces of the provider's kind.
fn output_of(content: &[Value]) -> Value {
    let piece = |piece: &Value| match piece["type"].as_str() {
        Some("inputText") => json!({"type": "input_text", "text": piece["text"]}),
        Some("inputImage") => json!({"type": "input_image", "image_url": piece["imageUrl"]}),
        _ => piece.clone(),
    };
    match content {
        [one] if one["type"] == "inputText" => one["text"].clone(),
        pieces => pieces.iter().map(piece).collect(),
    }
}

fn said(text: &str) -> Vec<Value> {
    vec![json!({"type": "inputText", "text": text})]
}

fn is_sandboxed(thread: &Thread) -> bool {
    !matches!(sandbox(thread), "dangerFullAccess" | "externalSandbox")
}

fn is_writable(thread: &Thread, path: &str) -> bool {
    match sandbox(thread) {
        "readOnly" => false,
        "workspaceWrite" => {
            let roots = thread.settings.sandbox["writableRoots"].as_array();
            let roots = roots.into_iter().flatten().filter_map(Value::as_str);
            roots.chain([thread.settings.cwd.as_str(), "/tmp"]).any(|root| Path::new(path).starts_with(root))
        }
        _ => true,
    }
}

fn sandbox(thread: &Thread) -> &str {
    thread.settings.sandbox["type"].as_str().unwrap_or_default()
}
