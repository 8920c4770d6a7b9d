//! What a connection remembers of its newest response, so that the next one can continue it even where nothing is stored. It is
//! forgotten once the next one has begun or was refused for good; a request that may be tried again changes nothing.

use serde_json::Value;

use super::keeping::Place;
use super::previous::Before;
use crate::body::MESSAGE_BYTES;
use crate::error::Error;
use crate::memory_budget::MemoryLease;
use crate::openai::message::Message;
use crate::openai::plan::After;
use crate::openai::responses::items;

/// What a connection remembers; nothing, at its beginning, and by default nothing ever.
#[derive(Default)]
pub(super) struct Memory {
    newest: Option<Remembered>,
    /// How long what was said may be, for it to be remembered.
    bytes_max: usize,
}

struct Remembered {
    id: String,
    said: Vec<Message>,
    after: Option<After>,
    _lease: MemoryLease,
}

impl Memory {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { newest: None, bytes_max }
    }

    /// Whether that response is the one that is remembered.
    pub(super) fn holds(&self, id: &str) -> bool {
        self.newest.as_ref().is_some_and(|newest| newest.id == id)
    }

    /// A copy of what was said up to the end of that response, if it is the one that is remembered.
    pub(super) fn find(&self, id: &str, memory: &mut MemoryLease) -> Result<Option<Before>, Error> {
        let Some(Remembered { said, after, .. }) = self.newest.as_ref().filter(|newest| newest.id == id) else {
            return Ok(None);
        };
        memory.grow_by(remembered_bytes(said))?;
        let (said, after, last) = (said.clone(), after.clone(), Some(id.into()));
        Ok(Some(Before { said, after, last, ..Before::default() }))
    }

    /// How much of what was said is remembered.
    pub(super) fn bytes(&self) -> usize {
        self.newest.as_ref().map_or(0, |newest| remembered_bytes(&newest.said))
    }

    pub(super) fn forget(&mut self, id: &str) {
        self.newest.take_if(|newest| newest.id == id);
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
    pub(super) memory: MemoryLease,
}

impl Remembering {
    /// Remembers it as one that has no answer.
    pub(super) fn unanswered(self, memory: &mut Memory) {
        let Self { id, said, after, memory: lease, .. } = self;
        remember(memory, id, said, after, lease);
    }

    /// Remembers it with the answer that its turn gave.
    pub(super) fn answered(self, object: &str, place: Place<'_>, memory: &mut Memory) {
        let Self { id, mut said, made_of, memory: lease, .. } = self;
        let object: Value = serde_json::from_str(object).unwrap_or_default();
        said.extend(items::read(&object["output"], &|_| None).unwrap_or_default().messages);
        let Place { thread, turn, history } = place;
        let (told, history) = (said.len(), history.map(Into::into));
        let after = After { thread: thread.into(), turn: turn.into(), made_of, told, history };
        remember(memory, id, said, Some(after), lease);
    }
}

fn remember(memory: &mut Memory, id: String, said: Vec<Message>, after: Option<After>, mut lease: MemoryLease) {
    let is_short = said.iter().map(Message::text_bytes).sum::<usize>() <= memory.bytes_max;
    memory.newest = None;
    // Where memory is short, the caller is told to send the whole conversation.
    if is_short && lease.resize(remembered_bytes(&said)).is_ok() {
        memory.newest = Some(Remembered { id, said, after, _lease: lease });
    }
}

/// What messages take while they are remembered.
pub(super) fn remembered_bytes(said: &[Message]) -> usize {
    said.iter().map(|message| message.text_bytes() + MESSAGE_BYTES).sum()
}
