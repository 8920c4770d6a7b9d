//! Transports with a real connection above them and real peers below: the demo worker, peers made up for one fault each,
//! shell scripts, and the real codex.

mod child;
mod demo;
mod peers;
#[cfg(feature = "real-codex")]
mod real;
mod tls;

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use supervise::Ladder;
use tokio::time::{Instant, timeout};
use wire::{CallId, Connection, Event, Json, JsonRpcField, Limits, Outcome};

use super::{ConnectError, End, Reading, Ready, SocketLimits, Transport};
use crate::endpoint::Endpoint;

/// Only a failure takes so long.
const DEADLINE: Duration = Duration::from_secs(60);

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { timeout(DEADLINE, test).await.expect("the test took too long") })
}

/// A connection and the transport that carries it.
struct Talk {
    connection: Connection,
    transport: Transport,
}

impl Talk {
    fn new(transport: Transport) -> Self {
        Self { connection: Connection::new(Limits::default(), JsonRpcField::Omitted), transport }
    }

    async fn connect(endpoint: &Endpoint) -> Result<Self, ConnectError> {
        Self::connect_within(endpoint, SocketLimits::default()).await
    }

    async fn connect_within(endpoint: &Endpoint, limits: SocketLimits) -> Result<Self, ConnectError> {
        Transport::connect(endpoint, limits).await.map(Self::new)
    }

    /// The loop that every owner of a connection runs.
    async fn next(&mut self) -> Option<Event> {
        loop {
            self.transport.transmit(&mut self.connection, None);
            self.transport.feed(&mut self.connection, None);
            if let Some(event) = self.connection.poll_event() {
                return Some(event);
            }
            if self.connection.is_closed() {
                return None;
            }
            let reading = if self.connection.wants_read() { Reading::Wanted } else { Reading::Paused };
            if self.transport.ready(reading).await == Ready::Ended {
                self.connection.handle_eof();
            }
        }
    }

    fn send(&mut self, method: &str, params: &Value) -> CallId {
        let deadline = Instant::now() + DEADLINE;
        self.connection.call(method, Some(&Json::of(params).unwrap()), deadline.into_std()).unwrap()
    }

    async fn call(&mut self, method: &str, params: &Value) -> Value {
        let sent = self.send(method, params);
        match self.settled(sent).await {
            Outcome::Answered(result) => result.parse().unwrap(),
            other => panic!("{method}: {other}"),
        }
    }

    async fn settled(&mut self, sent: CallId) -> Outcome {
        loop {
            match self.next().await.expect("the connection is open") {
                Event::Settled { call, outcome } if call == sent => return outcome,
                _ => {}
            }
        }
    }

    async fn initialize(&mut self) -> Value {
        let params = json!({"clientInfo": {"name": "test", "version": "0"}, "capabilities": {"experimentalApi": true}});
        self.call("initialize", &params).await
    }

    /// Starts a thread, and a turn with this prompt in it.
    async fn turn(&mut self, cwd: &Path, prompt: &str) {
        let thread = self.call("thread/start", &json!({"cwd": cwd})).await["thread"]["id"].clone();
        let params = json!({"threadId": thread, "input": [{"type": "text", "text": prompt}]});
        self.send("turn/start", &params);
    }

    /// The text of the turn that runs, up to its end, and what was reported on the way.
    async fn text(&mut self) -> (String, Vec<String>) {
        let (mut text, mut reports) = (String::new(), Vec::new());
        loop {
            match self.next().await.expect("the turn ends before the connection") {
                Event::Notification(told) if &*told.method == "item/agentMessage/delta" => {
                    let params: Value = told.params.unwrap().parse().unwrap();
                    text.push_str(params["delta"].as_str().unwrap());
                }
                Event::Notification(told) if &*told.method == "turn/completed" => return (text, reports),
                Event::Reported(report) => reports.push(report.to_string()),
                _ => {}
            }
        }
    }

    /// Takes events until there are no more.
    async fn drain(&mut self) {
        while self.next().await.is_some() {}
    }

    async fn stop(self) -> End {
        self.transport.stop(Ladder::default()).await
    }

    /// How it ended, once it ends by itself.
    async fn end(mut self) -> String {
        self.drain().await;
        self.stop().await.to_string()
    }
}
