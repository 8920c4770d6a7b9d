//! What requests may hold in memory, one by one and all together, and callers that close only their half of a connection.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use front::keys::{KeyLimits, Scope};
use front::{RequestLimits, Settings};
use serde_json::json;
use tempfile::TempDir;
use testkit::HANG_TIMEOUT;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use crate::http::Caller;
use crate::limits::limited;
use crate::support::{House, plan};
use crate::until_turns;

const MIB: usize = 1 << 20;

async fn house_with_memory(memory_bytes_max: usize) -> House {
    let requests = RequestLimits { memory_bytes_max, body_timeout: 2 * HANG_TIMEOUT, ..RequestLimits::default() };
    House::with(Settings { requests, ..Settings::default() }, approvals::Settings::default()).await
}

/// Waits until requests hold at least, or no more than, so many bytes.
pub(crate) async fn until_memory(house: &House, is_enough: impl Fn(usize) -> bool) {
    until_metric(house, "switchboard_request_memory_bytes", is_enough).await;
}

async fn until_metric(house: &House, name: &str, is_enough: impl Fn(usize) -> bool) {
    let reached = async {
        loop {
            let metrics = house.operator.get("/metrics").await.body;
            let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            if is_enough(value.unwrap().parse().unwrap()) {
                return;
            }
        }
    };
    timeout(HANG_TIMEOUT, reached).await.unwrap_or_else(|_| panic!("{name} changes"));
}

/// Begins to send a body and stops before its last byte.
async fn send_part_of_a_body(caller: &Caller, bytes: usize) -> TcpStream {
    send_part_of_a_body_of(caller, bytes, bytes + 1).await
}

async fn send_part_of_a_body_of(caller: &Caller, bytes: usize, announced_bytes: usize) -> TcpStream {
    let mut stream = TcpStream::connect(caller.address).await.unwrap();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nx-api-key: {}\r\ncontent-type: application/json\r\n\
         content-length: {announced_bytes}\r\n\r\n",
        caller.key,
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&vec![b' '; bytes]).await.unwrap();
    stream
}

fn chat(prompt: &str) -> String {
    json!({"model": "quiet", "messages": [{"role": "user", "content": prompt}]}).to_string()
}

#[tokio::test]
async fn a_route_that_needs_no_key_takes_no_long_body() {
    let house = House::open().await;
    let nobody = Caller { key: String::new(), ..house.operator.clone() };
    assert_eq!(nobody.post("/healthz", &"x".repeat(5000)).await.refusal(), "405 method_not_allowed");
    let mut stream = TcpStream::connect(house.operator.address).await.unwrap();
    let head = "GET /healthz HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5000\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut status = [0; 12];
    timeout(HANG_TIMEOUT, stream.read_exact(&mut status)).await.unwrap().unwrap();
    assert_eq!(&status, b"HTTP/1.1 413");
    house.stop().await;
}

#[tokio::test]
async fn bodies_of_one_key_beyond_half_of_the_memory_budget_are_refused() {
    let house = house_with_memory(4 * MIB).await;
    let (greedy, other) = (house.caller(&[Scope::Use]).await, house.caller(&[Scope::Use]).await);
    let held = send_part_of_a_body(&greedy, MIB).await;
    until_memory(&house, |bytes| bytes >= MIB).await;
    let refused = greedy.post("/v1/chat/completions", &chat(&"x".repeat(MIB))).await;
    assert_eq!(refused.refusal(), "503 memory_exhausted");
    assert!(refused.headers.contains("retry-after: 1"), "{}", refused.headers);
    assert_eq!(other.post("/v1/chat/completions", &chat("[[text]]")).await.status, 200);
    drop(held);
    until_memory(&house, |bytes| bytes == 0).await;
    assert_eq!(greedy.post("/v1/chat/completions", &chat("[[text]]")).await.status, 200);
    house.stop().await;
}

#[tokio::test]
async fn a_body_whose_values_need_more_than_the_budget_is_refused() {
    let house = house_with_memory(64 * MIB).await;
    let many = json!({"model": "quiet", "messages": vec![json!({"role": "user", "content": "x"}); 20_000]}).to_string();
    for path in ["/v1/chat/completions", "/v1/responses/compact", "/api/turns"] {
        assert_eq!(house.operator.post(path, &many).await.refusal(), "413 request_entity_too_large", "{path}");
    }
    until_memory(&house, |bytes| bytes == 0).await;
    house.stop().await;
}

