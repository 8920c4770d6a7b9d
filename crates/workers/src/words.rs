//! What a thread is to be told in its next turn: reasons of denials that the worker had no place for.

use std::collections::HashMap;

use crate::shared::Shared;

/// How many reasons wait for a thread; older ones make room.
const WORDS_MAX: usize = 8;

/// How many threads have something to be told in the middle of their turns.
const THREADS_MAX: usize = 10_000;

/// What waits to be said, by thread.
#[derive(Debug, Default)]
pub(crate) struct Words {
    threads: HashMap<Box<str>, Vec<String>>,
}

impl Words {
    fn leave(&mut self, thread: &str, word: &str) {
        if thread.is_empty() || self.threads.len() >= THREADS_MAX && !self.threads.contains_key(thread) {
            return;
        }
        let words = self.threads.entry(thread.into()).or_default();
        if words.len() == WORDS_MAX {
            words.remove(0);
        }
        words.push(word.into());
    }

    /// Takes what waits for a thread, as it is kept.
    pub(crate) fn take_json(&mut self, thread: &str) -> String {
        let words = self.threads.remove(thread).unwrap_or_default();
        serde_json::to_string(&words).expect("texts can be written")
    }
}

impl Shared {
    /// The thread is told this in its next turn.
    pub(crate) fn leave_word(&self, thread: &str, word: &str) {
        self.words().leave(thread, word);
    }

    /// What a thread is to be told now: of a turn that has just been, or as it was kept.
    pub(crate) fn take_words(&self, thread: &str, kept: &str) -> Vec<String> {
        let of_now = self.words().threads.remove(thread);
        of_now.unwrap_or_else(|| serde_json::from_str(kept).unwrap_or_default())
    }
}
