//! The socket shell, with a real WebSocket client.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::clock::Now;
use crate::home::Home;
use crate::options::{Dialect, Listen};
use crate::script::Script;
use crate::shell::{Capture, sockets};
use crate::worker::Worker;

/// Everything here happens at once or never.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs a worker on a socket of its own until `talk` has made it end.
fn serve<T>(talk: impl AsyncFnOnce(&Path) -> T) -> T {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("worker.sock");
    let listen = Listen::Unix(path.clone());
    let home = Home::open(Some(directory.path().to_owned())).unwrap();
    let worker = Worker::new(Dialect::V2, home, Script::default(), Now::read());
    let shell = std::thread::spawn(move || sockets::run(worker, Capture::open(None).unwrap(), &listen));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let talked = runtime
        .block_on(async { tokio::time::timeout(PATIENCE, talk(&path)).await.expect("the worker answers in time") });
    assert_eq!(shell.join().unwrap().unwrap(), ExitCode::from(3));
    assert!(!path.exists(), "the socket is removed at the end");
    talked
}

/// The socket appears a moment after the worker has started.
async fn connected(path: &Path) -> UnixStream {
    loop {
        match UnixStream::connect(path).await {
            Ok(stream) => return stream,
            Err(_) => tokio::task::yield_now().await,
        }
    }
}

struct Client(WebSocketStream<UnixStream>);

impl Client {
    async fn new(path: &Path) -> Self {
        let (socket, _) = client_async("ws://localhost/", connected(path).await).await.unwrap();
        let mut client = Self(socket);
        let params = json!({"clientInfo": {"name": "test", "version": "0"}, "capabilities": {"experimentalApi": true}});
        client.call("initialize", params).await;
        client
    }

    async fn call(&mut self, method: &str, params: Value) -> Value {
        self.send(&json!({"id": method, "method": method, "params": params})).await;
        self.until(|message| message["id"] == method).await["result"].take()
    }

    async fn turn(&mut self, thread: &Value, text: &str) {
        let params = json!({"threadId": thread, "input": [{"type": "text", "text": text}]});
        self.send(&json!({"id": "turn", "method": "turn/start", "params": params})).await;
    }

    async fn end_worker(mut self, thread: &Value) {
        self.turn(thread, "[[crash 0 exit 3]]").await;
        while let Some(Ok(_)) = self.0.next().await {}
    }

    async fn send(&mut self, message: &Value) {
        self.0.send(Message::text(message.to_string())).await.unwrap();
    }

    async fn until(&mut self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let Message::Text(line) = self.0.next().await.unwrap().unwrap() else {
                continue;
            };
            let message = serde_json::from_str(&line).unwrap();
            if is_wanted(&message) {
                return message;
            }
        }
    }
}

#[test]
fn parked_tool_call_is_handed_to_a_new_connection() {
    let (first, again) = serve(async |path| {
        let tool = json!({"name": "ask", "description": "d", "inputSchema": {}});
        let mut client = Client::new(path).await;
        let opened = client.call("thread/start", json!({"cwd": "/", "dynamicTools": [tool]})).await;
        let thread = opened["thread"]["id"].clone();
        client.turn(&thread, "[[tool ask {}]]").await;
        let first = client.until(|message| message["method"] == "item/tool/call").await;
        drop(client);
        let mut client = Client::new(path).await;
        client.send(&json!({"id": 2, "method": "thread/resume", "params": {"threadId": thread}})).await;
        let again = client.until(|message| message["method"] == "item/tool/call").await;
        let answer = json!({"contentItems": [], "success": true});
        client.send(&json!({"id": again["id"], "result": answer})).await;
        client.until(|message| message["method"] == "turn/completed").await;
        client.end_worker(&thread).await;
        (first, again)
    });
    assert_eq!(first, again);
}

#[test]
fn long_line_and_flood_arrive_as_messages() {
    let (longest, deltas) = serve(async |path| {
        let mut client = Client::new(path).await;
        let thread = client.call("thread/start", json!({"cwd": "/"})).await["thread"]["id"].clone();
        client.turn(&thread, "[[line 3000000]]").await;
        let mut longest = 0;
        loop {
            let Message::Text(line) = client.0.next().await.unwrap().unwrap() else {
                continue;
            };
            longest = longest.max(line.len());
            if line.contains("turn/completed") {
                break;
            }
        }
        client.turn(&thread, "[[flood 5000]]").await;
        let mut deltas = 0;
        let is_end = |message: &Value| message["method"] == "turn/completed";
        let is_delta = |message: &Value| message["method"] == "item/agentMessage/delta";
        while !is_end(&client.until(|message| is_delta(message) || is_end(message)).await) {
            deltas += 1;
        }
        client.end_worker(&thread).await;
        (longest, deltas)
    });
    // A text frame needs no newline.
    assert_eq!((longest, deltas), (2_999_999, 5000));
}

#[test]
fn socket_is_private_and_browsers_are_refused() {
    serve(async |path| {
        let mut browser = connected(path).await;
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        browser.write_all(b"GET / HTTP/1.1\r\norigin: http://a\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        browser.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 403 Forbidden"), "{answer}");
        let mut client = Client::new(path).await;
        let thread = client.call("thread/start", json!({"cwd": "/"})).await["thread"]["id"].clone();
        client.end_worker(&thread).await;
    });
}

#[test]
fn file_in_the_way_is_left_alone() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("precious.txt");
    std::fs::write(&path, "keep me").unwrap();
    let home = Home::open(Some(directory.path().to_owned())).unwrap();
    let worker = Worker::new(Dialect::V2, home, Script::default(), Now::read());
    let refused = sockets::run(worker, Capture::open(None).unwrap(), &Listen::Unix(path.clone())).unwrap_err();
    assert!(refused.to_string().contains("is not a socket"), "{refused}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "keep me");
}

#[test]
fn client_that_does_not_read_stops_nobody_else() {
    serve(async |path| {
        let mut deaf = Client::new(path).await;
        let thread = deaf.call("thread/start", json!({"cwd": "/"})).await["thread"]["id"].clone();
        deaf.turn(&thread, "[[flood 1000000]]").await;
        let mut client = Client::new(path).await;
        let thread = client.call("thread/start", json!({"cwd": "/"})).await["thread"]["id"].clone();
        client.turn(&thread, "[[flood 20000]]").await;
        client.until(|message| message["method"] == "turn/completed").await;
        client.end_worker(&thread).await;
    });
}

#[test]
fn client_too_far_behind_is_disconnected() {
    serve(async |path| {
        let mut deaf = Client::new(path).await;
        // Every answer repeats its id: twice what may wait for one client.
        let echoed = json!({"id": "x".repeat(64 * 1024), "method": "none"}).to_string();
        let mut refused = None;
        for _ in 0..1024 {
            refused = deaf.0.send(Message::text(echoed.clone())).await.err();
            if refused.is_some() {
                break;
            }
        }
        assert!(refused.is_some(), "the worker still reads what it is sent");
        let mut client = Client::new(path).await;
        let thread = client.call("thread/start", json!({"cwd": "/"})).await["thread"]["id"].clone();
        client.end_worker(&thread).await;
    });
}
