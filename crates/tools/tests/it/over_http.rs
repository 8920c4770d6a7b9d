//! Tool servers that are reached over HTTP: here another host, which is one server to us.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tools::{Caller, Era, Host, HttpEndpoint, Limits, Plan, Reach, Remote, Server, ServerState, Timeouts};

use crate::hostile::nested_schema;
use crate::house::{Can, House, Lifecycle, plan, server, text, words};

/// Serves the endpoint of a host to whoever brings the right token; where.
async fn serve(host: &Host, tasks: &mut JoinSet<()>) -> String {
    let endpoint = HttpEndpoint::new(host, 1 << 20);
    listen(tasks, move |request| answer(endpoint.clone(), request)).await
}

/// Answers every request so; where.
async fn listen<F, E>(
    tasks: &mut JoinSet<()>,
    answer: impl Fn(Request<Incoming>) -> F + Clone + Send + 'static,
) -> String
where
    F: Future<Output = Result<Response<BoxBody<hyper::body::Bytes, Infallible>>, E>> + Send + 'static,
    E: Into<Box<dyn std::error::Error + Send + Sync>> + 'static,
{
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let service = service_fn(answer.clone());
            connections.spawn(async move {
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service).await.ok();
            });
        }
    });
    url
}

async fn answer(
    endpoint: HttpEndpoint,
    mut request: Request<Incoming>,
) -> Result<Response<BoxBody<hyper::body::Bytes, Infallible>>, Infallible> {
    if request.headers().get("authorization").is_none_or(|token| token != "Bearer right") {
        let mut refused = Response::new(BoxBody::default());
        *refused.status_mut() = StatusCode::UNAUTHORIZED;
        return Ok(refused);
    }
    request.extensions_mut().insert(Caller::new("key", "http"));
    Ok(endpoint.answer(request).await)
}

