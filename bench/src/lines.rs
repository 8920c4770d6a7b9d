//! Generated lines in the shapes that a real worker sends during turns, mostly text deltas.

use serde_json::json;

const THREAD: &str = "01a1e074-a853-78f0-acd9-d0fad9dd7fce";
const TURN: &str = "01a1e074-a88a-7082-98e7-1e912fc720fb";
const EMITTED_AT_MS: u64 = 1_794_767_104_297;

/// `count` lines, of which about nineteen in twenty are deltas of an agent's message.
pub(crate) fn generate(count: u32) -> Vec<String> {
    (0..count).map(line).collect()
}

fn line(n: u32) -> String {
    let item = format!("msg_{:04}", n / 200);
    let message = match n % 200 {
        0 => json!({"method": "item/started", "params": {
            "item": agent_message(&item, ""), "threadId": THREAD, "turnId": TURN, "startedAtMs": EMITTED_AT_MS,
        }, "emittedAtMs": EMITTED_AT_MS}),
        199 => json!({"method": "item/completed", "params": {
            "item": agent_message(&item, &"word and ".repeat(200)), "threadId": THREAD, "turnId": TURN,
            "completedAtMs": EMITTED_AT_MS,
        }, "emittedAtMs": EMITTED_AT_MS}),
        198 => json!({"method": "thread/tokenUsage/updated", "params": {
            "threadId": THREAD, "turnId": TURN,
            "tokenUsage": {"total": usage(n), "last": usage(n), "modelContextWindow": 258_400},
        }, "emittedAtMs": EMITTED_AT_MS}),
        1..=6 => json!({"method": "item/reasoning/summaryTextDelta", "params": {
            "threadId": THREAD, "turnId": TURN, "itemId": item, "delta": format!("thought {n} "), "summaryIndex": 0,
        }, "emittedAtMs": EMITTED_AT_MS}),
        _ => json!({"method": "item/agentMessage/delta", "params": {
            "threadId": THREAD, "turnId": TURN, "itemId": item, "delta": delta(n),
        }, "emittedAtMs": EMITTED_AT_MS}),
    };
    message.to_string()
}

fn delta(n: u32) -> String {
    match n % 10 {
        0 => "\n\n".into(),
        1 => format!("\"{n}\" "),
        2 => "naïve ".into(),
        _ => format!("word{n} "),
    }
}

fn agent_message(id: &str, text: &str) -> serde_json::Value {
    json!({
        "type": "agentMessage", "id": id, "text": text, "phase": null, "memoryCitation": null, "delivery": null,
        "questions": null, "startedAtMs": EMITTED_AT_MS, "completedAtMs": null,
    })
}

fn usage(n: u32) -> serde_json::Value {
    json!({
        "totalTokens": n, "inputTokens": n, "cachedInputTokens": 40, "cacheWriteInputTokens": 0, "outputTokens": 10,
        "reasoningOutputTokens": 0,
    })
}
