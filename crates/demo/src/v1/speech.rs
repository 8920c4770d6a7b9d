//! Puts what happens in a conversation into `codex/event/*` notifications, most of them twice: as an item and as of old.

use serde_json::{Map, Value, json};

use crate::approval::Decision;
use crate::incoming::Outcome;
use crate::items::{Body, Command, FileChange, Item, ItemStatus, text_of};
use crate::lines;
use crate::play::PlanStep;
use crate::shapes::{Tokens, TurnStatus};
use crate::speech::{Asked, Event, Happening, Stream};
use crate::stage::{Need, Stage};
use crate::thread::Thread;

pub(crate) fn say(thread: &Thread, event: Event<'_>, stage: &mut Stage) {
    match event {
        Event::TurnStarted(turn) => {
            let started = json!({"type": "task_started", "model_context_window": null});
            emit(thread, &turn.id, &started, stage);
        }
        Event::TurnEnded(turn) => {
            let last_message = last_message(&turn.items);
            let ended = match turn.status {
                TurnStatus::Interrupted => json!({"type": "turn_aborted", "reason": "interrupted"}),
                _ => json!({"type": "task_complete", "last_agent_message": last_message}),
            };
            emit(thread, &turn.id, &ended, stage);
        }
        Event::RateLimits => {
            let limits = json!({"primary": null, "secondary": null});
            let line = lines::unstamped_notification("account/rateLimits/updated", &limits);
            stage.outputs.send_all(&thread.subscribers, line);
        }
        Event::Status(_) | Event::Warning(_) | Event::Resolved { .. } | Event::Unread => {}
    }
}

pub(crate) fn say_in(thread: &Thread, turn: &str, what: Happening<'_>, stage: &mut Stage) {
    match what {
        Happening::ItemStarted(item) => started(thread, turn, item, stage),
        Happening::ItemCompleted(item) => completed(thread, turn, item, stage),
        Happening::Running(item, asked) => running(thread, turn, item, asked, stage),
        Happening::SummaryPart { .. } => {
            emit(thread, turn, &json!({"type": "agent_reasoning_section_break"}), stage);
        }
        Happening::Delta { item, of, text } => delta(thread, turn, item, of, text, stage),
        Happening::Usage => token_count(thread, turn, stage),
        Happening::Plan(steps) => {
            let plan: Vec<Value> = steps.iter().map(plan_step).collect();
            let update = json!({"type": "plan_update", "explanation": "Three steps.", "plan": plan});
            emit(thread, turn, &update, stage);
        }
        Happening::Diff(diff) => {
            emit(thread, turn, &json!({"type": "turn_diff", "unified_diff": diff}), stage);
        }
        Happening::Model(_) => {}
        Happening::Retry(error) => {
            let message = json!({"type": "stream_error", "message": error.message});
            emit(thread, turn, &message, stage);
        }
        Happening::Failed(error) => {
            emit(thread, turn, &json!({"type": "error", "message": error.message}), stage);
        }
    }
}

/// A piece of text, as part of its item and as of old.
fn delta(thread: &Thread, turn: &str, item: &str, of: Stream, text: &str, stage: &mut Stage) {
    let (in_item_kind, kind) = match of {
        Stream::Message => ("agent_message_content_delta", "agent_message_delta"),
        // No mode made plans into items then.
        Stream::Plan => return,
        Stream::Summary { .. } => ("reasoning_content_delta", "agent_reasoning_delta"),
        Stream::Reasoning => ("reasoning_raw_content_delta", "agent_reasoning_raw_content_delta"),
        Stream::CommandOutput => {
            let chunk = base64(text.as_bytes());
            let kind = "exec_command_output_delta";
            let output = json!({"type": kind, "call_id": item, "stream": "stdout", "chunk": chunk});
            return emit(thread, turn, &output, stage);
        }
    };
    let message = in_item(in_item_kind, thread, turn, &json!({"item_id": item, "delta": text}));
    emit(thread, turn, &message, stage);
    emit(thread, turn, &json!({"type": kind, "delta": text}), stage);
}

