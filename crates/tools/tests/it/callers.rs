//! Callers over HTTP that take much and give nothing back: none keeps others out.

use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;
use std::time::Instant;

use http::{Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::bytes::Bytes;
use tools::{Caller, HttpEndpoint, Limits, Plan, Server};

use crate::hostile::script;
use crate::house::{Can, House, Lifecycle, PATIENCE, plan, server, text};

pub(crate) type Answer = Response<BoxBody<Bytes, std::convert::Infallible>>;

pub(crate) fn house(servers: Vec<Server>, limits: Limits) -> (House, HttpEndpoint) {
    let house = House::of(Plan { limits, ..plan(servers) });
    let endpoint = HttpEndpoint::new(&house.host, 1 << 20);
    (house, endpoint)
}

/// Asks, and does not read the answer yet.
pub(crate) async fn ask(endpoint: &HttpEndpoint, key: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
    let mut request = Request::post("/mcp")
        .header("host", "127.0.0.1")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .extension(Caller::new(key, "test"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    endpoint.answer(request.body(Full::new(Bytes::from(body.to_string()))).unwrap()).await
}

async fn connect(endpoint: &HttpEndpoint, key: &str) -> Answer {
    let client = json!({ "name": "test", "version": "1" });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    let asked = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
    ask(endpoint, key, &[], &asked).await
}

/// The stream on which a legacy caller is told what belongs to no request; open until it is dropped.
async fn listen_on(endpoint: &HttpEndpoint, key: &str, id: &str) -> Answer {
    let request = Request::get("/mcp")
        .header("host", "127.0.0.1")
        .header("accept", "text/event-stream")
        .header("mcp-session-id", id)
        .extension(Caller::new(key, "test"));
    endpoint.answer(request.body(Full::new(Bytes::new())).unwrap()).await
}

/// A request of a modern caller that can be asked for what a person knows.
async fn ask_as_modern(endpoint: &HttpEndpoint, key: &str, method: &str, name: &str, mut params: Value) -> Answer {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} },
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
    });
    let asked = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", method), ("mcp-name", name)];
    let headers = if name.is_empty() { &headers[..2] } else { &headers[..] };
    ask(endpoint, key, headers, &asked).await
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_are_left_open_keep_nobody_out() {
    let (house, endpoint) = house(Vec::new(), Limits { listeners_max: 64, ..Limits::default() });
    let modest = connect(&endpoint, "modest").await;
    let id = modest.headers()["mcp-session-id"].to_str().unwrap();
    // No key has more than a quarter of them, and room is made among those of the keys that have most.
    for number in 0..300 {
        let greedy = connect(&endpoint, &format!("greedy {}", number % 5)).await;
        assert!(matches!(greedy.status(), StatusCode::OK | StatusCode::TOO_MANY_REQUESTS), "{number}");
    }
    assert_eq!(connect(&endpoint, "other").await.status(), StatusCode::OK);
    let ping = json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" });
    assert_eq!(ask(&endpoint, "modest", &[("mcp-session-id", id)], &ping).await.status(), StatusCode::OK);
    house.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_nobody_uses_is_given_up_and_one_with_an_open_stream_is_not() {
    // Given up, if at all, when the next caller comes.
    for (caller_idle_max, left_alone) in
        [(Duration::ZERO, StatusCode::NOT_FOUND), (Duration::from_secs(3600), StatusCode::OK)]
    {
        let (house, endpoint) = house(Vec::new(), Limits { caller_idle_max, ..Limits::default() });
        let connected =
            async || connect(&endpoint, "key").await.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        let ping = json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" });
        let pinged = async |id: &str| ask(&endpoint, "key", &[("mcp-session-id", id)], &ping).await.status();
        let listening = connected().await;
        let stream = listen_on(&endpoint, "key", &listening).await;
        assert_eq!(stream.status(), StatusCode::OK);
        let idle = connected().await;
        assert_eq!(pinged(&idle).await, StatusCode::OK);
        connected().await;
        assert_eq!((pinged(&idle).await, pinged(&listening).await), (left_alone, StatusCode::OK));
        drop(stream);
        connected().await;
        assert_eq!(pinged(&listening).await, left_alone, "its stream is over");
        house.host.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_one_key_keep_nobody_out() {
    let (house, endpoint) = house(Vec::new(), Limits { listeners_max: 8, ..Limits::default() });
    let listen = async |key| {
        let wanted = json!({ "notifications": { "toolsListChanged": true } });
        ask_as_modern(&endpoint, key, "subscriptions/listen", "", wanted).await
    };
    let mut streams = Vec::new();
    for _ in 0..4 {
        streams.push(listen("greedy").await);
    }
    assert!(streams.iter().all(|stream| stream.status() == StatusCode::OK), "{streams:?}");
    assert_eq!(listen("greedy").await.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(listen("modest").await.status(), StatusCode::OK);
    streams.pop();
    assert_eq!(listen("greedy").await.status(), StatusCode::OK, "one that is over leaves its place");
    house.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_that_one_caller_leaves_open_keep_no_other_from_theirs() {
    // Each of its own server: of two calls of one, neither would be asked.
    let servers = ["g", "h", "i"].map(|name| server(name, "legacy")).to_vec();
    let (house, endpoint) = house(servers, Limits { parked_max: 4, ..Limits::default() });
    for name in ["g", "h", "i"] {
        house.until_ready(name).await;
    }
    let asked = async |key, tool: &str| -> Value {
        let params = json!({ "name": tool, "arguments": {} });
        said(ask_as_modern(&endpoint, key, "tools/call", tool, params).await).await
    };
    let first = asked("greedy", "g__ask").await;
    assert_eq!(first["result"]["resultType"], "input_required", "{first}");
    let second = asked("greedy", "h__ask").await;
    assert!(second["error"]["message"].as_str().unwrap().contains("too many calls wait"), "{second}");
    let modest = asked("modest", "i__ask").await;
    assert_eq!(modest["result"]["resultType"], "input_required", "{modest}");
    house.host.stop().await;
}

/// The message of an answer that has one.
async fn said(answer: Answer) -> Value {
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    let body = String::from_utf8_lossy(&body).into_owned();
    serde_json::from_str(body.trim_start_matches("data: ")).unwrap_or_else(|_| panic!("{body}"))
}

/// A legacy server that asks again whenever it is answered.
fn insatiable() -> Server {
    let question = r#"{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}"#;
    let mut server = script(&format!("echo '{question}'"));
    let tools::Reach::Process { command, .. } = &mut server.reach else { unreachable!() };
    let again = format!(r#"case $line in *'"action"'*) echo '{question}';;"#);
    command[2] = command[2].to_str().unwrap().replace("case $line in", &again).into();
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_asks_without_end_is_refused_whatever_era_its_caller_is_of() {
    let limits = Limits { input_rounds_max: 3, ..Limits::default() };
    let (first, endpoint) = house(vec![insatiable()], limits.clone());
    first.until_ready("g").await;
    let mut params = json!({ "name": "g__t", "arguments": {} });
    for _ in 0..3 {
        let asked = said(ask_as_modern(&endpoint, "key", "tools/call", "g__t", params.clone()).await).await;
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
        params["requestState"] = asked["result"]["requestState"].clone();
        params["inputResponses"] = json!({ "question-1": { "action": "accept", "content": {} } });
    }
    let refused = said(ask_as_modern(&endpoint, "key", "tools/call", "g__t", params).await).await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("more than 3 times"), "{refused}");
    first.host.stop().await;
    let (second, _) = house(vec![insatiable()], limits);
    second.until_ready("g").await;
    let legacy = second.caller(Lifecycle::Legacy, Can::Everything).await;
    let refused = legacy.client.call_tool(rmcp::model::CallToolRequestParams::new("g__t")).await.unwrap_err();
    assert!(refused.to_string().contains("more than 3 times"), "{refused}");
    assert_eq!(legacy.heard().asked.len(), 3);
    second.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_reaches_no_other_caller_with_the_same_key() {
    let (house, endpoint) = house(vec![server("g", "legacy")], Limits::default());
    house.until_ready("g").await;
    let call = async |tool: &str, arguments: Value| {
        let answer =
            ask_as_modern(&endpoint, "shared", "tools/call", tool, json!({ "name": tool, "arguments": arguments }));
        answer.await.into_body().collect().await.unwrap().to_bytes()
    };
    let asking = async {
        let is_call = |frame: &tools::Frame| frame.from == tools::Speaker::Us && frame.text.contains("tools/call");
        house.until("g", |_| house.host.frames("g").unwrap().frames.iter().any(is_call)).await;
        call("g__ask", json!({})).await
    };
    let (slept, asked) = tokio::join!(call("g__sleep", json!({ "ms": 3000 })), asking);
    for answer in [slept, asked] {
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(!answer.contains("input_required"), "{answer}");
    }
    house.host.stop().await;
}

/// Told when what was looked at has come further.
#[derive(Default)]
struct Woken(Notify);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_leaves_before_it_is_connected_keeps_nobody_out() {
    let (house, endpoint) = house(Vec::new(), Limits { listeners_max: 8, ..Limits::default() });
    for _ in 0..32 {
        // Hung up when the answer is there and nobody has looked at it yet.
        let woken = Arc::<Woken>::default();
        let mut hasty = Box::pin(connect(&endpoint, "hasty"));
        if hasty.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(&woken)))).is_pending() {
            tokio::time::timeout(PATIENCE, woken.0.notified()).await.unwrap();
        }
    }
    let begun = Instant::now();
    while connect(&endpoint, "modest").await.status() != StatusCode::OK {
        assert!(begun.elapsed() < PATIENCE, "it is never let in");
        tokio::task::yield_now().await;
    }
    house.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_one_key_that_hang_keep_no_other_from_the_server() {
    let (house, _) = house(vec![server("g", "legacy")], Limits { calls_max: 4, ..Limits::default() });
    house.until_ready("g").await;
    let mut hanging = JoinSet::new();
    for _ in 0..16 {
        let host = house.host.clone();
        hanging.spawn(async move { host.call(&Caller::new("greedy", "test"), "g__hang", json!({})).await });
    }
    let is_call = |frame: &&tools::Frame| frame.from == tools::Speaker::Us && frame.text.contains("tools/call");
    house.until("g", |_| house.host.frames("g").unwrap().frames.iter().filter(is_call).count() >= 3).await;
    let modest = Caller::new("modest", "test");
    let called = house.host.call(&modest, "g__echo", json!({ "text": "here" }));
    let result = tokio::time::timeout(PATIENCE, called).await.expect("it has its turn").unwrap();
    assert_eq!(text(&result), "here");
    house.host.stop().await;
}
