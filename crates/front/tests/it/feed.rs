//! The feed of everything: told as it happens, replayed to those who come back, ended with its reason.

use std::time::Duration;

use front::Settings;
use front::keys::Scope;
use tokio::time::timeout;

use crate::support::House;
use testkit::HANG_TIMEOUT;

#[tokio::test]
async fn everything_that_changes_is_told_and_told_again_to_one_who_comes_back() {
    let house = House::open().await;
    let mut feed = house.operator.events("/api/events", "").await;
    let path = house.start("[[shell touch x]]").await;
    let wanted = feed.until("approval_wanted").await;
    let before = feed.id.clone();
    let (id, hash) = (&wanted["approval"]["id"], &wanted["approval"]["shown_hash"]);
    let body = serde_json::json!({ "verdict": "deny", "reason": "no", "shown_hash": hash }).to_string();
    assert_eq!(
        house.operator.post(&format!("/api/approvals/{}/decide", id.as_str().unwrap()), &body).await.status,
        200
    );
    let decided = feed.until("approval_decided").await;
    assert_eq!(&decided["approval"]["id"], id);
    let ended = feed.until("turn_ended").await;
    assert_eq!(Some(ended["turn"].as_str().unwrap()), path.split('/').nth(3));
    assert!(ended["at"].as_str().unwrap().ends_with('Z'));

    let mut again = house.operator.events("/api/events", &before).await;
    assert_eq!(again.until("approval_decided").await, decided);
    assert_eq!(again.until("turn_ended").await, ended);
    let mut stranger = house.operator.events("/api/events", "00000000-7").await;
    let missed = stranger.next().await.unwrap();
    assert_eq!((&missed["type"], &missed["reason"]), (&"missed".into(), &"other_run".into()));
    house.stop().await;
}

#[tokio::test]
async fn an_id_that_is_none_of_ours_is_refused() {
    let house = House::open().await;
    let text = format!(
        "GET /api/events HTTP/1.1\r\nhost: localhost\r\napi-key: {}\r\nlast-event-id: seven\r\nconnection: close\r\n\r\n",
        house.operator.key
    );
    let answer = crate::http::exchange(house.operator.address, &text).await;
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("`seven` is none of ours"), "{answer}");
    house.stop().await;
}

#[tokio::test]
async fn a_worker_that_is_started_anew_is_told_of() {
    let house = House::open().await;
    let mut feed = house.operator.events("/api/events", "").await;
    let asked = house.operator.post("/api/workers/main-0/restart", "").await;
    house.check(&asked, "Restarting").await;
    while feed.until("worker_state").await["state"] != "ready" {}
    let workers = house.check(&house.operator.get("/api/workers").await, "Workers").await;
    assert_eq!(workers["workers"][0]["name"], "main-0");
    let frames = house.check(&house.operator.get("/api/wire/main-0").await, "Frames").await;
    assert!(frames["frames"][0]["text"].as_str().unwrap().contains("initialize"), "{frames}");
    assert_eq!(house.operator.post("/api/workers/main-9/restart", "").await.refusal(), "404 worker_not_found");
    assert_eq!(house.operator.get("/api/wire/main-9").await.refusal(), "404 worker_not_found");
    house.stop().await;
}

#[tokio::test]
async fn a_quiet_stream_says_that_it_is_alive() {
    let settings = Settings { heartbeat: Duration::from_millis(20), ..Settings::default() };
    let house = House::with(settings, approvals::Settings::default()).await;
    let mut feed = house.operator.events("/api/events", "").await;
    assert_eq!(feed.line().await.as_deref(), Some(":"));
    house.stop().await;
}

#[tokio::test]
async fn a_quiet_stream_ends_when_its_key_is_revoked_long_before_its_next_heartbeat() {
    let settings = Settings { heartbeat: HANG_TIMEOUT, ..Settings::default() };
    let house = House::with(settings, approvals::Settings::default()).await;
    let reader = house.caller(&[Scope::Operate]).await;
    let mut feed = reader.events("/api/events", "").await;
    house.revoke(&reader).await;
    let rest = timeout(HANG_TIMEOUT / 2, feed.rest()).await.expect("it ends before the heartbeat");
    assert_eq!(rest.len(), 0);
    assert_eq!(reader.get("/api/turns").await.refusal(), "401 invalid_api_key");
    house.stop().await;
}

#[tokio::test]
async fn a_busy_stream_ends_too_when_its_key_is_revoked() {
    let house = House::open().await;
    let caller = house.caller(&[Scope::Use, Scope::Operate]).await;
    let path = house.start("[[slow 100000 5]]").await;
    let mut turn = caller.events(&path, "").await;
    turn.until("text").await;
    house.revoke(&caller).await;
    let rest = timeout(HANG_TIMEOUT, turn.rest()).await.expect("the stream ends");
    assert!(rest.iter().all(|event| event["type"] != "turn_ended"), "{rest:?}");
    house.stop().await;
}

#[tokio::test]
async fn a_stop_ends_open_streams() {
    let house = House::open().await;
    let mut feed = house.operator.events("/api/events", "").await;
    let path = house.start("[[slow 100000 5]]").await;
    let mut turn = house.operator.events(&path, "").await;
    turn.until("text").await;
    house.stop().await;
    feed.rest().await;
    turn.rest().await;
}
