//! Plays the part of the worker: lines of the client in, lines of the worker out; pure.
//!
//! A call is answered by the next recorded call of its method, of its own thread if there is one, and what followed that
//! call follows again. The client's own ids take the place of the recorded ones.

use std::collections::HashMap;

use wire::{Envelope, peek};

use super::recording::{Cue, CueKind, Effect, Recording, thread_in};

/// The deepest nesting that is read.
const DEPTH_MAX: usize = 128;
/// What a call is refused with that the recording does not have.
const NOT_RECORDED: i32 = -32601;

pub(super) struct Play {
    unasked: Vec<Box<str>>,
    /// What was not said yet is there.
    cues: Vec<Option<Cue>>,
    /// What the client calls the threads of the recording.
    threads: HashMap<Box<str>, Box<str>>,
    complaints: Vec<String>,
}

impl Play {
    pub(super) fn new(recording: Recording) -> Self {
        Self {
            unasked: recording.unasked,
            cues: recording.cues.into_iter().map(Some).collect(),
            threads: HashMap::new(),
            complaints: Vec::new(),
        }
    }

    /// What a worker says before it is spoken to.
    pub(super) fn begin(&mut self) -> Vec<String> {
        std::mem::take(&mut self.unasked).into_iter().map(String::from).collect()
    }

    /// What the worker says to a line of the client.
    pub(super) fn handle_line(&mut self, line: &str) -> Vec<String> {
        if line.trim().is_empty() {
            return Vec::new();
        }
        let (kind, id, thread) = match peek(line.as_bytes(), DEPTH_MAX) {
            Ok(Envelope::Request { id, method, params }) => {
                (CueKind::Call { method: method.into() }, Some(id.as_str()), params.and_then(thread_in))
            }
            Ok(Envelope::Notification { method, params, .. }) => {
                (CueKind::Notification { method: method.into() }, None, params.and_then(thread_in))
            }
            Ok(Envelope::Answer { id, .. }) => (CueKind::Answer { request: id.as_str().into() }, None, None),
            Err(fault) => {
                self.complaints.push(format!("the client sent a line that is no message: {fault}"));
                return Vec::new();
            }
        };
        match self.take_cue(&kind, thread.as_deref()) {
            Some(cue) => self.follow(cue, id, thread),
            None => self.refuse(&kind, id),
        }
    }

    /// The client is gone.
    pub(super) fn finish(&mut self) {
        let unsaid: Vec<String> = self.cues.iter().flatten().map(|cue| cue.kind.to_string()).collect();
        if !unsaid.is_empty() {
            self.complaints.push(format!("the client left out what was recorded: {}", unsaid.join(", ")));
        }
    }

    /// What does not match, since this was asked last.
    pub(super) fn take_complaints(&mut self) -> Vec<String> {
        std::mem::take(&mut self.complaints)
    }

    /// The next of its kind, of the same thread if there is one.
    fn take_cue(&mut self, kind: &CueKind, thread: Option<&str>) -> Option<Cue> {
        let first =
            |is_wanted: &dyn Fn(&Cue) -> bool| self.cues.iter().position(|cue| cue.as_ref().is_some_and(is_wanted));
        let of_thread = first(&|cue| cue.kind == *kind && self.name_of(cue) == thread);
        let at = of_thread.or_else(|| first(&|cue| cue.kind == *kind))?;
        self.cues[at].take()
    }

    /// What the client calls the thread of a cue.
    fn name_of<'a>(&'a self, cue: &'a Cue) -> Option<&'a str> {
        let recorded = cue.thread.as_deref()?;
        Some(self.threads.get(recorded).map_or(recorded, |named| &**named))
    }

    fn follow(&mut self, cue: Cue, id: Option<&str>, thread: Option<Box<str>>) -> Vec<String> {
        if let (Some(recorded), Some(named)) = (cue.thread, thread)
            && recorded != named
        {
            self.threads.insert(recorded, named);
        }
        let lines = cue.effects.into_iter().map(|effect| match effect {
            Effect::Line(line) => self.renamed(&line),
            Effect::Answer(answer) => format!("{{\"id\":{},{}}}", id.unwrap_or("null"), self.renamed(&answer)),
        });
        lines.collect()
    }

    /// A call must not wait for ever; nothing else waits.
    fn refuse(&mut self, kind: &CueKind, id: Option<&str>) -> Vec<String> {
        self.complaints.push(format!("the recording has no further {kind}"));
        let message = format!("the recording has no further {kind}");
        let error = serde_json::json!({"code": NOT_RECORDED, "message": message});
        id.map(|id| format!("{{\"error\":{error},\"id\":{id}}}")).into_iter().collect()
    }

    fn renamed(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (recorded, named) in &self.threads {
            text = text.replace(&format!("\"{recorded}\""), &format!("\"{named}\""));
        }
        text
    }
}

impl std::fmt::Display for CueKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Call { method } => write!(f, "call of {method}"),
            Self::Notification { method } => write!(f, "notification {method}"),
            Self::Answer { request } => write!(f, "answer to request {request}"),
            Self::Noise => f.write_str("line that is no message"),
        }
    }
}
