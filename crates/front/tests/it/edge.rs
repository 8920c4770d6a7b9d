//! Who is let in, and what everybody else is told, to the byte.

use std::collections::BTreeSet;
use std::time::Duration;

use expect_test::{Expect, expect};
use front::keys::{Keys, Scope};
use front::{AttemptLimits, RequestLimits, Settings};
use store::Store;
use testkit::HANG_TIMEOUT;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::http::{Caller, exchange, exchange_whole};
use crate::support::{House, KEY};

/// Sends a request as it is written, with its line ends put right.
async fn check(house: &House, request: &str, expected: &Expect) {
    let lines: Vec<_> = request.trim().lines().map(str::trim).collect();
    let answer =
        exchange(house.operator.address, &format!("{}\r\nconnection: close\r\n\r\n", lines.join("\r\n"))).await;
    expected.assert_eq(&answer.replace('\r', ""));
}

#[tokio::test]
async fn the_head_of_a_request_has_room_for_16_kib_and_never_for_32() {
    let house = House::open().await;
    for (bytes, status) in [(15 << 10, "200"), (32 << 10, "431")] {
        let request = format!(
            "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx-long: {}\r\n\r\n",
            "x".repeat(bytes)
        );
        let mut stream = TcpStream::connect(house.operator.address).await.unwrap();
        // The rest of a head that is refused may not be taken.
        stream.write_all(request.as_bytes()).await.ok();
        let mut answer = [0; 12];
        timeout(HANG_TIMEOUT, stream.read_exact(&mut answer)).await.unwrap().unwrap();
        assert_eq!(String::from_utf8_lossy(&answer), format!("HTTP/1.1 {status}"), "{bytes}");
    }
    house.stop().await;
}

