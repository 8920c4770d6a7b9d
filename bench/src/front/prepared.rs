//! What the servers of this benchmark say: an answer and chunks of the same form and length as the real ones, made once.

use axum::body::Bytes;
use serde_json::{Value, json};

/// A whole answer.
pub(super) fn answer() -> Value {
    json!({
        "id": "chatcmpl-01a1e309bf17700183e59ac95584e664", "object": "chat.completion", "created": 1_794_810_429,
        "model": "codex", "system_fingerprint": null,
        "choices": [{
            "index": 0, "logprobs": null, "finish_reason": "stop",
            "message": {"role": "assistant", "content": "Hello from mock.", "refusal": null},
        }],
        "usage": {
            "prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110,
            "prompt_tokens_details": {"cached_tokens": 40, "audio_tokens": 0},
            "completion_tokens_details": {
                "reasoning_tokens": 0, "audio_tokens": 0, "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0,
            },
        },
    })
}

/// One delta of a stream.
pub(super) fn delta() -> Bytes {
    chunk(&json!({"content": "s000 "}), &Value::Null)
}

/// The last chunk, and the end.
pub(super) fn end() -> Bytes {
    let last = chunk(&json!({}), &"stop".into());
    [&last[..], b"data: [DONE]\n\n"].concat().into()
}

fn chunk(delta: &Value, finish_reason: &Value) -> Bytes {
    let chunk = json!({
        "id": "chatcmpl-01a1e309bf17700183e59ac95584e664", "object": "chat.completion.chunk", "created": 1_794_810_429,
        "model": "codex", "system_fingerprint": null,
        "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason}],
    });
    format!("data: {chunk}\n\n").into()
}
