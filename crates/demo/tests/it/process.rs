//! The demo worker as a process: what only its streams, its sockets, its signals and its end can show.

#![expect(clippy::unwrap_used, reason = "whatever fails here fails its test")]

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::HANG_TIMEOUT;
use tokio_tungstenite::tungstenite::{Message, WebSocket, client};

/// Lines that wait for a test to look at them.
const LINES_MAX: usize = 1024;

/// A worker with a home of its own; it does not outlive its test.
struct Running {
    child: Child,
    stderr: Receiver<String>,
    _home: TempDir,
}

impl Running {
    fn start(arguments: &[&str]) -> Self {
        Self::start_with("", arguments)
    }

    #[expect(clippy::disallowed_methods, reason = "the test is about the process")]
    fn start_with(script: &str, arguments: &[&str]) -> Self {
        let home = TempDir::new().unwrap();
        let file = home.path().join("script.toml");
        std::fs::write(&file, script).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_demo-worker"))
            .args(arguments)
            .arg("--script")
            .arg(file)
            .env("CODEX_HOME", home.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = lines(child.stderr.take().unwrap());
        Self { child, stderr, _home: home }
    }

    /// Its standard input and output, with a thread opened.
    fn stdio(&mut self) -> Client {
        let (stdin, stdout) = (self.child.stdin.take().unwrap(), self.child.stdout.take().unwrap());
        Client::open(Link::Stdio { stdin, stdout: lines(stdout) })
    }

    /// Where it listens, as HOST:PORT.
    fn address(&self) -> String {
        self.logged("listening on ws://")
    }

    /// What follows `words` on standard error.
    fn logged(&self, words: &str) -> String {
        let deadline = Instant::now() + HANG_TIMEOUT;
        loop {
            let line = self.stderr.recv_timeout(left(deadline)).unwrap_or_else(|_| panic!("no {words:?} on stderr"));
            if let Some((_, rest)) = line.split_once(words) {
                return rest.to_owned();
            }
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// How it ended, and what it still said on standard error.
    fn end(mut self) -> (ExitStatus, String) {
        let deadline = Instant::now() + HANG_TIMEOUT;
        let mut said = String::new();
        loop {
            match self.stderr.recv_timeout(left(deadline)) {
                Ok(line) => said.push_str(&line),
                // A process lets go of its standard error by ending.
                Err(RecvTimeoutError::Disconnected) => return (self.child.wait().unwrap(), said),
                Err(RecvTimeoutError::Timeout) => panic!("the worker has not ended"),
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

/// The lines of a stream, as they come, until it ends.
fn lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = sync_channel(LINES_MAX);
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

enum Link {
    Stdio { stdin: ChildStdin, stdout: Receiver<String> },
    Socket(Box<WebSocket<TcpStream>>),
}

impl Link {
    fn connect(address: &str) -> Self {
        let (socket, _) = client(format!("ws://{address}/"), connected(address)).unwrap();
        Self::Socket(Box::new(socket))
    }

    fn send(&mut self, line: &str) {
        match self {
            Self::Stdio { stdin, .. } => writeln!(stdin, "{line}").unwrap(),
            Self::Socket(socket) => socket.send(Message::text(line)).unwrap(),
        }
    }

    fn receive(&mut self) -> String {
        match self {
            Self::Stdio { stdout, .. } => stdout.recv_timeout(HANG_TIMEOUT).expect("a line in time"),
            Self::Socket(socket) => socket.read().expect("a message in time").into_text().unwrap().to_string(),
        }
    }
}

fn connected(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(HANG_TIMEOUT)).unwrap();
    stream.set_write_timeout(Some(HANG_TIMEOUT)).unwrap();
    stream
}

/// A client with a thread.
struct Client {
    link: Link,
    thread: Value,
}

impl Client {
    fn open(link: Link) -> Self {
        let mut client = Self { link, thread: Value::Null };
        client.call("initialize", &json!({"clientInfo": {"name": "test", "version": "0"}}));
        client.thread = client.call("thread/start", &json!({"cwd": "/"}))["thread"]["id"].take();
        client
    }

    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.link.send(&json!({"id": method, "method": method, "params": params}).to_string());
        self.until(|message| message["id"] == method)["result"].take()
    }

    fn turn(&mut self, prompt: &str) {
        let params = json!({"threadId": self.thread, "input": [{"type": "text", "text": prompt}]});
        self.link.send(&json!({"id": "turn", "method": "turn/start", "params": params}).to_string());
    }

    fn until(&mut self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + HANG_TIMEOUT;
        while !left(deadline).is_zero() {
            let message = serde_json::from_str(&self.link.receive()).unwrap();
            if is_wanted(&message) {
                return message;
            }
        }
        panic!("the message has not come");
    }

    fn until_method(&mut self, method: &str) -> Value {
        self.until(|message| message["method"] == method)
    }
}

#[test]
fn listening_worker_plays_a_turn_over_tcp_and_ends_at_sigterm() {
    let worker = Running::start(&["--listen", "ws://127.0.0.1:0"]);
    let mut client = Client::open(Link::connect(&worker.address()));
    client.turn("[[text]]");
    let completed = client.until_method("turn/completed");
    assert_eq!(completed["params"]["turn"]["status"], "completed");
    worker.signal(Signal::TERM);
    assert_eq!(worker.end().0.code(), Some(0));
}

#[test]
fn what_was_said_before_the_end_is_heard_over_a_socket() {
    let worker = Running::start(&["--listen", "ws://127.0.0.1:0"]);
    let mut client = Client::open(Link::connect(&worker.address()));
    client.turn("[[crash 3 exit 7]]");
    for _ in 0..3 {
        client.until_method("item/agentMessage/delta");
    }
    assert_eq!(worker.end().0.code(), Some(7));

    let worker = Running::start(&["--listen", "ws://127.0.0.1:0"]);
    let mut client = Client::open(Link::connect(&worker.address()));
    client.turn("[[slow 4 50]]");
    client.until_method("item/agentMessage/delta");
    worker.signal(Signal::TERM);
    client.until_method("turn/completed");
    assert_eq!(worker.end().0.code(), Some(0));
}

#[test]
fn health_is_told_and_browsers_are_refused() {
    let worker = Running::start(&["--listen", "ws://127.0.0.1:0"]);
    let address = worker.address();
    let answer = |request: &str| {
        let mut stream = connected(&address);
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.lines().next().unwrap_or_default().to_owned()
    };
    assert_eq!(answer("GET /readyz HTTP/1.1\r\n\r\n"), "HTTP/1.1 200 OK");
    assert_eq!(answer("GET /readyz HTTP/1.1\r\norigin: http://a\r\n\r\n"), "HTTP/1.1 403 Forbidden");
}

#[test]
fn address_beyond_loopback_is_refused() {
    let (status, said) = Running::start(&["--listen", "ws://0.0.0.0:0"]).end();
    assert_eq!(status.code(), Some(1));
    assert!(said.contains("refusing a non-loopback address"), "{said}");
}

#[test]
fn hanging_turn_of_a_listening_worker_takes_two_sigterms() {
    let worker = Running::start(&["--listen", "ws://127.0.0.1:0"]);
    let mut client = Client::open(Link::connect(&worker.address()));
    client.turn("[[hang]]");
    client.until_method("turn/started");
    worker.signal(Signal::TERM);
    client.call("thread/loaded/list", &json!({}));
    worker.signal(Signal::TERM);
    assert_eq!(worker.end().0.code(), Some(0));
}

#[test]
fn deaf_worker_ends_only_by_sigkill() {
    let mut worker = Running::start_with("process.ignore_sigterm = true", &[]);
    let mut client = worker.stdio();
    for _ in 0..3 {
        worker.signal(Signal::TERM);
        client.call("thread/loaded/list", &json!({}));
    }
    worker.signal(Signal::KILL);
    assert_eq!(worker.end().0.signal(), Some(Signal::KILL.as_raw()));
}

#[test]
fn crash_ends_by_the_signal_it_names_after_its_deltas() {
    for (ending, signal) in [("abort", Signal::ABORT), ("kill", Signal::KILL)] {
        let mut worker = Running::start(&[]);
        let mut client = worker.stdio();
        client.turn(&format!("[[crash 2 {ending}]]"));
        for _ in 0..2 {
            client.until_method("item/agentMessage/delta");
        }
        assert_eq!(worker.end().0.signal(), Some(signal.as_raw()), "{ending}");
    }
}

#[test]
fn exit_at_start_comes_before_any_word() {
    let mut worker = Running::start_with("process.exit_at_start = 3", &[]);
    let stdout = lines(worker.child.stdout.take().unwrap());
    assert_eq!(stdout.recv_timeout(HANG_TIMEOUT), Err(RecvTimeoutError::Disconnected));
    assert_eq!(worker.end().0.code(), Some(3));
}

#[test]
fn orphan_outlives_the_worker() {
    let mut worker = Running::start(&[]);
    let mut client = worker.stdio();
    client.turn("[[orphan own]]");
    let orphan = Pid::from_raw(worker.logged("left behind ").parse().unwrap()).unwrap();
    client.until_method("turn/completed");
    // Its standard input ends.
    drop(client);
    let (status, _) = worker.end();
    let is_alive = test_kill_process(orphan).is_ok();
    let _ = kill_process(orphan, Signal::KILL);
    assert_eq!((status.code(), is_alive), (Some(0), true));
}

#[test]
fn capture_holds_exactly_the_lines_that_were_sent() {
    let directory = TempDir::new().unwrap();
    let capture = directory.path().join("capture.jsonl");
    let mut worker = Running::start(&["--capture", capture.to_str().unwrap()]);
    let mut stdin = worker.child.stdin.take().unwrap();
    let sent = concat!(
        r#"{"id":1,"method":"initialize","params":{"clientInfo":{"name":"test","version":"0"}}}"#,
        "\n{ \"method\" :\t\"initialized\" }\nno JSON at all: ä\n\n",
        r#"{"id":2,"method":"thread/start","params":{}}"#,
        "\n",
    );
    stdin.write_all(sent.as_bytes()).unwrap();
    drop(stdin);
    assert_eq!(worker.end().0.code(), Some(0));
    assert_eq!(std::fs::read_to_string(capture).unwrap(), sent);
}
