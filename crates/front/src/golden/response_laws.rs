//! What holds of every response and of every stream of one: they are as the public API describes them, and the events tell of the items
//! in their order, each from its beginning to its end, until the response has its one end.

use serde_json::Value;

use super::schemas::check_object;

/// What ends a response.
const ENDS: [&str; 3] = ["response.completed", "response.failed", "response.incomplete"];

/// Holds a stream, as it came, against the laws; it may begin in the middle.
pub(super) fn check(body: &str) {
    let events = events(body);
    let mut next = None;
    let mut items = Items::default();
    for event in &events {
        check_object("StreamEvent", event);
        let number = event["sequence_number"].as_u64().unwrap();
        assert!(next.is_none_or(|next| next == number), "events are numbered without a gap: {event}");
        next = Some(number + 1);
        items.add(event);
    }
    let ends = events.iter().filter(|event| ENDS.iter().any(|end| event["type"] == *end)).count();
    assert_eq!(ends, 1, "a response has one end: {body}");
    let last = &events[events.len() - 1];
    assert!(ENDS.iter().any(|end| last["type"] == *end), "nothing follows the end: {last}");
    if events[0]["sequence_number"] == 0 {
        assert_eq!(events[0]["type"], "response.created");
        let output = last["response"]["output"].as_array().unwrap();
        assert_eq!(&items.done, output, "the end holds what was told");
    }
}

/// The data of each event, whose name is its type; the end of the stream has no name.
fn events(body: &str) -> Vec<Value> {
    let body = body.strip_suffix("data: [DONE]\n\n").unwrap_or_else(|| panic!("a stream has its end: {body:?}"));
    let events = body.split("\n\n").filter(|event| !event.is_empty() && !event.starts_with(": "));
    let parsed = events.map(|event| {
        let (name, data) = event.split_once('\n').unwrap_or_else(|| panic!("{event:?} has two lines"));
        let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(name.strip_prefix("event: "), data["type"].as_str());
        data
    });
    parsed.collect()
}

/// The items as the events tell of them.
#[derive(Default)]
struct Items {
    done: Vec<Value>,
    /// The text of the part that grows.
    text: String,
}

impl Items {
    fn add(&mut self, event: &Value) {
        let kind = event["type"].as_str().unwrap();
        if let Some(index) = event["output_index"].as_u64().filter(|_| !self.done.is_empty()) {
            assert_eq!(index, self.done.len() as u64, "items come one after the other: {event}");
        }
        if kind.ends_with("part.added") || kind == "response.output_item.added" {
            self.text.clear();
        } else if kind.ends_with(".delta") {
            self.text += event["delta"].as_str().unwrap();
        } else if let Some(whole) = event["text"].as_str().or(event["arguments"].as_str()) {
            assert_eq!(whole, self.text, "the whole is what its pieces are");
        } else if kind == "response.output_item.done" {
            self.done.push(event["item"].clone());
        }
    }
}
