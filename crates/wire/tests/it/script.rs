//! Scripts in, transcripts out.
//!
//! A script has one step a line; what the connection does then stands below it, indented. `→` is a line it sent.
//! Calls have a deadline of 30 seconds after the script's clock, which only `at` moves.

use std::collections::HashMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

use expect_test::{Expect, expect};
use wire::{CallId, Connection, Event, Json, JsonRpcField, Limits, PeerError, RequestId};

use crate::show;

struct Stage {
    connection: Connection,
    calls: HashMap<String, CallId>,
    requests: HashMap<String, RequestId>,
    start: Instant,
    now: Instant,
    /// `stall` stops the transport, `flow` lets it go on.
    is_stalled: bool,
    /// `busy` stops taking events, `idle` takes them again.
    is_busy: bool,
    /// Bytes that the connection did not take.
    unread: Vec<u8>,
    seen: String,
}

fn check(limits: Limits, script: &str, expected: &Expect) {
    check_with(limits, JsonRpcField::Omitted, script, expected);
}

fn check_with(limits: Limits, field: JsonRpcField, script: &str, expected: &Expect) {
    #[expect(clippy::disallowed_methods, reason = "any instant will do as the script's zero")]
    let start = Instant::now();
    let mut stage = Stage {
        connection: Connection::new(limits, field),
        calls: HashMap::new(),
        requests: HashMap::new(),
        start,
        now: start,
        is_stalled: false,
        is_busy: false,
        unread: Vec::new(),
        seen: String::new(),
    };
    for step in script.lines().map(str::trim).filter(|step| !step.is_empty()) {
        writeln!(stage.seen, "{step}").unwrap();
        stage.play(step);
        stage.drain();
    }
    expected.assert_eq(&stage.seen);
}

