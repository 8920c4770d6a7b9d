//! A server in a process of its own, as its callers and its operator see it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};
use testkit::HANG_TIMEOUT;
use testkit::processes;

use crate::command::State;
use crate::served::Served;

/// The one key of the installation: the same after a restart.
pub(super) const KEY: &str = "the-key-of-the-fault-run-0123456789abcdef";

/// Asks before every command, and serves turns by two groups of which neither knows the other.
pub(crate) const CONFIG: &str = r#"
[[workers]]
name = "main"
command = "demo"

[[workers]]
name = "quiet"
command = "demo"

[profiles.codex]
approval_policy = "untrusted"
"#;

pub(crate) struct Server<'a> {
    pub(crate) served: Served<'a>,
}

/// What an HTTP exchange came to.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

/// A turn as its reader saw it.
#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) text: String,
    pub(crate) ends: usize,
    pub(crate) status: String,
    /// Whether the stream said that something was left out.
    pub(crate) left_out: bool,
    /// How each command ended.
    pub(crate) commands: Vec<String>,
}

impl<'a> Server<'a> {
    pub(crate) fn start(state: &'a State, config: &str) -> Self {
        Self::start_with("", state.path(), state, config)
    }

    /// With its state on a disk of its own.
    pub(crate) fn start_on(disk: &Path, state: &'a State, config: &str) -> Self {
        Self::start_with("", disk, state, config)
    }

    /// Lets a shell say something before it becomes the server.
    pub(crate) fn start_after(prologue: &str, state: &'a State, config: &str) -> Self {
        Self::start_with(prologue, state.path(), state, config)
    }

    fn start_with(prologue: &str, state_dir: &Path, state: &'a State, config: &str) -> Self {
        let file = state.path().join("config.toml");
        fs::write(&file, config).unwrap();
        let arguments = ["--config", file.to_str().unwrap()];
        let state_dir = state_dir.to_str().unwrap();
        // Nobody reads the log before the end.
        let variables = [("SWITCHBOARD_KEY", KEY), ("SWITCHBOARD_LOG", "error"), ("SWITCHBOARD_STATE_DIR", state_dir)];
        Self { served: Served::start_after(prologue, state, &arguments, &variables) }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.served.run.pid()
    }

    pub(crate) fn address(&self) -> &str {
        self.served.url().strip_prefix("http://").unwrap()
    }

    /// The memory that it needs to serve one caller. How much that is depends on how the binary was built.
    pub(crate) fn memory_at_rest(&self) -> u64 {
        self.check_caller("quiet", 0);
        self.memory_peak()
    }

    /// The most memory that it has had so far.
    pub(crate) fn memory_peak(&self) -> u64 {
        processes::memory_peak(self.pid())
    }

    /// How many connections it has open, that of the question included.
    pub(crate) fn open_connections(&self) -> u64 {
        let mut stream = self.request("GET", "/metrics", "").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let open = answer.lines().find_map(|line| line.strip_prefix("switchboard_http_connections "));
        open.unwrap_or_else(|| panic!("no gauge in {answer}")).parse().unwrap()
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.try_exchange("GET", path, "").unwrap()
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.try_exchange("POST", path, &body.to_string()).unwrap()
    }

    pub(crate) fn try_exchange(&self, method: &str, path: &str, body: &str) -> std::io::Result<Answer> {
        let mut stream = self.request(method, path, body)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").ok_or(std::io::ErrorKind::UnexpectedEof)?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
        Ok(Answer { status, body: serde_json::from_str(body).unwrap_or_default() })
    }

    /// A connection on which something was asked. Of HTTP/1.0, so that a stream comes as it is, and not in chunks.
    pub(crate) fn request(&self, method: &str, path: &str, body: &str) -> std::io::Result<TcpStream> {
        let mut stream = self.begin_request(method, path, body.len())?;
        stream.write_all(body.as_bytes())?;
        Ok(stream)
    }

    /// The same before anything of its body was sent.
    pub(super) fn begin_request(&self, method: &str, path: &str, body_bytes: usize) -> std::io::Result<TcpStream> {
        let headers = format!("content-type: application/json\r\ncontent-length: {body_bytes}\r\n");
        self.send_head(KEY, &format!("{method} {path} HTTP/1.0"), &headers)
    }

