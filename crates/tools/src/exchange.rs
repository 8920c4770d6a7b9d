//! All that a connection to a tool server decides, pure: what a line of the server is, which request of ours it answers, and
//! how our own lines are written. Ids are ours alone and begin at 1: some servers answer notifications with id 0.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rmcp::model::{ErrorCode, ErrorData};
use serde_json::{Value, json};
use wire::{Edges, Envelope, Fault, Kind, RawId, peek};

use crate::dialect::Tongue;
use crate::frame::{Ring, RingLimits, Speaker, Verdict};
use crate::nesting::{asks_for_list, pruned};
use crate::post::lock;

/// How deep the JSON of a server may nest: a parser behind us may recurse.
const DEPTH_MAX: usize = 128;
/// Requests that were given up and whose answers may still come.
const GIVEN_UP_MAX: usize = 256;

/// The number of a request of ours, which is also its id and its progress token.
pub(crate) type Number = i64;

/// What a server has said.
#[derive(Debug, PartialEq)]
pub(crate) enum Heard {
    /// The answer to a request of ours.
    Answer { number: Number, outcome: Result<Value, ErrorData> },
    /// The answer to one, of which nothing but that can be read.
    Unreadable { number: Number, why: String },
    /// The progress of one.
    Progress { number: Number, params: Value },
    /// Anything else that it tells.
    Notification { method: String, params: Value },
    /// What it asks us.
    Request { id: Value, method: String, params: Value },
    /// The answer to a request that was given up.
    Late { number: Number },
    /// Nothing that can be used; the ring says what it was.
    Nothing,
}

/// One connection's book of what was asked.
pub(crate) struct Exchange {
    tongue: Tongue,
    waiting: HashMap<Number, Box<str>>,
    overdue: HashSet<Number>,
    given_up: VecDeque<(Number, Box<str>)>,
    ring: Arc<Mutex<Ring>>,
}

impl Exchange {
    pub(crate) fn new(tongue: Tongue, limits: RingLimits) -> Self {
        let ring = Arc::new(Mutex::new(Ring::new(limits)));
        Self { tongue, waiting: HashMap::new(), overdue: HashSet::new(), given_up: VecDeque::new(), ring }
    }

    /// What was said, for others to look at.
    pub(crate) fn ring(&self) -> Arc<Mutex<Ring>> {
        Arc::clone(&self.ring)
    }

    /// The line of a request of ours.
    pub(crate) fn request(&mut self, number: Number, method: &str, params: Value, at: Duration) -> Vec<u8> {
        self.waiting.insert(number, method.into());
        let mut message = json!({ "jsonrpc": "2.0", "id": number, "method": method });
        if let Some(params) = self.tongue.params(method, params) {
            message["params"] = params;
        }
        self.sent(&message, at)
    }

    /// The line of a notification of ours, unless this server answers those.
    pub(crate) fn notification(&mut self, method: &str, params: Option<Value>, at: Duration) -> Option<Vec<u8>> {
        if !self.tongue.takes_notifications() {
            return None;
        }
        let mut message = json!({ "jsonrpc": "2.0", "method": method });
        if let Some(params) = params {
            message["params"] = params;
        }
        Some(self.sent(&message, at))
    }

    /// The line that answers a request of the server.
    pub(crate) fn answer(&mut self, id: &Value, outcome: Result<Value, ErrorData>, at: Duration) -> Vec<u8> {
        let message = match outcome {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err(error) => json!({ "jsonrpc": "2.0", "id": id, "error": error }),
        };
        self.sent(&message, at)
    }

    /// Whether the answer to this is still to come.
    pub(crate) fn awaits(&self, number: Number) -> bool {
        self.waiting.contains_key(&number)
    }

    /// Nobody waits for this answer any more; says whether it was still to come.
    pub(crate) fn give_up(&mut self, number: Number) -> bool {
        let Some(method) = self.waiting.remove(&number) else { return false };
        if self.given_up.len() == GIVEN_UP_MAX {
            self.given_up.pop_front();
        }
        self.given_up.push_back((number, method));
        true
    }

