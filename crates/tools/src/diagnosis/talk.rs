//! Faults of single frames: what nobody asked for (D1), answers to nobody's request (D2) or to a notification (D4), what
//! is no message at all (D9), and answers that came too late (D20).

use std::time::Duration;

use serde_json::Value;

use crate::finding::{Code, Finding, Severity};
use crate::frame::{Speaker, Verdict};

use super::life::SLOW;
use super::place::{self, Place};
use super::reading::{Reading, Said};

/// What a legacy server may say before it has answered anything.
const BEFORE_ANSWERS: [&str; 4] =
    ["notifications/message", "notifications/progress", "notifications/cancelled", "ping"];

pub(super) fn look(reading: &Reading<'_>) -> Vec<Finding> {
    let is_slow = reading.evidence.first_byte_at.is_some_and(|at| at > SLOW);
    let mut talk = Talk { is_slow, ..Talk::default() };
    let mut findings = Vec::new();
    for said in &reading.said {
        match said.frame.from {
            Speaker::Us => talk.we_said(said),
            Speaker::Server => findings.extend(talk.server_said(said)),
        }
    }
    findings
}

/// What was said so far.
#[derive(Default)]
struct Talk<'a> {
    we_spoke: bool,
    /// Our requests: their ids, methods and times.
    asked: Vec<(&'a Value, &'a str, Duration)>,
    /// Our notifications that nothing seems to answer.
    told: Vec<&'a str>,
    has_answered: bool,
    is_slow: bool,
}

impl<'a> Talk<'a> {
    fn we_said(&mut self, said: &'a Said<'a>) {
        self.we_spoke = true;
        match (said.id(), said.method()) {
            (Some(id), Some(method)) => self.asked.push((id, method, said.frame.at)),
            (None, Some(method)) => self.told.push(method),
            _ => {}
        }
    }

    fn server_said(&mut self, said: &Said<'_>) -> Option<Finding> {
        match &said.frame.verdict {
            Verdict::Sent => None,
            Verdict::Answer { .. } => {
                self.has_answered = true;
                None
            }
            Verdict::Late { method } => {
                self.has_answered = true;
                Some(self.late(said, method))
            }
            Verdict::Taken => self.uncalled_for(said),
            Verdict::UnknownId | Verdict::NoId => Some(self.stray(said)),
            Verdict::NotJson => no_json(said),
            Verdict::NotRpc { why } => Some(Place::whole(said).shows(
                Code::D9,
                Severity::Warning,
                format!("it wrote JSON to stdout that is no message of JSON-RPC: {why}"),
                "write logs to stderr, and messages with `\"jsonrpc\": \"2.0\"` to stdout",
            )),
            Verdict::TooLong => Some(Place::whole(said).shows(
                Code::D9,
                Severity::Warning,
                format!("it wrote a line of {} bytes to stdout, which is more than is read", said.frame.bytes),
                "send less at once: list in pages, and give large results as resources",
            )),
        }
    }

    fn uncalled_for(&self, said: &Said<'_>) -> Option<Finding> {
        let method = said.method().unwrap_or_default();
        if self.we_spoke && (self.has_answered || BEFORE_ANSWERS.contains(&method)) {
            return None;
        }
        let what = format!("it sent `{method}` before it had answered anything");
        let fix = format!("send `{method}` after the handshake, and nothing before the first request");
        Some(Place::inside(said, "$.method").shows(Code::D1, Severity::Warning, what, fix))
    }

