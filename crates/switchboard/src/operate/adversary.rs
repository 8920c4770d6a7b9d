//! Whatever a server, a model, an agent or a tool server says, no character of it acts on a terminal or hides in it.

use serde_json::{Value, json};

use super::{keys, threads, usage, workers};
use crate::print::escaped_json;

/// Controls, line breaks, bidirectional and zero-width characters, fillers, variation selectors, tags, private use.
const DANGEROUS: &[char] = &[
    '\0',
    '\u{7}',
    '\u{8}',
    '\r',
    '\u{b}',
    '\u{1b}',
    '\u{7f}',
    '\u{85}',
    '\u{9b}',
    '\u{ad}',
    '\u{34f}',
    '\u{61c}',
    '\u{115f}',
    '\u{1160}',
    '\u{17b4}',
    '\u{180e}',
    '\u{200b}',
    '\u{200d}',
    '\u{200e}',
    '\u{2028}',
    '\u{2029}',
    '\u{202a}',
    '\u{202e}',
    '\u{2060}',
    '\u{2066}',
    '\u{2069}',
    '\u{2800}',
    '\u{3164}',
    '\u{fe0f}',
    '\u{feff}',
    '\u{ffa0}',
    '\u{fff9}',
    '\u{fffc}',
    '\u{e000}',
    '\u{e0001}',
    '\u{e0041}',
    '\u{e007f}',
    '\u{e0100}',
    '\u{378}',
];

/// The same with all of them in each text.
pub(crate) fn poisoned(value: &Value) -> Value {
    match value {
        Value::String(text) => text.chars().chain(DANGEROUS.iter().copied()).collect::<String>().into(),
        Value::Array(items) => items.iter().map(poisoned).collect(),
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), poisoned(value))).collect(),
        other => other.clone(),
    }
}

pub(crate) fn assert_harmless(shown: &str) {
    for dangerous in DANGEROUS {
        assert!(!shown.contains(*dangerous), "{dangerous:?} in {shown:?}");
    }
}

#[test]
fn no_list_of_an_operator_passes_on_what_deceives() {
    let key = json!({ "id": "i", "name": "n", "scopes": ["use"], "profiles": ["p"], "secret": "s", "created_at": "c",
        "limits": { "turns_max": "x" } });
    let thread = json!({ "id": "i", "group": "g", "cwd": "/", "unsaid": [{ "text": "t" }], "worker": "w" });
    let worker = json!({ "name": "n", "state": "s", "user_agent": "u", "dialect": "d", "reason": "r" });
    let answer = poisoned(&json!({
        "keys": [key], "threads": [thread], "next": "t", "workers": [worker], "usage": [{ "day": "d", "key": "k" }],
    }));
    for shown in [keys::list(&answer), threads::list(&answer), workers::list(&answer), usage::list(&answer)] {
        assert_harmless(&shown);
    }
    for shown in [keys::made(&poisoned(&key)), keys::revoked(&poisoned(&key)), threads::show(&poisoned(&thread))] {
        assert_harmless(&shown);
    }
}

#[test]
fn json_means_the_same_and_can_be_shown() {
    let value = poisoned(&json!({ "text": "é \u{1f642} \"\\", "list": [1, null, "\n\t"] }));
    let shown = escaped_json(&value);
    assert_harmless(&shown);
    assert!(shown.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()), "{shown}");
    assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
}
