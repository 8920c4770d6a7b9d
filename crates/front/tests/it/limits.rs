//! What keys may use, over HTTP with real turns: requests, turns at the same time, tokens of the day.

use std::num::{NonZeroU32, NonZeroU64};
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::time::{SystemTime, UNIX_EPOCH};

use front::keys::{Grant, KeyLimits, Scope, Scopes};
use futures_util::FutureExt as _;
use serde_json::{Value, json};

use crate::http::{Answer, Caller};
use crate::support::House;

const TEXT: &str = r#"{"prompt":"[[text]]"}"#;

pub(crate) async fn limited(house: &House, limits: KeyLimits) -> Caller {
    house.caller_with(Grant { limits, ..Grant::of(Scopes::of(&[Scope::Use])) }).await
}

/// Runs a turn to its end.
async fn run(caller: &Caller) -> Answer {
    let started = caller.post("/api/turns", TEXT).await;
    assert_eq!(started.status, 201, "{}", started.body);
    caller.events(started.json()["events"].as_str().unwrap(), "").await.rest().await;
    started
}

/// Plays it once more if it failed and midnight fell into it: what is counted by the day begins anew then.
pub(crate) async fn within_a_day(play: impl AsyncFn()) {
    let today = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 86_400;
    let day = today();
    if let Err(failure) = AssertUnwindSafe(play()).catch_unwind().await {
        if day == today() {
            resume_unwind(failure);
        }
        play().await;
    }
}

pub(crate) fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    answer.headers.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

#[tokio::test]
async fn a_key_without_limits_is_told_of_none() {
    let house = House::open().await;
    let started = run(&house.caller(&[Scope::Use]).await).await;
    assert!(!started.headers.contains("x-ratelimit"), "{}", started.headers);
    house.stop().await;
}

#[tokio::test]
async fn requests_are_counted_and_refused_with_the_time_to_wait() {
    let house = House::open().await;
    let limits = KeyLimits { requests_per_minute: NonZeroU32::new(2), ..KeyLimits::default() };
    let (caller, other) = (limited(&house, limits).await, limited(&house, limits).await);
    let first = run(&caller).await;
    assert_eq!(header(&first, "x-ratelimit-limit-requests"), Some("2"));
    assert_eq!(header(&first, "x-ratelimit-remaining-requests"), Some("1"));
    assert_eq!(header(&first, "x-ratelimit-reset-requests"), Some("30s"));
    assert_eq!(header(&first, "x-ratelimit-limit-tokens"), None);
    assert_eq!(header(&run(&caller).await, "x-ratelimit-remaining-requests"), Some("0"));
    let refused = caller.post("/api/turns", TEXT).await;
    assert_eq!(refused.refusal(), "429 rate_limited");
    let wait: u32 = header(&refused, "retry-after").unwrap().parse().unwrap();
    assert!((1..=30).contains(&wait), "{wait}");
    assert_eq!(header(&refused, "x-ratelimit-limit-requests"), Some("2"), "clients read it here above all");
    assert_eq!(header(&refused, "x-ratelimit-remaining-requests"), Some("0"));
    assert_eq!(caller.get("/api/turns").await.status, 200, "looking is free");
    run(&other).await;
    house.stop().await;
}