    /// The answer to this is late if it comes, and welcome all the same.
    pub(crate) fn mark_overdue(&mut self, number: Number) {
        self.overdue.insert(number);
    }

    /// Reads one line of the server.
    pub(crate) fn take(&mut self, line: &[u8], at: Duration) -> Heard {
        let (heard, verdict) = match peek(line, DEPTH_MAX) {
            Ok(Envelope::Answer { id, outcome }) => self.take_answer(id, outcome),
            Ok(Envelope::Notification { method, params, .. }) => {
                (told(method.into_owned(), parsed(params)), Verdict::Taken)
            }
            Ok(Envelope::Request { id, method, params }) => {
                let (id, params) = (parsed(Some(id.as_str())), parsed(params));
                (Heard::Request { id, method: method.into_owned(), params }, Verdict::Taken)
            }
            Err(fault) if fault.leaves_id_readable() => {
                if let Some(pruned) = self.pruned_list(line, &fault) {
                    return self.take(&pruned, at);
                }
                (self.take_edges(line, line, &fault.to_string()), verdict_of(&fault))
            }
            Err(fault) => (Heard::Nothing, verdict_of(&fault)),
        };
        self.lock().push(at, Speaker::Server, line, verdict);
        heard
    }

    /// The line as it can be read, if it has a list that nests too deeply: one entry must not hide all others.
    fn pruned_list(&self, line: &[u8], fault: &Fault) -> Option<Vec<u8>> {
        let pruned = if *fault == Fault::TooDeep { pruned(line)? } else { return None };
        let Ok(Envelope::Answer { id, outcome: Ok(_) }) = peek(&pruned, DEPTH_MAX) else { return None };
        let method = self.waiting.get(&id.as_str().parse().ok()?)?;
        asks_for_list(method).then_some(pruned)
    }

    /// A line of the server that was above the limit: how it began and how it ended.
    pub(crate) fn take_too_long(&mut self, head: &[u8], tail: &[u8], at: Duration) -> Heard {
        self.lock().push(at, Speaker::Server, head, Verdict::TooLong);
        self.take_edges(head, tail, "it is too long")
    }

    /// Whoever waits for what cannot be read is told so, if the line still says who that is.
    fn take_edges(&mut self, head: &[u8], tail: &[u8], why: &str) -> Heard {
        let edges = Edges::of(head, tail);
        let number = edges.id.filter(|_| edges.kind == Some(Kind::Answers)).and_then(|id| id.as_str().parse().ok());
        match number.filter(|number| self.waiting.remove(number).is_some()) {
            Some(number) => Heard::Unreadable { number, why: why.to_owned() },
            None => Heard::Nothing,
        }
    }

    fn take_answer(&mut self, id: RawId<'_>, outcome: Result<&str, &str>) -> (Heard, Verdict) {
        let number = id.as_str().parse::<Number>().ok();
        if let Some((number, method)) = number.and_then(|number| self.waiting.remove_entry(&number)) {
            let is_error = outcome.is_err();
            let outcome = outcome.map(|result| parsed(Some(result))).map_err(|error| error_of(&parsed(Some(error))));
            let outcome = self.tongue.outcome(&method, outcome);
            let verdict = match self.overdue.remove(&number) {
                true => Verdict::Late { method },
                false => Verdict::Answer { method, is_error },
            };
            return (Heard::Answer { number, outcome }, verdict);
        }
        let late = number.and_then(|number| self.given_up.iter().position(|(one, _)| *one == number));
        match late.and_then(|place| self.given_up.remove(place)) {
            Some((number, method)) => (Heard::Late { number }, Verdict::Late { method }),
            None => (Heard::Nothing, Verdict::UnknownId),
        }
    }

    fn sent(&mut self, message: &Value, at: Duration) -> Vec<u8> {
        let mut line = message.to_string().into_bytes();
        self.lock().push(at, Speaker::Us, &line, Verdict::Sent);
        line.push(b'\n');
        line
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        lock(&self.ring)
    }
}

