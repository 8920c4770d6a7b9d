//! What is kept of a response: the object itself, the items that it was asked with, and what is needed to go on from it.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::message::Message;
use super::items;

/// Kept as JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub response: Box<RawValue>,
    /// A list, as it is listed.
    pub input: Box<RawValue>,
    /// What its thread is made with.
    pub made_of: Box<str>,
    /// The hash of all that its thread holds at its end.
    pub history: Option<Box<str>>,
}

impl Record {
    pub(crate) fn read(body: &str) -> Option<Self> {
        serde_json::from_str(body).ok()
    }

    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("JSON can be written")
    }

    fn response(&self) -> Value {
        serde_json::from_str(self.response.get()).unwrap_or_default()
    }

    /// Whether it was made without its caller.
    pub(crate) fn is_of_the_background(&self) -> bool {
        self.response()["background"] == true
    }

    /// All items of its output.
    pub(crate) fn output(&self) -> Vec<Value> {
        match self.response()["output"].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        }
    }

    /// All items of its input.
    pub(crate) fn input(&self) -> Vec<Value> {
        serde_json::from_str(self.input.get()).unwrap_or_default()
    }

    /// All items, of its input and its output.
    pub(crate) fn items(&self) -> Vec<Value> {
        let mut items = self.input();
        items.extend(self.output());
        items
    }

    /// What was answered.
    pub(crate) fn answered(&self) -> Vec<Message> {
        messages(self.output())
    }
}

/// The calls whose outputs are among these items.
pub(crate) fn answered_calls(items: &[Value]) -> Vec<&str> {
    let outputs = items.iter().filter(|item| item["type"] == "function_call_output");
    outputs.filter_map(|item| item["call_id"].as_str()).collect()
}

/// What items say that were read before.
pub(crate) fn messages(items: Vec<Value>) -> Vec<Message> {
    items::read(&Value::from(items), &|_| None).map(|input| input.messages).unwrap_or_default()
}