#[tokio::test]
async fn an_order_that_is_refused_for_itself_uses_no_request() {
    let house = House::open().await;
    let limits = KeyLimits { requests_per_minute: NonZeroU32::new(1), ..KeyLimits::default() };
    let caller = limited(&house, limits).await;
    assert_eq!(caller.post("/api/turns", r#"{"prompt":""}"#).await.refusal(), "400 invalid_value");
    run(&caller).await;
    house.stop().await;
}

#[tokio::test]
async fn turns_that_run_at_the_same_time_are_counted_until_their_end() {
    let house = House::open().await;
    let limits = KeyLimits { turns_max: NonZeroU32::new(1), ..KeyLimits::default() };
    let caller = limited(&house, limits).await;
    let running = caller.post("/api/turns", r#"{"prompt":"[[slow 100000 50]]"}"#).await.json();
    let refused = caller.post("/api/turns", TEXT).await;
    assert_eq!(refused.refusal(), "429 concurrency_exceeded");
    assert_eq!(header(&refused, "retry-after"), Some("1"));
    let path = running["events"].as_str().unwrap();
    caller.post(&path.replace("/events", "/interrupt"), "").await;
    caller.events(path, "").await.rest().await;
    run(&caller).await;
    house.stop().await;
}

#[tokio::test]
async fn whoever_hears_the_end_of_a_turn_may_ask_for_the_next_at_once() {
    let house = House::open().await;
    let limits = KeyLimits { turns_max: NonZeroU32::new(1), ..KeyLimits::default() };
    let caller = limited(&house, limits).await;
    let chat = json!({"model": "quiet", "stream": true, "messages": [{"role": "user", "content": "[[text]]"}]});
    let response = json!({"model": "quiet", "stream": true, "input": "[[text]]"});
    for _ in 0..3 {
        let started = caller.post("/api/turns", TEXT).await;
        assert_eq!(started.status, 201, "{}", started.body);
        caller.events(started.json()["events"].as_str().unwrap(), "").await.until("turn_ended").await;
        let mut chunks = caller.stream("/v1/chat/completions", "", &chat.to_string()).await;
        while chunks.next().await.unwrap() != "[DONE]" {}
        let mut events = caller.stream("/v1/responses", "", &response.to_string()).await;
        events.until("response.completed").await;
        let mut in_background = response.clone();
        in_background["background"] = true.into();
        let mut events = caller.stream("/v1/responses", "", &in_background.to_string()).await;
        events.until("response.completed").await;
    }
    house.stop().await;
}

#[tokio::test]
async fn a_days_tokens_are_counted_from_the_workers_own_figures_also_over_a_restart() {
    within_a_day(count_tokens_over_restarts).await;
}

async fn count_tokens_over_restarts() {
    let house = House::open().await;
    let free = house.caller(&[Scope::Use]).await;
    run(&free).await;
    let used = used(&free).await;
    assert!(used > 0, "the demo worker tells what it used");
    let limits = KeyLimits { tokens_per_day: NonZeroU64::new(used + 1), ..KeyLimits::default() };
    let caller = limited(&house, limits).await;
    let first = run(&caller).await;
    assert_eq!(header(&first, "x-ratelimit-limit-tokens"), Some(&*(used + 1).to_string()));
    assert_eq!(header(&first, "x-ratelimit-remaining-tokens"), Some(&*(used + 1).to_string()));
    assert!(header(&first, "x-ratelimit-reset-tokens").is_some_and(|reset| reset.ends_with('s')));

    let house = House::reopen(house.stop().await).await;
    let caller = Caller { address: house.operator.address, ..caller };
    let second = run(&caller).await;
    assert_eq!(header(&second, "x-ratelimit-remaining-tokens"), Some("1"), "what was used before the restart");
    let refused = caller.post("/api/turns", TEXT).await;
    assert_eq!(refused.refusal(), "429 insufficient_quota", "counted without a restart too");
    let wait: u64 = header(&refused, "retry-after").unwrap().parse().unwrap();
    assert!((1..=86_400).contains(&wait), "{wait}");

    let house = House::reopen(house.stop().await).await;
    let caller = Caller { address: house.operator.address, ..caller };
    assert_eq!(caller.post("/api/turns", TEXT).await.refusal(), "429 insufficient_quota");
    house.stop().await;
}

#[tokio::test]
async fn conversations_have_the_same_limits_and_say_what_is_left_of_them() {
    within_a_day(reach_limits_in_conversations).await;
}

async fn reach_limits_in_conversations() {
    let house = House::open().await;
    let body = r#"{"model":"quiet","messages":[{"role":"user","content":"[[text]]"}]}"#;
    let limits = KeyLimits {
        requests_per_minute: NonZeroU32::new(10),
        turns_max: NonZeroU32::new(2),
        tokens_per_day: NonZeroU64::new(1),
    };
    let caller = limited(&house, limits).await;
    let three = body.replace("\"model\"", "\"n\":3,\"model\"");
    let too_many = caller.post("/v1/chat/completions", &three).await;
    assert_eq!(too_many.refusal(), "400 invalid_value", "no waiting would help");
    let answered = caller.post("/v1/chat/completions", body).await;
    assert_eq!(answered.status, 200, "{}", answered.body);
    assert_eq!(header(&answered, "x-ratelimit-remaining-requests"), Some("9"), "what was refused took none");
    assert_eq!(header(&answered, "x-ratelimit-remaining-tokens"), Some("1"));
    let refused = caller.post("/v1/chat/completions", body).await;
    assert_eq!(refused.refusal(), "429 insufficient_quota", "what the answer used is counted");
    assert_eq!(caller.post("/api/turns", TEXT).await.refusal(), "429 insufficient_quota");
    house.stop().await;
}

#[tokio::test]
async fn what_fails_says_what_is_left_and_what_was_ignored_too() {
    let house = House::open().await;
    let limits = KeyLimits { requests_per_minute: NonZeroU32::new(10), ..KeyLimits::default() };
    let caller = limited(&house, limits).await;
    let crash = "[[crash 3 kill]]";
    let chat = json!({"model": "quiet", "seed": 1, "messages": [{"role": "user", "content": crash}]});
    let response = json!({"model": "quiet", "top_logprobs": 1, "input": crash});
    for (path, body) in [("/v1/chat/completions", &chat), ("/v1/responses", &response)] {
        let failed = caller.post(path, &body.to_string()).await;
        assert!(failed.status >= 500, "{path}: {} {}", failed.status, failed.body);
        for name in ["x-ratelimit-remaining-requests", "x-switchboard-ignored", "openai-processing-ms"] {
            assert!(header(&failed, name).is_some(), "{path} lacks {name}: {}", failed.headers);
        }
    }
    house.stop().await;
}

pub(crate) async fn used(caller: &Caller) -> u64 {
    let usage = caller.get("/api/usage").await.json();
    let sum = |row: &Value| row["input_tokens"].as_u64().unwrap() + row["output_tokens"].as_u64().unwrap();
    usage["usage"].as_array().unwrap().iter().map(sum).sum()
}

#[tokio::test]
async fn usage_is_told_by_day_and_key_to_operators_and_to_others_only_their_own() {
    let house = House::open().await;
    let (one, other) = (house.caller(&[Scope::Use]).await, house.caller(&[Scope::Use]).await);
    run(&one).await;
    run(&one).await;
    run(&other).await;
    let all = house.check(&house.operator.get("/api/usage").await, "Usage").await;
    let turns = |usage: &Value, caller: &Caller| {
        let rows = usage["usage"].as_array().unwrap();
        rows.iter().filter(|row| row["key"] == caller.id()).map(|row| row["turns"].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!((turns(&all, &one), turns(&all, &other)), (2, 1), "{all}");
    let own = house.check(&one.get("/api/usage").await, "Usage").await;
    assert_eq!((turns(&own, &one), turns(&own, &other)), (2, 0), "{own}");
    let strange = one.get(&format!("/api/usage?key={}", other.id())).await.json();
    assert_eq!(strange["usage"], Value::Array(Vec::new()), "as if it were not there");
    let of_one = house.operator.get(&format!("/api/usage?key={}", other.id())).await.json();
    assert_eq!((turns(&of_one, &one), turns(&of_one, &other)), (0, 1));
    let past = house.operator.get("/api/usage?from=2000-01-01&to=2000-12-31").await.json();
    assert_eq!(past, serde_json::json!({ "from": "2000-01-01", "to": "2000-12-31", "usage": [] }));
    for wrong in ["from=yesterday", "to=2026-1-1", "since=2026-01-01"] {
        assert_eq!(one.get(&format!("/api/usage?{wrong}")).await.refusal(), "400 invalid_value", "{wrong}");
    }
    house.stop().await;
}

#[tokio::test]
async fn one_key_leaves_idempotent_requests_to_others() {
    let directory = tempfile::TempDir::new().unwrap();
    let mut plan = crate::support::plan(directory.path());
    (plan.groups[0].turns_max, plan.groups[0].threads_loaded_max) = (100, 100);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let house = House::of(plan, directory, listener, front::Settings::default(), approvals::Settings::default()).await;
    let (one, other) = (house.caller(&[Scope::Use]).await, house.caller(&[Scope::Use]).await);
    let chat = |prompt: &str, stream: bool| {
        json!({"model": "quiet", "stream": stream, "messages": [{"role": "user", "content": prompt}]}).to_string()
    };
    let named = |name: &str| format!("idempotency-key: {name}\r\n");
    let path = "/v1/chat/completions";
    let mut streams = Vec::new();
    for number in 0..64 {
        streams.push(one.stream(path, &named(&number.to_string()), &chat("[[hang]]", true)).await);
    }
    crate::until_turns(&house, 64).await;
    let refused = one.post_with(path, &named("one more"), &chat("[[text]]", false)).await;
    assert_eq!(refused.refusal(), "429 concurrency_exceeded");
    assert_eq!(header(&refused, "retry-after"), Some("1"));
    assert!(refused.body.contains("this key has 64 requests with an Idempotency-Key in progress"), "{}", refused.body);
    assert_eq!(other.post_with(path, &named("one more"), &chat("[[text]]", false)).await.status, 200);
    assert_eq!(one.post(path, &chat("[[text]]", false)).await.status, 200, "without the header there is room");
    house.stop().await;
}
