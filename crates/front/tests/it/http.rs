//! As much of an HTTP client as the tests need: what is sent and what comes back stay readable as text.

use std::net::SocketAddr;

use serde_json::Value;
use testkit::HANG_TIMEOUT;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// One who sends requests with one key.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) address: SocketAddr,
    pub(crate) key: String,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: String,
    pub(crate) body: String,
}

impl Caller {
    /// The id of its key.
    pub(crate) fn id(&self) -> &str {
        self.key.split('_').nth(1).unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask(&format!("GET {path}"), "", "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Answer {
        self.post_with(path, "", body).await
    }

    /// The same, with these headers besides, each a line.
    pub(crate) async fn post_with(&self, path: &str, headers: &str, body: &str) -> Answer {
        self.ask(&format!("POST {path}"), headers, body).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.ask(&format!("DELETE {path}"), "", "").await
    }

    async fn ask(&self, line: &str, headers: &str, body: &str) -> Answer {
        let length = body.len();
        let head = format!("host: localhost\r\nauthorization: Bearer {}\r\nconnection: close", self.key);
        let text = format!(
            "{line} HTTP/1.1\r\n{head}\r\n{headers}content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        let answer = exchange(self.address, &text).await;
        let (headers, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        let status = headers.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, headers: headers.into(), body: body.into() }
    }

    /// Sends a request and follows the stream of events that it is answered with.
    pub(crate) async fn stream(&self, path: &str, headers: &str, body: &str) -> Events {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let Self { key, .. } = self;
        let head = format!("POST {path} HTTP/1.0\r\nhost: localhost\r\nx-api-key: {key}\r\n{headers}");
        let length = body.len();
        let text = format!("{head}content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}");
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut events = Events { lines: BufReader::new(stream), id: String::new() };
        let status = events.line().await.unwrap();
        assert!(status.contains("200 OK"), "{status}");
        while !events.line().await.unwrap().is_empty() {}
        events
    }

    /// Follows a stream of events.
    pub(crate) async fn events(&self, path: &str, last_event_id: &str) -> Events {
        let last = if last_event_id.is_empty() { String::new() } else { format!("last-event-id: {last_event_id}\r\n") };
        self.events_with(path, &last).await
    }

    /// The same, asked for with these headers.
    pub(crate) async fn events_with(&self, path: &str, headers: &str) -> Events {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // A 1.0 client gets the stream as it is, not in chunks.
        let head = format!("GET {path} HTTP/1.0\r\nhost: localhost\r\nx-api-key: {}\r\n{headers}\r\n", self.key);
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut events = Events { lines: BufReader::new(stream), id: String::new() };
        let status = events.line().await.unwrap();
        assert!(status.contains("200 OK"), "{status}");
        while !events.line().await.unwrap().is_empty() {}
        events
    }
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// `status code`, for what was refused.
    pub(crate) fn refusal(&self) -> String {
        format!("{} {}", self.status, self.json()["error"]["code"].as_str().unwrap_or_default())
    }
}

/// A stream of events, as it comes.
pub(crate) struct Events {
    lines: BufReader<TcpStream>,
    /// Of the last event.
    pub(crate) id: String,
}

impl Events {
    /// The next event; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        let event = async {
            loop {
                let line = self.line().await?;
                if let Some(id) = line.strip_prefix("id: ") {
                    self.id = id.into();
                } else if let Some(data) = line.strip_prefix("data: ") {
                    if data == "[DONE]" {
                        return Some(Value::from(data));
                    }
                    return Some(serde_json::from_str(data).unwrap());
                }
            }
        };
        // Heartbeats alone are not enough.
        timeout(HANG_TIMEOUT, event).await.expect("an event comes, or the end")
    }

    /// The next event of this type.
    pub(crate) async fn until(&mut self, kind: &str) -> Value {
        loop {
            let event = self.next().await.unwrap_or_else(|| panic!("the stream ended before {kind}"));
            if event["type"] == kind {
                return event;
            }
        }
    }

    /// Everything up to the end of the stream.
    pub(crate) async fn rest(&mut self) -> Vec<Value> {
        let mut rest = Vec::new();
        while let Some(event) = self.next().await {
            rest.push(event);
        }
        rest
    }

    /// The next line, whatever it is.
    pub(crate) async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read =
            timeout(HANG_TIMEOUT, self.lines.read_line(&mut line)).await.expect("a stream goes on or ends").ok()?;
        (read > 0).then(|| line.trim_end().to_owned())
    }
}

/// Sends these bytes and gives what comes back until the other side closes, without its date and the request's name.
pub(crate) async fn exchange(address: SocketAddr, text: &str) -> String {
    let answer = exchange_whole(address, text).await;
    let is_fixed = |line: &&str| !line.starts_with("date: ") && !line.starts_with("x-request-id: ");
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) => {
            let head: Vec<_> = head.split("\r\n").filter(is_fixed).collect();
            format!("{}\r\n\r\n{body}", head.join("\r\n"))
        }
        None => answer,
    }
}

/// The same with everything.
pub(crate) async fn exchange_whole(address: SocketAddr, text: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    timeout(HANG_TIMEOUT, stream.read_to_end(&mut answer)).await.expect("an answer comes").unwrap();
    String::from_utf8(answer).unwrap()
}
