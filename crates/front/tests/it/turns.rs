//! Turns over HTTP: started, read by many, interrupted, steered, kept.

use front::keys::Scope;
use front::{RingLimits, Settings, TurnLimits};
use serde_json::Value;

use crate::support::House;

fn text(events: &[Value]) -> String {
    let texts = events.iter().filter(|event| event["type"] == "text").map(|event| event["text"].as_str().unwrap());
    texts.collect()
}

#[tokio::test]
async fn a_turn_is_read_from_its_beginning_by_whoever_comes_and_whenever() {
    let house = House::open().await;
    let path = house.start("[[text]]").await;
    let first = house.operator.events(&path, "").await.rest().await;
    assert_eq!(text(&first), "Hello from mock.");
    assert_eq!(first.last().unwrap()["type"], "turn_ended");
    assert_eq!(first.last().unwrap()["status"], "completed");
    assert_eq!(house.operator.events(&path, "").await.rest().await, first, "a second reader after the end");

    let mut interrupted = house.operator.events(&path, "").await;
    for event in &first[..3] {
        assert_eq!(interrupted.next().await.as_ref(), Some(event));
    }
    let rest = house.operator.events(&path, &interrupted.id).await.rest().await;
    assert_eq!(rest, first[3..], "one that lost its connection goes on where it was");
    house.stop().await;
}

#[tokio::test]
async fn a_turn_runs_on_when_its_caller_goes() {
    let house = House::open().await;
    let path = house.start("[[slow 20 5]]").await;
    let mut reader = house.operator.events(&path, "").await;
    reader.until("text").await;
    drop(reader);
    let all = house.operator.events(&path, "").await.rest().await;
    assert!(text(&all).ends_with("s19 "), "{}", text(&all));
    assert_eq!(all.last().unwrap()["status"], "completed");
    house.stop().await;
}

