//! What a connection remembers of its newest response, so that the next one can go on from it even where nothing is stored. Whoever goes on
//! takes it: the new response is remembered in its place, and where there is none because it failed, nothing is.

use serde_json::Value;

use super::keeping::Place;
use super::previous::Before;
use crate::openai::message::{Message, Part};
use crate::openai::plan::After;
use crate::openai::responses::items;

/// What a connection remembers; nothing, at its beginning, and by default nothing ever.
#[derive(Default)]
pub(super) struct Memory {
    newest: Option<(String, Before)>,
    /// How long what was said may be, for it to be remembered.
    bytes_max: usize,
}

impl Memory {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { newest: None, bytes_max }
    }

    /// What was said up to the end of that response, if it is the one that is remembered.
    pub(super) fn take(&mut self, id: &str) -> Option<Before> {
        self.newest.take_if(|(remembered, _)| remembered == id).map(|(_, before)| before)
    }
}

/// What is to be remembered of a response, but for its answer.
pub(super) struct Remembering {
    pub(super) id: String,
    /// Before it and by its request.
    pub(super) said: Vec<Message>,
    /// Where the thread stood before it.
    pub(super) after: Option<After>,
    /// What its own thread is made with.
    pub(super) made_of: Box<str>,
}

impl Remembering {
    /// Remembers it as one that has no answer.
    pub(super) fn unanswered(self, memory: &mut Memory) {
        let Self { id, said, after, .. } = self;
        remember(memory, id, said, after);
    }

    /// Remembers it with the answer that its turn gave.
    pub(super) fn answered(self, object: &str, place: Place<'_>, memory: &mut Memory) {
        let Self { id, mut said, made_of, .. } = self;
        let object: Value = serde_json::from_str(object).unwrap_or_default();
        said.extend(items::read(&object["output"], &|_| None).unwrap_or_default().messages);
        let Place { thread, turn, history } = place;
        let (told, history) = (said.len(), history.map(Into::into));
        let after = After { thread: thread.into(), turn: turn.into(), made_of, told, history };
        remember(memory, id, said, Some(after));
    }
}

fn remember(memory: &mut Memory, id: String, said: Vec<Message>, after: Option<After>) {
    let is_short = said.iter().map(bytes).sum::<usize>() <= memory.bytes_max;
    let last = Some(id.as_str().into());
    memory.newest = is_short.then(|| (id, Before { said, after, last, ..Before::default() }));
}

fn bytes(message: &Message) -> usize {
    let parts = |parts: &[Part]| {
        let bytes = |part: &Part| match part {
            Part::Text(text) | Part::Image(text) => text.len(),
        };
        parts.iter().map(bytes).sum::<usize>()
    };
    match message {
        Message::Instruction(text) => text.len(),
        Message::User(content) | Message::Result { content, .. } => parts(content),
        Message::Assistant { text, calls } => {
            text.len() + calls.iter().map(|call| call.name.len() + call.arguments.len()).sum::<usize>()
        }
    }
}
