//! Sessions of legacy callers over HTTP: between two requests nothing runs for them, and nothing that they have set or were to
//! be told is lost.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt as _;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, BodyStream, Full};
use serde_json::{Value, json};
use tokio_util::bytes::Bytes;
use tools::{Caller, HttpEndpoint, Limits};

use crate::callers::{Answer, ask, house};
use crate::house::{House, PATIENCE, server};

const KEY: &str = "key";
const COUNTER: &str = "gallery://counter";

/// A caller with its session.
struct Visitor<'a> {
    endpoint: &'a HttpEndpoint,
    session: String,
}

/// One event of a stream.
#[derive(Debug)]
struct Event {
    id: Option<String>,
    data: Value,
}

impl<'a> Visitor<'a> {
    async fn new(endpoint: &'a HttpEndpoint) -> Self {
        let answer = initialize(endpoint, KEY, &json!({ "elicitation": {} })).await;
        Self { endpoint, session: answer.headers()["mcp-session-id"].to_str().unwrap().to_owned() }
    }

    /// Begins a request, and does not read the answer yet.
    async fn begin(&self, method: &str, params: Value) -> Answer {
        self.post(&json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params })).await
    }

    async fn post(&self, message: &Value) -> Answer {
        ask(self.endpoint, KEY, &[("mcp-session-id", &self.session)], message).await
    }

    async fn ask(&self, method: &str, params: Value) -> Value {
        let answer = self.begin(method, params).await;
        assert_eq!(answer.status(), StatusCode::OK);
        let events = until(answer, |event| event.data["id"] == 7).await;
        events.last().unwrap().data["result"].clone()
    }

    async fn call(&self, tool: &str) -> Value {
        self.ask("tools/call", json!({ "name": tool, "arguments": {} })).await
    }

    /// The stream that belongs to no request, or that which had this event.
    async fn listen(&self, last_event_id: Option<&str>) -> Answer {
        let mut request = Request::get("/mcp")
            .header("host", "127.0.0.1")
            .header("accept", "text/event-stream")
            .header("mcp-session-id", &self.session)
            .extension(Caller::new(KEY, "test"));
        if let Some(id) = last_event_id {
            request = request.header("last-event-id", id);
        }
        self.endpoint.answer(request.body(Full::new(Bytes::new())).unwrap()).await
    }
}

async fn initialize(endpoint: &HttpEndpoint, key: &str, capabilities: &Value) -> Answer {
    let client = json!({ "name": "test", "version": "1" });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": client });
    ask(endpoint, key, &[], &json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params })).await
}

/// Reads events up to the one that is looked for, and leaves the stream.
async fn until(answer: Answer, is_last: impl Fn(&Event) -> bool) -> Vec<Event> {
    let mut frames = pin!(BodyStream::new(answer.into_body()));
    let (mut text, mut events) = (String::new(), Vec::new());
    loop {
        while let Some((event, rest)) = text.split_once("\n\n") {
            let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
            let id = field("id:").map(str::to_owned);
            let data = field("data:").and_then(|data| serde_json::from_str(data).ok()).unwrap_or_default();
            events.push(Event { id, data });
            text = rest.to_owned();
            if is_last(&events[events.len() - 1]) {
                return events;
            }
        }
        let frame = tokio::time::timeout(PATIENCE, frames.next()).await;
        let frame = frame.unwrap_or_else(|_| panic!("it never came: {events:?}"));
        let frame = frame.unwrap_or_else(|| panic!("the stream ended: {events:?}")).unwrap();
        text += &String::from_utf8_lossy(&frame.into_data().unwrap());
    }
}

fn told(method: &str) -> impl Fn(&Event) -> bool {
    let method = format!("notifications/{method}");
    move |event| event.data["method"] == method
}