/// The request about a command or a patch. There were no client tools then.
pub(crate) fn ask(thread: &Thread, turn: &str, request: u64, item: &Item, stage: &mut Stage) -> Vec<u8> {
    match &item.body {
        Body::CommandExecution(command) => {
            let event = json!({
                "type": "exec_approval_request", "call_id": command.id, "command": argv(command), "cwd": command.cwd,
                "parsed_cmd": parsed(command),
            });
            emit(thread, turn, &event, stage);
            let params = json!({
                "conversationId": thread.id(), "callId": command.id, "command": argv(command), "cwd": command.cwd,
                "reason": null, "risk": null, "parsedCmd": parsed(command),
            });
            lines::request(request, "execCommandApproval", &params)
        }
        Body::FileChange { id, changes, .. } => {
            let changes = change_map(changes);
            let event = json!({"type": "apply_patch_approval_request", "call_id": id, "changes": changes});
            emit(thread, turn, &event, stage);
            let params = json!({
                "conversationId": thread.id(), "callId": id, "fileChanges": changes, "reason": null, "grantRoot": null,
            });
            lines::request(request, "applyPatchApproval", &params)
        }
        _ => Vec::new(),
    }
}

/// What an answer to an approval request decides; what is no answer denies.
pub(crate) fn decision(outcome: &Outcome) -> Decision {
    let Outcome::Result(result) = outcome else {
        return Decision::Decline;
    };
    match result["decision"].as_str() {
        Some("approved") => Decision::Accept,
        Some("approved_for_session") => Decision::AcceptForSession,
        Some("abort") => Decision::Cancel,
        _ => Decision::Decline,
    }
}

/// The line of a message delta, around its text.
pub(crate) struct DeltaFrame;

impl DeltaFrame {
    pub(crate) fn halves(thread: &Thread, turn: &str) -> (Vec<u8>, Vec<u8>) {
        const HOLE: &str = "\"delta\":\"\"";
        let line = event_line(thread, turn, &json!({"type": "agent_message_delta", "delta": ""}));
        let text = std::str::from_utf8(&line).expect("messages are UTF-8");
        let cut = text.find(HOLE).expect("the delta is there and empty") + HOLE.len() - 1;
        (line[..cut].to_vec(), line[cut..].to_vec())
    }
}

fn emit(thread: &Thread, turn: &str, message: &Value, stage: &mut Stage) {
    let line = event_line(thread, turn, message);
    let listening = stage.listening(&thread.subscribers, Need::Nothing, "codex/event");
    stage.outputs.send_all(&listening, line);
}

fn event_line(thread: &Thread, turn: &str, message: &Value) -> Vec<u8> {
    let method = format!("codex/event/{}", message["type"].as_str().unwrap_or_default());
    let params = json!({"id": turn, "msg": message, "conversationId": thread.id()});
    lines::unstamped_notification(&method, &params)
}

/// A message of the item kind: it names its thread and turn.
fn in_item(kind: &str, thread: &Thread, turn: &str, more: &Value) -> Value {
    let mut message = json!({"type": kind, "thread_id": thread.id(), "turn_id": turn});
    extend(&mut message, more);
    message
}

fn extend(message: &mut Value, more: &Value) {
    if let (Some(message), Some(more)) = (message.as_object_mut(), more.as_object()) {
        message.extend(more.clone());
    }
}

fn item_event(thread: &Thread, turn: &str, kind: &str, item: &Item, stage: &mut Stage) {
    if let Some(shape) = item_shape(item) {
        let message = in_item(kind, thread, turn, &json!({"item": shape}));
        emit(thread, turn, &message, stage);
    }
}

/// A command is told before it is asked about, a patch only when it is applied.
fn started(thread: &Thread, turn: &str, item: &Item, stage: &mut Stage) {
    item_event(thread, turn, "item_started", item, stage);
    if let Body::CommandExecution(command) = &item.body {
        let begin = json!({
            "type": "exec_command_begin", "call_id": command.id, "command": argv(command), "cwd": command.cwd,
            "parsed_cmd": parsed(command), "is_user_shell_command": false,
        });
        emit(thread, turn, &begin, stage);
    }
}

