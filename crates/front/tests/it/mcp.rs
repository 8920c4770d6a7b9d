//! `/mcp` and the operator's view of tool servers, in raw JSON-RPC over real sockets, with tool servers of the gallery behind it.

use expect_test::expect;
use front::keys::Scope;
use serde_json::{Value, json};
use testkit::HANG_TIMEOUT;
use tokio::time::timeout;

use crate::http::{Answer, Caller, Events, exchange};
use crate::memory::until_memory;
use crate::support::House;

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

/// Sends a request of any method, with these headers besides the key.
async fn send(caller: &Caller, line: &str, headers: &str, body: &str) -> Answer {
    let (key, length) = (&caller.key, body.len());
    // A 1.0 client gets a stream as it is, not in chunks.
    let text = format!(
        "{line} HTTP/1.0\r\nhost: localhost\r\nauthorization: Bearer {key}\r\naccept: application/json, text/event-stream\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    );
    let answer = exchange(caller.address, &text).await;
    let (headers, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = headers.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, headers: headers.into(), body: body.into() }
}

/// The message with a result or an error, whether it came by itself or in a stream.
fn message(answer: &Answer) -> Value {
    let in_stream = answer.body.lines().filter_map(|line| line.strip_prefix("data: "));
    let texts = in_stream.chain([answer.body.as_str()]);
    let messages = texts.filter_map(|text| serde_json::from_str::<Value>(text).ok());
    let is_last = |message: &Value| message["result"].is_object() || message["error"].is_object();
    messages.into_iter().find(is_last).unwrap_or_else(|| panic!("{} {}", answer.headers, answer.body))
}

/// A caller that began with `initialize`.
struct Legacy {
    caller: Caller,
    headers: String,
}

impl Legacy {
    async fn open(caller: &Caller) -> Self {
        let client = json!({ "name": "test", "version": "1" });
        let params = json!({ "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": client });
        let begin = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }).to_string();
        let answer = send(caller, "POST /mcp", "", &begin).await;
        assert_eq!(message(&answer)["result"]["serverInfo"]["name"], "switchboard", "{}", answer.body);
        let id = answer.headers.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap();
        let headers = format!("mcp-session-id: {id}\r\nmcp-protocol-version: {LEGACY}\r\n");
        let legacy = Self { caller: caller.clone(), headers };
        let told = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string();
        assert_eq!(send(caller, "POST /mcp", &legacy.headers, &told).await.status, 202);
        legacy
    }

    async fn ask(&self, method: &str, params: Value) -> Answer {
        self.ask_as(&self.caller, method, params).await
    }

    async fn ask_as(&self, caller: &Caller, method: &str, params: Value) -> Answer {
        let body = json!({ "jsonrpc": "2.0", "id": 2, "method": method, "params": params }).to_string();
        send(caller, "POST /mcp", &self.headers, &body).await
    }

    async fn call(&self, tool: &str, arguments: Value) -> Value {
        message(&self.ask("tools/call", json!({ "name": tool, "arguments": arguments })).await)["result"].clone()
    }

    /// Its stream, as it comes.
    async fn events(&self) -> Events {
        self.caller.events_with("/mcp", &format!("accept: text/event-stream\r\n{}", self.headers)).await
    }
}

/// A request that stands for itself.
async fn modern(caller: &Caller, path: &str, method: &str, params: Value) -> Answer {
    let (headers, body) = modern_request(method, params);
    send(caller, &format!("POST {path}"), &headers, &body).await
}

/// The headers and the body of one.
fn modern_request(method: &str, mut params: Value) -> (String, String) {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let name = params["name"].as_str().map(|name| format!("mcp-name: {name}\r\n")).unwrap_or_default();
    let headers = format!("mcp-protocol-version: {MODERN}\r\nmcp-method: {method}\r\n{name}");
    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params }).to_string();
    (headers, body)
}

