//! Approvals over HTTP: shown, decided once, by those who may, and by links that only a person's click uses.

use approvals::Webhook;
use front::Settings;
use front::keys::Scope;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::support::House;
use testkit::HANG_TIMEOUT;

/// Starts a turn that asks for a command, and gives the path of its events and the approval.
async fn asking(house: &House) -> (String, Value) {
    let path = house.start("[[shell touch x]]").await;
    house.operator.events(&path, "").await.until("approval_wanted").await;
    let list = house.operator.get("/api/approvals?state=pending").await;
    let list = house.check(&list, "Approvals").await;
    let [approval] = &list["approvals"].as_array().unwrap()[..] else { panic!("one waits: {list}") };
    (path, approval.clone())
}

#[tokio::test]
async fn an_approval_is_decided_once_as_it_was_shown() {
    let house = House::open().await;
    let (events, approval) = asking(&house).await;
    let path = format!("/api/approvals/{}", approval["id"].as_str().unwrap());
    let decide = async |body: Value| house.operator.post(&format!("{path}/decide"), &body.to_string()).await;
    let hash = &approval["shown_hash"];

    assert_eq!(decide(json!({ "verdict": "allow", "shown_hash": "other" })).await.refusal(), "409 approval_changed");
    assert_eq!(decide(json!({ "verdict": "perhaps", "shown_hash": hash })).await.refusal(), "400 invalid_value");
    assert_eq!(decide(json!({ "verdict": "allow" })).await.refusal(), "400 invalid_value");
    let not_offered = decide(json!({ "verdict": "answer", "content": {}, "shown_hash": hash })).await;
    assert_eq!(not_offered.refusal(), "422 verdict_not_offered");

    let decided = decide(json!({ "verdict": "allow", "shown_hash": hash })).await;
    let decided = house.check(&decided, "Decided").await;
    assert_eq!((decided["verdict"].as_str(), decided["by"].as_str()), (Some("allow"), Some("person")));
    let end = house.operator.events(&events, "").await.rest().await;
    assert_eq!(end.last().unwrap()["status"], "completed");
    let late = decide(json!({ "verdict": "deny", "shown_hash": hash })).await;
    assert_eq!(late.refusal(), "409 approval_decided");

    let shown = house.check(&house.operator.get(&path).await, "Approval").await;
    assert_eq!(shown["state"], "allowed");
    let steps: Vec<_> =
        shown["history"].as_array().unwrap().iter().map(|step| step["step"].as_str().unwrap()).collect();
    assert!(steps.contains(&"decided"), "{steps:?}");
    assert_eq!(house.operator.get("/api/approvals/none").await.refusal(), "404 approval_not_found");
    assert_eq!(house.operator.get("/api/approvals?state=open").await.refusal(), "400 invalid_value");
    assert_eq!(house.operator.get("/api/approvals?limit=0").await.refusal(), "400 invalid_value");
    assert_eq!(house.operator.get("/api/approvals?kind=x").await.refusal(), "400 invalid_value");
    house.stop().await;
}

#[tokio::test]
async fn higher_decisions_need_their_scopes() {
    let house = House::open().await;
    let (_, approval) = asking(&house).await;
    let path = format!("/api/approvals/{}/decide", approval["id"].as_str().unwrap());
    let for_session = json!({ "verdict": "allow_for_session", "shown_hash": approval["shown_hash"] }).to_string();
    assert_eq!(house.operator.post(&path, &for_session).await.refusal(), "422 verdict_not_offered");
    let words = ["touch", "x"];
    let amended = json!({ "verdict": "allow_with_amendment", "words": words, "shown_hash": approval["shown_hash"] });
    let body = amended.to_string();
    let operator = house.caller(&[Scope::Use, Scope::Operate]).await;
    assert_eq!(operator.post(&path, &body).await.refusal(), "403 scope_missing");
    let own = operator.post("/api/turns", r#"{"prompt":"[[shell touch y]]"}"#).await.json();
    operator.events(own["events"].as_str().unwrap(), "").await.until("approval_wanted").await;
    let pending = operator.get("/api/approvals?state=pending&limit=1").await.json();
    let of_own = &pending["approvals"][0];
    let path_of_own = format!("/api/approvals/{}/decide", of_own["id"].as_str().unwrap());
    let allow = json!({ "verdict": "allow", "shown_hash": of_own["shown_hash"] }).to_string();
    assert_eq!(
        operator.post(&path_of_own, &allow).await.refusal(),
        "403 scope_missing",
        "nobody allows what he asked himself"
    );
    let deny = json!({ "verdict": "deny", "reason": "no", "shown_hash": of_own["shown_hash"] }).to_string();
    assert_eq!(operator.post(&path_of_own, &deny).await.status, 200);
    assert_eq!(house.operator.post(&path, &body).await.status, 200);
    house.stop().await;
}

#[tokio::test]
async fn a_link_decides_when_it_is_posted_to_and_only_then() {
    let (inbox, listener) =
        (TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let (post, links) = (inbox.local_addr().unwrap(), listener.local_addr().unwrap());
    let webhook =
        Webhook::new(&format!("http://{post}/"), None, &format!("http://{links}/api/approvals/by-token/")).unwrap();
    let deciding = approvals::Settings { webhook: Some(webhook), ..approvals::Settings::default() };
    let house = House::at(listener, Settings::default(), deciding).await;
    let (_, approval) = asking(&house).await;
    let message = timeout(HANG_TIMEOUT, received(&inbox)).await.expect("the webhook is told");
    let link = link_in(&message, "allow");
    let path = link.strip_prefix(&format!("http://{links}")).unwrap();
    let anybody = crate::http::Caller { address: links, key: "none".into() };

    for _ in 0..3 {
        let shown = house.check(&anybody.get(path).await, "Link").await;
        assert_eq!((&shown["verdict"], &shown["approval"]["state"]), (&"allow".into(), &"pending".into()));
    }
    let decided = house.check(&anybody.post(path, "").await, "Decided").await;
    assert_eq!(decided["verdict"], "allow");
    assert_eq!(anybody.post(path, "").await.refusal(), "404 link_not_valid");
    let other = link_in(&message, "deny");
    let other = other.strip_prefix(&format!("http://{links}")).unwrap();
    assert_eq!(anybody.post(other, "").await.refusal(), "409 approval_decided");
    assert_eq!(anybody.get("/api/approvals/by-token/forged").await.refusal(), "404 link_not_valid");
    let shown = house.operator.get(&format!("/api/approvals/{}", approval["id"].as_str().unwrap())).await.json();
    assert_eq!(shown["state"], "allowed");
    house.stop().await;
}

/// The body of the first request.
async fn received(inbox: &TcpListener) -> Value {
    let (mut stream, _) = inbox.accept().await.unwrap();
    let mut text = String::new();
    loop {
        let mut piece = [0; 4096];
        let read = stream.read(&mut piece).await.unwrap();
        text.push_str(std::str::from_utf8(&piece[..read]).unwrap());
        if let Some((_, body)) = text.split_once("\r\n\r\n")
            && let Ok(body) = serde_json::from_str(body)
        {
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
            return body;
        }
    }
}

/// The link with that name, wherever the message has it.
fn link_in(message: &Value, verdict: &str) -> String {
    message["links"][verdict].as_str().unwrap_or_else(|| panic!("a link to {verdict}: {message:#}")).to_owned()
}
