//! What passes between the worker and its model, as a thread with raw events tells it: items of the provider's kind, and
//! the end of each of the model's answers.

use serde_json::{Value, json};

use crate::items::{Body, Item, UserInput};
use crate::shapes::Tokens;
use crate::speech::Model;
use crate::stage::Stage;
use crate::thread::Thread;

/// Says it, if the thread was started to.
pub(super) fn say(thread: &Thread, turn_id: &str, what: &Model<'_>, stage: &mut Stage) {
    if !thread.tells_raw {
        return;
    }
    let thread_id = thread.id();
    if let Model::Answered(tokens) = what {
        let params = json!({
            "threadId": thread_id, "turnId": turn_id, "responseId": format!("resp_{}", stage.ids.number()),
            "usage": tokens, "usageMetadata": {"amount": null, "metadata": provider_usage(*tokens)},
        });
        return stage.tell(&thread.subscribers, "rawResponse/completed", &params);
    }
    if let Some(mut item) = item(what, stage) {
        item["internal_chat_message_metadata_passthrough"]["turn_id"] = turn_id.into();
        let params = json!({"threadId": thread_id, "turnId": turn_id, "item": item});
        stage.tell(&thread.subscribers, "rawResponseItem/completed", &params);
    }
}

fn item(what: &Model<'_>, stage: &mut Stage) -> Option<Value> {
    match what {
        Model::Item(item) => said(item, stage),
        Model::Call { id, namespace, name, arguments } => {
            // The provider's ids of an item and of its call differ in their prefix alone.
            let item = format!("fc_{}", id.strip_prefix("call_").unwrap_or(id));
            let mut call =
                json!({"type": "function_call", "id": item, "call_id": id, "name": name, "arguments": arguments});
            if let Some(namespace) = namespace {
                call["namespace"] = (*namespace).into();
            }
            Some(call)
        }
        Model::Output { call, output } => Some(json!({
            "type": "function_call_output", "id": format!("fco_{}", stage.ids.uuid()), "call_id": call,
            "output": output, "internal_chat_message_metadata_passthrough": {"create_time": seconds(stage)},
        })),
        Model::Answered(_) => None,
    }
}

fn said(item: &Item, stage: &mut Stage) -> Option<Value> {
    match &item.body {
        Body::UserMessage { content, .. } => {
            let content: Vec<Value> = content.iter().filter_map(piece).collect();
            let kinds: Vec<&str> = content.iter().map(kind).collect();
            let provenance = vec![json!({"provenance": {"type": "user"}}); content.len()];
            Some(json!({
                "type": "message", "role": "user", "id": format!("msg_{}", stage.ids.uuid()), "content": content,
                "internal_chat_message_metadata_passthrough": {
                    "create_time": seconds(stage), "content_item_kinds": kinds, "content_item_metadata": provenance,
                },
            }))
        }
        Body::AgentMessage { id, text, .. } => Some(json!({
            "type": "message", "role": "assistant", "id": id, "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
            "internal_chat_message_metadata_passthrough": {"content_item_kinds": ["unknown"]},
        })),
        Body::Reasoning { id, summary, content } => {
            let texts = |kind: &str, texts: &[String]| -> Vec<Value> {
                texts.iter().map(|text| json!({"type": kind, "text": text})).collect()
            };
            Some(json!({
                "type": "reasoning", "id": id, "encrypted_content": "ENC",
                "summary": texts("summary_text", summary), "content": texts("reasoning_text", content),
            }))
        }
        _ => None,
    }
}

fn piece(input: &UserInput) -> Option<Value> {
    match input {
        UserInput::Text { text, .. } => Some(json!({"type": "input_text", "text": text})),
        UserInput::Image { .. } => {
            let image = serde_json::to_value(input).unwrap_or_default();
            Some(json!({"type": "input_image", "image_url": image["url"]}))
        }
        _ => None,
    }
}

fn kind(piece: &Value) -> &'static str {
    if piece["type"] == "input_text" { "user.text" } else { "user.image" }
}

#[expect(clippy::cast_precision_loss, reason = "a time in milliseconds has fewer digits than a float")]
fn seconds(stage: &Stage) -> f64 {
    stage.now.unix_ms as f64 / 1000.0
}

fn provider_usage(tokens: Tokens) -> Value {
    json!({
        "input_tokens": tokens.input_tokens,
        "input_tokens_details": {"cached_tokens": tokens.cached_input_tokens},
        "output_tokens": tokens.output_tokens,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning_output_tokens},
        "total_tokens": tokens.total_tokens,
    })
}
