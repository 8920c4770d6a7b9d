//! Callers over HTTP that come and never leave.

use std::sync::Arc;

use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use supervise::Owner;
use tokio_util::bytes::Bytes;
use tools::{Caller, Host, HttpEndpoint, Limits, Plan};

async fn post(endpoint: &HttpEndpoint, key: &str, connection: Option<&str>, body: Value) -> Response<()> {
    let mut request = Request::post("/mcp")
        .header("host", "127.0.0.1")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .extension(Caller::new(key, "test"));
    if let Some(id) = connection {
        request = request.header("mcp-session-id", id);
    }
    let request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
    let (head, body) = endpoint.answer(request).await.into_parts();
    body.collect().await.unwrap();
    Response::from_parts(head, ())
}

async fn connect(endpoint: &HttpEndpoint, key: &str) -> Response<()> {
    let client = json!({ "name": "test", "version": "1" });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    post(endpoint, key, None, json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params })).await
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_are_left_open_keep_nobody_out() {
    let host = Host::start(Plan {
        servers: Vec::new(),
        limits: Limits { listeners_max: 64, ..Limits::default() },
        owner: Owner::generate(),
        store: None,
        approvals: None,
        notify: Arc::new(|_| {}),
    });
    let endpoint = HttpEndpoint::new(&host, 1 << 20);
    let modest = connect(&endpoint, "modest").await;
    let id = modest.headers()["mcp-session-id"].to_str().unwrap();
    for number in 0..300 {
        let greedy = connect(&endpoint, "greedy").await;
        assert_eq!(greedy.status(), StatusCode::OK, "{number}");
    }
    assert_eq!(connect(&endpoint, "other").await.status(), StatusCode::OK);
    let ping = json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" });
    assert_eq!(post(&endpoint, "modest", Some(id), ping).await.status(), StatusCode::OK);
    host.stop().await;
}
