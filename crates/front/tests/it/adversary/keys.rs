//! Getting round what a key may do by creating other keys with it.

use std::num::{NonZeroU32, NonZeroU64};

use front::keys::{Grant, KeyLimits, Keys, Scope, Scopes, make};
use serde_json::{Value, json};
use store::{Change, Store};

use crate::http::{Answer, Caller};
use crate::support::House;

async fn create(creator: &Caller, order: Value) -> Answer {
    creator.post("/api/keys", &order.to_string()).await
}

/// A caller with a key that another one created.
async fn created(creator: &Caller, order: Value) -> Caller {
    let answer = create(creator, order).await;
    assert_eq!(answer.status, 201, "{}", answer.body);
    Caller { address: creator.address, key: answer.json()["secret"].as_str().unwrap().into() }
}

/// Starts a turn that asks for something, and gives the approval.
async fn ask(caller: &Caller) -> Value {
    let started = caller.post("/api/turns", r#"{"prompt":"[[shell touch x]]"}"#).await;
    assert_eq!(started.status, 201, "{}", started.body);
    let mut events = caller.events(started.json()["events"].as_str().unwrap(), "").await;
    events.until("approval_wanted").await;
    let newest = caller.get("/api/approvals?state=pending&limit=1").await.json();
    assert_eq!(newest["approvals"][0]["key"], caller.id());
    newest["approvals"][0].clone()
}

async fn allow(caller: &Caller, approval: &Value) -> Answer {
    let body = json!({ "verdict": "allow", "shown_hash": approval["shown_hash"] }).to_string();
    caller.post(&format!("/api/approvals/{}/decide", approval["id"].as_str().unwrap()), &body).await
}

#[tokio::test]
async fn a_second_key_does_not_allow_what_the_first_one_asked() {
    let house = House::open().await;
    let own = house.caller(&[Scope::Use, Scope::Operate, Scope::Keys]).await;
    let approval = ask(&own).await;
    assert_eq!(allow(&own, &approval).await.refusal(), "403 scope_missing");
    let second = created(&own, json!({ "name": "second", "scopes": ["operate", "keys"] })).await;
    assert_eq!(allow(&second, &approval).await.refusal(), "403 scope_missing");
    let third = created(&second, json!({ "name": "third", "scopes": ["operate"] })).await;
    assert_eq!(allow(&third, &approval).await.refusal(), "403 scope_missing");

    // Nor the other way round: the created key asks, and its creator decides.
    let user = created(&own, json!({ "name": "user", "scopes": ["use", "operate"] })).await;
    let approval_of_user = ask(&user).await;
    assert_eq!(allow(&own, &approval_of_user).await.refusal(), "403 scope_missing");

    let somebody_else = house.caller(&[Scope::Operate]).await;
    assert_eq!(allow(&somebody_else, &approval).await.status, 200);
    house.stop().await;
}

#[tokio::test]
async fn the_principal_of_a_key_is_known_after_a_restart() {
    let house = House::open().await;
    let own = house.caller(&[Scope::Use, Scope::Operate, Scope::Keys]).await;
    let second = created(&own, json!({ "name": "second", "scopes": ["operate"] })).await;
    let house = House::reopen(house.stop().await).await;
    let [own, second] = [own, second].map(|caller| Caller { address: house.operator.address, ..caller });
    let approval = ask(&own).await;
    assert_eq!(allow(&second, &approval).await.refusal(), "403 scope_missing");
    house.stop().await;
}

#[tokio::test]
async fn keys_of_one_administrator_may_decide_for_each_other() {
    let house = House::open().await;
    // It may decide everything itself, so that its keys gain nothing.
    let user = created(&house.operator, json!({ "name": "user", "scopes": ["use", "operate"] })).await;
    let decider = created(&house.operator, json!({ "name": "decider", "scopes": ["operate"] })).await;
    let approval = ask(&user).await;
    assert_eq!(allow(&user, &approval).await.refusal(), "403 scope_missing");
    assert_eq!(allow(&decider, &approval).await.status, 200);
    house.stop().await;
}

#[tokio::test]
async fn an_operator_without_the_scope_creates_and_revokes_no_keys() {
    let house = House::open().await;
    let operator = house.caller(&[Scope::Use, Scope::Operate, Scope::OwnTurns, Scope::ForSession]).await;
    assert_eq!(create(&operator, json!({ "name": "a" })).await.refusal(), "403 scope_missing");
    let path = format!("/api/keys/{}/revoke", operator.id());
    assert_eq!(operator.post(&path, "").await.refusal(), "403 scope_missing");
    assert_eq!(operator.get("/api/keys").await.status, 200);
    let caller = house.caller(&[Scope::Use]).await;
    assert_eq!(caller.get("/api/keys").await.refusal(), "403 scope_missing");
    house.stop().await;
}

#[tokio::test]
async fn a_key_without_operate_sees_and_revokes_its_own_line_alone() {
    let house = House::open().await;
    let other = house.caller(&[Scope::Use]).await;
    let tenant = house.caller(&[Scope::Use, Scope::Keys]).await;
    let child = created(&tenant, json!({ "name": "child" })).await;
    let listed = tenant.get("/api/keys").await.json();
    let ids: Vec<_> = listed["keys"].as_array().unwrap().iter().map(|key| key["id"].as_str().unwrap()).collect();
    assert!(ids.len() == 2 && ids.contains(&tenant.id()) && ids.contains(&child.id()), "{ids:?}");
    let revoke = async |id: &str| tenant.post(&format!("/api/keys/{id}/revoke"), "").await;
    assert_eq!(revoke(other.id()).await.refusal(), "404 key_not_found");
    assert_eq!(revoke(child.id()).await.status, 200);
    assert_eq!(create(&tenant, json!({ "name": "more", "scopes": ["operate"] })).await.refusal(), "403 scope_missing");
    assert_eq!(other.get("/api/turns").await.status, 200);
    house.stop().await;
}

#[tokio::test]
async fn a_created_key_has_no_more_than_the_limits_of_its_creator() {
    let house = House::open().await;
    let limits = KeyLimits {
        requests_per_minute: NonZeroU32::new(1),
        turns_max: NonZeroU32::new(1),
        tokens_per_day: NonZeroU64::new(1000),
    };
    let scopes = Scopes::of(&[Scope::Use, Scope::Keys]);
    let creator = house.caller_with(Grant { limits, ..Grant::of(scopes) }).await;
    for above in [json!({ "requests_per_minute": 2 }), json!({ "turns_max": 2 }), json!({ "tokens_per_day": 1001 })] {
        let refused = create(&creator, json!({ "name": "more", "limits": above })).await;
        assert_eq!(refused.refusal(), "400 invalid_value", "{}", refused.body);
    }
    let made = create(&creator, json!({ "name": "same", "limits": { "tokens_per_day": 10 } })).await;
    let expected = json!({ "requests_per_minute": 1, "turns_max": 1, "tokens_per_day": 10 });
    assert_eq!(made.json()["limits"], expected);

    let child = created(&creator, json!({ "name": "child" })).await;
    let turn = async |caller: &Caller| {
        let started = caller.post("/api/turns", r#"{"prompt":"[[text]]","profile":"quiet"}"#).await;
        if started.status == 201 {
            caller.events(started.json()["events"].as_str().unwrap(), "").await.rest().await;
        }
        started.status
    };
    assert_eq!(turn(&child).await, 201);
    let another = created(&creator, json!({ "name": "another" })).await;
    for caller in [&creator, &child, &another] {
        assert_eq!(turn(caller).await, 429, "one request a minute, however many keys");
    }
    house.stop().await;
}

#[tokio::test]
async fn a_revoked_key_takes_the_keys_with_it_that_it_created() {
    let house = House::open().await;
    let creator = house.caller(&[Scope::Use, Scope::Keys]).await;
    let child = created(&creator, json!({ "name": "child", "scopes": ["use", "keys"] })).await;
    let grandchild = created(&child, json!({ "name": "grandchild" })).await;
    let started = grandchild.post("/api/turns", r#"{"prompt":"[[slow 100000 50]]","profile":"quiet"}"#).await.json();
    let mut events = house.operator.events(started["events"].as_str().unwrap(), "").await;
    events.until("text").await;
    let revoked = house.operator.post(&format!("/api/keys/{}/revoke", creator.id()), "").await;
    let revoked = house.check(&revoked, "KeyRevoked").await;
    assert_eq!(revoked["descendants"].as_array().unwrap().len(), 2);
    assert_eq!(events.until("turn_ended").await["status"], "interrupted");
    let house = House::reopen(house.stop().await).await;
    for caller in [creator, child, grandchild] {
        let caller = Caller { address: house.operator.address, ..caller };
        assert_eq!(caller.get("/api/turns").await.refusal(), "401 invalid_api_key");
    }
    let listed = house.operator.get("/api/keys").await.json();
    assert!(listed["keys"].as_array().unwrap().iter().all(|key| key["revoked_at"].is_string()), "{listed}");
    house.stop().await;
}

#[tokio::test]
async fn a_line_of_keys_has_an_end() {
    let house = House::open().await;
    let mut last = house.caller(&[Scope::Use, Scope::Keys]).await;
    for _ in 0..8 {
        last = created(&last, json!({ "name": "next", "scopes": ["use", "keys"] })).await;
    }
    assert_eq!(create(&last, json!({ "name": "one more" })).await.refusal(), "400 invalid_value");
    house.stop().await;
}

/// A row as 0.1.0 wrote it: nothing says where the key comes from.
fn row_of_0_1_0(id: &str, name: &str, scopes: &[&str], created_at: i64) -> (String, store::Key) {
    let (secret, key) = make(id, Grant::of(Scopes::ALL)).unwrap();
    let row = store::Key {
        id: id.into(),
        name: name.into(),
        hash: key.hash.to_hex(),
        scopes: json!(scopes).to_string(),
        profiles: "null".into(),
        limits: "{}".into(),
        created_at,
        last_used_at: None,
        revoked_at: None,
    };
    (secret.reveal().into(), row)
}

#[tokio::test]
async fn of_the_keys_of_0_1_0_the_first_one_alone_may_create_keys() {
    let all = ["use", "operate", "approvals:session", "approvals:own", "tools"];
    let directory = tempfile::TempDir::new().unwrap();
    let store = Store::open(directory.path().join("store.db"), store::Limits::default()).unwrap();
    let (first, first_row) = row_of_0_1_0("aaaaaaaaaa", "first", &all, 1000);
    let (other, other_row) = row_of_0_1_0("bbbbbbbbbb", "first", &all, 2000);
    store.commit(vec![Change::Key(first_row), Change::Key(other_row)]).await.unwrap();
    for _ in 0..2 {
        drop(Keys::open(&store, None).await.unwrap());
    }
    store.close().await.unwrap();
    let house = House::reopen(directory).await;
    let [first, other] = [first, other].map(|key| Caller { address: house.operator.address, key });
    assert_eq!(create(&other, json!({ "name": "a" })).await.refusal(), "403 scope_missing");
    assert_eq!(other.get("/api/keys").await.status, 200, "it keeps its other scopes");
    assert_eq!(create(&first, json!({ "name": "a" })).await.status, 201);
    house.stop().await;
}