impl Stage {
    fn play(&mut self, step: &str) {
        let (verb, rest) = step.split_once(' ').unwrap_or((step, ""));
        let (first, second) = rest.split_once(' ').unwrap_or((rest, ""));
        match verb {
            "call" => {
                let deadline = self.now + Duration::from_secs(30);
                match self.connection.call(first, raw(second).as_ref(), deadline) {
                    Ok(call) => _ = self.calls.insert(call.to_string(), call),
                    Err(refused) => self.note(&format!("refused: {refused}")),
                }
            }
            "notify" => {
                if let Err(refused) = self.connection.notify(first, raw(second).as_ref()) {
                    self.note(&format!("refused: {refused}"));
                }
            }
            "answer" => self.answer(first, Ok(&raw(second).unwrap())),
            "refuse" => {
                let (code, message) = second.split_once(' ').unwrap();
                let error =
                    PeerError { code: code.parse().unwrap(), message: message.into(), data: raw(r#"{"why":1}"#) };
                self.answer(first, Err(&error));
            }
            "forget" => {
                let request = self.requests[first].clone();
                if let Err(not_open) = self.connection.forget(&request) {
                    self.note(&not_open.to_string());
                }
            }
            "cancel" => self.connection.cancel(self.calls[first]),
            "read" => self.read(format!("{}\n", unescape(rest)).as_bytes()),
            "message" => self.connection.handle_message(unescape(rest).as_bytes()),
            "part" => self.read(unescape(rest).as_bytes()),
            "bytes" => self.read(&hex(rest)),
            "at" => {
                self.now = self.start + Duration::from_secs(first.parse().unwrap());
                let wake = self.connection.poll_timeout();
                let due = wake.filter(|(at, _)| *at <= self.now).map(|(_, wake)| wake);
                self.note(&format!("due: {due:?}"));
                self.connection.handle_timeout(self.now);
            }
            "eof" => self.connection.handle_eof(),
            "close" => self.connection.close(),
            "stall" => self.is_stalled = true,
            "flow" => self.is_stalled = false,
            "busy" => self.is_busy = true,
            "idle" => self.is_busy = false,
            "wants" => self.note(&format!("wants read: {}", self.connection.wants_read())),
            "counts" => self.note(&format!("{:?}", self.connection.counts())),
            other => panic!("no step {other:?}"),
        }
    }

    fn answer(&mut self, id: &str, outcome: Result<&Json, &PeerError>) {
        let request = self.requests[id].clone();
        if let Err(not_open) = self.connection.answer(&request, outcome) {
            self.note(&not_open.to_string());
        }
    }

    fn read(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
    }

    fn drain(&mut self) {
        loop {
            let taken = self.connection.handle_input(&self.unread);
            self.unread.drain(..taken);
            let mut events = 0;
            while !self.is_busy
                && let Some(event) = self.connection.poll_event()
            {
                events += 1;
                if let Event::Request(request) = &event {
                    self.requests.insert(request.id.to_string(), request.id.clone());
                }
                self.note(&show::event(&event));
            }
            if events == 0 {
                break;
            }
        }
        while !self.is_stalled
            && let Some(line) = self.connection.poll_transmit()
        {
            self.note(&format!("→ {}", String::from_utf8(line).unwrap().trim_end()));
        }
    }

    fn note(&mut self, text: &str) {
        writeln!(self.seen, "    {text}").unwrap();
    }
}

fn raw(json: &str) -> Option<Json> {
    let json = unescape(json);
    (!json.is_empty()).then(|| Json::new(&json).unwrap())
}

fn unescape(text: &str) -> String {
    text.replace("<LF>", "\n").replace("<CR>", "\r")
}

fn hex(text: &str) -> Vec<u8> {
    let pair = |pair| u8::from_str_radix(pair, 16).unwrap();
    text.split(' ').map(pair).collect()
}

#[test]
fn a_call_is_answered_or_fails() {
    check(
        Limits::default(),
        r#"
        call thread/list {"limit":1}
        call model/list
        read {"error":{"code":-32600,"message":"no","data":[1]},"id":2}
        read {"jsonrpc":"2.0","id":1,"result":{"data":[]}}
        call a
        read {"id":3,"result":null}
        call b
        read {"id":4,"error":"just text"}
        call c
        read {"id":5,"result":{},"error":null}
        call d
        read {"id":6,"result":null,"error":{"code":7,"message":"old style"}}
        call e
        read {"id":7,"result":{},"error":{}}
        call f
        read {"id":8,"result":{},"result":{}}
        "#,
        &expect![[r#"
            call thread/list {"limit":1}
                → {"id":1,"method":"thread/list","params":{"limit":1}}
            call model/list
                → {"id":2,"method":"model/list"}
            read {"error":{"code":-32600,"message":"no","data":[1]},"id":2}
                call 2 failed -32600 "no" [1]
            read {"jsonrpc":"2.0","id":1,"result":{"data":[]}}
                call 1 answered {"data":[]}
            call a
                → {"id":3,"method":"a"}
            read {"id":3,"result":null}
                call 3 answered null
            call b
                → {"id":4,"method":"b"}
            read {"id":4,"error":"just text"}
                call 4 failed 0 "\"just text\""
            call c
                → {"id":5,"method":"c"}
            read {"id":5,"result":{},"error":null}
                call 5 answered {}
            call d
                → {"id":6,"method":"d"}
            read {"id":6,"result":null,"error":{"code":7,"message":"old style"}}
                call 6 failed 7 "old style"
            call e
                → {"id":7,"method":"e"}
            read {"id":7,"result":{},"error":{}}
                call 7 unreadable: not a JSON-RPC message (a result and an error)
                reported not a JSON-RPC message (a result and an error) (a line of 31 bytes: {"id":7,"result":{},"error":{}})
            call f
                → {"id":8,"method":"f"}
            read {"id":8,"result":{},"result":{}}
                call 8 unreadable: the key "result" twice
                reported the key "result" twice (a line of 32 bytes: {"id":8,"result":{},"result":{}})
        "#]],
    );
}

#[test]
fn both_envelope_styles_are_spoken() {
    check_with(
        Limits::default(),
        JsonRpcField::Sent,
        r#"
        call a {"pretty":<LF> "json"<CR><LF>}
        notify b
        read {"method":"ask","id":"x","params":{}}
        answer "x" {"ok":true}
        read {"jsonrpc":"2.0","method":"ask","id":9007199254740993}
        refuse 9007199254740993 -32601 no such "method"
        "#,
        &expect![[r#"
            call a {"pretty":<LF> "json"<CR><LF>}
                → {"jsonrpc":"2.0","id":1,"method":"a","params":{"pretty":  "json"  }}
            notify b
                → {"jsonrpc":"2.0","method":"b"}
            read {"method":"ask","id":"x","params":{}}
                asked "x": ask {}
            answer "x" {"ok":true}
                → {"jsonrpc":"2.0","id":"x","result":{"ok":true}}
            read {"jsonrpc":"2.0","method":"ask","id":9007199254740993}
                asked 9007199254740993: ask –
            refuse 9007199254740993 -32601 no such "method"
                → {"jsonrpc":"2.0","id":9007199254740993,"error":{"code":-32601,"message":"no such \"method\"","data":{"why":1}}}
        "#]],
    );
}

#[test]
fn notifications_keep_order_and_time() {
    check(
        Limits::default(),
        r#"
        call turn/start
        part {"method":"a","params":{"n":1},"emittedAtMs":17}<LF>{"id":1,"result":{}}<LF>{"method":"b"}<CR><LF><LF>{"meth
        part od":"c","params":[2],"more":{"id":4}}<LF>
        "#,
        &expect![[r#"
            call turn/start
                → {"id":1,"method":"turn/start"}
            part {"method":"a","params":{"n":1},"emittedAtMs":17}<LF>{"id":1,"result":{}}<LF>{"method":"b"}<CR><LF><LF>{"meth
                told a {"n":1} emitted at 17
                call 1 answered {}
                told b –
            part od":"c","params":[2],"more":{"id":4}}<LF>
                told c [2]
        "#]],
    );
}

#[test]
fn late_second_and_unknown_answers_are_reported_and_counted() {
    check(
        Limits::default(),
        r#"
        call slow
        call quick
        read {"id":2,"result":1}
        read {"id":2,"result":1}
        at 29
        at 30
        read {"id":1,"result":"late"}
        read {"id":1,"result":"later still"}
        read {"id":99,"result":1}
        read {"id":"2","result":1}
        read {"id":-1,"result":1}
        stall
        call unsent
        read {"id":3,"result":"a guess"}
        counts
        "#,
        &expect![[r#"
            call slow
                → {"id":1,"method":"slow"}
            call quick
                → {"id":2,"method":"quick"}
            read {"id":2,"result":1}
                call 2 answered 1
            read {"id":2,"result":1}
                reported second answer to call 2 (a line of 19 bytes: {"id":2,"result":1})
            at 29
                due: None
            at 30
                due: Some(CallDeadline(CallId(1)))
                call 1 timed out (Sent)
            read {"id":1,"result":"late"}
                reported late answer to call 1 (a line of 24 bytes: {"id":1,"result":"late"})
            read {"id":1,"result":"later still"}
                reported second answer to call 1 (a line of 31 bytes: {"id":1,"result":"later still"})
            read {"id":99,"result":1}
                reported answer to an unknown call (a line of 20 bytes: {"id":99,"result":1})
            read {"id":"2","result":1}
                reported answer to an unknown call (a line of 21 bytes: {"id":"2","result":1})
            read {"id":-1,"result":1}
                reported answer to an unknown call (a line of 20 bytes: {"id":-1,"result":1})
            stall
            call unsent
            read {"id":3,"result":"a guess"}
                reported answer to an unknown call (a line of 27 bytes: {"id":3,"result":"a guess"})
            counts
                Counts { lines: 8, malformed: 0, too_long: 0, late_answers: 1, second_answers: 2, unknown_answers: 4, repeated_requests: 0, refused_requests: 0 }
        "#]],
    );
}

#[test]
fn faulty_lines_are_reported_and_the_connection_goes_on() {
    check(
        Limits::default(),
        r#"
        read not json at all
        read {"method":"a"} {"method":"b"}
        read {"method":"a"
        bytes 7b 22 6d 22 3a 22 ff 22 7d 0a
        read [{"method":"a"},{"method":"b"}]
        read {"method":"a","method":"b"}
        read {"id":1,"result":{},"result":{}}
        read {"method":"a","params":{"x":1,"x":2},"other":1,"other":2}
        read {"event":"ready"}
        read "text"
        read 17
        read {"method":7}
        read {"id":null,"method":"a"}
        read {"id":1.5,"method":"a"}
        read {"id":1e3,"method":"a"}
        read {"id":true,"method":"a"}
        read {"id":1,"method":"a","result":{}}
        read {"id":1,"result":{},"error":{}}
        read {"id":1}
        read {"result":{}}
        read {"method":"still here"}
        counts
        "#,
        &expect![[r#"
            read not json at all
                reported not JSON (expected a value at byte 0) (a line of 15 bytes: not json at all)
            read {"method":"a"} {"method":"b"}
                reported not JSON (expected the end of the line at byte 15) (a line of 29 bytes: {"method":"a"} {"method":"b"})
            read {"method":"a"
                reported not JSON (expected ',' or '}' at byte 13) (a line of 13 bytes: {"method":"a")
            bytes 7b 22 6d 22 3a 22 ff 22 7d 0a
                reported invalid UTF-8 (a line of 9 bytes: {"m":"\xff"})
            read [{"method":"a"},{"method":"b"}]
                reported a batch (a line of 31 bytes: [{"method":"a"},{"method":"b"}])
            read {"method":"a","method":"b"}
                reported the key "method" twice (a line of 27 bytes: {"method":"a","method":"b"})
            read {"id":1,"result":{},"result":{}}
                reported the key "result" twice (a line of 32 bytes: {"id":1,"result":{},"result":{}})
            read {"method":"a","params":{"x":1,"x":2},"other":1,"other":2}
                told a {"x":1,"x":2}
            read {"event":"ready"}
                reported not a JSON-RPC message (no method and no id) (a line of 17 bytes: {"event":"ready"})
            read "text"
                reported not a JSON-RPC message (not an object) (a line of 6 bytes: "text")
            read 17
                reported not a JSON-RPC message (not an object) (a line of 2 bytes: 17)
            read {"method":7}
                reported not a JSON-RPC message (a method that is not a string) (a line of 12 bytes: {"method":7})
            read {"id":null,"method":"a"}
                reported an id that is neither integer nor string, or too long (a line of 24 bytes: {"id":null,"method":"a"})
            read {"id":1.5,"method":"a"}
                reported an id that is neither integer nor string, or too long (a line of 23 bytes: {"id":1.5,"method":"a"})
            read {"id":1e3,"method":"a"}
                reported an id that is neither integer nor string, or too long (a line of 23 bytes: {"id":1e3,"method":"a"})
            read {"id":true,"method":"a"}
                reported an id that is neither integer nor string, or too long (a line of 24 bytes: {"id":true,"method":"a"})
            read {"id":1,"method":"a","result":{}}
                reported not a JSON-RPC message (a method with a result or an error) (a line of 33 bytes: {"id":1,"method":"a","result":{}})
            read {"id":1,"result":{},"error":{}}
                reported not a JSON-RPC message (a result and an error) (a line of 31 bytes: {"id":1,"result":{},"error":{}})
            read {"id":1}
                reported not a JSON-RPC message (an id without method, result or error) (a line of 8 bytes: {"id":1})
            read {"result":{}}
                reported not a JSON-RPC message (an answer without id) (a line of 13 bytes: {"result":{}})
            read {"method":"still here"}
                told still here –
            counts
                Counts { lines: 21, malformed: 19, too_long: 0, late_answers: 0, second_answers: 0, unknown_answers: 0, repeated_requests: 0, refused_requests: 0 }
        "#]],
    );
}

#[test]
fn a_deep_line_is_reported_and_fails_the_call_it_answers() {
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let limits = Limits { depth_max: 3, ..Limits::default() };
    let script =
        format!("call a\nread {{\"id\":1,\"result\":{}}}\ncall b\nread {{\"id\":2,\"result\":{}}}", deep(2), deep(3));
    check(
        limits,
        &script,
        &expect![[r#"
            call a
                → {"id":1,"method":"a"}
            read {"id":1,"result":[[]]}
                call 1 answered [[]]
            call b
                → {"id":2,"method":"b"}
            read {"id":2,"result":[[[]]]}
                call 2 unreadable: nesting too deep
                reported nesting too deep (a line of 24 bytes: {"id":2,"result":[[[]]]})
        "#]],
    );
}

#[test]
fn an_answer_in_invalid_utf8_fails_its_call_at_once() {
    check(
        Limits::default(),
        r#"
        call a
        part {"id":1,"result":"
        bytes ff 22 7d 0a
        "#,
        &expect![[r#"
            call a
                → {"id":1,"method":"a"}
            part {"id":1,"result":"
            bytes ff 22 7d 0a
                call 1 unreadable: invalid UTF-8
                reported invalid UTF-8 (a line of 21 bytes: {"id":1,"result":"\xff"})
        "#]],
    );
}

#[test]
fn too_long_answers_fail_their_call_as_soon_as_the_id_is_seen() {
    let limits = Limits { line_bytes_max: 40, ..Limits::default() };
    check(
        limits,
        r#"
        call a
        call b
        part {"id":1,"result":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
        part xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
        part "}<LF>{"error":{"message":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxx
        part xxxxxxxx"},"id":2}<LF>
        read {"method":"ask","id":5,"params":"xxxxxxxxxxxxxxxxxxxxxxxxx"}
        read {"method":"tell","params":"xxxxxxxxxxxxxxxxxxxxxxxxx"}
        read {"method":"tell"}
        counts
        "#,
        &expect![[r#"
            call a
                → {"id":1,"method":"a"}
            call b
                → {"id":2,"method":"b"}
            part {"id":1,"result":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
                call 1 too long
            part xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
            part "}<LF>{"error":{"message":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxx
                reported too long (a line of 84 bytes: {"id":1,"result":"xxxxxxxxxxxxxxxxxxxxxx…)
            part xxxxxxxx"},"id":2}<LF>
                call 2 too long
                reported too long (a line of 68 bytes: {"error":{"message":"xxxxxxxxxxxxxxxxxxx…)
            read {"method":"ask","id":5,"params":"xxxxxxxxxxxxxxxxxxxxxxxxx"}
                reported too long (a line of 60 bytes: {"method":"ask","id":5,"params":"xxxxxxx…)
                → {"id":5,"error":{"code":-32600,"message":"the request is longer than this side reads"}}
            read {"method":"tell","params":"xxxxxxxxxxxxxxxxxxxxxxxxx"}
                reported too long (a line of 54 bytes: {"method":"tell","params":"xxxxxxxxxxxxx…)
            read {"method":"tell"}
                told tell –
            counts
                Counts { lines: 5, malformed: 0, too_long: 4, late_answers: 0, second_answers: 0, unknown_answers: 0, repeated_requests: 0, refused_requests: 0 }
        "#]],
    );
}

#[test]
fn calls_beyond_the_limit_are_held_in_order_and_answers_overtake_them() {
    let limits = Limits { calls_max: 2, ..Limits::default() };
    check(
        limits,
        r#"
        call a
        call b
        call c
        call d
        read {"method":"ask","id":1}
        answer 1 {}
        notify n
        cancel 3
        read {"id":2,"result":{}}
        at 30
        "#,
        &expect![[r#"
            call a
                → {"id":1,"method":"a"}
            call b
                → {"id":2,"method":"b"}
            call c
            call d
            read {"method":"ask","id":1}
                asked 1: ask –
            answer 1 {}
                → {"id":1,"result":{}}
            notify n
                → {"method":"n"}
            cancel 3
                call 3 cancelled (Queued)
            read {"id":2,"result":{}}
                call 2 answered {}
                → {"id":4,"method":"d"}
            at 30
                due: Some(CallDeadline(CallId(1)))
                call 1 timed out (Sent)
                call 4 timed out (Sent)
        "#]],
    );
}

#[test]
fn a_full_queue_refuses_and_an_answer_is_never_refused() {
    let limits = Limits { queued_bytes_max: 60, ..Limits::default() };
    check(
        limits,
        r#"
        stall
        call a {"x":"1234567890"}
        call b {"x":"1234567890"}
        notify n
        notify toolong {"x":"12345678901234567890123456789012345678901234567890"}
        read {"method":"ask","id":1}
        answer 1 {"x":"12345678901234567890123456789012345678901234567890"}
        flow
        call b {"x":"1234567890"}
        "#,
        &expect![[r#"
            stall
            call a {"x":"1234567890"}
            call b {"x":"1234567890"}
                refused: 50 bytes wait to be sent, more than 60 may not: try again later
            notify n
                refused: 50 bytes wait to be sent, more than 60 may not: try again later
            notify toolong {"x":"12345678901234567890123456789012345678901234567890"}
                refused: the line has 89 bytes, more than 60 can never be sent
            read {"method":"ask","id":1}
                asked 1: ask –
            answer 1 {"x":"12345678901234567890123456789012345678901234567890"}
            flow
                → {"id":1,"method":"a","params":{"x":"1234567890"}}
                → {"id":1,"result":{"x":"12345678901234567890123456789012345678901234567890"}}
            call b {"x":"1234567890"}
                → {"id":2,"method":"b","params":{"x":"1234567890"}}
        "#]],
    );
}

#[test]
fn a_request_is_answered_exactly_once() {
    check(
        Limits::default(),
        r#"
        call mine
        read {"method":"ask","id":1,"params":{}}
        read {"method":"ask","id":1,"params":{"again":true}}
        read {"method":"ask something else","id":1}
        counts
        answer 1 {"a":1}
        answer 1 {"a":2}
        read {"id":1,"result":"mine"}
        read {"method":"ask","id":1,"params":{"anew":true}}
        read {"method":"ask","id":"1"}
        eof
        answer 1 {}
        "#,
        &expect![[r#"
            call mine
                → {"id":1,"method":"mine"}
            read {"method":"ask","id":1,"params":{}}
                asked 1: ask {}
            read {"method":"ask","id":1,"params":{"again":true}}
            read {"method":"ask something else","id":1}
                reported a request under the id of another (a line of 38 bytes: {"method":"ask something else","id":1})
            counts
                Counts { lines: 3, malformed: 0, too_long: 0, late_answers: 0, second_answers: 0, unknown_answers: 0, repeated_requests: 1, refused_requests: 1 }
            answer 1 {"a":1}
                → {"id":1,"result":{"a":1}}
            answer 1 {"a":2}
                request 1 is not open: it was answered before, or its connection is over
            read {"id":1,"result":"mine"}
                call 1 answered "mine"
            read {"method":"ask","id":1,"params":{"anew":true}}
                asked 1: ask {"anew":true}
            read {"method":"ask","id":"1"}
                asked "1": ask –
            eof
                closed, unanswered: [1, "1"]
            answer 1 {}
                request 1 is not open: it was answered before, or its connection is over
        "#]],
    );
}

#[test]
fn requests_beyond_the_limit_are_refused_with_an_error() {
    let limits = Limits { requests_max: 1, ..Limits::default() };
    check(
        limits,
        r#"
        read {"method":"ask","id":1}
        read {"method":"ask","id":1}
        read {"method":"ask","id":2}
        answer 1 {}
        read {"method":"ask","id":3}
        "#,
        &expect![[r#"
            read {"method":"ask","id":1}
                asked 1: ask –
            read {"method":"ask","id":1}
            read {"method":"ask","id":2}
                reported too many open requests (a line of 23 bytes: {"method":"ask","id":2})
                → {"id":2,"error":{"code":-32001,"message":"too many open requests: retry later"}}
            answer 1 {}
                → {"id":1,"result":{}}
            read {"method":"ask","id":3}
                asked 3: ask –
        "#]],
    );
}

#[test]
fn a_request_keeps_its_place_until_its_answer_has_left() {
    let limits = Limits { requests_max: 1, ..Limits::default() };
    check(
        limits,
        r#"
        stall
        read {"method":"ask","id":1}
        answer 1 {}
        read {"method":"ask","id":2}
        read {"method":"ask","id":3}
        read {"method":"ask","id":4}
        flow
        read {"method":"ask","id":5}
        "#,
        &expect![[r#"
            stall
            read {"method":"ask","id":1}
                asked 1: ask –
            answer 1 {}
            read {"method":"ask","id":2}
                reported too many open requests (a line of 23 bytes: {"method":"ask","id":2})
            read {"method":"ask","id":3}
                reported too many open requests (a line of 23 bytes: {"method":"ask","id":3})
            read {"method":"ask","id":4}
                reported too many open requests (a line of 23 bytes: {"method":"ask","id":4})
            flow
                → {"id":1,"result":{}}
                → {"id":2,"error":{"code":-32001,"message":"too many open requests: retry later"}}
            read {"method":"ask","id":5}
                asked 5: ask –
        "#]],
    );
}

#[test]
fn the_end_settles_everything_once() {
    let limits = Limits { calls_max: 1, ..Limits::default() };
    check(
        limits,
        r#"
        call sent
        call held
        read {"method":"ask","id":7}
        part {"method":"cut of
        eof
        eof
        close
        read {"id":1,"result":{}}
        call after
        notify after
        at 60
        "#,
        &expect![[r#"
            call sent
                → {"id":1,"method":"sent"}
            call held
            read {"method":"ask","id":7}
                asked 7: ask –
            part {"method":"cut of
            eof
                reported cut off by the end of the stream (a line of 17 bytes: {"method":"cut of)
                call 1 closed (Sent)
                call 2 closed (Queued)
                closed, unanswered: [7]
            eof
            close
            read {"id":1,"result":{}}
            call after
                refused: the connection is over
            notify after
                refused: the connection is over
            at 60
                due: None
        "#]],
    );
}

#[test]
fn a_last_line_without_its_ending_counts_if_it_is_whole() {
    check(
        Limits::default(),
        r#"
        call a
        part {"id":1,"result":{}}
        eof
        "#,
        &expect![[r#"
            call a
                → {"id":1,"method":"a"}
            part {"id":1,"result":{}}
            eof
                call 1 answered {}
                closed, unanswered: []
        "#]],
    );
}

#[test]
fn our_close_drops_what_was_not_sent() {
    check(
        Limits::default(),
        "
        stall
        call a
        notify b
        close
        flow
        ",
        &expect![[r#"
            stall
            call a
            notify b
            close
                call 1 closed (Queued)
                closed, unanswered: []
            flow
        "#]],
    );
}

#[test]
fn one_big_read_stops_at_the_event_bound() {
    let limits = Limits { events_max: 2, ..Limits::default() };
    check(
        limits,
        r#"
        busy
        wants
        part {"method":"a"}<LF>{"method":"b"}<LF>{"method":"c"}<LF>{"method":"d"}<LF>{"meth
        wants
        idle
        wants
        read od":"e"}
        "#,
        &expect![[r#"
            busy
            wants
                wants read: true
            part {"method":"a"}<LF>{"method":"b"}<LF>{"method":"c"}<LF>{"method":"d"}<LF>{"meth
            wants
                wants read: false
            idle
                told a –
                told b –
                told c –
                told d –
            wants
                wants read: true
            read od":"e"}
                told e –
        "#]],
    );
}

#[test]
fn one_big_read_stops_at_the_byte_bound() {
    let limits = Limits { event_bytes_max: 20, ..Limits::default() };
    check(
        limits,
        r#"
        busy
        part {"method":"a"}<LF>{"method":"b"}<LF>{"method":"c"}<LF>
        counts
        idle
        "#,
        &expect![[r#"
            busy
            part {"method":"a"}<LF>{"method":"b"}<LF>{"method":"c"}<LF>
            counts
                Counts { lines: 2, malformed: 0, too_long: 0, late_answers: 0, second_answers: 0, unknown_answers: 0, repeated_requests: 0, refused_requests: 0 }
            idle
                told a –
                told b –
                told c –
        "#]],
    );
}

#[test]
fn a_message_is_taken_as_a_line_would_be() {
    let limits = Limits { line_bytes_max: 60, depth_max: 4, ..Limits::default() };
    check(
        limits,
        r#"
        call a
        call b
        call c
        message {"id":1,<LF>  "result":{}}<CR><LF>
        message   <LF>
        message {"method":"tell","params":{"n":1},"emittedAtMs":17}
        message {"id":2,"result":"a text that is far longer than the limit of this connection"}
        message {"id":3,"result":[[[[[]]]]]}
        message {"id":4,"resu
        message {"method":"ask","id":7,"params":"a text that is far longer than the limit of this connection"}
        counts
        close
        message {"method":"late"}
        "#,
        &expect![[r#"
            call a
                → {"id":1,"method":"a"}
            call b
                → {"id":2,"method":"b"}
            call c
                → {"id":3,"method":"c"}
            message {"id":1,<LF>  "result":{}}<CR><LF>
                call 1 answered {}
            message   <LF>
            message {"method":"tell","params":{"n":1},"emittedAtMs":17}
                told tell {"n":1} emitted at 17
            message {"id":2,"result":"a text that is far longer than the limit of this connection"}
                call 2 too long
                reported too long (a line of 79 bytes: {"id":2,"result":"a text that is far longer than the limit o…)
            message {"id":3,"result":[[[[[]]]]]}
                call 3 unreadable: nesting too deep
                reported nesting too deep (a line of 28 bytes: {"id":3,"result":[[[[[]]]]]})
            message {"id":4,"resu
                reported not JSON (expected the end of a string at byte 13) (a line of 13 bytes: {"id":4,"resu)
            message {"method":"ask","id":7,"params":"a text that is far longer than the limit of this connection"}
                reported too long (a line of 94 bytes: {"method":"ask","id":7,"params":"a text that is far longer t…)
                → {"id":7,"error":{"code":-32600,"message":"the request is longer than this side reads"}}
            counts
                Counts { lines: 6, malformed: 2, too_long: 2, late_answers: 0, second_answers: 0, unknown_answers: 0, repeated_requests: 0, refused_requests: 0 }
            close
                closed, unanswered: []
            message {"method":"late"}
        "#]],
    );
}

#[test]
fn a_message_between_two_halves_of_a_line_disturbs_neither() {
    check(
        Limits::default(),
        r#"
        part {"method":"halv
        message {"method":"whole"}
        read ed"}
        "#,
        &expect![[r#"
            part {"method":"halv
            message {"method":"whole"}
                told whole –
            read ed"}
                told halved –
        "#]],
    );
}

#[test]
fn a_request_that_the_peer_has_resolved_is_forgotten_without_a_line() {
    let limits = Limits { requests_max: 1, ..Limits::default() };
    check(
        limits,
        r#"
        read {"method":"ask","id":7}
        read {"method":"ask","id":8}
        forget 7
        forget 7
        answer 7 {}
        read {"method":"ask","id":8}
        answer 8 {}
        forget 8
        eof
        "#,
        &expect![[r#"
            read {"method":"ask","id":7}
                asked 7: ask –
            read {"method":"ask","id":8}
                reported too many open requests (a line of 23 bytes: {"method":"ask","id":8})
                → {"id":8,"error":{"code":-32001,"message":"too many open requests: retry later"}}
            forget 7
            forget 7
                request 7 is not open: it was answered before, or its connection is over
            answer 7 {}
                request 7 is not open: it was answered before, or its connection is over
            read {"method":"ask","id":8}
                asked 8: ask –
            answer 8 {}
                → {"id":8,"result":{}}
            forget 8
                request 8 is not open: it was answered before, or its connection is over
            eof
                closed, unanswered: []
        "#]],
    );
}