fn names(list: &Value) -> Vec<&str> {
    list["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn callers_of_either_era_use_servers_of_either_era() {
    let house = House::with_tools(&["legacy", "modern"]).await;
    let caller = house.caller(&[Scope::Tools]).await;
    let legacy = Legacy::open(&caller).await;
    let listed = message(&legacy.ask("tools/list", json!({})).await);
    assert!(names(&listed).contains(&"legacy__echo") && names(&listed).contains(&"modern__echo"), "{listed}");
    for tool in ["legacy__add", "modern__add"] {
        let result = legacy.call(tool, json!({ "a": 2, "b": 3 })).await;
        assert_eq!(result["structuredContent"], json!({ "sum": 5 }), "{result}");
    }
    for path in ["/mcp", "/mcp/"] {
        let listed = message(&modern(&caller, path, "tools/list", json!({})).await);
        assert!(names(&listed).contains(&"legacy__echo"), "{listed}");
        let wanted = json!({ "name": "legacy__echo", "arguments": { "text": "hello" } });
        let called = message(&modern(&caller, path, "tools/call", wanted).await);
        assert_eq!(called["result"]["content"][0]["text"], "hello", "{called}");
    }
    assert_eq!(send(&caller, "DELETE /mcp", &legacy.headers, "").await.status, 204);
    assert_eq!(legacy.ask("tools/list", json!({})).await.status, 404, "it has left");
    house.stop().await;
}

/// A legacy call goes on with its session when its caller has left.
#[tokio::test]
async fn a_call_counts_against_the_memory_budget_until_it_is_over() {
    const ACCEPT: &str = "accept: application/json, text/event-stream\r\n";
    let house = House::with_tools(&["dual"]).await;
    let caller = house.caller(&[Scope::Tools]).await;
    let legacy = Legacy::open(&caller).await;
    let long = "x".repeat(1_000_000);
    let call = json!({ "name": "dual__hang", "arguments": {}, "_meta": { "text": long } });
    let call = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call }).to_string();
    let stream = caller.stream("/mcp", &format!("{ACCEPT}{}", legacy.headers), &call).await;
    until_memory(&house, |bytes| bytes >= 1_000_000).await;
    drop(stream);
    assert_eq!(legacy.call("dual__echo", json!({ "text": "x" })).await["content"][0]["text"], "x");
    until_memory(&house, |bytes| bytes >= 1_000_000).await;
    assert_eq!(send(&caller, "DELETE /mcp", &legacy.headers, "").await.status, 204);
    until_memory(&house, |bytes| bytes == 0).await;

    let wanted = json!({ "notifications": { "resourceSubscriptions": [format!("x:{long}")] } });
    let (headers, body) = modern_request("subscriptions/listen", wanted);
    let stream = caller.stream("/mcp", &format!("{ACCEPT}{headers}"), &body).await;
    until_memory(&house, |bytes| bytes >= 1_000_000).await;
    drop(stream);
    until_memory(&house, |bytes| bytes == 0).await;
    house.stop().await;
}

#[tokio::test]
async fn who_may_in_is_asked_as_everywhere() {
    let house = House::with_tools(&["dual"]).await;
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string();
    let nobody = Caller { address: house.operator.address, key: format!("sb_0_{}", "0".repeat(64)) };
    let refused = send(&nobody, "POST /mcp", "", &list).await;
    assert_eq!(refused.refusal(), "401 invalid_api_key");
    assert!(refused.headers.contains("www-authenticate: Bearer"), "{}", refused.headers);
    for line in ["GET /mcp", "DELETE /mcp", "POST /mcp/"] {
        assert_eq!(send(&nobody, line, "", "").await.refusal(), "401 invalid_api_key", "{line}");
    }
    let page = send(&house.operator, "POST /mcp", "origin: http://localhost:6274\r\n", &list).await;
    assert_eq!(page.refusal(), "403 origin_refused");
    let rules = house.caller(&[Scope::OwnTurns]).await;
    assert_eq!(send(&rules, "POST /mcp", "", &list).await.refusal(), "403 scope_missing");
    let user = house.caller(&[Scope::Use]).await;
    assert_eq!(modern(&user, "/mcp", "tools/list", json!({})).await.status, 200, "who may start turns may call tools");
    let tools = house.caller(&[Scope::Tools]).await;
    for path in ["/api/turns", "/v1/models", "/api/tools", "/api/usage", "/api/openapi.json"] {
        assert_eq!(tools.get(path).await.refusal(), "403 scope_missing", "{path}");
    }
    assert_eq!(send(&house.operator, "PUT /mcp", "", "").await.refusal(), "405 method_not_allowed");
    let many = format!("[{}0]", "0,".repeat(300_000));
    assert_eq!(send(&house.operator, "POST /mcp", "", &many).await.refusal(), "413 request_entity_too_large");
    house.stop().await;
}