async fn ready() -> (House, HttpEndpoint) {
    let (house, endpoint) = house(vec![server("g", "legacy")], Limits::default());
    house.until_ready("g").await;
    (house, endpoint)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_while_a_caller_is_away_is_told_when_it_listens() {
    let (house, endpoint) = ready().await;
    let visitor = Visitor::new(&endpoint).await;
    visitor.ask("resources/subscribe", json!({ "uri": COUNTER })).await;
    visitor.call("g__change").await;
    house.until("g", |view| view.tools.contains(&"g__extra".to_owned())).await;
    let events = until(visitor.listen(None).await, told("tools/list_changed")).await;
    let last = events.last().unwrap().id.clone();
    assert!(last.is_some(), "it can be resumed from: {events:?}");
    visitor.call("g__touch").await;
    let events = until(visitor.listen(None).await, told("resources/updated")).await;
    assert!(!events.iter().any(told("tools/list_changed")), "it was told before: {events:?}");
    // A caller that has lost its stream says what it has heard last: all that came after it is told again.
    let events = until(visitor.listen(last.as_deref()).await, told("resources/updated")).await;
    assert!(!events.iter().any(told("tools/list_changed")), "{events:?}");
    let events = until(visitor.listen(Some("change-0")).await, told("resources/updated")).await;
    assert!(events.iter().any(told("tools/list_changed")), "{events:?}");
    house.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_logged_reaches_the_stream_of_a_session_with_the_level_that_was_set() {
    let (house, endpoint) = ready().await;
    let visitor = Visitor::new(&endpoint).await;
    visitor.ask("logging/setLevel", json!({ "level": "info" })).await;
    let log = json!({ "name": "g__log", "arguments": { "text": "before" } });
    visitor.ask("tools/call", log.clone()).await;
    let stream = visitor.listen(None).await;
    let events = until(stream, told("message")).await;
    assert!(events.last().unwrap().data.to_string().contains("before"), "{events:?}");
    let stream = visitor.listen(None).await;
    visitor.ask("tools/call", log).await;
    until(stream, told("message")).await;
    house.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_asked_on_the_stream_of_its_call_and_answered_by_another_request() {
    let (house, endpoint) = ready().await;
    let visitor = Visitor::new(&endpoint).await;
    let call = visitor.begin("tools/call", json!({ "name": "g__ask", "arguments": {} })).await;
    let mut frames = BodyStream::new(call.into_body());
    let mut text = String::new();
    while !text.contains("elicitation/create") {
        let frame = tokio::time::timeout(PATIENCE, frames.next()).await.unwrap().unwrap().unwrap();
        text += &String::from_utf8_lossy(&frame.into_data().unwrap());
    }
    let question =
        text.lines().filter_map(|line| line.strip_prefix("data: ")).find(|line| line.contains("elicitation"));
    let question: Value = serde_json::from_str(question.unwrap()).unwrap();
    let result = json!({ "action": "accept", "content": { "name": "ada" } });
    let answered = visitor.post(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": result })).await;
    assert_eq!(answered.status(), StatusCode::ACCEPTED);
    let rest = tokio::time::timeout(PATIENCE, frames.next()).await.unwrap().unwrap().unwrap();
    let rest = String::from_utf8_lossy(&rest.into_data().unwrap()).into_owned();
    assert!(rest.contains("ada"), "{rest}");
    house.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_stream_breaks_runs_on_and_can_be_resumed() {
    let (house, endpoint) = ready().await;
    let visitor = Visitor::new(&endpoint).await;
    let call = visitor.begin("tools/call", json!({ "name": "g__ask", "arguments": {} })).await;
    // The id of the stream, then the question; then its caller loses it.
    let events = until(call, |event| event.data["method"] == "elicitation/create").await;
    let (first, question) = (events[0].id.clone().unwrap(), events.last().unwrap().data["id"].clone());
    let resumed = visitor.listen(Some(&first)).await;
    let result = json!({ "action": "accept", "content": { "name": "ada" } });
    visitor.post(&json!({ "jsonrpc": "2.0", "id": question, "result": result })).await;
    let events = until(resumed, |event| event.data["id"] == 7 && event.data["result"].is_object()).await;
    assert!(events.last().unwrap().data.to_string().contains("ada"), "{events:?}");
    house.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_ended_ends_its_stream_and_its_calls() {
    let (house, endpoint) = ready().await;
    let visitor = Visitor::new(&endpoint).await;
    let stream = visitor.listen(None).await;
    let call = visitor.begin("tools/call", json!({ "name": "g__hang", "arguments": {} })).await;
    crate::meetings::until_sent(&house, "tools/call").await;
    let request = Request::delete("/mcp").header("host", "127.0.0.1").header("mcp-session-id", &visitor.session);
    let request = request.extension(Caller::new(KEY, "test")).body(Full::new(Bytes::new())).unwrap();
    assert_eq!(endpoint.answer(request).await.status(), StatusCode::NO_CONTENT);
    for answer in [stream, call] {
        tokio::time::timeout(PATIENCE, answer.into_body().collect()).await.expect("it ends").unwrap();
    }
    assert_eq!(visitor.begin("ping", json!({})).await.status(), StatusCode::NOT_FOUND);
    let begun = std::time::Instant::now();
    while house.called() != ["g hang cancelled"] {
        assert!(begun.elapsed() < PATIENCE, "{:?}", house.called());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    house.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_says_too_much_of_itself_gets_no_session() {
    let (house, endpoint) = ready().await;
    let much = json!({ "experimental": { "much": { "text": "x".repeat(100_000) } } });
    let refused = initialize(&endpoint, KEY, &much).await;
    assert!(!refused.headers().contains_key("mcp-session-id"));
    let events = until(refused, |event| event.data["id"] == 1).await;
    let message = events.last().unwrap().data["error"]["message"].clone();
    assert!(message.as_str().is_some_and(|message| message.contains("4096 bytes")), "{events:?}");
    house.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_has_at_most_a_quarter_of_the_sessions() {
    let (house, endpoint) = house(Vec::new(), Limits { listeners_max: 16, ..Limits::default() });
    for _ in 0..4 {
        assert_eq!(initialize(&endpoint, "greedy", &json!({})).await.status(), StatusCode::OK);
    }
    let refused = initialize(&endpoint, "greedy", &json!({})).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    let retry_after: u64 = refused.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=600).contains(&retry_after), "{retry_after}");
    let body = refused.into_body().collect().await.unwrap().to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert!(body["error"]["message"].as_str().unwrap().contains("a quarter"), "{body}");
    assert_eq!(initialize(&endpoint, "modest", &json!({})).await.status(), StatusCode::OK);
    house.host.stop().await;
}