    /// An answer that answers no request of ours.
    fn stray(&mut self, said: &Said<'_>) -> Finding {
        if let Some(finding) = said.id().and_then(|id| self.misnamed(said, id)) {
            return finding;
        }
        let (is_error, id) = (said.error().is_some(), named(said.id()));
        if !self.we_spoke || (!self.has_answered && !is_error) {
            let what = format!("it sent a message {id} before it had answered anything; nobody asked for it");
            let fix = "send nothing at the start: wait for `initialize` or `server/discover`, and answer with its id";
            return Place::inside(said, "$.id").shows(Code::D1, Severity::Warning, what, fix);
        }
        if (is_error || said.id().is_none()) && !self.told.is_empty() {
            let notification = self.answered_notification(said);
            let what = format!("it answered the notification `{notification}`, with a message {id}");
            let fix = format!("answer only what has an `id`, and take `{notification}` without a word");
            return Place::whole(said).shows(Code::D4, Severity::Warning, what, fix);
        }
        let what = format!("it sent an answer {id}, which no request had");
        let fix = "answer each request once, with exactly the `id` that it had";
        Place::inside(said, "$.id").shows(Code::D2, Severity::Warning, what, fix)
    }

    /// An id that a request of ours has, but written as another type, or one that was answered before.
    fn misnamed(&self, said: &Said<'_>, id: &Value) -> Option<Finding> {
        let is_same = |asked: &Value| asked == id || text_of(asked) == text_of(id);
        let (asked, method, _) = self.asked.iter().find(|(asked, ..)| is_same(asked))?;
        let place = Place::inside(said, "$.id");
        if *asked == id {
            let what = format!("it answered `{method}` with id {id} more than once");
            return Some(place.shows(Code::D2, Severity::Warning, what, "answer each request once"));
        }
        let what = format!("it answered `{method}` with id {id}, where the request had {asked}");
        let fix = "keep the `id` of a request as it came, number or string, and send it back unchanged";
        Some(place.shows(Code::D2, Severity::Error, what, fix))
    }

    /// The notification that this seems to answer: the one it names, or the first that nothing has answered.
    fn answered_notification(&mut self, said: &Said<'_>) -> &'a str {
        let named = self.told.iter().position(|method| said.frame.text.contains(method));
        self.told.remove(named.unwrap_or(0))
    }

    fn late(&self, said: &Said<'_>, method: &str) -> Finding {
        let asked_at = self.asked.iter().find(|(id, ..)| said.id() == Some(id)).map(|(_, _, at)| *at);
        let after =
            asked_at.map(|at| format!(" {} after it was asked,", place::said(said.frame.at.saturating_sub(at))));
        let what =
            format!("its answer to `{method}` came{} when nobody waited for it any more", after.unwrap_or_default());
        // The probe is given up early on purpose, and a slow start is a finding of its own.
        let severity = if self.is_slow || method == "server/discover" { Severity::Note } else { Severity::Warning };
        let phase = match method {
            "server/discover" => "discover_timeout",
            "initialize" => "initialize_timeout",
            "tools/call" => "call_timeout",
            _ => "list_timeout",
        };
        let fix = format!("answer sooner, or raise `{phase}` in its configuration");
        Place::whole(said).shows(Code::D20, severity, what, fix)
    }
}

fn no_json(said: &Said<'_>) -> Option<Finding> {
    let text = said.frame.text.trim();
    let fix = match text {
        "" => return None,
        _ if text.to_ascii_lowercase().starts_with("content-length:") => {
            "send each message as one line of JSON, without the headers that language servers use"
        }
        "{" | "}" | "[" | "]" => "write each message on one line: a line break ends it",
        _ if text.starts_with(['{', '[']) => {
            "write each message as one line of valid JSON, and flush only whole lines; write logs to stderr"
        }
        _ => "write logs and banners to stderr: stdout is for messages alone",
    };
    let what = "it wrote a line to stdout that is no JSON".to_owned();
    Some(Place::whole(said).shows(Code::D9, Severity::Warning, what, fix))
}

fn named(id: Option<&Value>) -> String {
    id.map_or_else(|| "without an id".to_owned(), |id| format!("with id {id}"))
}

/// An id as it reads, whatever its type: 1, 1.0 and "1" are the same.
fn text_of(id: &Value) -> String {
    match id {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.as_f64().map_or_else(|| number.to_string(), |number| number.to_string()),
        other => other.to_string(),
    }
}
