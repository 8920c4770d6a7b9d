//! A conversation that callers name: what it began with, and which response is its last. Each response of it goes on from the one before.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const PREFIX: &str = "conv_";

/// Kept as JSON, beside the id of the last response.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Conversation {
    pub created_at: u64,
    pub metadata: Value,
    /// What it began with, as it is listed.
    pub items: Vec<Value>,
}

impl Conversation {
    pub(crate) fn new_id() -> String {
        format!("{PREFIX}{}", uuid::Uuid::now_v7().simple())
    }

    pub(crate) fn is_id(id: &str) -> bool {
        id.starts_with(PREFIX)
    }

    pub(crate) fn to_object(&self, id: &str) -> Value {
        json!({"id": id, "object": "conversation", "created_at": self.created_at, "metadata": self.metadata})
    }
}