fn told(method: String, params: Value) -> Heard {
    if method == "notifications/progress"
        && let Some(number) = params.get("progressToken").and_then(Value::as_i64)
    {
        return Heard::Progress { number, params };
    }
    Heard::Notification { method, params }
}

/// The text has been scanned; what a parser still refuses, such as a number beyond its range, counts as nothing.
fn parsed(json: Option<&str>) -> Value {
    json.and_then(|json| serde_json::from_str(json).ok()).unwrap_or(Value::Null)
}

fn error_of(error: &Value) -> ErrorData {
    let code = error.get("code").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok());
    let message = error.get("message").and_then(Value::as_str).map_or_else(|| error.to_string(), str::to_owned);
    let data = error.get("data").cloned();
    ErrorData::new(code.map_or(ErrorCode::INTERNAL_ERROR, ErrorCode), message, data)
}

fn verdict_of(fault: &Fault) -> Verdict {
    match fault {
        Fault::NotUtf8 | Fault::NotJson { .. } => Verdict::NotJson,
        Fault::BadId | Fault::NotAnEnvelope("an answer without id") => Verdict::NoId,
        other => Verdict::NotRpc { why: other.to_string().into() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Dialect;

    fn asked() -> Exchange {
        let mut exchange = Exchange::new(Tongue(Dialect::Mcp), RingLimits::default());
        exchange.request(16, "tools/call", json!({}), Duration::ZERO);
        exchange
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_an_answer_all_the_same() {
        let deep = format!(r#"{{"jsonrpc":"2.0","id":16,"result":{}{}}}"#, "[".repeat(200), "]".repeat(200));
        let lines = [deep.as_str(), r#"{"result":{},"result":{},"id":16}"#, r#"{"result":{},"error":{},"id":16}"#];
        for line in lines {
            let mut exchange = asked();
            let heard = exchange.take(line.as_bytes(), Duration::ZERO);
            assert!(matches!(heard, Heard::Unreadable { number: 16, .. }), "{line}: {heard:?}");
            let again = exchange.take(br#"{"id":16,"result":{}}"#, Duration::ZERO);
            assert_eq!(again, Heard::Nothing, "a call ends once");
        }
    }

    #[test]
    fn a_list_with_an_entry_that_nests_too_deeply_is_read_all_the_same() {
        let deep = format!("{}{}", r#"{"a":"#.repeat(500), "1".to_owned() + &"}".repeat(500));
        let line =
            format!(r#"{{"id":17,"result":{{"tools":[{{"name":"deep","inputSchema":{deep}}},{{"name":"good"}}]}}}}"#);
        let mut exchange = asked();
        exchange.request(17, "tools/list", json!({}), Duration::ZERO);
        let Heard::Answer { number: 17, outcome: Ok(result) } = exchange.take(line.as_bytes(), Duration::ZERO) else {
            panic!("it can be read");
        };
        assert_eq!((&result["tools"][0]["name"], &result["tools"][1]["name"]), (&json!("deep"), &json!("good")));
    }

    #[test]
    fn the_ends_of_a_line_that_is_too_long_say_whose_it_is() {
        let head = br#"{"result":{"content":[{"type":"text","text":"xxx"#;
        let heard = asked().take_too_long(head, br#"xxx"}]},"jsonrpc":"2.0","id":16}"#, Duration::ZERO);
        assert!(matches!(heard, Heard::Unreadable { number: 16, .. }), "{heard:?}");
        let others = asked().take_too_long(head, br#"xxx"}]},"jsonrpc":"2.0","id":17}"#, Duration::ZERO);
        assert_eq!(others, Heard::Nothing);
        let asks = asked().take_too_long(br#"{"id":16,"method":"ping","params":{"#, b"", Duration::ZERO);
        assert_eq!(asks, Heard::Nothing, "its requests have ids of their own");
    }
}