fn completed(thread: &Thread, turn: &str, item: &Item, stage: &mut Stage) {
    item_event(thread, turn, "item_completed", item, stage);
    match &item.body {
        Body::UserMessage { content, .. } => {
            let kind = "user_message";
            let message = json!({"type": kind, "message": text_of(content), "images": []});
            emit(thread, turn, &message, stage);
            token_count(thread, turn, stage);
            say(thread, Event::RateLimits, stage);
        }
        Body::AgentMessage { text, .. } => {
            emit(thread, turn, &json!({"type": "agent_message", "message": text}), stage);
        }
        Body::Reasoning { summary, content, .. } => {
            for text in summary {
                emit(thread, turn, &json!({"type": "agent_reasoning", "text": text}), stage);
            }
            for text in content {
                let raw = json!({"type": "agent_reasoning_raw_content", "text": text});
                emit(thread, turn, &raw, stage);
            }
        }
        Body::CommandExecution(command) if command.status == ItemStatus::Declined => {
            ended(thread, turn, command, ["", "exec command rejected by user"], -1, stage);
        }
        Body::CommandExecution(command) => {
            let output = command.aggregated_output.as_deref().unwrap_or_default();
            if let Some(exit_code) = command.exit_code {
                ended(thread, turn, command, [output, ""], exit_code.into(), stage);
            }
        }
        Body::FileChange { id, status: ItemStatus::Completed, .. } => {
            let end = json!({
                "type": "patch_apply_end", "call_id": id, "success": true,
                "stdout": "Success. (The demo worker wrote nothing.)\n", "stderr": "",
            });
            emit(thread, turn, &end, stage);
        }
        _ => {}
    }
}

fn plan_step(step: &PlanStep) -> Value {
    json!({"step": step.step, "status": step.status.replace("inProgress", "in_progress")})
}

fn ended(thread: &Thread, turn: &str, command: &Command, output: [&str; 2], exit_code: i64, stage: &mut Stage) {
    let [stdout, stderr] = output;
    let all = output.concat();
    let end = json!({
        "type": "exec_command_end", "call_id": command.id, "stdout": stdout, "stderr": stderr,
        "aggregated_output": all, "exit_code": exit_code, "duration": {"secs": 0, "nanos": 0}, "formatted_output": all,
    });
    emit(thread, turn, &end, stage);
}

fn running(thread: &Thread, turn: &str, item: &Item, asked: Asked, stage: &mut Stage) {
    if let Body::FileChange { id, changes, .. } = &item.body {
        let begin = json!({
            "type": "patch_apply_begin", "call_id": id, "auto_approved": asked == Asked::No, "changes": change_map(changes),
        });
        emit(thread, turn, &begin, stage);
    }
}

fn token_count(thread: &Thread, turn: &str, stage: &mut Stage) {
    let tokens = |tokens: Tokens| {
        json!({
            "input_tokens": tokens.input_tokens, "cached_input_tokens": tokens.cached_input_tokens,
            "output_tokens": tokens.output_tokens, "reasoning_output_tokens": tokens.reasoning_output_tokens,
            "total_tokens": tokens.total_tokens,
        })
    };
    let usage = thread.usage_turn.as_ref().map(|_| {
        json!({
            "total_token_usage": tokens(thread.usage.total), "last_token_usage": tokens(thread.usage.last),
            "model_context_window": null,
        })
    });
    let rate_limits = json!({"primary": null, "secondary": null});
    emit(thread, turn, &json!({"type": "token_count", "info": usage, "rate_limits": rate_limits}), stage);
}

/// The items that the dialect knew: what was said, and reasoning.
fn item_shape(item: &Item) -> Option<Value> {
    match &item.body {
        Body::UserMessage { id, content, .. } => {
            let text = json!({"type": "text", "text": text_of(content)});
            Some(json!({"UserMessage": {"id": id, "content": [text]}}))
        }
        Body::AgentMessage { id, text, .. } => {
            let content = if item.completed_at_ms.is_some() { json!([{"Text": {"text": text}}]) } else { json!([]) };
            Some(json!({"AgentMessage": {"id": id, "content": content}}))
        }
        Body::Reasoning { id, summary, content } => {
            Some(json!({"Reasoning": {"id": id, "summary_text": summary, "raw_content": content}}))
        }
        _ => None,
    }
}

fn last_message(items: &[Item]) -> Option<&str> {
    items.iter().find_map(|item| match &item.body {
        Body::AgentMessage { text, .. } => Some(text.as_str()),
        _ => None,
    })
}

fn argv(command: &Command) -> [&str; 3] {
    ["bash", "-lc", command.asked()]
}

fn parsed(command: &Command) -> Value {
    json!([{"type": "unknown", "cmd": command.asked()}])
}

fn change_map(changes: &[FileChange]) -> Map<String, Value> {
    changes.iter().map(|change| (change.path.clone(), json!({"add": {"content": change.diff}}))).collect()
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().fold(0u32, |group, byte| group << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = ALPHABET[(group >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_pads_as_it_should() {
        assert_eq!(
            ["", "f", "fo", "foo", "foob"].map(|text| base64(text.as_bytes())),
            ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]
        );
    }
}
