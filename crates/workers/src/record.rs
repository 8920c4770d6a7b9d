//! What is written down of a thread.

use std::time::SystemTime;

use crate::view::unix_ms;

/// A thread that nothing else is known of.
pub(crate) fn fresh(thread: &str, group: &str, key: &str) -> store::Thread {
    let now = unix_ms(SystemTime::now()).cast_signed();
    store::Thread {
        id: thread.into(),
        owner: String::new(),
        group: group.into(),
        worker: None,
        cwd: String::new(),
        key: key.into(),
        profile: None,
        model: None,
        last_turn: None,
        last_turn_state: None,
        history_hash: None,
        unsaid: "[]".into(),
        created_at: now,
        used_at: now,
        archived: false,
    }
}
