//! Servers that no specification foresees: each does what would bring down a host that trusts what it reads.

use serde_json::{Value, json};

use super::faults::Plain;
use super::lines::{done, heard, method_of, say, say_line};

/// How long the result of `bare_result` is: more than any host passes on.
const RESULT_BYTES: usize = 2 << 20;
/// Questions that are asked at once: more than any queue holds.
const QUESTIONS: u64 = 20_000;

/// Answers lists with a text where an object must be.
pub(crate) fn no_list() {
    serve(|heard, answer| match method_of(heard) {
        "tools/list" => Some(done(&heard["id"], &json!("none"))),
        _ => answer,
    });
}

/// Answers calls with a text where an object must be.
pub(crate) fn bare_result() {
    serve(|heard, answer| match method_of(heard) {
        "tools/call" => Some(done(&heard["id"], &json!("x".repeat(RESULT_BYTES)))),
        _ => answer,
    });
}

/// Has always one more page of its list.
pub(crate) fn endless_pages() {
    let mut page = 0_u64;
    serve(|heard, answer| match method_of(heard) {
        "tools/list" => {
            page += 1;
            Some(done(&heard["id"], &json!({"tools": [], "nextCursor": page.to_string()})))
        }
        _ => answer,
    });
}

/// Asks for a sign of life in the same breath as it answers the handshake, and has tools only if it gets one.
pub(crate) fn early_ping() {
    let mut is_alive = false;
    serve(|heard, answer| match method_of(heard) {
        "initialize" => {
            let ping = json!({"jsonrpc": "2.0", "id": "alive?", "method": "ping"});
            say_line(&format!("{}\n{ping}", answer?));
            None
        }
        "" => {
            is_alive |= heard["id"] == "alive?";
            None
        }
        "tools/list" if !is_alive => Some(done(&heard["id"], &json!({"tools": []}))),
        _ => answer,
    });
}

/// Asks, in the middle of a call, far more than anybody can answer, and counts the answers.
pub(crate) fn inquisitive() {
    let (mut answered, mut asked_by) = (0, Value::Null);
    serve(|heard, answer| match method_of(heard) {
        "tools/call" => {
            asked_by = heard["id"].clone();
            for number in 0..QUESTIONS {
                say(&json!({"jsonrpc": "2.0", "id": number, "method": "sampling/createMessage", "params": {}}));
            }
            None
        }
        "" => {
            answered += 1;
            (answered == QUESTIONS).then(|| {
                let text = format!("{answered} answers");
                done(&asked_by, &json!({"content": [{"type": "text", "text": text}]}))
            })
        }
        _ => answer,
    });
}

fn serve(mut changed: impl FnMut(&Value, Option<Value>) -> Option<Value>) {
    let mut plain = Plain::new();
    for message in heard() {
        let answer = plain.answer(&message);
        changed(&message, answer).iter().for_each(say);
    }
}