#[tokio::test]
async fn a_connection_is_not_there_for_any_other_key() {
    let house = House::with_tools(&["dual"]).await;
    let (owner, thief) = (house.caller(&[Scope::Tools]).await, house.caller(&[Scope::Tools]).await);
    let legacy = Legacy::open(&owner).await;
    assert_eq!(legacy.ask_as(&thief, "tools/list", json!({})).await.status, 404);
    assert_eq!(send(&thief, "GET /mcp", &legacy.headers, "").await.status, 404);
    assert_eq!(send(&thief, "DELETE /mcp", &legacy.headers, "").await.status, 404);
    assert_eq!(legacy.ask("tools/list", json!({})).await.status, 200, "it goes on");
    house.stop().await;
}

#[tokio::test]
async fn a_stream_tells_of_changes_and_ends_with_its_key() {
    let house = House::with_tools(&["dual"]).await;
    let caller = house.caller(&[Scope::Tools]).await;
    let legacy = Legacy::open(&caller).await;
    let mut events = legacy.events().await;
    legacy.call("dual__change", json!({})).await;
    loop {
        let line = events.line().await.expect("a change is told");
        if line.contains("notifications/tools/list_changed") {
            break;
        }
    }
    house.revoke(&caller).await;
    while events.line().await.is_some() {}
    assert_eq!(legacy.ask("tools/list", json!({})).await.refusal(), "401 invalid_api_key");
    house.stop().await;
}

#[tokio::test]
async fn a_call_ends_with_its_key() {
    let house = House::with_tools(&["dual"]).await;
    let caller = house.caller(&[Scope::Tools]).await;
    let mut feed = house.operator.events("/api/events", "").await;
    let hanging = modern(&caller, "/mcp", "tools/call", json!({ "name": "dual__hang", "arguments": {} }));
    let revoking = async {
        house.until_frames("dual", "hang").await;
        house.revoke(&caller).await;
    };
    let (answer, ()) = tokio::join!(hanging, revoking);
    assert_eq!(answer.refusal(), "401 invalid_api_key");
    assert_eq!(feed.until("tool_called").await["outcome"], "cancelled");
    house.stop().await;
}

#[tokio::test]
async fn streams_end_when_the_server_does() {
    let house = House::with_tools(&["dual"]).await;
    let legacy = Legacy::open(&house.operator).await;
    let mut events = legacy.events().await;
    timeout(HANG_TIMEOUT, house.stop()).await.unwrap();
    while events.line().await.is_some() {}
}

#[tokio::test]
async fn a_tool_that_destroys_waits_among_the_approvals() {
    let house = House::with_tools(&["dual"]).await;
    let caller = house.caller(&[Scope::Tools]).await;
    let legacy = Legacy::open(&caller).await;
    let mut feed = house.operator.events("/api/events", "").await;
    let deciding = async {
        let wanted = feed.until("approval_wanted").await["approval"].clone();
        assert_eq!((&wanted["kind"], &wanted["key"]), (&json!("tool_confirmation"), &json!(caller.id())), "{wanted}");
        let verdict = json!({ "verdict": "allow", "shown_hash": wanted["shown_hash"] }).to_string();
        let path = format!("/api/approvals/{}/decide", wanted["id"].as_str().unwrap());
        assert_eq!(house.operator.post(&path, &verdict).await.status, 200);
        wanted["id"].clone()
    };
    let (result, approval) = tokio::join!(legacy.call("dual__delete", json!({ "path": "x" })), deciding);
    assert_eq!(result["content"][0]["text"], "deleted x", "{result}");
    let called = house.operator.get("/api/tool-calls?tool=delete").await.json();
    assert_eq!(called["calls"][0]["approval"], approval, "{called}");
    house.stop().await;
}

