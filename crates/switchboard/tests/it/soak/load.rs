//! Callers of every kind, who do the same again and again, a person who decides, and somebody who kills workers.

use std::fmt;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Scope, park_timeout};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testkit::{HANG_TIMEOUT, processes};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Message, WebSocket, client};

use crate::fault_run::server::{Server, text};

/// Between two rounds of a caller: callers think, too.
const PAUSE: Duration = Duration::from_millis(40);
/// Between two kills.
const KILL_INTERVAL: Duration = Duration::from_secs(35);
/// Between two looks of whoever decides.
const DECIDE_INTERVAL: Duration = Duration::from_millis(300);
const LEFT_OPEN_EVERY: u64 = 50;
const LEGACY: &str = "2025-11-25";

/// What callers do; a round may be refused, since its worker may have been killed.
const CALLERS: [(&str, Round); 9] = [
    ("chat, whole", chat_whole),
    ("chat, streamed", chat_streamed),
    ("chat, abandoned", chat_abandoned),
    ("response, stored", response_stored),
    ("response, background", response_in_background),
    ("WebSocket", over_websocket),
    ("tool call, parked", tool_call_parked),
    ("MCP session", mcp_session),
    ("turn with approval", turn_with_approval),
];

type Round = fn(&Server<'_>, u64) -> io::Result<Outcome>;

enum Outcome {
    Done,
    /// With this status or code.
    Refused(String),
}

pub(super) struct Load<'a> {
    server: &'a Server<'a>,
    /// A part of the name of every caller that takes part.
    only: &'a str,
    is_over: AtomicBool,
    has_failed: AtomicBool,
    done: [AtomicU64; CALLERS.len()],
    refused: [AtomicU64; CALLERS.len()],
    killed: AtomicU64,
    decided: AtomicU64,
}

impl<'a> Load<'a> {
    pub(super) fn new(server: &'a Server<'a>, only: &'a str) -> Self {
        Self {
            server,
            only,
            is_over: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            done: Default::default(),
            refused: Default::default(),
            killed: AtomicU64::new(0),
            decided: AtomicU64::new(0),
        }
    }

    /// Starts everybody, each in a thread of the scope.
    pub(super) fn start<'scope, 'env>(&'scope self, scope: &'scope Scope<'scope, 'env>) {
        for (number, _) in self.callers() {
            scope.spawn(move || self.noting_failure(|| self.call(number)));
        }
        scope.spawn(|| self.noting_failure(|| self.decide()));
        scope.spawn(|| self.noting_failure(|| self.kill()));
    }

    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Whether a caller has seen something that must not be.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// How many rounds are over.
    pub(super) fn finished(&self) -> u64 {
        self.done.iter().chain(&self.refused).map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// # Panics
    /// If somebody was never served, or more often refused than served.
    pub(super) fn check(&self) {
        assert!(!self.has_failed(), "a caller has failed, see above");
        for (number, name) in self.callers() {
            let (done, refused) = self.count(number);
            assert!(done > refused, "{name}: {done} served, {refused} refused");
        }
    }

    /// Those that take part, with their numbers.
    fn callers(&self) -> impl Iterator<Item = (usize, &'static str)> {
        let names = CALLERS.iter().map(|(name, _)| *name).enumerate();
        names.filter(|(_, name)| name.contains(self.only))
    }

    fn count(&self, number: usize) -> (u64, u64) {
        (self.done[number].load(Ordering::Relaxed), self.refused[number].load(Ordering::Relaxed))
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed) || self.has_failed()
    }

    fn noting_failure(&self, work: impl FnOnce()) {
        if catch_unwind(AssertUnwindSafe(work)).is_err() {
            self.has_failed.store(true, Ordering::Relaxed);
        }
    }

    fn call(&self, number: usize) {
        let (name, round) = CALLERS[number];
        let mut count = 0;
        while !self.is_over() {
            count += 1;
            let counter = match round(self.server, count) {
                Ok(Outcome::Done) => &self.done[number],
                Ok(Outcome::Refused(why)) => {
                    assert_ne!(why, "500", "{name}: the server failed by itself");
                    &self.refused[number]
                }
                Err(error) => panic!("{name}: {error}"),
            };
            counter.fetch_add(1, Ordering::Relaxed);
            park_timeout(PAUSE);
        }
    }

    /// Decides two of three; the deadline decides the others.
    fn decide(&self) {
        while !self.is_over() {
            park_timeout(DECIDE_INTERVAL);
            for (number, approval) in self.server.approvals("pending").iter().enumerate() {
                let Some(verdict) = ["allow", "deny"].get(number % 3) else { continue };
                let path = format!("/api/approvals/{}/decide", text(&approval["id"]));
                let answer =
                    self.server.post(&path, &json!({ "verdict": verdict, "shown_hash": approval["shown_hash"] }));
                self.decided.fetch_add(u64::from(answer.status == 200), Ordering::Relaxed);
            }
        }
    }

