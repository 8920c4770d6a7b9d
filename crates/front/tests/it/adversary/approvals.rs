//! Callers without a key or without an operator's scopes, and agents that ask for more than people can look at.

use approvals::Webhook;
use front::Settings;
use front::keys::Scope;
use serde_json::{Value, json};
use testkit::HANG_TIMEOUT;
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::http::{Caller, exchange};
use crate::support::House;

/// The head of a POST that announces a body which never comes.
fn post_without_its_body(path: &str, address: std::net::SocketAddr) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: 15000000\r\n\
         connection: close\r\n\r\n"
    )
}

/// The approvals that wait, once there are so many.
async fn pending(house: &House, count: usize) -> Vec<Value> {
    timeout(HANG_TIMEOUT, async {
        loop {
            let list = house.operator.get("/api/approvals?state=pending&order=asc").await.json();
            let approvals = list["approvals"].as_array().unwrap().clone();
            if approvals.len() == count {
                break approvals;
            }
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("they are asked")
}

#[tokio::test]
async fn there_is_no_route_for_links_without_a_webhook() {
    let house = House::open().await;
    let anybody = Caller { address: house.operator.address, key: "none".into() };
    let path = format!("/api/approvals/by-token/{}", "0".repeat(64));
    assert_eq!(anybody.get(&path).await.refusal(), "404 route_not_found");
    assert_eq!(anybody.post(&path, "").await.refusal(), "404 route_not_found");
    let refused =
        timeout(HANG_TIMEOUT, exchange(anybody.address, &post_without_its_body(&path, anybody.address))).await;
    assert!(refused.expect("no body is waited for").starts_with("HTTP/1.1 404"));
    let described = house.operator.get("/api/openapi.json").await.json();
    assert_eq!(described["paths"]["/api/approvals/by-token/{token}"], Value::Null);
    house.stop().await;
}

#[tokio::test]
async fn a_caller_without_a_key_sends_no_body() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let webhook = Webhook::new("http://127.0.0.1:9/", None, "http://127.0.0.1/").unwrap();
    let deciding = approvals::Settings { webhook: Some(webhook), ..approvals::Settings::default() };
    let house = House::at(listener, Settings::default(), deciding).await;
    let path = format!("/api/approvals/by-token/{}", "0".repeat(64));
    let refused = timeout(HANG_TIMEOUT, exchange(address, &post_without_its_body(&path, address))).await;
    let refused = refused.expect("no body is waited for");
    assert!(refused.starts_with("HTTP/1.1 413") && refused.contains("request_entity_too_large"), "{refused}");
    house.stop().await;
}

#[tokio::test]
async fn a_key_that_is_no_operators_allows_no_escalation_of_its_own() {
    let house = House::open().await;
    let tenant = house.caller(&[Scope::Use, Scope::OwnTurns, Scope::ForSession]).await;
    tenant.post("/api/turns", r#"{"prompt":"[[shellesc touch x]]"}"#).await;
    let [approval] = &pending(&house, 1).await[..] else { unreachable!() };
    assert_eq!(approval["escalation"], json!(["outside_sandbox"]));
    let path = format!("/api/approvals/{}/decide", approval["id"].as_str().unwrap());
    for verdict in [json!({"verdict": "allow"}), json!({"verdict": "allow_with_amendment", "words": ["touch", "x"]})] {
        let mut body = verdict;
        body["shown_hash"] = approval["shown_hash"].clone();
        assert_eq!(tenant.post(&path, &body.to_string()).await.refusal(), "403 scope_missing");
    }
    assert_eq!(pending(&house, 1).await[0]["id"], approval["id"]);
    house.stop().await;
}

#[tokio::test]
async fn a_flood_hides_no_approval() {
    let house = House::open().await;
    for number in 0..3 {
        house.start(&format!("[[shell touch {number}]]")).await;
        pending(&house, number + 1).await;
    }
    let mut seen = Vec::new();
    let mut query = "state=pending&order=asc&limit=1".to_owned();
    loop {
        let page = house.check(&house.operator.get(&format!("/api/approvals?{query}")).await, "Approvals").await;
        assert_eq!(page["total"], 3, "each page tells how many there are");
        seen.push(page["approvals"][0]["command"][2].as_str().unwrap().to_owned());
        let Some(next) = page["next"].as_str() else { break };
        query = format!("state=pending&order=asc&limit=1&after={next}");
    }
    assert_eq!(seen, ["touch 0", "touch 1", "touch 2"], "the oldest first");
    assert_eq!(house.operator.get("/api/approvals?order=up").await.refusal(), "400 invalid_value");
    house.stop().await;
}

#[tokio::test]
async fn the_middle_of_a_long_command_can_be_read_before_it_is_allowed() {
    let house = House::open().await;
    let script = format!("echo {} ; touch middle ; echo {}", "x".repeat(4_000), "y".repeat(4_000));
    house.start(&format!("[[shell {script}]]")).await;
    let [listed] = &pending(&house, 1).await[..] else { unreachable!() };
    assert_eq!(listed["is_long"], true);
    assert!(!listed["command"][2].as_str().unwrap().contains("touch middle"), "a list shortens it");
    let shown = house.operator.get(&format!("/api/approvals/{}", listed["id"].as_str().unwrap())).await;
    let shown = house.check(&shown, "Approval").await;
    assert_eq!(shown["command"][2], script.as_str());
    assert_eq!(shown["shown_hash"], listed["shown_hash"]);
    house.stop().await;
}
