//! Health, readiness and metrics of a server that works, is impaired, and is about to stop.

use std::time::Duration;

use approvals::{Kind, Rule, Rules, Then};
use front::Settings;
use serde_json::json;
use store::{Change, Store};
use tempfile::TempDir;
use testkit::HANG_TIMEOUT;
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

use crate::http::Caller;
use crate::support::{House, plan};

#[tokio::test]
async fn a_server_that_works_says_so_to_anybody() {
    let house = House::open().await;
    let anybody = Caller { address: house.operator.address, key: "none".into() };
    let health = house.check(&anybody.get("/healthz").await, "Health").await;
    assert_eq!((&health["status"], health["reasons"].as_array().unwrap().len()), (&"ok".into(), 0));
    let ready = house.check(&anybody.get("/readyz").await, "Readiness").await;
    assert_eq!((&ready["ready"], &ready["groups"][0]["name"]), (&true.into(), &"main".into()));
    assert_eq!(anybody.get("/metrics").await.refusal(), "401 invalid_api_key");
    house.stop().await;
}

#[tokio::test]
async fn a_server_that_drains_is_not_ready_and_takes_no_turns() {
    let house = House::open().await;
    house.pool.drain(Duration::ZERO).await;
    assert_eq!(house.operator.get("/readyz").await.status, 503);
    let health = house.check(&house.operator.get("/healthz").await, "Health").await;
    assert_eq!(health["status"], "draining");
    let refused = house.operator.post("/api/turns", r#"{"prompt":"a"}"#).await;
    assert_eq!(refused.refusal(), "503 draining");
    assert!(refused.headers.contains("retry-after: "), "{}", refused.headers);
    house.stop().await;
}

#[tokio::test]
async fn a_group_whose_provider_cannot_be_reached_is_a_degraded_server_until_a_turn_succeeds() {
    let house = House::open().await;
    let ask = async |prompt: &str| {
        let body = json!({"model": "quiet", "messages": [{"role": "user", "content": prompt}]});
        house.operator.post("/v1/chat/completions", &body.to_string()).await
    };
    assert_eq!(ask("[[offline 1 1]]").await.refusal(), "502 provider_failed");
    let health = house.check(&house.operator.get("/healthz").await, "Health").await;
    let reason = "group main: the model provider cannot be reached";
    assert_eq!((&health["status"], &health["reasons"]), (&"degraded".into(), &json!([reason])));
    assert_eq!(house.operator.get("/readyz").await.status, 200);
    assert_eq!(ask("[[text]]").await.status, 200);
    assert_eq!(house.operator.get("/healthz").await.json()["status"], "ok");
    house.stop().await;
}

#[tokio::test]
async fn a_worker_that_fails_is_a_degraded_server_that_tells_anybody_its_name_alone() {
    let directory = TempDir::new().unwrap();
    let mut plan = plan(directory.path());
    plan.groups[0].program = "/nonexistent/secret/codex".into();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let house = House::of_unready(plan, directory, listener, Settings::default()).await;
    let health = timeout(HANG_TIMEOUT, async {
        loop {
            let health = house.operator.get("/healthz").await;
            assert_eq!(health.status, 200);
            if health.json()["status"] == "degraded" {
                return health.json();
            }
            sleep(Duration::from_millis(10)).await;
        }
    });
    let reasons = &health.await.expect("it fails")["reasons"];
    assert_eq!(*reasons, json!(["worker main-0: failed", "group main: no worker is ready"]));
    let worker = &house.operator.get("/api/workers").await.json()["workers"][0];
    assert!(worker["reason"].as_str().unwrap().contains("/nonexistent/secret/codex"), "{worker}");
    house.stop().await;
}

#[tokio::test]
async fn a_full_store_is_a_degraded_server_that_lives_on() {
    let house = House::open().await;
    let mut feed = house.operator.events("/api/events", "").await;
    house.store.set_pages_max(1).await.unwrap();
    assert!(matches!(fill(&house.store).await, store::WriteError::Full(_)));
    let told = feed.until("store_health").await;
    assert_eq!(told["healthy"], false);
    let health = house.operator.get("/healthz").await.json();
    assert_eq!(health["status"], "degraded");
    assert!(health["reasons"][0].as_str().unwrap().starts_with("store: "), "{health}");
    // Too long for what room the table of approvals has of its own.
    let path = house.start(&format!("[[shell touch {}]]", "x".repeat(20_000))).await;
    let end = house.operator.events(&path, "").await.rest().await;
    assert_eq!(end.last().unwrap()["type"], "turn_ended", "what cannot be recorded is declined, and the turn goes on");
    house.store.set_pages_max(1_000_000).await.unwrap();
    while feed.until("store_health").await["healthy"] == false {}
    assert_eq!(house.operator.get("/healthz").await.json()["status"], "ok");
    house.stop().await;
}

#[tokio::test]
async fn a_store_that_nobody_writes_any_more_is_a_degraded_server() {
    let house = House::open().await;
    house.store.close().await.unwrap();
    let health = house.check(&house.operator.get("/healthz").await, "Health").await;
    assert_eq!((&health["status"], &health["reasons"][0]), (&"degraded".into(), &"store: the store is closed".into()));
    assert!(house.operator.get("/metrics").await.body.contains("switchboard_store_healthy 0\n"));
}

#[tokio::test]
async fn what_rules_decide_never_counts_as_pending() {
    let rule = Rule { kind: Some(Kind::Command), command: vec!["touch".into()], then: Then::Deny, ..Rule::default() };
    let deciding = approvals::Settings { rules: Rules::new(vec![rule]).unwrap(), ..approvals::Settings::default() };
    let house = House::with(Settings::default(), deciding).await;
    let path = house.start("[[shell touch x]]").await;
    house.operator.events(&path, "").await.rest().await;
    let page = house.operator.get("/metrics").await.body;
    assert!(page.contains("\nswitchboard_approvals_pending 0\n"), "{page}");
    assert!(page.contains("switchboard_approvals_total{kind=\"command\",outcome=\"denied\"} 1\n"), "{page}");
    let path = house.start("[[shell rm x]]").await;
    house.operator.events(&path, "").await.until("approval_wanted").await;
    let page = house.operator.get("/metrics").await.body;
    assert!(page.contains("\nswitchboard_approvals_pending 1\n"), "{page}");
    house.stop().await;
}

/// Writes until nothing more fits, however small.
pub(crate) async fn fill(store: &Store) -> store::WriteError {
    let (mut number, mut bytes) = (0, 64 * 1024);
    loop {
        number += 1;
        let row = store::Response {
            id: format!("filler-{number}"),
            key: "nobody".into(),
            thread: "none".into(),
            turn: "none".into(),
            previous: None,
            status: "completed".into(),
            body: format!("\"{}\"", "x".repeat(bytes)),
            created_at: 0,
            expires_at: None,
        };
        if let Err(error) = store.commit(vec![Change::Response(row)]).await {
            if bytes == 1 {
                return error;
            }
            bytes /= 2;
        }
    }
}

#[tokio::test]
async fn what_happens_is_counted_by_labels_that_no_caller_invents() {
    let house = House::open().await;
    let path = house.start("[[text]]").await;
    house.operator.events(&path, "").await.rest().await;
    house.operator.get("/api/invented/by/a/caller").await;
    house.operator.get("/api/turns/invented").await;
    let page = house.operator.get("/metrics").await.body;
    for line in [
        r#"switchboard_http_requests_total{route="other",method="GET",status="4xx"} 1"#,
        r#"switchboard_http_requests_total{route="/api/turns/{id}",method="GET",status="4xx"} 1"#,
        r#"switchboard_http_requests_total{route="/api/turns",method="POST",status="2xx"} 1"#,
        r#"switchboard_turns_total{group="main",status="completed"} 1"#,
        r#"switchboard_workers{group="main",state="ready"} 1"#,
        r#"switchboard_turns_running{group="main"} 0"#,
        "switchboard_queue_length 0",
        "switchboard_store_healthy 1",
        "switchboard_store_notes_dropped 0",
        "switchboard_feed_readers 0",
    ] {
        assert!(page.lines().any(|one| one == line), "{line} in\n{page}");
    }
    assert!(!page.contains("invented"), "{page}");
    house.stop().await;
}