    fn kill(&self) {
        let mut last = Instant::now();
        while !self.is_over() {
            park_timeout(PAUSE);
            if last.elapsed() < KILL_INTERVAL {
                continue;
            }
            last = Instant::now();
            let workers = processes::children(self.server.pid()).into_iter().filter(|pid| is_worker(*pid));
            // The one that was started first, so that it is the turn of each.
            if let Some(oldest) = workers.min() {
                kill_process(Pid::from_raw(oldest.cast_signed()).unwrap(), Signal::KILL).unwrap();
                self.killed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

fn is_worker(pid: u32) -> bool {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    words.split(|byte| *byte == 0).any(|word| word == b"demo-worker")
}

impl fmt::Display for Load<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| callers | served | refused |\n|---|--:|--:|")?;
        for (number, name) in self.callers() {
            let (done, refused) = self.count(number);
            writeln!(f, "| {name} | {done} | {refused} |")?;
        }
        let (killed, decided) = (self.killed.load(Ordering::Relaxed), self.decided.load(Ordering::Relaxed));
        write!(f, "{killed} workers killed, {decided} approvals decided by a person")
    }
}

fn chat(prompt: &str) -> Value {
    json!({ "model": "codex", "messages": [{ "role": "user", "content": prompt }] })
}

/// What a POST is answered with; `Err` is a refusal.
fn post(server: &Server<'_>, path: &str, body: &Value) -> io::Result<Result<Value, Outcome>> {
    let answer = server.try_exchange("POST", path, &body.to_string())?;
    let is_done = (200..300).contains(&answer.status);
    Ok(if is_done { Ok(answer.body) } else { Err(Outcome::Refused(answer.status.to_string())) })
}

fn chat_whole(server: &Server<'_>, round: u64) -> io::Result<Outcome> {
    let words = format!("whole {round} is mine");
    Ok(match post(server, "/v1/chat/completions", &chat(&format!("[[say {words}]]")))? {
        Ok(answer) => {
            assert_eq!(text(&answer["choices"][0]["message"]["content"]).trim_end(), words);
            Outcome::Done
        }
        Err(refused) => refused,
    })
}

fn chat_streamed(server: &Server<'_>, round: u64) -> io::Result<Outcome> {
    let mut body = chat(&format!("[[deltas {}]]", 50 + round % 500));
    body["stream"] = true.into();
    let mut answer = String::new();
    server.request("POST", "/v1/chat/completions", &body.to_string())?.read_to_string(&mut answer)?;
    Ok(if answer.ends_with("data: [DONE]\n\n") { Outcome::Done } else { Outcome::Refused("broken off".into()) })
}

/// Goes in the middle of the answer.
fn chat_abandoned(server: &Server<'_>, _: u64) -> io::Result<Outcome> {
    let mut body = chat("[[slow 1000 20]]");
    body["stream"] = true.into();
    let mut lines = BufReader::new(server.request("POST", "/v1/chat/completions", &body.to_string())?);
    let mut line = String::new();
    while !line.contains("s1 ") {
        line.clear();
        if lines.read_line(&mut line)? == 0 {
            return Ok(Outcome::Refused("ended".into()));
        }
    }
    Ok(Outcome::Done)
}

/// A response, the next after it, both looked at, and every second conversation deleted.
fn response_stored(server: &Server<'_>, round: u64) -> io::Result<Outcome> {
    let first = match post(server, "/v1/responses", &json!({ "model": "codex", "input": "[[text]]" }))? {
        Ok(response) => response,
        Err(refused) => return Ok(refused),
    };
    let next = json!({ "model": "codex", "input": "[[reason]]", "previous_response_id": first["id"] });
    let second = match post(server, "/v1/responses", &next)? {
        Ok(response) => response,
        Err(refused) => return Ok(refused),
    };
    for response in [&first, &second] {
        let path = format!("/v1/responses/{}", text(&response["id"]));
        let found = server.try_exchange("GET", &path, "")?;
        assert_eq!((found.status, &found.body["id"]), (200, &response["id"]), "what was told is kept");
        if round.is_multiple_of(2) {
            assert_eq!(server.try_exchange("DELETE", &path, "")?.status, 200);
        }
    }
    Ok(Outcome::Done)
}

/// Comes back for it until it is over; every third is cancelled.
fn response_in_background(server: &Server<'_>, round: u64) -> io::Result<Outcome> {
    let body = json!({ "model": "codex", "input": "[[slow 20 20]]", "background": true });
    let begun = match post(server, "/v1/responses", &body)? {
        Ok(response) => response,
        Err(refused) => return Ok(refused),
    };
    let path = format!("/v1/responses/{}", text(&begun["id"]));
    if round.is_multiple_of(3) {
        server.try_exchange("POST", &format!("{path}/cancel"), "")?;
    }
    let started = Instant::now();
    loop {
        assert!(started.elapsed() < HANG_TIMEOUT, "{path} has no end");
        let found = server.try_exchange("GET", &path, "")?;
        match text(&found.body["status"]) {
            "completed" | "cancelled" => return Ok(Outcome::Done),
            "queued" | "in_progress" => park_timeout(PAUSE),
            other => return Ok(Outcome::Refused(other.into())),
        };
    }
}

/// Two responses on one connection; every third time it is left in the middle of a third.
fn over_websocket(server: &Server<'_>, round: u64) -> io::Result<Outcome> {
    let stream = TcpStream::connect(server.address())?;
    stream.set_read_timeout(Some(HANG_TIMEOUT))?;
    let mut request = "ws://localhost/v1/responses".into_client_request().unwrap();
    request.headers_mut().insert("x-api-key", server.served.key().parse().unwrap());
    let (mut socket, _) = client(request, stream).map_err(|error| io::Error::other(error.to_string()))?;
    for store in [true, false] {
        say(&mut socket, &json!({ "type": "response.create", "model": "codex", "input": "[[text]]", "store": store }))?;
        let end = hear(&mut socket, &["response.completed", "response.failed", "response.incomplete", "error"])?;
        if end != "response.completed" {
            return Ok(Outcome::Refused(end));
        }
    }
    if round.is_multiple_of(3) {
        say(&mut socket, &json!({ "type": "response.create", "model": "codex", "input": "[[slow 1000 20]]" }))?;
        hear(&mut socket, &["response.output_text.delta", "response.failed", "error"])?;
        return Ok(Outcome::Done);
    }
    socket.close(None).ok();
    while socket.read().is_ok() {}
    Ok(Outcome::Done)
}

fn say(socket: &mut WebSocket<TcpStream>, message: &Value) -> io::Result<()> {
    socket.send(Message::Text(message.to_string().into())).map_err(|error| io::Error::other(error.to_string()))
}

/// Reads until one of these events comes.
fn hear(socket: &mut WebSocket<TcpStream>, wanted: &[&str]) -> io::Result<String> {
    loop {
        let message = socket.read().map_err(|error| io::Error::other(error.to_string()))?;
        let Message::Text(message) = message else { continue };
        let event: Value = serde_json::from_str(&message)?;
        if let Some(found) = wanted.iter().find(|name| event["type"] == **name) {
            return Ok((*found).into());
        }
    }
}

/// A function is called; every third time its result never comes.
fn tool_call_parked(server: &Server<'_>, round: u64) -> io::Result<Outcome> {
    let mut body = chat(&format!("[[tool look {{\"round\":{round}}}]]"));
    body["tools"] = json!([{ "type": "function", "function": { "name": "look" } }]);
    let called = match post(server, "/v1/chat/completions", &body)? {
        Ok(answer) => answer,
        Err(refused) => return Ok(refused),
    };
    let message = &called["choices"][0]["message"];
    let Some(id) = message["tool_calls"][0]["id"].as_str() else { return Ok(Outcome::Refused("no call".into())) };
    if round.is_multiple_of(3) {
        return Ok(Outcome::Done);
    }
    let result = json!({ "role": "tool", "tool_call_id": id, "content": "seen" });
    let messages = body["messages"].as_array_mut().unwrap();
    messages.extend([message.clone(), result]);
    Ok(match post(server, "/v1/chat/completions", &body)? {
        Ok(_) => Outcome::Done,
        Err(refused) => refused,
    })
}

/// A session of a legacy client that calls a tool; some are left open, few enough for the first to be given up before the second half.
fn mcp_session(server: &Server<'_>, round: u64) -> io::Result<Outcome> {
    let accept = "accept: application/json, text/event-stream\r\n";
    let client = json!({ "name": "soak", "version": "1" });
    let params = json!({ "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": client });
    let begin = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
    let begun = server.served.post_with("/mcp", accept, &begin.to_string());
    let Some(id) = begun.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")) else {
        return Ok(Outcome::Refused(begun.lines().next().unwrap_or_default().into()));
    };
    let headers = format!("{accept}mcp-session-id: {id}\r\nmcp-protocol-version: {LEGACY}\r\n");
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    server.served.post_with("/mcp", &headers, &initialized.to_string());
    let params = json!({ "name": "dual__echo", "arguments": { "text": format!("said {round}") } });
    let call = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params });
    let answer = server.served.post_with("/mcp", &headers, &call.to_string());
    if !answer.contains(&format!("said {round}")) {
        return Ok(Outcome::Refused("no result".into()));
    }
    if !round.is_multiple_of(LEFT_OPEN_EVERY) {
        server.served.delete_with("/mcp", &headers);
    }
    Ok(Outcome::Done)
}

/// A turn that asks before its command, and is read to its end.
fn turn_with_approval(server: &Server<'_>, round: u64) -> io::Result<Outcome> {
    let begun = match post(server, "/api/turns", &json!({ "prompt": format!("[[shell touch file{round}]]") }))? {
        Ok(turn) => turn,
        Err(refused) => return Ok(refused),
    };
    let heard = server.hear(&begun);
    Ok(match (heard.ends, heard.status.as_str()) {
        (1, "completed") => Outcome::Done,
        (1, other) => Outcome::Refused(other.into()),
        (ends, _) => panic!("a turn ended {ends} times"),
    })
}