#[tokio::test]
async fn a_turn_is_interrupted_and_then_over() {
    let house = House::open().await;
    let path = house.start("[[slow 100000 5]]").await;
    let mut reader = house.operator.events(&path, "").await;
    reader.until("text").await;
    let turn = path.trim_end_matches("/events");
    let asked = house.operator.post(&format!("{turn}/interrupt"), "").await;
    house.check(&asked, "TurnNamed").await;
    assert_eq!(reader.rest().await.last().unwrap()["status"], "interrupted");
    assert_eq!(house.operator.post(&format!("{turn}/interrupt"), "").await.refusal(), "409 turn_over");
    let steered = house.operator.post(&format!("{turn}/steer"), r#"{"prompt":"more"}"#).await;
    assert_eq!(steered.refusal(), "409 turn_over");
    let seen = house.check(&house.operator.get(turn).await, "Turn").await;
    assert_eq!(seen["status"], "interrupted");
    house.stop().await;
}

#[tokio::test]
async fn a_running_turn_is_told_more() {
    let house = House::open().await;
    let path = house.start("[[slow 40 10]]").await;
    let mut reader = house.operator.events(&path, "").await;
    reader.until("text").await;
    let turn = path.trim_end_matches("/events");
    let steered =
        house.operator.post(&format!("{turn}/steer"), r#"{"input":[{"type":"text","text":"[[say more]]"}]}"#).await;
    assert_eq!(steered.status, 200, "{}", steered.body);
    assert_eq!(reader.rest().await.last().unwrap()["type"], "turn_ended");
    house.stop().await;
}

#[tokio::test]
async fn a_thread_goes_on_and_is_listed() {
    let house = House::open().await;
    let started = house.operator.post("/api/turns", r#"{"prompt":"[[say one]]","profile":"asking"}"#).await;
    let started = house.check(&started, "TurnStarted").await;
    house.operator.events(started["events"].as_str().unwrap(), "").await.rest().await;
    let thread = started["thread"].as_str().unwrap();
    let again = format!(r#"{{"prompt":"[[say two]]","thread":"{thread}"}}"#);
    let again = house.check(&house.operator.post("/api/turns", &again).await, "TurnStarted").await;
    assert_eq!(again["thread"], thread);
    house.operator.events(again["events"].as_str().unwrap(), "").await.rest().await;
    house.store.flush().await.unwrap();

    let seen = house.check(&house.operator.get(&format!("/api/threads/{thread}")).await, "Thread").await;
    assert_eq!(seen["last_turn"], again["turn"]);
    let other = house.start("[[say three]]").await;
    house.operator.events(&other, "").await.rest().await;
    house.store.flush().await.unwrap();
    let page = house.check(&house.operator.get("/api/threads?limit=1").await, "Threads").await;
    let next = page["next"].as_str().expect("there is another page");
    let page = house.operator.get(&format!("/api/threads?limit=1&before={next}")).await;
    let page = house.check(&page, "Threads").await;
    assert_eq!((page["threads"][0]["id"].as_str(), &page["next"]), (Some(thread), &Value::Null));
    let turns = house.check(&house.operator.get("/api/turns").await, "Turns").await;
    assert_eq!(turns["turns"].as_array().unwrap().len(), 3);
    house.stop().await;
}

#[tokio::test]
async fn nothing_of_one_caller_reaches_another() {
    let house = House::open().await;
    let (one, other) = (house.caller(&[Scope::Use]).await, house.caller(&[Scope::Use]).await);
    let started = one.post("/api/turns", r#"{"prompt":"[[slow 100000 5]]"}"#).await.json();
    let (turn, thread) = (started["turn"].as_str().unwrap(), started["thread"].as_str().unwrap());
    let turn = format!("/api/turns/{turn}");
    for path in [turn.clone(), format!("{turn}/events")] {
        assert_eq!(other.get(&path).await.refusal(), "404 turn_not_found");
    }
    assert_eq!(other.post(&format!("{turn}/interrupt"), "").await.refusal(), "404 turn_not_found");
    assert_eq!(other.post(&format!("{turn}/steer"), r#"{"prompt":"x"}"#).await.refusal(), "404 turn_not_found");
    let follow_up = format!(r#"{{"prompt":"x","thread":"{thread}"}}"#);
    assert_eq!(other.post("/api/turns", &follow_up).await.refusal(), "404 thread_not_found");
    assert_eq!(other.get("/api/turns").await.json()["turns"].as_array().unwrap().len(), 0);
    assert_eq!(other.get(&format!("/api/threads/{thread}")).await.refusal(), "404 thread_not_found");
    assert_eq!(other.get("/api/threads").await.json()["threads"].as_array().unwrap().len(), 0);
    assert_eq!(one.get("/api/turns").await.json()["turns"].as_array().unwrap().len(), 1);
    assert_eq!(house.operator.get("/api/turns").await.json()["turns"].as_array().unwrap().len(), 1);
    assert_eq!(one.post(&format!("{turn}/interrupt"), "").await.status, 200);
    house.stop().await;
}

#[tokio::test]
async fn an_order_that_cannot_be_carried_out_is_refused_with_its_reason() {
    let house = House::open().await;
    let mut told = String::new();
    for body in [
        "{}",
        r#"{"prompt":"a","input":[]}"#,
        r#"{"prompt":"  "}"#,
        r#"{"input":[]}"#,
        r#"{"input":[{"type":"file","path":"/etc/passwd"}]}"#,
        r#"{"input":[{"type":"image","url":"http://example.org/x.png"}]}"#,
        r#"{"prompt":"a","cwd":"here"}"#,
        r#"{"prompt":"a","profile":"none"}"#,
        r#"{"prompt":"a","group":"none"}"#,
        r#"{"prompt":"a","command":"rm"}"#,
    ] {
        let answer = house.operator.post("/api/turns", body).await;
        told.push_str(&format!("{} {}\n", answer.refusal(), answer.json()["error"]["message"].as_str().unwrap()));
    }
    expect_test::expect![[r#"
        400 invalid_value send either `prompt` (a text) or `input` (a list of parts)
        400 invalid_value send either `prompt` (a text) or `input` (a list of parts)
        400 invalid_value there is nothing to say; send a text that is not empty
        400 invalid_value there is nothing to say; send a text that is not empty
        400 invalid_value the body cannot be used: unknown variant `file`, expected `text` or `image` at line 1 column 24
        400 invalid_value the `url` of an image must be a data URL (data:image/png;base64,…)
        400 invalid_value `cwd` must be an absolute path
        400 invalid_value there is no profile "none"; there are: asking, quiet
        400 invalid_value there is no group of workers named "none": it has main
        400 invalid_value the body cannot be used: unknown field `command`, expected one of `prompt`, `input`, `profile`, `group`, `thread`, `cwd`, `model`, `effort` at line 1 column 23
    "#]].assert_eq(&told);
    house.stop().await;
}

#[tokio::test]
async fn a_reader_that_comes_too_late_is_told_what_it_missed() {
    let log = RingLimits { events_max: 4, ..TurnLimits::default().log };
    let turns = TurnLimits { log, finished_max: 1, ..TurnLimits::default() };
    let house = House::with(Settings { turns, ..Settings::default() }, approvals::Settings::default()).await;
    let path = house.start("[[text]]").await;
    while house.operator.get(path.trim_end_matches("/events")).await.json()["status"] == "running" {}
    let late = house.operator.events(&path, "").await.rest().await;
    assert_eq!((&late[0]["type"], &late[0]["reason"]), (&"missed".into(), &"too_old".into()));
    assert!(late[0]["events"].as_u64().unwrap() > 0 && late.len() == 5, "{late:?}");
    assert_eq!(late.last().unwrap()["type"], "turn_ended");

    let second = house.start("[[text]]").await;
    house.operator.events(&second, "").await.rest().await;
    let third = house.start("[[text]]").await;
    house.operator.events(&third, "").await.rest().await;
    assert_eq!(house.operator.get(&path).await.refusal(), "404 turn_not_found", "only so many finished turns are kept");
    house.stop().await;
}

#[tokio::test]
async fn a_thread_goes_on_with_the_profile_that_it_began_with() {
    let house = House::open().await;
    let started = house.operator.post("/api/turns", r#"{"prompt":"[[say one]]","profile":"quiet"}"#).await.json();
    house.operator.events(started["events"].as_str().unwrap(), "").await.rest().await;
    let mut feed = house.operator.events("/api/events", "").await;
    house.operator.post("/api/workers/main-0/restart", "").await;
    while feed.until("worker_state").await["state"] != "ready" {}
    let again = serde_json::json!({ "prompt": "[[say two]]", "thread": started["thread"] }).to_string();
    let again = house.operator.post("/api/turns", &again).await;
    assert_eq!(again.status, 201, "{}", again.body);
    let resumed = frame(&house, "thread/resume").await;
    let files = &resumed["params"]["config"]["permissions"]["switchboard"]["filesystem"];
    assert_eq!(resumed["params"].get("sandbox"), None, "a sandbox would displace the profile: {resumed}");
    assert_eq!(resumed["params"]["approvalPolicy"], "never", "{resumed}");
    let project = house.directory.path().join("project").canonicalize().unwrap();
    assert_eq!(files[project.to_str().unwrap()], "write", "{resumed}");
    assert_eq!(resumed["params"]["cwd"], project.to_str().unwrap());
    house.stop().await;
}

#[tokio::test]
async fn only_an_operator_chooses_a_directory_beyond_the_profiles() {
    let house = House::open().await;
    let caller = house.caller(&[Scope::Use]).await;
    let inside = house.directory.path().join("project");
    let link = house.directory.path().join("link");
    std::os::unix::fs::symlink("/", &link).unwrap();
    let order = |cwd: &std::path::Path| serde_json::json!({ "prompt": "[[text]]", "cwd": cwd }).to_string();
    assert_eq!(caller.post("/api/turns", &order(&inside)).await.status, 201);
    for outside in [std::path::Path::new("/"), &inside.join("../.."), &link] {
        assert_eq!(caller.post("/api/turns", &order(outside)).await.refusal(), "403 scope_missing", "{outside:?}");
        assert_eq!(house.operator.post("/api/turns", &order(outside)).await.status, 201);
    }
    house.stop().await;
}

#[tokio::test]
async fn a_steer_that_the_worker_does_not_answer_holds_nothing_up() {
    let house = House::open().await;
    let path = house.start("[[slow 100000 5]]").await;
    let mut reader = house.operator.events(&path, "").await;
    reader.until("text").await;
    // From now on each answer waits for the next one.
    let other = house.start("[[answers swapped]]").await;
    house.operator.events(&other, "").await.rest().await;
    let turn = path.trim_end_matches("/events");
    let steer = format!("{turn}/steer");
    let interrupting = async {
        while try_frame(&house, "turn/steer").await.is_none() {}
        for _ in 0..3 {
            reader.until("text").await;
        }
        assert_eq!(house.operator.post(&format!("{turn}/interrupt"), "").await.status, 200);
        assert_eq!(reader.rest().await.last().unwrap()["status"], "interrupted");
    };
    let interrupting = tokio::time::timeout(testkit::HANG_TIMEOUT, interrupting);
    let (_, interrupted) = tokio::join!(house.operator.post(&steer, r#"{"prompt":"more"}"#), interrupting);
    interrupted.expect("the turn is read on and interrupted");
    house.stop().await;
}

#[tokio::test]
async fn whoever_reads_a_turn_that_a_stop_ends_is_told_its_end() {
    let house = House::open().await;
    let mut readers = Vec::new();
    for _ in 0..4 {
        let path = house.start("[[slow 100000 5]]").await;
        let mut reader = house.operator.events(&path, "").await;
        reader.until("text").await;
        readers.push(reader);
    }
    house.pool.stop().await;
    house.stop().await;
    for mut reader in readers {
        assert_eq!(reader.rest().await.last().expect("something is told")["type"], "turn_ended");
    }
}

/// The last frame of this method that was sent to the worker.
async fn try_frame(house: &House, method: &str) -> Option<Value> {
    let frames = house.operator.get("/api/wire/main-0").await.json();
    let texts = frames["frames"].as_array().unwrap().iter().rev().map(|frame| frame["text"].as_str().unwrap());
    texts.filter_map(|text| serde_json::from_str::<Value>(text).ok()).find(|frame| frame["method"] == method)
}

async fn frame(house: &House, method: &str) -> Value {
    try_frame(house, method).await.unwrap_or_else(|| panic!("{method} was never sent"))
}