    /// Another key, which may use the server.
    pub(super) fn create_key(&self) -> String {
        let created = self.post("/api/keys", &json!({"name": "another", "scopes": ["use"]}));
        assert_eq!(created.status, 201, "{}", created.body);
        text(&created.body["secret"]).into()
    }

    /// Sends a body with a key, and reads the status of the answer once it is whole.
    pub(super) fn post_as(&self, key: &str, path: &str, body: &str) -> std::io::Result<u16> {
        let headers = format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
        let mut stream = self.send_head(key, &format!("POST {path} HTTP/1.0"), &headers)?;
        stream.write_all(body.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        answer.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or(std::io::ErrorKind::InvalidData.into())
    }

    /// A connection on which a WebSocket was asked for.
    pub(super) fn begin_upgrade(&self, key: &str, path: &str) -> std::io::Result<TcpStream> {
        let headers = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
                       sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";
        self.send_head(key, &format!("GET {path} HTTP/1.1"), headers)
    }

    fn send_head(&self, key: &str, line: &str, headers: &str) -> std::io::Result<TcpStream> {
        let mut stream = TcpStream::connect(self.address())?;
        stream.set_read_timeout(Some(HANG_TIMEOUT))?;
        stream.set_write_timeout(Some(HANG_TIMEOUT))?;
        stream.write_all(format!("{line}\r\nhost: localhost\r\nx-api-key: {key}\r\n{headers}\r\n").as_bytes())?;
        Ok(stream)
    }

    /// Starts a turn in a new thread; the answer has its `turn` and its `thread`.
    pub(crate) fn turn(&self, group: &str, prompt: &str) -> Value {
        let started = self.post("/api/turns", &json!({ "prompt": prompt, "group": group }));
        assert_eq!(started.status, 201, "{}", started.body);
        started.body
    }

    /// The stream of a turn's events.
    pub(crate) fn events(&self, turn: &Value) -> TcpStream {
        self.request("GET", &format!("/api/turns/{}/events", text(&turn["turn"])), "").unwrap()
    }

    /// Reads a turn to its end.
    pub(crate) fn hear(&self, turn: &Value) -> Heard {
        Heard::of(Events(BufReader::new(self.events(turn))))
    }

    pub(crate) fn status_of(&self, turn: &Value) -> String {
        text(&self.get(&format!("/api/turns/{}", text(&turn["turn"]))).body["status"]).into()
    }

    /// Plays words that only this caller gets, and sees that they and no others come.
    pub(crate) fn check_caller(&self, group: &str, caller: usize) -> std::time::Duration {
        let words = super::words_of(caller, 30);
        let started = Instant::now();
        let heard = self.hear(&self.turn(group, &format!("[[say {words}]]")));
        assert_eq!((heard.text.trim_end(), heard.ends), (words.trim_end(), 1), "{}", heard.status);
        started.elapsed()
    }

    /// The approvals in a state, by id.
    pub(crate) fn approvals(&self, state: &str) -> Vec<Value> {
        let listed = self.get(&format!("/api/approvals?state={state}&limit=1000"));
        listed.body["approvals"].as_array().cloned().unwrap_or_default()
    }

    /// Stops it, and sees that nothing is left of it.
    pub(crate) fn stop(self) {
        let ended = self.served.stop();
        assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    }
}

impl Heard {
    /// Reads a stream to its end.
    pub(crate) fn of(events: Events) -> Self {
        let mut heard = Self::default();
        events.for_each(|event| heard.see(&event));
        heard
    }

    fn see(&mut self, event: &Value) {
        match text(&event["type"]) {
            "text" => self.text += text(&event["text"]),
            "cut" | "missed" | "too_long" | "warning" => self.left_out = true,
            "item_completed" if event["item"]["kind"] == "command_execution" => {
                self.commands.push(text(&event["item"]["status"]).into());
            }
            "turn_ended" => {
                self.ends += 1;
                self.status = text(&event["status"]).into();
            }
            _ => {}
        }
    }
}

/// The events of a stream.
pub(crate) struct Events(pub(crate) BufReader<TcpStream>);

impl Iterator for Events {
    type Item = Value;

    fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        loop {
            line.clear();
            if self.0.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            if let Some(event) = line.strip_prefix("data:") {
                return Some(serde_json::from_str(event).unwrap());
            }
        }
    }
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