#[tokio::test]
async fn a_long_conversation_is_read_away_from_the_runtime_and_gives_its_memory_back() {
    let house = House::open().await;
    let mut messages = vec![json!({"role": "user", "content": "x"}); 2000];
    messages.push(json!({"role": "user", "content": "[[text]]"}));
    let asked = json!({"model": "quiet", "messages": messages}).to_string();
    let answer = house.operator.post("/v1/chat/completions", &asked).await;
    assert_eq!(answer.json()["choices"][0]["message"]["content"], "Hello from mock.");
    let asked = json!({"model": "quiet", "input": messages}).to_string();
    let answer = house.operator.post("/v1/responses", &asked).await.json();
    let items = house.operator.get(&format!("/v1/responses/{}/input_items", answer["id"].as_str().unwrap())).await;
    assert_eq!(items.json()["data"].as_array().unwrap().len(), 20);
    until_memory(&house, |bytes| bytes == 0).await;
    house.stop().await;
}

#[tokio::test]
async fn every_mention_of_an_item_counts() {
    let house = house_with_memory(64 * MIB).await;
    let long = format!("[[say {}]]", "x".repeat(100_000));
    let response = house.operator.post("/v1/responses", &json!({"model": "quiet", "input": long}).to_string()).await;
    let item = response.json()["output"][0]["id"].clone();
    let mentions = |count: usize| {
        let mut input = vec![json!({"type": "item_reference", "id": item}); count];
        input.push(json!({"role": "user", "content": "[[text]]"}));
        json!({"model": "quiet", "input": input}).to_string()
    };
    assert_eq!(house.operator.post("/v1/responses", &mentions(5)).await.status, 200);
    assert_eq!(
        house.operator.post("/v1/responses", &mentions(200)).await.refusal(),
        "413 request_entity_too_large",
        "60 MB for one key, which may hold 32 MiB"
    );
    until_memory(&house, |bytes| bytes == 0).await;
    house.stop().await;
}

/// Whatever may be asked with one request is let through as an answer of the store.
#[tokio::test]
async fn response_of_very_many_items_can_be_read_and_deleted() {
    let house = House::open().await;
    let mut input = vec![json!({"role": "user", "content": "a"}); 80_000];
    input.push(json!({"role": "user", "content": "[[text]]"}));
    let response = house.operator.post("/v1/responses", &json!({"model": "quiet", "input": input}).to_string()).await;
    assert_eq!(response.status, 200, "{}", response.body);
    let id = response.json()["id"].as_str().unwrap().to_owned();
    let next = json!({"model": "quiet", "input": "[[text]]", "instructions": "other", "previous_response_id": id});
    assert_eq!(house.operator.post("/v1/responses", &next.to_string()).await.status, 200);
    for path in [format!("/v1/responses/{id}"), format!("/v1/responses/{id}/input_items")] {
        assert_eq!(house.operator.get(&path).await.status, 200, "{path}");
    }
    assert_eq!(house.operator.delete(&format!("/v1/responses/{id}")).await.status, 200);
    until_memory(&house, |bytes| bytes == 0).await;
    house.stop().await;
}

/// Tools are held, and repeated by the response, until its end.
#[tokio::test]
async fn tools_count_until_the_end_of_the_answer() {
    let house = house_with_memory(32 * MIB).await;
    let description = "x".repeat(500_000);
    let chat_tool = json!({"type": "function", "function": {"name": "a", "description": description}});
    let chat = json!({"model": "quiet", "stream": true, "tools": [chat_tool], "messages": [{"role": "user", "content": "[[hang]]"}]});
    let tool = json!({"type": "function", "name": "a", "description": description, "parameters": {}});
    let response = json!({"model": "quiet", "stream": true, "tools": [tool], "input": "[[hang]]"});
    for (path, asked, bytes_min) in [("/v1/chat/completions", chat, 1_000_000), ("/v1/responses", response, 5_000_000)]
    {
        let stream = house.operator.stream(path, "", &asked.to_string()).await;
        until_turns(&house, 1).await;
        until_memory(&house, |bytes| bytes >= bytes_min).await;
        drop(stream);
        until_memory(&house, |bytes| bytes == 0).await;
    }
    house.stop().await;
}

