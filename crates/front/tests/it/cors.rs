//! Web pages: those of the configuration may ask, with preflights answered; all others are refused.

use expect_test::{Expect, expect};
use front::Settings;

use crate::http::exchange;
use crate::support::{House, KEY};

const PAGE: &str = "https://app.example.com";

async fn open() -> House {
    let settings = Settings { cors_origins: vec![PAGE.parse().unwrap()], ..Settings::default() };
    House::with(settings, approvals::Settings::default()).await
}

/// The answer to a request, without its body.
async fn head(house: &House, request: &str) -> String {
    let lines: Vec<_> = request.trim().lines().map(str::trim).collect();
    let text = format!("{}\r\nhost: localhost\r\nconnection: close\r\n\r\n", lines.join("\r\n"));
    let answer = exchange(house.operator.address, &text).await;
    answer.split_once("\r\n\r\n").unwrap().0.replace('\r', "")
}

async fn check(house: &House, request: &str, expected: &Expect) {
    expected.assert_eq(&head(house, request).await);
}

#[tokio::test]
async fn a_page_of_the_configuration_asks_first_and_then_reads_also_what_goes_wrong() {
    let house = open().await;
    check(
        &house,
        &format!(
            "OPTIONS /api/turns HTTP/1.1\norigin: {PAGE}\naccess-control-request-method: POST\naccess-control-request-headers: authorization, content-type"
        ),
        &expect![[r#"
            HTTP/1.1 204 No Content
            access-control-allow-methods: GET, POST, DELETE
            access-control-max-age: 7200
            access-control-allow-headers: authorization, content-type
            vary: origin
            access-control-allow-origin: https://app.example.com
            access-control-expose-headers: x-request-id, mcp-session-id, retry-after, retry-after-ms, x-should-retry, openai-processing-ms, x-switchboard-ignored, x-ratelimit-limit-requests, x-ratelimit-remaining-requests, x-ratelimit-reset-requests, x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens
            allow: GET,HEAD,POST
            connection: close"#]],
    )
    .await;
    check(&house, &format!("GET /healthz HTTP/1.1\norigin: {PAGE}"), &expect![[r#"
        HTTP/1.1 200 OK
        content-type: application/json
        vary: origin
        access-control-allow-origin: https://app.example.com
        access-control-expose-headers: x-request-id, mcp-session-id, retry-after, retry-after-ms, x-should-retry, openai-processing-ms, x-switchboard-ignored, x-ratelimit-limit-requests, x-ratelimit-remaining-requests, x-ratelimit-reset-requests, x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens
        content-length: 46
        connection: close"#]]).await;
    check(&house, &format!("GET /api/turns HTTP/1.1\norigin: {PAGE}"), &expect![[r#"
        HTTP/1.1 401 Unauthorized
        content-type: application/json
        www-authenticate: Bearer realm="api"
        vary: origin
        access-control-allow-origin: https://app.example.com
        access-control-expose-headers: x-request-id, mcp-session-id, retry-after, retry-after-ms, x-should-retry, openai-processing-ms, x-switchboard-ignored, x-ratelimit-limit-requests, x-ratelimit-remaining-requests, x-ratelimit-reset-requests, x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens
        content-length: 208
        connection: close"#]]).await;
    check(
        &house,
        "GET /healthz HTTP/1.1",
        &expect![[r#"
        HTTP/1.1 200 OK
        content-type: application/json
        vary: origin
        content-length: 46
        connection: close"#]],
    )
    .await;
    let read = head(&house, &format!("GET /api/turns HTTP/1.1\norigin: {PAGE}\nauthorization: Bearer {KEY}")).await;
    assert!(read.starts_with("HTTP/1.1 200") && read.contains(PAGE), "{read}");
    assert!(!read.contains("access-control-allow-credentials"), "{read}");
    house.stop().await;
}

#[tokio::test]
async fn any_other_page_is_refused_and_learns_nothing() {
    let house = open().await;
    for origin in [
        "https://evil.example",
        "https://app.example.com.evil.example",
        "http://app.example.com",
        "https://app.example.com:8443",
        "https://APP.example.com",
        "https://app.example.com/",
        "null",
        "",
        "*",
    ] {
        for line in ["GET /healthz HTTP/1.1", "OPTIONS /api/turns HTTP/1.1\naccess-control-request-method: POST"] {
            let refused = head(&house, &format!("{line}\norigin: {origin}\nx-api-key: {KEY}")).await;
            assert!(refused.starts_with("HTTP/1.1 403"), "{origin}: {refused}");
            assert!(!refused.contains("access-control"), "{origin}: {refused}");
        }
    }
    let two = head(&house, &format!("GET /healthz HTTP/1.1\norigin: {PAGE}\norigin: {PAGE}")).await;
    assert!(two.starts_with("HTTP/1.1 403"), "{two}");
    house.stop().await;
}

#[tokio::test]
async fn without_a_configuration_no_page_may_ask() {
    let house = House::open().await;
    let line = "OPTIONS /api/turns HTTP/1.1\naccess-control-request-method: POST";
    let refused = head(&house, &format!("{line}\norigin: {PAGE}")).await;
    assert!(refused.starts_with("HTTP/1.1 403") && !refused.contains("access-control"), "{refused}");
    assert!(!head(&house, "GET /healthz HTTP/1.1").await.contains("vary"));
    house.stop().await;
}
