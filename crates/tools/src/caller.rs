//! Who calls a tool.

use std::sync::Arc;

/// Who calls a tool. Whoever mounts the endpoint puts it into the extensions of each request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The id of its key.
    pub key: Arc<str>,
    /// What the audit calls it besides.
    pub label: Arc<str>,
}

impl Caller {
    /// A caller with a key.
    #[must_use]
    pub fn new(key: &str, label: &str) -> Self {
        Self { key: key.into(), label: label.into() }
    }
}