/// Until its worker has it, a prompt is held.
#[tokio::test]
async fn a_turn_that_waits_for_a_place_counts() {
    let directory = TempDir::new().unwrap();
    let mut plan = plan(directory.path());
    plan.groups[0].turns_max = 1;
    plan.limits = workers::Limits { queue_timeout: 2 * HANG_TIMEOUT, ..workers::Limits::default() };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let house = House::of(plan, directory, listener, Settings::default(), approvals::Settings::default()).await;
    let running = house.operator.post("/api/turns", r#"{"prompt":"[[hang]]"}"#).await;
    assert_eq!(running.status, 201, "{}", running.body);
    let (caller, long) = (house.operator.clone(), json!({"prompt": format!("[[text]]{}", "x".repeat(1_000_000))}));
    let waiting = async { caller.post("/api/turns", &long.to_string()).await };
    let check = async {
        until_metric(&house, "switchboard_queue_length", |length| length == 1).await;
        until_memory(&house, |bytes| bytes >= 1_000_000).await;
        let interrupt = format!("/api/turns/{}/interrupt", running.json()["turn"].as_str().unwrap());
        assert_eq!(house.operator.post(&interrupt, "").await.status, 200);
    };
    let (begun, ()) = tokio::join!(waiting, check);
    assert_eq!(begun.status, 201, "{}", begun.body);
    until_memory(&house, |bytes| bytes == 0).await;
    house.stop().await;
}

/// What a response repeats of its request takes more than the request alone.
#[tokio::test]
async fn a_request_that_is_refused_for_its_memory_does_not_count_for_its_key() {
    let house = house_with_memory(32 * MIB).await;
    let caller = limited(&house, KeyLimits { requests_per_minute: NonZeroU32::new(1), ..KeyLimits::default() }).await;
    let tool = json!({"type": "function", "name": "a", "description": "x".repeat(1_500_000), "parameters": {}});
    let long = json!({"model": "quiet", "tools": [tool], "input": "[[text]]"}).to_string();
    let short = json!({"model": "quiet", "input": "[[text]]"}).to_string();
    assert_eq!(caller.post("/v1/responses", &long).await.refusal(), "413 request_entity_too_large");
    assert_eq!(caller.post("/v1/responses", &short).await.status, 200);
    assert_eq!(caller.post("/v1/responses", &short).await.refusal(), "429 rate_limited");
    house.stop().await;
}

/// A short request that continues a long conversation.
#[tokio::test]
async fn what_is_read_from_the_store_counts_before_it_is_read() {
    let house = house_with_memory(23 * MIB).await;
    let caller = house.caller(&[Scope::Use]).await;
    let conversation = caller.post("/v1/conversations", "{}").await.json()["id"].clone();
    let ask = |input: &str| json!({"model": "quiet", "input": input, "conversation": conversation}).to_string();
    let long = format!("[[text]]{}", "x".repeat(1_000_000));
    let mut last = json!(null);
    for _ in 0..5 {
        let response = caller.post("/v1/responses", &ask(&long)).await;
        assert_eq!(response.status, 200, "{}", response.body);
        last = response.json()["id"].clone();
    }
    let all = caller.get(&format!("/v1/conversations/{}/items", conversation.as_str().unwrap())).await;
    assert_eq!(all.refusal(), "413 request_entity_too_large", "five messages take more than half of the budget");
    let as_response = format!("/v1/responses/{}", conversation.as_str().unwrap());
    assert_eq!(caller.delete(&as_response).await.refusal(), "404 response_not_found", "a conversation is no response");
    let one = format!("/v1/responses/{}/input_items", last.as_str().unwrap());
    assert_eq!(caller.get(&one).await.status, 200);

    let mut held = Vec::new();
    for bodies in 1..=10 {
        held.push(send_part_of_a_body(&caller, MIB).await);
        until_memory(&house, |bytes| bytes >= bodies * MIB).await;
    }
    let next = json!({"model": "quiet", "input": "[[text]]", "previous_response_id": last}).to_string();
    for refused in [caller.post("/v1/responses", &next).await, caller.get(&one).await] {
        assert_eq!(refused.refusal(), "503 memory_exhausted");
    }
    drop(held);
    until_memory(&house, |bytes| bytes == 0).await;
    assert_eq!(caller.post("/v1/responses", &next).await.status, 200);
    until_memory(&house, |bytes| bytes == 0).await;
    house.stop().await;
}

#[tokio::test]
async fn a_websocket_message_of_very_many_values_is_refused() {
    let house = House::open().await;
    let mut frames = house.operator.frames().await;
    let values = format!(r#"{{"type":"response.create","model":"quiet","input":[{}0]}}"#, "0,".repeat(250_000));
    frames.send(Message::Text(values.into())).await;
    assert_eq!(frames.error().await, "413 request_entity_too_large");
    frames.answer(json!({"model": "quiet", "input": "[[text]]"})).await;
    house.stop().await;
}

#[tokio::test]
async fn a_websocket_message_beyond_the_memory_budget_ends_its_connection() {
    let house = house_with_memory(2 * MIB).await;
    let mut frames = house.operator.frames().await;
    let part = |kind| Message::Frame(Frame::message(vec![b' '; 100_000], OpCode::Data(kind), false));
    frames.send(part(Data::Text)).await;
    for _ in 0..9 {
        frames.send(part(Data::Continue)).await;
    }
    until_memory(&house, |bytes| bytes >= 900_000).await;
    frames.send(part(Data::Continue)).await;
    assert_eq!(frames.error().await, "503 memory_exhausted");
    assert_eq!(frames.closed().await, Some(1013));
    until_memory(&house, |bytes| bytes == 0).await;
    house.stop().await;
}

#[tokio::test]
async fn what_websockets_remember_counts_and_is_given_back() {
    let house = House::open().await;
    let mut frames = house.operator.frames().await;
    let long = format!("{}[[text]]", "x".repeat(900_000));
    let first = frames.answer(json!({"model": "quiet", "input": long, "store": false})).await;
    until_memory(&house, |bytes| (1_800_000..3_000_000).contains(&bytes)).await;
    let next = json!({"model": "quiet", "input": "[[text]]", "store": false, "previous_response_id": first["id"]});
    frames.answer(next).await;
    frames.close().await;
    until_memory(&house, |bytes| bytes == 0).await;
    house.stop().await;
}

#[tokio::test]
async fn a_websocket_that_floods_pings_or_pongs_is_closed() {
    let house = House::open().await;
    for control_frame in [Message::Ping(Vec::new().into()), Message::Pong(Vec::new().into())] {
        let mut frames = house.operator.frames().await;
        for _ in 0..101 {
            frames.send(control_frame.clone()).await;
        }
        assert_eq!(frames.closed().await, Some(1008));
    }
    house.stop().await;
}

#[tokio::test]
async fn a_websocket_message_that_never_ends_is_given_up() {
    let requests = RequestLimits { body_timeout: Duration::from_millis(200), ..RequestLimits::default() };
    let settings = Settings { requests, heartbeat: Duration::from_millis(100), ..Settings::default() };
    let house = House::with(settings, approvals::Settings::default()).await;
    let mut frames = house.operator.frames().await;
    frames.send(Message::Frame(Frame::message(vec![b' '; 1000], OpCode::Data(Data::Text), false))).await;
    assert_eq!(frames.error().await, "408 body_timeout");
    assert_eq!(frames.closed().await, Some(1008));
    until_memory(&house, |bytes| bytes == 0).await;
    house.stop().await;
}

#[tokio::test]
async fn a_caller_that_half_closes_gets_its_answer() {
    let house = House::open().await;
    for (body, last) in [
        (chat("[[slow 5 20]]"), "s4 "),
        (
            json!({"model": "quiet", "messages": [{"role": "user", "content": "[[slow 5 20]]"}], "stream": true})
                .to_string(),
            "[DONE]",
        ),
    ] {
        let mut stream = TcpStream::connect(house.operator.address).await.unwrap();
        stream.write_all(post(&house.operator, &body).as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = String::new();
        timeout(HANG_TIMEOUT, stream.read_to_string(&mut answer)).await.expect("the connection ends").unwrap();
        assert!(answer.contains("HTTP/1.1 200 OK") && answer.contains(last), "{answer}");
    }
    house.stop().await;
}

/// The second request waits behind the first, and hides from the server for a while that nothing follows.
#[tokio::test]
async fn a_caller_that_half_closes_behind_two_requests_gets_both_answers() {
    let house = House::open().await;
    let both =
        format!("{}{}", post(&house.operator, &chat("[[slow 3 700]]")), post(&house.operator, &chat("[[text]]")));
    let mut stream = TcpStream::connect(house.operator.address).await.unwrap();
    stream.write_all(both.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = String::new();
    timeout(HANG_TIMEOUT, stream.read_to_string(&mut answer)).await.expect("the connection ends").unwrap();
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 2, "{answer}");
    assert!(answer.contains("s2 ") && answer.contains("Hello from mock."), "{answer}");
    house.stop().await;
}

#[tokio::test]
async fn a_refused_body_is_read_to_its_end_and_takes_no_memory() {
    let house = house_with_memory(4 * MIB).await;
    let mut stream = TcpStream::connect(house.operator.address).await.unwrap();
    // More than the kernel buffers: a caller that cannot send it all sees no answer.
    let long = post(&house.operator, &chat(&"x".repeat(12 * MIB)));
    stream.write_all(long.as_bytes()).await.expect("it can be sent");
    let mut answer = Vec::new();
    timeout(HANG_TIMEOUT, stream.read_buf(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 413"), "{:.100}", String::from_utf8_lossy(&answer));
    until_memory(&house, |bytes| bytes == 0).await;
    house.stop().await;
}

/// A caller that announces bodies and sends none of them takes no memory from others.
#[tokio::test]
async fn an_announced_body_takes_no_memory_before_it_arrives() {
    let house = house_with_memory(4 * MIB).await;
    let mut announced = Vec::new();
    for _ in 0..8 {
        announced.push(send_part_of_a_body_of(&house.operator, 1, MIB).await);
    }
    // Each of them has its first buffer.
    until_memory(&house, |bytes| bytes >= 8 * 64 * 1024).await;
    assert_eq!(house.operator.post("/v1/chat/completions", &chat("[[text]]")).await.status, 200);
    drop(announced);
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_half_closes_gets_answers_of_every_kind() {
    // Whether the server sees the request or its end first is up to the machine.
    const ROUNDS: usize = 10;
    let house = House::open().await;
    let key = &house.operator.key;
    let long = post(&house.operator, &chat(&format!("{}[[text]]", "x".repeat(300_000))));
    let short = post(&house.operator, &chat("[[text]]"));
    let truncated = long[..long.len() / 2].to_owned();
    let (head, body) = short.split_once("\r\n\r\n").unwrap();
    let unmeasured = head.lines().filter(|line| !line.starts_with("content-length")).collect::<Vec<_>>().join("\r\n");
    let chunked = format!("{unmeasured}\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n", body.len());
    let requests = [
        (format!("GET /v1/models HTTP/1.1\r\nhost: localhost\r\nx-api-key: {key}\r\n\r\n"), vec![200]),
        ("GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned(), vec![200]),
        ("GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned(), vec![401]),
        (post(&house.operator, "{"), vec![400]),
        (short.replace("application/json", "text/plain"), vec![415]),
        (format!("{short}{short}"), vec![200, 200]),
        (long, vec![200]),
        (truncated, vec![400]),
        (format!("{chunked}0\r\n\r\n"), vec![200]),
        (chunked, vec![400]),
        (format!("{head}\r\nexpect: 100-continue\r\n\r\n{body}"), vec![200]),
    ];
    for (request, statuses) in requests.iter().cycle().take(requests.len() * ROUNDS) {
        let mut stream = TcpStream::connect(house.operator.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = String::new();
        timeout(HANG_TIMEOUT, stream.read_to_string(&mut answer)).await.expect("the connection ends").unwrap();
        let answered: Vec<u16> = answer
            .split("HTTP/1.1 ")
            .filter_map(|part| part.get(..3)?.parse().ok())
            .filter(|status| *status != 100)
            .collect();
        assert_eq!(&answered, statuses, "{request:.200}\n{answer}");
    }
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_half_closes_and_reads_slowly_gets_a_long_answer_as_a_whole() {
    // Together more than the kernel buffers for both ends.
    const MESSAGES: usize = 16;
    const MESSAGE_BYTES: usize = MIB / 2;
    let house = House::open().await;
    let mut input = vec![json!({"role": "user", "content": "x".repeat(MESSAGE_BYTES)}); MESSAGES];
    input.push(json!({"role": "user", "content": "[[text]]"}));
    let asked = json!({"model": "quiet", "input": input}).to_string();
    let stored = house.operator.post("/v1/responses", &asked).await.json();
    let request = format!(
        "GET /v1/responses/{}/input_items HTTP/1.1\r\nhost: localhost\r\nx-api-key: {}\r\n\r\n",
        stored["id"].as_str().unwrap(),
        house.operator.key
    );
    let mut stream = TcpStream::connect(house.operator.address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = vec![stream.read_u8().await.unwrap()];
    // Meanwhile the server looks several times whether this caller is gone.
    let looked_enough = Instant::now() + Duration::from_millis(200);
    while Instant::now() < looked_enough {
        house.operator.get("/healthz").await;
    }
    timeout(HANG_TIMEOUT, stream.read_to_end(&mut answer)).await.expect("the connection ends").unwrap();
    assert!(answer.len() > MESSAGES * MESSAGE_BYTES, "{} bytes", answer.len());
    house.stop().await;
}

#[tokio::test]
async fn a_caller_that_closes_is_gone_whether_it_waits_for_a_whole_answer_or_reads_a_silent_stream() {
    // No heartbeat finds it out.
    let settings = Settings { heartbeat: 10 * HANG_TIMEOUT, ..Settings::default() };
    let house = House::with(settings, approvals::Settings::default()).await;
    for (stream, behind) in [(false, ""), (true, ""), (false, "G"), (false, "GET /healthz HTTP/1.1\r\n\r\n")] {
        let messages = json!([{"role": "user", "content": "[[hang]]"}]);
        let body = json!({"model": "quiet", "messages": messages, "stream": stream}).to_string();
        let mut caller = TcpStream::connect(house.operator.address).await.unwrap();
        // One that was answered before, on the same connection, makes no difference.
        let both = format!("{}{}{behind}", post(&house.operator, &chat("[[text]]")), post(&house.operator, &body));
        caller.write_all(both.as_bytes()).await.unwrap();
        let last = if stream { "event-stream" } else { "Hello from mock." };
        let mut answer = Vec::new();
        while !String::from_utf8_lossy(&answer).contains(last) {
            assert!(caller.read_buf(&mut answer).await.unwrap() > 0, "the connection stays");
        }
        until_turns(&house, 1).await;
        drop(caller);
        until_turns(&house, 0).await;
    }
    house.stop().await;
}

/// The kernel reports the end once, or not at all if too much stands before it.
#[tokio::test]
async fn a_caller_that_leaves_after_its_end_was_seen_or_behind_full_buffers_is_gone() {
    let house = House::open().await;
    let hang = post(&house.operator, &chat("[[hang]]"));
    let mut half_closed = TcpStream::connect(house.operator.address).await.unwrap();
    half_closed.write_all(hang.as_bytes()).await.unwrap();
    half_closed.shutdown().await.unwrap();
    let mut interim = [0; 25];
    timeout(HANG_TIMEOUT, half_closed.read_exact(&mut interim)).await.unwrap().unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    until_turns(&house, 1).await;
    drop(half_closed);
    until_turns(&house, 0).await;

    let mut caller = TcpStream::connect(house.operator.address).await.unwrap();
    caller.write_all(hang.as_bytes()).await.unwrap();
    until_turns(&house, 1).await;
    let fill = async { while caller.write_all(&[b' '; 64 << 10]).await.is_ok() {} };
    // Until nothing more can be sent.
    timeout(Duration::from_secs(1), fill).await.expect_err("the server does not read it");
    drop(caller);
    until_turns(&house, 0).await;
    house.stop().await;
}

fn post(caller: &Caller, body: &str) -> String {
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nx-api-key: {}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        caller.key,
        body.len()
    )
}
