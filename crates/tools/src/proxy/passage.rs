//! What becomes of each message between a caller on a pipe and a server over HTTP, pure. The link under it takes what it is
//! sent first for the opening, whatever it is, and so it is given an opening: the caller's own, or one in its name.

use std::collections::{BTreeMap, VecDeque};

use rmcp::model::ErrorCode;
use serde_json::{Value, json};

/// Messages that may wait for the opening.
const HELD_MAX: usize = 256;
/// The id of an opening that the caller never hears of.
const OURS: &str = "switchboard-opening";
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// Open until the caller ends it.
const LISTEN: &str = "subscriptions/listen";

/// What is to be done.
#[derive(Debug, PartialEq)]
pub(super) enum Act {
    /// Begin a link anew.
    Open,
    /// To the server.
    Send(Value),
    /// To the caller.
    Tell(Value),
}

/// One caller's messages on their way.
#[derive(Debug, Default)]
pub(super) struct Passage {
    stage: Stage,
    /// How the caller began, if it is a legacy one: it is said again to a server that was started anew.
    initialize: Option<Value>,
    /// What waits for the opening.
    held: VecDeque<Value>,
    /// The caller's requests without an answer yet, by their ids as text.
    waiting: BTreeMap<String, Request>,
}

#[derive(Debug, Default, PartialEq)]
enum Stage {
    #[default]
    Closed,
    /// This request opens it.
    Opening {
        id: Value,
        is_legacy: bool,
    },
    /// A legacy caller has its answer and is to say that it is ready.
    Greeted,
    Open,
}

#[derive(Debug)]
struct Request {
    id: Value,
    method: Box<str>,
}

impl Passage {
    /// A message of the caller.
    pub(super) fn handle_caller(&mut self, message: Value) -> Vec<Act> {
        if !message.is_object() {
            return vec![Act::Tell(unreadable("this is no message but a list or a value: send one message a line"))];
        }
        if let Some(id) = request_id(&message) {
            let request = Request { id: id.clone(), method: message["method"].as_str().unwrap_or_default().into() };
            self.waiting.insert(id.to_string(), request);
        } else if message["method"] == "notifications/cancelled" {
            self.waiting.remove(&message["params"]["requestId"].to_string());
        }
        self.pass(message)
    }

    /// A message of the server.
    pub(super) fn handle_server(&mut self, message: Value) -> Vec<Act> {
        let is_answer = message.get("method").is_none();
        if !is_answer {
            return vec![Act::Tell(message)];
        }
        self.waiting.remove(&message["id"].to_string());
        match &self.stage {
            Stage::Opening { id, is_legacy } if *id == message["id"] => self.opened(message, *is_legacy),
            _ => vec![Act::Tell(message)],
        }
    }

    /// A message could not be sent.
    pub(super) fn handle_unsent(&mut self, id: Option<&Value>, why: &str) -> Vec<Act> {
        match id.filter(|id| !self.is_opening(id)) {
            Some(id) => self.fail(&id.to_string(), ErrorCode::INTERNAL_ERROR, why).into_iter().collect(),
            None => self.handle_undelivered(id, why),
        }
    }

    /// A message did not reach the server, or so it seems.
    pub(super) fn handle_undelivered(&mut self, id: Option<&Value>, why: &str) -> Vec<Act> {
        match id {
            Some(id) if self.is_opening(id) => self.handle_broken(why),
            Some(id) => self.lose(&id.to_string(), why).into_iter().collect(),
            None => Vec::new(),
        }
    }

    fn is_opening(&self, id: &Value) -> bool {
        matches!(&self.stage, Stage::Opening { id: opening, .. } if opening == id)
    }