fn over(url: &str, token: &str) -> Server {
    let headers = vec![("authorization".to_owned(), format!("Bearer {token}"))];
    Server::new("far", Reach::Http { url: url.to_owned(), headers })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_over_http_is_one_like_any_other() {
    let mut tasks = JoinSet::new();
    let behind = House::ready(vec![server("g", "legacy"), server("m", "modern")]).await;
    let url = serve(&behind.host, &mut tasks).await;
    let house = House::ready(vec![over(&url, "right"), server("near", "dual")]).await;
    assert_eq!(house.view("far").era, Some(Era::Modern));
    assert_eq!(text(&house.call("far__g__echo", json!({ "text": "x" })).await), "x");
    for lifecycle in [Lifecycle::Legacy, Lifecycle::Modern] {
        let caller = house.caller(lifecycle, Can::Everything).await;
        // Across two hops, from a legacy server and a modern one.
        for tool in ["far__g__ask", "far__m__ask"] {
            let said = words(&caller.call(tool, json!({})).await);
            assert!(said.contains("ada"), "{lifecycle:?} {tool}: {said}");
        }
    }
    house.host.stop().await;
    behind.host.stop().await;
}

/// Whatever a caller says at once arrives in its order; a link that got it in another would be of no more use.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_caller_behind_the_proxy_need_not_wait_between_its_messages() {
    let mut tasks = JoinSet::new();
    let behind = House::ready(vec![server("g", "legacy")]).await;
    let remote = Remote::Url { url: serve(&behind.host, &mut tasks).await, token: "right".into() };
    for _ in 0..50 {
        let (near, far) = tokio::io::duplex(1 << 16);
        let (reader, writer) = tokio::io::split(far);
        let remote = remote.clone();
        tasks.spawn(async move { tools::proxy(|| Ok(remote.clone()), reader, writer).await.unwrap() });
        let (reader, mut writer) = tokio::io::split(near);
        let info = json!({ "name": "test", "version": "1" });
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info });
        let mut said = [
            json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }),
            json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        ]
        .to_vec();
        said.extend((1..9).map(|id| {
            let params = json!({ "name": "g__echo", "arguments": { "text": format!("{id}") } });
            json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
        }));
        let said: String = said.iter().map(|message| format!("{message}\n")).collect();
        writer.write_all(said.as_bytes()).await.unwrap();
        let mut lines = BufReader::new(reader).lines();
        let mut answered = 0;
        while answered < 9 {
            let line = lines.next_line().await.unwrap().unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            assert!(message.get("error").is_none(), "{line}");
            if let Some(id) = message["id"].as_u64().filter(|id| *id > 0) {
                assert_eq!(text(&message["result"]), id.to_string());
            }
            answered += usize::from(message.get("id").is_some());
        }
    }
    behind.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_over_http_that_refuses_us_is_told_with_the_reason() {
    let mut tasks = JoinSet::new();
    let behind = House::ready(vec![server("g", "dual")]).await;
    let url = serve(&behind.host, &mut tasks).await;
    let house = House::start(vec![over(&url, "wrong"), server("near", "dual")]);
    let view = house.until("far", |view| view.reason.is_some()).await;
    let reason = view.reason.unwrap();
    assert!(reason.to_lowercase().contains("auth") || reason.contains("401"), "{reason}");
    assert!(!reason.contains("wrong"), "{reason}");
    house.until_ready("near").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_over_http_that_is_gone_comes_back_by_itself() {
    let mut tasks = JoinSet::new();
    let behind = House::ready(vec![server("g", "dual")]).await;
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let nowhere = format!("http://{}/mcp", listener.local_addr().unwrap());
    drop(listener);
    let house = House::start(vec![over(&nowhere, "right")]);
    let view = house.until("far", |view| view.reason.is_some()).await;
    assert!(matches!(view.state, ServerState::Restarting | ServerState::Failed), "{view:?}");
    let url = serve(&behind.host, &mut tasks).await;
    house.host.apply(vec![over(&url, "right")]);
    house.until_ready("far").await;
    house.host.stop().await;
    behind.host.stop().await;
}

/// Takes a call, and breaks the connection where its answer should come; counts how often.
async fn answer_but_calls(
    endpoint: HttpEndpoint,
    calls: Arc<AtomicUsize>,
    request: Request<Incoming>,
) -> io::Result<Response<BoxBody<hyper::body::Bytes, Infallible>>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    if String::from_utf8_lossy(&body).contains("\"tools/call\"") {
        calls.fetch_add(1, Ordering::SeqCst);
        return Err(io::Error::other("broken on purpose"));
    }
    let mut request = Request::from_parts(head, Full::<hyper::body::Bytes>::from(body));
    request.extensions_mut().insert(Caller::new("key", "http"));
    Ok(endpoint.answer(request).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_connection_breaks_is_not_made_again() {
    let mut tasks = JoinSet::new();
    let behind = House::ready(vec![server("g", "dual")]).await;
    let calls = Arc::new(AtomicUsize::new(0));
    let url = {
        let (endpoint, calls) = (HttpEndpoint::new(&behind.host, 1 << 20), Arc::clone(&calls));
        listen(&mut tasks, move |request| answer_but_calls(endpoint.clone(), Arc::clone(&calls), request)).await
    };
    let house = House::ready(vec![over(&url, "right")]).await;
    let result = house.call("far__g__echo", json!({ "text": "x" })).await;
    assert_eq!(
        result["_meta"]["switchboard/failure"],
        json!({ "kind": "server_gone", "work_may_have_run": true }),
        "{result}"
    );
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    house.host.stop().await;
    behind.host.stop().await;
}

/// Answers calls with so many bytes of one kind or the other.
async fn answer_at_length(
    endpoint: HttpEndpoint,
    kind: &'static str,
    request: Request<Incoming>,
) -> Result<Response<BoxBody<hyper::body::Bytes, Infallible>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    if message["method"] == "tools/call" {
        let said = json!({ "content": [{ "type": "text", "text": "x".repeat(1 << 20) }] });
        let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": said }).to_string();
        let text = if kind == "application/json" { answer } else { format!("data: {answer}\n\n") };
        let response = Response::builder().header("content-type", kind);
        return Ok(response.body(Full::<hyper::body::Bytes>::from(text).boxed()).unwrap());
    }
    let mut request = Request::from_parts(head, Full::<hyper::body::Bytes>::from(body));
    request.extensions_mut().insert(Caller::new("key", "http"));
    Ok(endpoint.answer(request).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_over_http_has_an_end_too() {
    let mut tasks = JoinSet::new();
    let behind = House::ready(vec![server("g", "dual")]).await;
    for kind in ["application/json", "text/event-stream"] {
        let endpoint = HttpEndpoint::new(&behind.host, 1 << 20);
        let url = listen(&mut tasks, move |request| answer_at_length(endpoint.clone(), kind, request)).await;
        for (line_bytes_max, is_told) in [(4 << 20, true), (64 << 10, false)] {
            let limits = Limits { line_bytes_max, ..Limits::default() };
            let house = House::of(Plan { limits, ..plan(vec![over(&url, "right")]) });
            house.until_ready("far").await;
            let result = house.call("far__g__echo", json!({ "text": "x" })).await;
            assert_eq!(result["isError"] != true, is_told, "{kind}: {}", text(&result));
            let failure = if is_told { Value::Null } else { true.into() };
            assert_eq!(
                result["_meta"]["switchboard/failure"]["work_may_have_run"],
                failure,
                "{kind}: {}",
                text(&result)
            );
            house.host.stop().await;
        }
    }
    behind.host.stop().await;
}

/// Adds a tool to the list, which is answered as this kind of content.
async fn answer_with_another_tool(
    endpoint: HttpEndpoint,
    tool: Arc<str>,
    kind: &'static str,
    request: Request<Incoming>,
) -> Result<Response<BoxBody<hyper::body::Bytes, Infallible>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let is_list = String::from_utf8_lossy(&body).contains("\"tools/list\"");
    let mut request = Request::from_parts(head, Full::<hyper::body::Bytes>::from(body));
    request.extensions_mut().insert(Caller::new("key", "http"));
    let (mut head, body) = endpoint.answer(request).await.into_parts();
    if !is_list {
        return Ok(Response::from_parts(head, body));
    }
    let listed = body.collect().await.unwrap().to_bytes();
    let listed = String::from_utf8_lossy(&listed).replacen(r#""tools":["#, &format!(r#""tools":[{tool},"#), 1);
    let listed = if kind == "application/json" { listed } else { format!("data: {listed}\n\n") };
    head.headers.remove("content-length");
    head.headers.insert("content-type", kind.parse().unwrap());
    Ok(Response::from_parts(head, Full::<hyper::body::Bytes>::from(listed).boxed()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_tool_over_http_is_put_aside_and_the_others_are_offered() {
    let mut tasks = JoinSet::new();
    let behind = House::ready(vec![server("g", "dual")]).await;
    let deep =
        |levels: usize| -> Arc<str> { format!(r#"{{"name":"bad","inputSchema":{}}}"#, nested_schema(levels)).into() };
    for kind in ["application/json", "text/event-stream"] {
        for tool in [r#"{"name":"bad"}"#.into(), deep(62), deep(500)] {
            let endpoint = HttpEndpoint::new(&behind.host, 1 << 20);
            let url = listen(&mut tasks, move |request| {
                answer_with_another_tool(endpoint.clone(), Arc::clone(&tool), kind, request)
            })
            .await;
            let house = House::start(vec![over(&url, "right")]);
            let view = house.until("far", |view| view.state != ServerState::Starting).await;
            assert_eq!(view.state, ServerState::Degraded, "{view:?}");
            let aside: Vec<_> = view.quarantined.iter().map(|one| (&*one.name, &*one.path)).collect();
            assert_eq!(aside, [("bad", "$.tools[0].inputSchema")], "{view:?}");
            assert_eq!(text(&house.call("far__g__echo", json!({ "text": "x" })).await), "x");
            house.host.stop().await;
        }
    }
    behind.host.stop().await;
}

/// A legacy server with sessions that can be started anew: it then knows those of before no more, and says so with `status`.
async fn answer_as_legacy(
    life: Arc<AtomicUsize>,
    status: StatusCode,
    request: Request<Incoming>,
) -> Result<Response<BoxBody<hyper::body::Bytes, Infallible>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let present = life.load(Ordering::SeqCst).to_string();
    let session = head.headers.get("mcp-session-id").map(|id| id.to_str().unwrap().to_owned());
    let response = Response::builder().header("content-type", "application/json");
    let said = |response: hyper::http::response::Builder, said: Value| {
        Ok(response.body(Full::<hyper::body::Bytes>::from(said.to_string()).boxed()).unwrap())
    };
    let result = match message["method"].as_str() {
        Some("initialize") => {
            let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
                "serverInfo": { "name": "s", "version": "1" } });
            let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": hello });
            return said(response.header("mcp-session-id", present), answer);
        }
        _ if head.method != hyper::Method::POST => {
            return said(response.status(StatusCode::METHOD_NOT_ALLOWED), json!({}));
        }
        _ if session.as_ref() != Some(&present) => {
            let error = json!({ "code": -32000, "message": "Bad Request: No valid session ID provided" });
            return said(response.status(status), json!({ "jsonrpc": "2.0", "error": error, "id": null }));
        }
        Some("tools/list") => {
            let tool = |name: String| json!({ "name": name, "inputSchema": { "type": "object" } });
            json!({ "tools": [tool("t".into()), tool(format!("only-in-life-{present}"))] })
        }
        Some("resources/list") => {
            let error = json!({ "code": -32601, "message": "Method not found" });
            let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "error": error });
            return said(response.status(StatusCode::NOT_FOUND), answer);
        }
        Some("tools/call") => json!({ "content": [{ "type": "text", "text": present }] }),
        _ if message.get("id").is_none() => return said(response.status(StatusCode::ACCEPTED), json!({})),
        _ => json!({}),
    };
    said(response, json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_over_http_that_was_started_anew_is_met_anew() {
    for status in [StatusCode::BAD_REQUEST, StatusCode::NOT_FOUND] {
        let (mut tasks, life) = (JoinSet::new(), Arc::new(AtomicUsize::new(1)));
        let url = {
            let life = Arc::clone(&life);
            listen(&mut tasks, move |request| answer_as_legacy(Arc::clone(&life), status, request)).await
        };
        let house = House::ready(vec![over(&url, "right")]).await;
        assert_eq!(text(&house.call("far__t", json!({})).await), "1");
        life.store(2, Ordering::SeqCst);
        let begun = std::time::Instant::now();
        // The calls that find out may be lost, and no other; where the server says clearly that it did not take them, not even those.
        let results = join_all((0..16).map(|_| house.call("far__t", json!({})))).await;
        for result in &results {
            assert!(status != StatusCode::NOT_FOUND || text(result) == "2", "{result}");
        }
        let mut result = house.call("far__t", json!({})).await;
        while text(&result) != "2" {
            assert!(begun.elapsed() < crate::house::PATIENCE, "{status}: {result}");
            house.until_ready("far").await;
            result = house.call("far__t", json!({})).await;
        }
        house.until("far", |view| view.tools.contains(&"far__only-in-life-2".to_owned())).await;
        house.host.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_method_that_is_not_found_over_http_is_no_session_that_is_lost() {
    let (mut tasks, life) = (JoinSet::new(), Arc::new(AtomicUsize::new(1)));
    let answer = async |life, request: Request<Incoming>| {
        let response = answer_as_legacy(life, StatusCode::NOT_FOUND, request).await?;
        let (head, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        let said = String::from_utf8_lossy(&body)
            .replace(r#""capabilities":{"tools""#, r#""capabilities":{"resources":{},"tools""#);
        let (mut head, said) = (head, Full::<hyper::body::Bytes>::from(said).boxed());
        head.headers.remove("content-length");
        Ok::<_, Infallible>(Response::from_parts(head, said))
    };
    let url = listen(&mut tasks, move |request| answer(Arc::clone(&life), request)).await;
    let house = House::start(vec![over(&url, "right")]);
    let view = house.until("far", |view| view.state == ServerState::Degraded).await;
    assert_eq!(view.restarts, 0, "{view:?}");
    assert_eq!(text(&house.call("far__t", json!({})).await), "1");
    house.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_legacy_server_over_http_that_is_gone_is_not_called_ready() {
    let (mut tasks, life) = (JoinSet::new(), Arc::new(AtomicUsize::new(1)));
    let url =
        listen(&mut tasks, move |request| answer_as_legacy(Arc::clone(&life), StatusCode::NOT_FOUND, request)).await;
    // If it is missed before it is called, the call waits for it so long.
    let timeouts = Timeouts { call: Duration::from_secs(1), ..Timeouts::default() };
    let house = House::ready(vec![Server { timeouts, ..over(&url, "right") }]).await;
    tasks.shutdown().await;
    let result = house.call("far__t", json!({})).await;
    assert_eq!(result["isError"], true, "{result}");
    let view = house.until("far", |view| view.state == ServerState::Restarting).await;
    assert!(view.reason.is_some_and(|why| !why.is_empty()));
    house.host.stop().await;
}
