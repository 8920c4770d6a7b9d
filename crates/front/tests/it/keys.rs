//! Keys over HTTP: made, listed and revoked; what they allow, and that their text is told once.

use std::sync::Arc;

use expect_test::expect;
use front::keys::{Grant, Keys, Scope, Scopes};
use serde_json::json;
use store::{Change, Store};
use testkit::HANG_TIMEOUT;
use tokio::time::timeout;

use crate::http::Caller;
use crate::support::{House, KEY};

#[tokio::test]
async fn a_key_is_made_told_once_listed_without_its_text_and_revoked() {
    let house = House::open().await;
    let order = json!({
        "name": " for the chat program ", "scopes": ["use", "approvals:own"], "profiles": ["quiet"],
        "limits": { "requests_per_minute": 60, "tokens_per_day": 1_000_000 },
    });
    let answer = house.operator.post("/api/keys", &order.to_string()).await;
    assert_eq!(answer.status, 201, "{}", answer.body);
    assert!(answer.headers.contains("cache-control: no-store"), "{}", answer.headers);
    let made = house.check(&answer, "KeyMade").await;
    let caller = Caller { address: house.operator.address, key: made["secret"].as_str().unwrap().into() };
    assert_eq!(made["id"], caller.id());
    assert_eq!(caller.get("/api/turns").await.status, 200);

    let listed = house.operator.get("/api/keys").await;
    assert!(!listed.body.contains(caller.key.rsplit('_').next().unwrap()), "{}", listed.body);
    let mut listed = house.check(&listed, "Keys").await;
    for changing in ["id", "principal", "created_at"] {
        listed["keys"][0][changing].take();
    }
    expect![[r#"{"keys":[{"created_at":null,"id":null,"limits":{"requests_per_minute":60,"tokens_per_day":1000000,"turns_max":null},"name":"for the chat program","parent":"chosen","principal":null,"profiles":["quiet"],"revoked_at":null,"scopes":["use","approvals:own"]}]}"#]]
    .assert_eq(&listed.to_string());

    let path = format!("/api/keys/{}/revoke", caller.id());
    let revoked = house.check(&house.operator.post(&path, "").await, "KeyRevoked").await;
    assert_eq!(caller.get("/api/turns").await.refusal(), "401 invalid_api_key");
    assert_eq!(house.check(&house.operator.post(&path, "").await, "KeyRevoked").await, revoked, "once is enough");
    assert_eq!(house.operator.get("/api/keys").await.json()["keys"][0]["revoked_at"], revoked["revoked_at"]);
    let again = House::reopen(house.stop().await).await;
    let caller = Caller { address: again.operator.address, ..caller };
    assert_eq!(caller.get("/api/turns").await.refusal(), "401 invalid_api_key");
    again.stop().await;
}

#[tokio::test]
async fn an_order_for_a_key_that_cannot_be_made_is_refused_with_the_reason() {
    let house = House::open().await;
    let operator = house.caller(&[Scope::Operate, Scope::Use, Scope::Keys]).await;
    let mut told = String::new();
    for order in [
        json!({ "name": "" }),
        json!({ "name": "x".repeat(101) }),
        json!({ "name": "a", "scopes": [] }),
        json!({ "name": "a", "scopes": ["everything"] }),
        json!({ "name": "a", "scopes": ["use", "approvals:session"] }),
        json!({ "name": "a", "profiles": [] }),
        json!({ "name": "a", "profiles": ["loud"] }),
        json!({ "name": "a", "limits": { "turns_max": 0 } }),
        json!({ "name": "a", "limits": { "turns_min": 1 } }),
        json!({ "scopes": ["use"] }),
    ] {
        let refused = operator.post("/api/keys", &order.to_string()).await;
        told.push_str(&format!("{} {}\n", refused.refusal(), refused.json()["error"]["message"].as_str().unwrap()));
    }
    expect![[r#"
        400 invalid_value `name` must have 1 to 100 characters
        400 invalid_value `name` must have 1 to 100 characters
        400 invalid_value `scopes`: a key without any would be of no use
        400 invalid_value `scopes`: there is no scope "everything"; there are: use, operate, approvals:session, approvals:own, tools, keys
        403 scope_missing this key lacks the scope `approvals:session` and cannot give it; use a key that has it
        400 invalid_value `profiles`: name at least one, or leave it out for every one
        400 invalid_value `profiles`: there is no profile "loud"; there are: asking, quiet
        400 invalid_value the body cannot be used: invalid value: integer `0`, expected a nonzero u32 at line 1 column 24
        400 invalid_value the body cannot be used: unknown field `turns_min`, expected one of `requests_per_minute`, `turns_max`, `tokens_per_day` at line 1 column 22
        400 invalid_value the body cannot be used: missing field `name` at line 1 column 18
    "#]].assert_eq(&told);
    for id in ["chosen", "local", "0000000000"] {
        assert_eq!(operator.post(&format!("/api/keys/{id}/revoke"), "").await.refusal(), "404 key_not_found");
    }
    assert_eq!(operator.get("/api/keys").await.json()["keys"].as_array().unwrap().len(), 1);
    house.stop().await;
}

#[tokio::test]
async fn a_key_whose_limits_cannot_be_read_is_not_valid() {
    let directory = tempfile::TempDir::new().unwrap();
    let store = Store::open(directory.path().join("store.db"), store::Limits::default()).unwrap();
    let (keys, _) = Keys::open(&store, Some(KEY)).await.unwrap();
    let new = keys.create(&store, "a caller", Grant::of(Scopes::ALL)).await.unwrap();
    for (field, is_valid) in [
        (r#"{"turns_max":3}"#, true),
        ("null", true),
        (r#"{"turns_max":0}"#, false),
        (r#"{"turns_min":3}"#, false),
        ("three", false),
    ] {
        let row = store::Key { limits: field.into(), ..new.row.clone() };
        store.commit(vec![Change::Key(row)]).await.unwrap();
        let (again, _) = Keys::open(&store, Some(KEY)).await.unwrap();
        assert_eq!(again.is_valid(new.secret.reveal()), is_valid, "{field}");
    }
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_key_uses_its_own_profiles_alone() {
    let house = House::open().await;
    let profiles: Arc<[Box<str>]> = ["quiet".into()].into();
    let scopes = Scopes::of(&[Scope::Use, Scope::Operate, Scope::Keys]);
    let caller = house.caller_with(Grant { profiles: Some(profiles), ..Grant::of(scopes) }).await;
    let start = async |order: serde_json::Value| caller.post("/api/turns", &order.to_string()).await;
    for allowed in [json!({ "prompt": "[[text]]" }), json!({ "prompt": "[[text]]", "profile": "quiet" })] {
        let started = start(allowed).await;
        let events = caller.events(started.json()["events"].as_str().unwrap(), "").await.rest().await;
        assert_eq!(events.last().unwrap()["status"], "completed");
        let thread = caller.get(&format!("/api/threads/{}", started.json()["thread"].as_str().unwrap())).await;
        assert_eq!(thread.json()["profile"], "quiet", "the first that it may use");
    }
    let refused = start(json!({ "prompt": "[[text]]", "profile": "asking" })).await;
    assert_eq!(refused.refusal(), "403 profile_refused");
    assert!(refused.body.contains("it may use: quiet"), "{}", refused.body);
    assert_eq!(start(json!({ "prompt": "a", "group": "other" })).await.refusal(), "403 profile_refused");
    assert_eq!(start(json!({ "prompt": "a", "profile": "none" })).await.refusal(), "400 invalid_value");
    let more = caller.post("/api/keys", r#"{"name":"more","profiles":["asking"]}"#).await;
    assert_eq!(more.refusal(), "403 profile_refused", "nobody gives what it does not have");
    let same = caller.post("/api/keys", r#"{"name":"same"}"#).await;
    assert_eq!(same.json()["profiles"], json!(["quiet"]));
    house.stop().await;
}

#[tokio::test]
async fn a_revoked_key_loses_its_stream_and_its_turn_at_once() {
    let house = House::open().await;
    let caller = house.caller(&[Scope::Use]).await;
    let started = caller.post("/api/turns", r#"{"prompt":"[[slow 100000 50]]"}"#).await.json();
    let path = started["events"].as_str().unwrap();
    let mut own = caller.events(path, "").await;
    let mut operators = house.operator.events(path, "").await;
    own.until("text").await;
    house.revoke(&caller).await;
    let rest = timeout(HANG_TIMEOUT, own.rest()).await.expect("its stream ends");
    assert!(rest.iter().all(|event| event["type"] == "text"), "{rest:?}");
    let ended = timeout(HANG_TIMEOUT, operators.until("turn_ended")).await.expect("its turn ends");
    assert_eq!(ended["status"], "interrupted");
    house.stop().await;
}

#[tokio::test]
async fn a_revoked_key_loses_its_conversation_at_once_and_is_told_why() {
    let house = House::open().await;
    let caller = house.caller(&[Scope::Use]).await;
    let body = json!({
        "model": "quiet", "stream": true, "messages": [{ "role": "user", "content": "[[slow 100000 50]]" }],
    });
    let mut feed = house.operator.events("/api/events", "").await;
    let mut stream = caller.stream("/v1/chat/completions", "", &body.to_string()).await;
    stream.next().await.expect("it begins");
    feed.until("turn_started").await;
    house.revoke(&caller).await;
    let told = async {
        while let Some(line) = stream.line().await {
            if line.contains("error") {
                return line;
            }
        }
        panic!("it ended without a word");
    };
    let told = timeout(HANG_TIMEOUT, told).await.expect("its stream ends");
    assert!(told.contains("this key was revoked"), "{told}");
    let ended = timeout(HANG_TIMEOUT, feed.until("turn_ended")).await.expect("its turn ends");
    assert_eq!(ended["status"], "interrupted");
    house.stop().await;
}