    /// The link is of no more use: nothing that waits will be answered, and the next message begins another.
    pub(super) fn handle_broken(&mut self, why: &str) -> Vec<Act> {
        self.stage = Stage::Closed;
        // These were never sent.
        let held: Vec<String> =
            self.held.drain(..).filter_map(|message| request_id(&message).map(Value::to_string)).collect();
        let mut acts: Vec<Act> = held
            .iter()
            .filter_map(|id| self.fail(id, ErrorCode::INTERNAL_ERROR, &format!("{why}: ask again")))
            .collect();
        let sent: Vec<String> = self.waiting.keys().cloned().collect();
        acts.extend(sent.iter().filter_map(|id| self.lose(id, why)));
        acts
    }

    /// Whether the caller waits for something that will come.
    pub(super) fn is_awaited(&self) -> bool {
        self.waiting.values().any(|request| *request.method != *LISTEN)
    }

    fn pass(&mut self, message: Value) -> Vec<Act> {
        match self.stage {
            _ if message["method"] == "initialize" => self.open(message),
            Stage::Closed => self.open(message),
            Stage::Opening { .. } => self.hold(message),
            Stage::Greeted => {
                self.stage = Stage::Open;
                // A link takes for this whatever comes here, and would lose the answer.
                let missing = (message["method"] != "notifications/initialized").then(|| Act::Send(initialized()));
                missing.into_iter().chain([Act::Send(message)]).collect()
            }
            Stage::Open => vec![Act::Send(message)],
        }
    }

    fn hold(&mut self, message: Value) -> Vec<Act> {
        if self.held.len() < HELD_MAX {
            self.held.push_back(message);
            return Vec::new();
        }
        let id = request_id(&message).map(Value::to_string);
        let why = "too much was asked before the first answer";
        id.and_then(|id| self.fail(&id, ErrorCode::INTERNAL_ERROR, why)).into_iter().collect()
    }

    fn open(&mut self, message: Value) -> Vec<Act> {
        let opening = match message["method"].as_str() {
            Some("initialize") => {
                self.initialize = Some(message.clone());
                message
            }
            Some("server/discover") => {
                self.initialize = None;
                message
            }
            _ => match self.opening_for(&message) {
                Some(opening) => {
                    self.held.push_back(message);
                    opening
                }
                None => return self.not_begun(&message),
            },
        };
        self.stage = Stage::Opening { id: opening["id"].clone(), is_legacy: opening["method"] == "initialize" };
        vec![Act::Open, Act::Send(opening)]
    }

    /// What opens a link in the name of a caller that does not do so itself.
    fn opening_for(&self, message: &Value) -> Option<Value> {
        let meta = &message["params"]["_meta"];
        if meta.get(VERSION).is_some() {
            let params = json!({ "_meta": meta });
            return Some(json!({ "jsonrpc": "2.0", "id": OURS, "method": "server/discover", "params": params }));
        }
        let mut again = self.initialize.clone()?;
        again["id"] = OURS.into();
        Some(again)
    }

    fn not_begun(&mut self, message: &Value) -> Vec<Act> {
        let Some(id) = request_id(message) else { return Vec::new() };
        if message["method"] == "ping" {
            self.waiting.remove(&id.to_string());
            return vec![Act::Tell(json!({ "jsonrpc": "2.0", "id": id, "result": {} }))];
        }
        let why =
            format!("begin with `initialize`, or name the version of the protocol in `params._meta[\"{VERSION}\"]`");
        self.fail(&id.to_string(), ErrorCode::INVALID_REQUEST, &why).into_iter().collect()
    }

    /// The opening has its answer.
    fn opened(&mut self, answer: Value, is_legacy: bool) -> Vec<Act> {
        let is_ours = answer["id"] == OURS;
        let is_refused = is_legacy && answer.get("error").is_some();
        if is_refused && is_ours {
            let why = answer["error"]["message"].as_str().unwrap_or("the server refuses it").to_owned();
            return self.handle_broken(&why);
        }
        let mut acts = Vec::new();
        self.stage = match (is_refused, is_legacy, is_ours) {
            (true, ..) => Stage::Closed,
            (_, true, false) => Stage::Greeted,
            _ => Stage::Open,
        };
        match (is_ours, is_legacy) {
            (false, _) => acts.push(Act::Tell(answer)),
            (true, true) => acts.push(Act::Send(initialized())),
            (true, false) => {}
        }
        for message in std::mem::take(&mut self.held) {
            acts.extend(self.pass(message));
        }
        acts
    }

