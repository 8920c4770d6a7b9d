//! A running server: started with the demo worker, asked over HTTP and by the commands, and stopped.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::command::{Ended, Run, State};

/// Far beyond what anything here takes.
const DEADLINE: Duration = Duration::from_secs(120);

/// A server that serves.
pub(crate) struct Served<'a> {
    pub(crate) state: &'a State,
    pub(crate) run: Run,
    /// What it said when it began.
    pub(crate) welcome: Value,
    /// The key that it was given, or else made.
    key: String,
}

impl<'a> Served<'a> {
    /// Starts a server with the demo worker.
    pub(crate) fn start(state: &'a State) -> Self {
        Self::start_with(state, &["--worker", "demo"], &[])
    }

    pub(crate) fn start_with(state: &'a State, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        Self::start_after("", state, arguments, variables)
    }

    /// Lets a shell say something before it becomes the server.
    pub(crate) fn start_after(
        prologue: &str,
        state: &'a State,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        Self::start_all(prologue, "127.0.0.1:0", state, arguments, variables)
    }

    /// Lets it listen at this address.
    pub(crate) fn start_at(address: &str, state: &'a State, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        Self::start_all("", address, state, arguments, variables)
    }

    fn start_all(
        prologue: &str,
        address: &str,
        state: &'a State,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        let all = [&["serve", "--json", "--listen", address], arguments].concat();
        let mut run = state.run_after(prologue, &all, variables);
        let welcome = run.line();
        let welcome: Value = serde_json::from_str(&welcome).unwrap_or_else(|_| panic!("{welcome}{}", run.stderr_now()));
        let given = variables.iter().find(|(name, _)| *name == "SWITCHBOARD_KEY").map(|(_, key)| *key);
        let key = given.or(welcome["key"].as_str()).unwrap_or_default().to_owned();
        let served = Self { state, run, welcome, key };
        served.wait_until("ready", |served| served.get("/readyz").starts_with("HTTP/1.1 200"));
        served
    }

    pub(crate) fn url(&self) -> &str {
        self.welcome["url"].as_str().unwrap()
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Runs another command against it.
    pub(crate) fn command(&self, arguments: &[&str]) -> Ended {
        self.state.run_with(arguments, &[]).end_beside_others()
    }

    /// Accepts what its configuration file says now.
    pub(crate) fn accept_configuration(&self) -> Ended {
        let ended = self.command(&["config", "accept", "--yes"]);
        assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
        ended
    }

    /// The same, of which JSON is expected.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let ended = self.command(&[arguments, &["--json"]].concat());
        assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
        serde_json::from_str(&ended.stdout).unwrap()
    }

    pub(crate) fn get(&self, path: &str) -> String {
        self.exchange(&format!("GET {path} HTTP/1.1\r\n"), "")
    }

    /// The same, with another key.
    pub(crate) fn get_as(&self, key: &str, path: &str) -> String {
        self.exchange_as(key, &format!("GET {path} HTTP/1.1\r\n"), "")
    }

    /// Posts with another key.
    pub(crate) fn post_as(&self, key: &str, path: &str, body: &str) -> String {
        let length = body.len();
        let head = format!("POST {path} HTTP/1.1\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n");
        self.exchange_as(key, &head, body)
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> String {
        self.post_with(path, "", body)
    }

    /// The same, with these headers besides.
    pub(crate) fn post_with(&self, path: &str, headers: &str, body: &str) -> String {
        let length = body.len();
        let head =
            format!("POST {path} HTTP/1.1\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{headers}");
        self.exchange(&head, body)
    }

    #[cfg(feature = "soak")]
    pub(crate) fn delete_with(&self, path: &str, headers: &str) -> String {
        self.exchange(&format!("DELETE {path} HTTP/1.1\r\n{headers}"), "")
    }

    /// The whole answer, head and all.
    fn exchange(&self, head: &str, body: &str) -> String {
        self.exchange_as(&self.key, head, body)
    }

    fn exchange_as(&self, key: &str, head: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(self.url().strip_prefix("http://").unwrap()).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let request = format!("{head}host: localhost\r\nx-api-key: {key}\r\nconnection: close\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Waits until something is so.
    pub(crate) fn wait_until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + DEADLINE;
        while !is_so(self) {
            assert!(Instant::now() < deadline, "not in time: {what}");
            std::thread::yield_now();
        }
    }

    /// Asks it to stop, and makes sure that nothing is left of it.
    pub(crate) fn stop(self) -> Ended {
        self.run.signal(Signal::TERM);
        self.run.end()
    }
}