#[tokio::test]
async fn an_operator_sees_what_tool_servers_do_and_what_is_wrong_with_them() {
    let house = House::with_tools(&["dual", "import-error", "d7"]).await;
    house.until_state("import-error", "failed").await;
    let servers = house.check(&house.operator.get("/api/tools").await, "ToolServers").await;
    let told: Vec<String> = servers["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|server| {
            let codes: Vec<_> = server["findings"].as_array().unwrap().iter().map(|one| &one["code"]).collect();
            format!("{} {} {}", server["name"], server["state"], json!(codes))
        })
        .collect();
    expect![[r#"
        "dual" "ready" []
        "import-error" "failed" ["D10"]
        "d7" "degraded" ["D7"]"#]]
    .assert_eq(&told.join("\n"));
    let one = house.check(&house.operator.get("/api/tools/dual").await, "ToolServer").await;
    assert_eq!(one["era"], "modern", "{one}");
    assert_eq!(house.operator.get("/api/tools/none").await.refusal(), "404 tool_server_not_found");
    let frames = house.check(&house.operator.get("/api/tools/dual/frames").await, "ToolFrames").await;
    assert!(frames["frames"][0]["text"].as_str().unwrap().contains("server/discover"), "{frames}");
    assert_eq!(frames["frames"][1]["verdict"], "answer", "{frames}");
    assert_eq!(house.operator.get("/api/tools/none/frames").await.refusal(), "404 tool_server_not_found");
    let health = house.check(&house.operator.get("/healthz").await, "Health").await;
    assert_eq!(health["reasons"], json!(["tool server import-error: failed"]));
    let ready = house.operator.get("/readyz").await;
    assert_eq!(ready.status, 200, "one bad tool server takes nothing else down");
    let ready = house.check(&ready, "Readiness").await;
    assert_eq!(ready["tools"][1], json!({ "name": "import-error", "state": "failed" }));
    house.stop().await;
}

#[tokio::test]
async fn an_operator_starts_a_tool_server_anew() {
    let house = House::with_tools(&["dual"]).await;
    let pid = async || house.operator.get("/api/tools/dual").await.json()["pid"].as_u64();
    let before = pid().await.unwrap();
    let restarted = house.operator.post("/api/tools/dual/restart", "").await;
    house.check(&restarted, "ToolServerRestarting").await;
    let another = async { while pid().await.is_none_or(|now| now == before) {} };
    timeout(HANG_TIMEOUT, another).await.expect("another process");
    assert_eq!(house.operator.post("/api/tools/none/restart", "").await.refusal(), "404 tool_server_not_found");
    house.stop().await;
}

#[tokio::test]
async fn calls_are_told_counted_and_kept() {
    let house = House::with_tools(&["dual"]).await;
    let caller = house.caller(&[Scope::Tools]).await;
    let mut feed = house.operator.events("/api/events", "").await;
    let call = async |tool: &str, arguments: Value| {
        modern(&caller, "/mcp", "tools/call", json!({ "name": tool, "arguments": arguments })).await
    };
    call("dual__echo", json!({ "text": "hello" })).await;
    let told = feed.until("tool_called").await;
    assert_eq!(
        (&told["server"], &told["tool"], &told["outcome"]),
        (&json!("dual"), &json!("echo"), &json!("succeeded"))
    );
    call("dual__fail", json!({})).await;
    call("dual__echo", json!({ "text": 1 })).await;
    let calls = house.check(&house.operator.get("/api/tool-calls").await, "ToolCalls").await;
    let outcomes: Vec<_> = calls["calls"].as_array().unwrap().iter().map(|call| call["outcome"].clone()).collect();
    assert_eq!(outcomes, ["refused", "failed", "succeeded"], "the newest first");
    assert_eq!((&calls["calls"][0]["key"], &calls["calls"][0]["caller"]), (&json!(caller.id()), &json!("mcp")));
    let first = house.operator.get("/api/tool-calls?limit=1&server=dual").await.json();
    let next = first["next"].as_str().unwrap();
    let second = house.operator.get(&format!("/api/tool-calls?limit=2&before={next}")).await.json();
    assert_eq!((second["calls"].as_array().unwrap().len(), &second["next"]), (2, &Value::Null));
    let failed = house.operator.get(&format!("/api/tool-calls?outcome=failed&tool=fail&key={}", caller.id())).await;
    assert_eq!(failed.json()["calls"].as_array().unwrap().len(), 1);
    assert_eq!(house.operator.get("/api/tool-calls?outcome=lucky").await.refusal(), "400 invalid_value");
    let page = house.operator.get("/metrics").await.body;
    for line in [
        r#"switchboard_tool_calls_total{server="dual",outcome="succeeded"} 1"#,
        r#"switchboard_tool_calls_total{server="dual",outcome="failed"} 1"#,
        r#"switchboard_tool_calls_total{server="dual",outcome="refused"} 1"#,
        r#"switchboard_tool_call_seconds_count{server="dual"} 3"#,
        r#"switchboard_tool_servers{server="dual",state="ready"} 1"#,
    ] {
        assert!(page.lines().any(|one| one == line), "{line} in\n{page}");
    }
    house.stop().await;
}
