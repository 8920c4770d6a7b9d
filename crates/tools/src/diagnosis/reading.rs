//! The frames of one life, read once, so that every look at them is a look at JSON.

use serde_json::Value;

use crate::evidence::Evidence;
use crate::frame::{Frame, Speaker, Verdict};

/// The evidence with its frames read.
pub(super) struct Reading<'a> {
    pub(super) evidence: &'a Evidence,
    pub(super) said: Vec<Said<'a>>,
}

/// One frame and the JSON in it, `null` if there is none or not all of it was kept.
pub(super) struct Said<'a> {
    pub(super) frame: &'a Frame,
    pub(super) json: Value,
}

impl<'a> Reading<'a> {
    pub(super) fn of(evidence: &'a Evidence) -> Self {
        let read = |frame: &'a Frame| Said { frame, json: serde_json::from_str(&frame.text).unwrap_or_default() };
        Self { evidence, said: evidence.frames.iter().map(read).collect() }
    }

    /// What the server answered to this method, late answers among them.
    pub(super) fn answers<'s>(&'s self, method: &'s str) -> impl DoubleEndedIterator<Item = &'s Said<'a>> {
        self.said.iter().filter(move |said| said.answered() == Some(method))
    }

    /// The answers to this method that have a result.
    pub(super) fn results<'s>(&'s self, method: &'s str) -> impl DoubleEndedIterator<Item = (&'s Said<'a>, &'s Value)> {
        self.answers(method).filter_map(|said| said.json.get("result").map(|result| (said, result)))
    }

    /// The answers to this method that are errors.
    pub(super) fn errors<'s>(&'s self, method: &'s str) -> impl DoubleEndedIterator<Item = (&'s Said<'a>, &'s Value)> {
        self.answers(method).filter_map(|said| said.error().map(|error| (said, error)))
    }

    /// The method of the latest request of ours that was never answered.
    pub(super) fn unanswered(&self) -> Option<&str> {
        let is_answered = |id: &Value| {
            let mut of_server = self.said.iter().filter(|said| said.answered().is_some());
            of_server.any(|said| said.id() == Some(id))
        };
        let mut of_ours = self.said.iter().rev().filter(|said| said.frame.from == Speaker::Us);
        of_ours.find(|said| said.id().is_some_and(|id| !is_answered(id)))?.method()
    }
}

impl Said<'_> {
    pub(super) fn id(&self) -> Option<&Value> {
        self.json.get("id").filter(|id| !id.is_null())
    }

    pub(super) fn method(&self) -> Option<&str> {
        self.json.get("method")?.as_str()
    }

    pub(super) fn error(&self) -> Option<&Value> {
        self.json.get("error").filter(|error| !error.is_null())
    }

    /// The method of our request that this answers.
    pub(super) fn answered(&self) -> Option<&str> {
        match &self.frame.verdict {
            Verdict::Answer { method, .. } | Verdict::Late { method } => Some(method),
            _ => None,
        }
    }

    pub(super) fn is_late(&self) -> bool {
        matches!(self.frame.verdict, Verdict::Late { .. })
    }
}

/// An error as people read it.
pub(super) fn told(error: &Value) -> String {
    let code = error.get("code").map_or_else(|| "without a code".to_owned(), ToString::to_string);
    match error.get("message").and_then(Value::as_str) {
        Some(message) => format!("{code}: {message}"),
        None => code,
    }
}