#[tokio::test]
async fn a_request_that_is_not_meant_for_us_is_refused_before_anything_else() {
    let house = House::open().await;
    check(
        &house,
        "GET /healthz HTTP/1.1",
        &expect![[r#"
            HTTP/1.1 400 Bad Request
            content-type: application/json
            content-length: 118
            connection: close

            {"error":{"message":"send exactly one Host header","type":"invalid_request_error","param":null,"code":"host_missing"}}"#]],
    )
    .await;
    check(
        &house,
        "GET /healthz HTTP/1.1\nhost: localhost\nhost: localhost",
        &expect![[r#"
            HTTP/1.1 400 Bad Request
            content-type: application/json
            content-length: 118
            connection: close

            {"error":{"message":"send exactly one Host header","type":"invalid_request_error","param":null,"code":"host_missing"}}"#]],
    )
    .await;
    check(&house, "GET /healthz HTTP/1.1\nhost: 127.0.0.1.evil.example", &expect![[r#"
        HTTP/1.1 403 Forbidden
        content-type: application/json
        content-length: 176
        connection: close

        {"error":{"message":"this Host is not served here; use localhost, or add the name to the configuration's `hosts`","type":"permission_error","param":null,"code":"host_refused"}}"#]]).await;
    check(&house, "GET http://evil.example/healthz HTTP/1.1\nhost: localhost", &expect![[r#"
        HTTP/1.1 403 Forbidden
        content-type: application/json
        content-length: 176
        connection: close

        {"error":{"message":"this Host is not served here; use localhost, or add the name to the configuration's `hosts`","type":"permission_error","param":null,"code":"host_refused"}}"#]]).await;
    check(&house, "GET /healthz HTTP/1.1\nhost: localhost\norigin: http://localhost", &expect![[r#"
        HTTP/1.1 403 Forbidden
        content-type: application/json
        content-length: 192
        connection: close

        {"error":{"message":"requests of web pages (with an Origin header) are refused; the configuration's `cors_origins` allows some","type":"permission_error","param":null,"code":"origin_refused"}}"#]]).await;
    check(&house, "GET /nowhere HTTP/1.1\nhost: localhost\norigin: null", &expect![[r#"
        HTTP/1.1 403 Forbidden
        content-type: application/json
        content-length: 192
        connection: close

        {"error":{"message":"requests of web pages (with an Origin header) are refused; the configuration's `cors_origins` allows some","type":"permission_error","param":null,"code":"origin_refused"}}"#]]).await;
    check(
        &house,
        "GET /healthz HTTP/1.1\nhost: [::1]:4180",
        &expect![[r#"
        HTTP/1.1 200 OK
        content-type: application/json
        content-length: 46
        connection: close

        {"status":"ok","version":"0.1.0","reasons":[]}"#]],
    )
    .await;
    house.stop().await;
}

#[tokio::test]
async fn errors_are_told_in_one_form() {
    let house = House::open().await;
    let limited = house.caller(&[Scope::Use]).await.key;
    check(&house, "GET /nowhere HTTP/1.1\nhost: localhost", &expect![[r#"
        HTTP/1.1 404 Not Found
        content-type: application/json
        content-length: 143
        connection: close

        {"error":{"message":"there is no such route; GET /api/openapi.json lists them","type":"not_found_error","param":null,"code":"route_not_found"}}"#]]).await;
    check(&house, "DELETE /api/turns HTTP/1.1\nhost: localhost", &expect![[r#"
        HTTP/1.1 405 Method Not Allowed
        content-type: application/json
        allow: GET,HEAD,POST
        content-length: 166
        connection: close

        {"error":{"message":"this route does not know that method; GET /api/openapi.json lists them","type":"invalid_request_error","param":null,"code":"method_not_allowed"}}"#]]).await;
    check(&house, "GET /api/turns HTTP/1.1\nhost: localhost", &expect![[r#"
        HTTP/1.1 401 Unauthorized
        content-type: application/json
        www-authenticate: Bearer realm="api"
        content-length: 208
        connection: close

        {"error":{"message":"send a key as `Authorization: Bearer KEY`, `x-api-key: KEY` or `api-key: KEY`; `switchboard keys add NAME` makes one","type":"authentication_error","param":null,"code":"invalid_api_key"}}"#]]).await;
    check(&house, "GET /api/turns HTTP/1.1\nhost: localhost\napi-key: wrong", &expect![[r#"
        HTTP/1.1 401 Unauthorized
        content-type: application/json
        www-authenticate: Bearer realm="api"
        content-length: 139
        connection: close

        {"error":{"message":"this key is not valid; it may have been revoked","type":"authentication_error","param":null,"code":"invalid_api_key"}}"#]]).await;
    check(&house, &format!("GET /api/workers HTTP/1.1\nhost: localhost\nx-api-key: {limited}"), &expect![[r#"
        HTTP/1.1 403 Forbidden
        content-type: application/json
        content-length: 143
        connection: close

        {"error":{"message":"this key lacks the scope `operate`; use a key that has it","type":"permission_error","param":null,"code":"scope_missing"}}"#]]).await;
    house.stop().await;
}

#[tokio::test]
async fn every_route_asks_for_what_it_needs_whatever_carries_the_key() {
    let attempts = AttemptLimits { failures_max: u32::MAX, failures_in_all_max: u32::MAX, ..AttemptLimits::default() };
    let requests = RequestLimits { attempts, ..RequestLimits::default() };
    let house = House::with(Settings { requests, ..Settings::default() }, approvals::Settings::default()).await;
    let limited = house.caller(&[Scope::Use]).await;
    let description = house.operator.get("/api/openapi.json").await.json();
    let mut seen = 0;
    for (path, operations) in description["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let line = format!("{} {path} HTTP/1.1", method.to_uppercase());
            let send = async |carrier: &str| {
                let text = format!("{line}\r\nhost: localhost\r\nconnection: close\r\n{carrier}\r\n");
                let answer = exchange(house.operator.address, &text).await;
                answer.split(' ').nth(1).unwrap().parse::<u16>().unwrap()
            };
            let Some(scope) = operation["security"][0]["key"][0].as_str() else {
                assert!(![401, 403, 405].contains(&send("").await), "{line} needs no key");
                continue;
            };
            seen += 1;
            assert_eq!(send("").await, 401, "{line} without a key");
            for carrier in ["authorization: Bearer ", "x-api-key: ", "api-key: "] {
                let wrong = format!("{carrier}sb_0000000000_{}\r\n", "0".repeat(64));
                assert_eq!(send(&wrong).await, 401, "{line} with a wrong {carrier}");
                if scope == "operate" {
                    assert_eq!(
                        send(&format!("{carrier}{}\r\n", limited.key)).await,
                        403,
                        "{line} with a small {carrier}"
                    );
                }
            }
        }
    }
    assert!(seen > 10, "{seen} routes need a key");
    house.stop().await;
}

#[tokio::test]
async fn a_body_is_json_in_time_and_not_too_long() {
    let requests =
        RequestLimits { body_bytes_max: 64, body_timeout: Duration::from_millis(200), ..RequestLimits::default() };
    let house = House::with(Settings { requests, ..Settings::default() }, approvals::Settings::default()).await;
    let send = async |kind: &str, length: usize, body: &str| {
        let head = format!("host: localhost\r\napi-key: {KEY}\r\nconnection: close\r\ncontent-type: {kind}");
        let text = format!("POST /api/turns HTTP/1.1\r\n{head}\r\ncontent-length: {length}\r\n\r\n{body}");
        let answer = exchange(house.operator.address, &text).await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        format!("{} {body}", head.lines().next().unwrap())
    };
    let json = "application/json";
    let mut told = String::new();
    for (kind, length, body) in [
        ("text/plain", 2, "{}"),
        (json, 0, ""),
        (json, 9, "{\"prompt\""),
        (json, 17, "{\"promt\":\"hello\"}"),
        (json, 12, "{\"prompt\":1}"),
        (json, 2, "{}"),
        (json, 65, ""),
        (json, 60, "{\"prompt\""),
    ] {
        told.push_str(&send(kind, length, body).await);
        told.push('\n');
    }
    expect![[r#"
        HTTP/1.1 415 Unsupported Media Type {"error":{"message":"a body must be JSON; send the header content-type: application/json","type":"invalid_request_error","param":null,"code":"content_type_refused"}}
        HTTP/1.1 400 Bad Request {"error":{"message":"the body is empty; send a JSON object","type":"invalid_request_error","param":null,"code":"invalid_json"}}
        HTTP/1.1 400 Bad Request {"error":{"message":"the body cannot be used: EOF while parsing an object at line 1 column 9","type":"invalid_request_error","param":null,"code":"invalid_json"}}
        HTTP/1.1 400 Bad Request {"error":{"message":"the body cannot be used: unknown field `promt`, expected one of `prompt`, `input`, `profile`, `group`, `thread`, `cwd`, `model`, `effort` at line 1 column 8","type":"invalid_request_error","param":null,"code":"invalid_value"}}
        HTTP/1.1 400 Bad Request {"error":{"message":"the body cannot be used: invalid type: integer `1`, expected a string at line 1 column 11","type":"invalid_request_error","param":null,"code":"invalid_value"}}
        HTTP/1.1 400 Bad Request {"error":{"message":"send either `prompt` (a text) or `input` (a list of parts)","type":"invalid_request_error","param":null,"code":"invalid_value"}}
        HTTP/1.1 413 Payload Too Large {"error":{"message":"the body is longer than 64 bytes; send less","type":"invalid_request_error","param":null,"code":"request_entity_too_large"}}
        HTTP/1.1 408 Request Timeout {"error":{"message":"the body took too long to arrive; send it at once","type":"invalid_request_error","param":null,"code":"body_timeout"}}
    "#]].assert_eq(&told);
    let chunked = format!(
        "POST /api/turns HTTP/1.1\r\nhost: localhost\r\napi-key: {KEY}\r\nconnection: close\r\ncontent-type: {json}\r\n\
         transfer-encoding: chunked\r\n\r\n41\r\n{}\r\n0\r\n\r\n",
        "x".repeat(65)
    );
    assert!(exchange(house.operator.address, &chunked).await.starts_with("HTTP/1.1 413"));
    house.stop().await;
}

#[tokio::test]
async fn guessing_is_slowed_down_and_locks_nobody_out() {
    let attempts =
        AttemptLimits { failures_max: 3, forgive_after: Duration::from_secs(3600), ..AttemptLimits::default() };
    let requests = RequestLimits { attempts, ..RequestLimits::default() };
    let house = House::with(Settings { requests, ..Settings::default() }, approvals::Settings::default()).await;
    let guesser = Caller { address: house.operator.address, key: "guess".into() };
    let mut told = Vec::new();
    for _ in 0..5 {
        told.push(guesser.get("/api/turns").await.refusal());
    }
    let invalid = "401 invalid_api_key";
    assert_eq!(told, [invalid, invalid, invalid, "429 too_many_failures", "429 too_many_failures"]);
    assert!(guesser.get("/api/turns").await.headers.contains("retry-after: 3600"));
    assert_eq!(house.operator.get("/api/turns").await.status, 200);
    house.stop().await;
}

#[tokio::test]
async fn the_first_start_makes_a_key_that_the_next_one_knows() {
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("store.db");
    let store = Store::open(&path, store::Limits::default()).unwrap();
    let (_, first) = Keys::open(&store, None).await.unwrap();
    let first = first.expect("the first start makes a key");
    let (again, another) = Keys::open(&store, None).await.unwrap();
    assert!(another.is_none(), "it is shown once");
    assert!(again.is_valid(first.secret.reveal()));
    assert!(!again.is_valid("sb_0000000000_0"));
    store.close().await.unwrap();
    let written = std::fs::read(&path).unwrap();
    let secret = first.secret.reveal().rsplit('_').next().unwrap();
    assert!(!written.windows(secret.len()).any(|bytes| bytes == secret.as_bytes()), "only the hash is kept");
}

#[tokio::test]
async fn every_response_has_a_name_of_our_own() {
    let house = House::open().await;
    let mut names = BTreeSet::new();
    for path in ["/healthz", "/nowhere", "/api/turns", "/api/keys"] {
        let head = format!("host: localhost\r\nx-api-key: {KEY}\r\nx-request-id: mine\r\nconnection: close");
        let answer = exchange_whole(house.operator.address, &format!("GET {path} HTTP/1.1\r\n{head}\r\n\r\n")).await;
        let name = answer.lines().find_map(|line| line.strip_prefix("x-request-id: ")).unwrap().to_owned();
        assert!(name.starts_with("req_") && name.len() == 36, "{name}");
        assert!(names.insert(name), "no two are alike");
    }
    house.stop().await;
}
