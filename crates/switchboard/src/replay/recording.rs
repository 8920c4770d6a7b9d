//! A recording as it was written: who said what, in order, and what made the worker say it.
//!
//! Of what the worker said, an answer was made by its call. Anything else that names a thread was made by the last thing
//! that the client said to that thread, whatever else it did meanwhile; and the rest by the last thing that it said at all.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use wire::{Envelope, peek};

/// The deepest nesting that is read.
const DEPTH_MAX: usize = 128;

/// Everything that was said.
#[derive(Debug, Default)]
pub(super) struct Recording {
    /// What the worker said before it was spoken to.
    pub(super) unasked: Vec<Box<str>>,
    /// What the client said, and what followed from each.
    pub(super) cues: Vec<Cue>,
}

/// Something that the client said.
#[derive(Debug)]
pub(super) struct Cue {
    pub(super) kind: CueKind,
    /// The thread that it was about.
    pub(super) thread: Option<Box<str>>,
    /// What the worker said because of it, in order.
    pub(super) effects: Vec<Effect>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum CueKind {
    Call {
        method: Box<str>,
    },
    Notification {
        method: Box<str>,
    },
    /// To a request with that id.
    Answer {
        request: Box<str>,
    },
    /// Nothing that a worker understands.
    Noise,
}

#[derive(Debug)]
pub(super) enum Effect {
    /// The answer to the call, as the rest of its line: `"result":…` or `"error":…`.
    Answer(Box<str>),
    /// A line as it was.
    Line(Box<str>),
}

/// What is wrong with a recording.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {reason}")]
pub(super) struct BadRecording {
    line: usize,
    reason: String,
}

#[derive(Deserialize)]
struct Entry<'a> {
    #[serde(borrow)]
    dir: Cow<'a, str>,
    #[serde(borrow)]
    msg: Option<&'a RawValue>,
    raw: Option<Box<str>>,
}

impl Recording {
    pub(super) fn parse(text: &str) -> Result<Self, BadRecording> {
        let mut reading = Reading::default();
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let bad = |reason: String| BadRecording { line: at + 1, reason };
            let entry: Entry<'_> = serde_json::from_str(line).map_err(|error| bad(format!("not an entry: {error}")))?;
            let said = match (entry.msg, entry.raw) {
                (Some(msg), None) => Said::Message(msg.get()),
                (None, Some(raw)) => Said::Noise(raw),
                _ => return Err(bad("an entry has either `msg` or `raw`".into())),
            };
            match &*entry.dir {
                "c2s" => reading.take_cue(&said),
                "s2c" => reading.take_effect(said),
                other => return Err(bad(format!("`dir` is {other:?}, and must be \"c2s\" or \"s2c\""))),
            }
        }
        if reading.recording.cues.is_empty() {
            return Err(BadRecording {
                line: text.lines().count(),
                reason: "the file ends, and no client spoke".into(),
            });
        }
        Ok(reading.recording)
    }
}

enum Said<'a> {
    Message(&'a str),
    Noise(Box<str>),
}

/// A recording of which the first lines were read.
#[derive(Default)]
struct Reading {
    recording: Recording,
    /// The calls that are not answered yet, by their ids.
    open_calls: HashMap<Box<str>, usize>,
    /// What was last said to each thread.
    last_of_thread: HashMap<Box<str>, usize>,
    /// The thread of each request.
    thread_of_request: HashMap<Box<str>, Box<str>>,
}

impl Reading {
    fn take_cue(&mut self, said: &Said<'_>) {
        let at = self.recording.cues.len();
        let envelope = match said {
            Said::Message(text) => peek(text.as_bytes(), DEPTH_MAX).ok(),
            Said::Noise(_) => None,
        };
        let (kind, thread) = match envelope {
            Some(Envelope::Request { id, method, params }) => {
                self.open_calls.insert(id.as_str().into(), at);
                (CueKind::Call { method: method.into() }, params.and_then(thread_in))
            }
            Some(Envelope::Notification { method, params, .. }) => {
                (CueKind::Notification { method: method.into() }, params.and_then(thread_in))
            }
            Some(Envelope::Answer { id, .. }) => {
                let request = Box::from(id.as_str());
                let thread = self.thread_of_request.get(&request).cloned();
                (CueKind::Answer { request }, thread)
            }
            None => (CueKind::Noise, None),
        };
        if let Some(thread) = &thread {
            self.last_of_thread.insert(thread.clone(), at);
        }
        self.recording.cues.push(Cue { kind, thread, effects: Vec::new() });
    }

    fn take_effect(&mut self, said: Said<'_>) {
        let text = match said {
            Said::Noise(text) => return self.follow(None, Effect::Line(text)),
            Said::Message(text) => text,
        };
        let thread = match peek(text.as_bytes(), DEPTH_MAX) {
            Ok(Envelope::Answer { id, outcome }) => match self.open_calls.remove(id.as_str()) {
                Some(call) => return self.take_answer(call, outcome),
                None => None,
            },
            Ok(Envelope::Request { id, params, .. }) => {
                let thread = params.and_then(thread_in);
                self.thread_of_request.extend(thread.clone().map(|thread| (id.as_str().into(), thread)));
                thread
            }
            Ok(Envelope::Notification { params, .. }) => params.and_then(thread_in),
            Err(_) => None,
        };
        let cue = thread.and_then(|thread| self.last_of_thread.get(&thread).copied());
        self.follow(cue, Effect::Line(text.into()));
    }

    /// A call that opens a thread learns from its answer which one it was about.
    fn take_answer(&mut self, call: usize, outcome: Result<&str, &str>) {
        if let Some(thread) = outcome.ok().and_then(thread_in) {
            self.last_of_thread.insert(thread, call);
        }
        let answer = match outcome {
            Ok(result) => format!("\"result\":{result}"),
            Err(error) => format!("\"error\":{error}"),
        };
        self.follow(Some(call), Effect::Answer(answer.into()));
    }

    fn follow(&mut self, cue: Option<usize>, effect: Effect) {
        let last = self.recording.cues.len().checked_sub(1);
        match (cue.or(last), effect) {
            (Some(at), effect) => self.recording.cues[at].effects.push(effect),
            (None, Effect::Answer(text) | Effect::Line(text)) => self.recording.unasked.push(text),
        }
    }
}

/// The thread that parameters or a result are about, in either dialect.
pub(super) fn thread_in(params: &str) -> Option<Box<str>> {
    let params: Value = serde_json::from_str(params).ok()?;
    let named = [&params["threadId"], &params["conversationId"], &params["thread"]["id"]];
    named.into_iter().find_map(Value::as_str).map(Box::from)
}