    /// Fails a request that may have reached the server; of a call that matters.
    fn lose(&mut self, id: &str, why: &str) -> Option<Act> {
        if self.waiting.get(id).is_some_and(|request| *request.method != *"tools/call") {
            return self.fail(id, ErrorCode::INTERNAL_ERROR, why);
        }
        let request = self.waiting.remove(id)?;
        let why = format!("{why}; what was asked may have been done all the same: look before it is asked again");
        let mut lost = error(&request.id, ErrorCode::INTERNAL_ERROR, &why);
        lost["error"]["data"] = json!({ "switchboard/failure": { "work_may_have_run": true } });
        Some(Act::Tell(lost))
    }

    fn fail(&mut self, id: &str, code: ErrorCode, why: &str) -> Option<Act> {
        let request = self.waiting.remove(id)?;
        Some(Act::Tell(error(&request.id, code, why)))
    }
}

/// What a line is answered with that is no message.
pub(super) fn unreadable(why: &str) -> Value {
    error(&Value::Null, ErrorCode::PARSE_ERROR, why)
}

fn error(id: &Value, code: ErrorCode, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code.0, "message": message } })
}

fn initialized() -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })
}

fn request_id(message: &Value) -> Option<&Value> {
    message.get("method").and_then(|_| message.get("id")).filter(|id| !id.is_null())
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use expect_test::{Expect, expect};

    use super::*;

    /// `>` is the caller's line, `<` the server's, `x` an end of the link, `-` a message that did not arrive.
    fn check(script: &str, expected: &Expect) {
        let (mut passage, mut told) = (Passage::default(), String::new());
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (way, rest) = line.split_at(1);
            let message = || serde_json::from_str::<Value>(rest).unwrap();
            let acts = match way {
                ">" => passage.handle_caller(message()),
                "<" => passage.handle_server(message()),
                "x" => passage.handle_broken("gone"),
                _ => passage.handle_undelivered(Some(&message()), "refused"),
            };
            for act in acts {
                match act {
                    Act::Open => told.push_str("open\n"),
                    Act::Send(message) => writeln!(told, "send {message}").unwrap(),
                    Act::Tell(message) => writeln!(told, "tell {message}").unwrap(),
                }
            }
        }
        writeln!(told, "{}", if passage.is_awaited() { "waits" } else { "done" }).unwrap();
        expected.assert_eq(&told);
    }

    #[test]
    fn a_legacy_caller_opens_it_and_what_it_says_too_early_waits() {
        check(
            r#"
            >{"id":1,"method":"initialize"}
            >{"method":"notifications/initialized"}
            >{"id":2,"method":"tools/list"}
            <{"id":1,"result":{}}
            <{"id":2,"result":{}}
            "#,
            &expect![[r#"
                open
                send {"id":1,"method":"initialize"}
                tell {"id":1,"result":{}}
                send {"method":"notifications/initialized"}
                send {"id":2,"method":"tools/list"}
                tell {"id":2,"result":{}}
                done
            "#]],
        );
    }

    #[test]
    fn what_a_legacy_caller_forgets_is_said_for_it() {
        check(
            r#"
            >{"id":1,"method":"initialize"}
            <{"id":1,"result":{}}
            >{"id":2,"method":"tools/list"}
            "#,
            &expect![[r#"
                open
                send {"id":1,"method":"initialize"}
                tell {"id":1,"result":{}}
                send {"jsonrpc":"2.0","method":"notifications/initialized"}
                send {"id":2,"method":"tools/list"}
                waits
            "#]],
        );
    }

    #[test]
    fn a_modern_caller_has_it_opened_without_hearing_of_it() {
        check(
            r#"
            >{"id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}
            <{"id":"switchboard-opening","result":{}}
            <{"id":1,"result":{}}
            "#,
            &expect![[r#"
                open
                send {"id":"switchboard-opening","jsonrpc":"2.0","method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}
                send {"id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}
                tell {"id":1,"result":{}}
                done
            "#]],
        );
    }

    #[test]
    fn a_link_that_breaks_answers_what_waits_and_is_opened_again_as_the_caller_began() {
        check(
            r#"
            >{"id":1,"method":"initialize"}
            <{"id":1,"result":{}}
            >{"method":"notifications/initialized"}
            >{"id":2,"method":"tools/call"}
            x
            >{"id":3,"method":"tools/list"}
            <{"id":"switchboard-opening","result":{}}
            <{"id":3,"result":{}}
            "#,
            &expect![[r#"
                open
                send {"id":1,"method":"initialize"}
                tell {"id":1,"result":{}}
                send {"method":"notifications/initialized"}
                send {"id":2,"method":"tools/call"}
                tell {"error":{"code":-32603,"data":{"switchboard/failure":{"work_may_have_run":true}},"message":"gone; what was asked may have been done all the same: look before it is asked again"},"id":2,"jsonrpc":"2.0"}
                open
                send {"id":"switchboard-opening","method":"initialize"}
                send {"jsonrpc":"2.0","method":"notifications/initialized"}
                send {"id":3,"method":"tools/list"}
                tell {"id":3,"result":{}}
                done
            "#]],
        );
    }

    #[test]
    fn what_does_not_arrive_is_answered_once_and_an_opening_that_fails_fails_what_waits_for_it() {
        check(
            r#"
            >{"id":1,"method":"server/discover"}
            >{"id":2,"method":"tools/list"}
            -1
            -2
            "#,
            &expect![[r#"
                open
                send {"id":1,"method":"server/discover"}
                tell {"error":{"code":-32603,"message":"refused: ask again"},"id":2,"jsonrpc":"2.0"}
                tell {"error":{"code":-32603,"message":"refused"},"id":1,"jsonrpc":"2.0"}
                done
            "#]],
        );
    }

    #[test]
    fn who_names_no_version_is_told_how_to_begin() {
        check(
            r#"
            >{"id":"a","method":"ping"}
            >{"id":"b","method":"tools/list"}
            >{"method":"notifications/cancelled"}
            >[1]
            "#,
            &expect![[r#"
                tell {"id":"a","jsonrpc":"2.0","result":{}}
                tell {"error":{"code":-32600,"message":"begin with `initialize`, or name the version of the protocol in `params._meta[\"io.modelcontextprotocol/protocolVersion\"]`"},"id":"b","jsonrpc":"2.0"}
                tell {"error":{"code":-32700,"message":"this is no message but a list or a value: send one message a line"},"id":null,"jsonrpc":"2.0"}
                done
            "#]],
        );
    }

    #[test]
    fn a_refused_initialize_can_be_said_again_and_nobody_waits_for_what_has_no_end_or_was_given_up() {
        check(
            r#"
            >{"id":1,"method":"initialize"}
            <{"id":1,"error":{"code":-32602,"message":"no"}}
            >{"id":2,"method":"initialize"}
            <{"id":2,"result":{}}
            >{"method":"notifications/initialized"}
            >{"id":3,"method":"subscriptions/listen"}
            >{"id":4,"method":"tools/call"}
            >{"method":"notifications/cancelled","params":{"requestId":4}}
            "#,
            &expect![[r#"
                open
                send {"id":1,"method":"initialize"}
                tell {"error":{"code":-32602,"message":"no"},"id":1}
                open
                send {"id":2,"method":"initialize"}
                tell {"id":2,"result":{}}
                send {"method":"notifications/initialized"}
                send {"id":3,"method":"subscriptions/listen"}
                send {"id":4,"method":"tools/call"}
                send {"method":"notifications/cancelled","params":{"requestId":4}}
                done
            "#]],
        );
    }
}
