//! The limits of keys where turns do not simply run to their end: parked, kept going by results or words, cut short, abandoned, lost.

use std::num::{NonZeroU32, NonZeroU64};

use front::Settings;
use front::keys::KeyLimits;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::HANG_TIMEOUT;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::http::{Answer, Caller};
use crate::limits::{header, limited, used, within_a_day};
use crate::support::{House, plan};
use crate::until_turns;

const CHAT: &str = "/v1/chat/completions";

fn requests(count: u32) -> KeyLimits {
    KeyLimits { requests_per_minute: NonZeroU32::new(count), ..KeyLimits::default() }
}

fn turns(count: u32) -> KeyLimits {
    KeyLimits { turns_max: NonZeroU32::new(count), ..KeyLimits::default() }
}

fn tokens(count: u64) -> KeyLimits {
    KeyLimits { tokens_per_day: NonZeroU64::new(count), ..KeyLimits::default() }
}

fn says(prompt: &str) -> Value {
    json!({"model": "quiet", "messages": [{"role": "user", "content": prompt}]})
}

/// A chat whose model calls a tool of its caller.
struct Chat {
    messages: Vec<Value>,
}

impl Chat {
    /// One that waits for the result of its first call.
    async fn begin(caller: &Caller) -> Self {
        let mut chat = Self { messages: vec![json!({"role": "user", "content": "[[tool look {}]]"})] };
        let called = caller.post(CHAT, &chat.body().to_string()).await;
        chat.hear(&called);
        chat
    }

    fn body(&self) -> Value {
        let tools = json!([{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]);
        json!({"model": "quiet", "tools": tools, "messages": self.messages})
    }

    /// What brings the result of the last call.
    fn bringing(&self, result: &str) -> Value {
        let call = &self.messages.last().unwrap()["tool_calls"][0]["id"];
        let mut body = self.body();
        let result = json!({"role": "tool", "tool_call_id": call, "content": result});
        body["messages"].as_array_mut().unwrap().push(result);
        body
    }

    async fn bring(&mut self, caller: &Caller, result: &str) -> Answer {
        let mut body = self.bringing(result);
        let answer = caller.post(CHAT, &body.to_string()).await;
        if answer.status == 200 {
            self.messages = serde_json::from_value(body["messages"].take()).unwrap();
            self.hear(&answer);
        }
        answer
    }

    fn hear(&mut self, answer: &Answer) {
        assert_eq!(answer.status, 200, "{}", answer.body);
        self.messages.push(answer.json()["choices"][0]["message"].clone());
    }
}

/// Asks for a stream and reads the status alone; the connection stays open.
async fn open(caller: &Caller, mut body: Value) -> (String, BufReader<TcpStream>) {
    body["stream"] = true.into();
    let (body, key) = (body.to_string(), &caller.key);
    let head = format!("POST {CHAT} HTTP/1.0\r\nhost: localhost\r\nx-api-key: {key}\r\ncontent-type: application/json");
    let mut stream = TcpStream::connect(caller.address).await.unwrap();
    stream.write_all(format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).as_bytes()).await.unwrap();
    let (mut lines, mut status) = (BufReader::new(stream), String::new());
    timeout(HANG_TIMEOUT, lines.read_line(&mut status)).await.expect("an answer begins").unwrap();
    (status.split(' ').nth(1).unwrap().to_owned(), lines)
}

/// Asks until there is a place: a turn whose caller has left still has to end.
async fn post_when_free(caller: &Caller, body: &Value) -> Answer {
    let answered = async {
        loop {
            let answer = caller.post(CHAT, &body.to_string()).await;
            if answer.status != 429 {
                return answer;
            }
            assert_eq!(answer.refusal(), "429 concurrency_exceeded");
            tokio::task::yield_now().await;
        }
    };
    timeout(HANG_TIMEOUT, answered).await.expect("turns end")
}

async fn estimated(caller: &Caller) -> u64 {
    let usage = caller.get("/api/usage").await.json();
    usage["usage"].as_array().unwrap().iter().map(|row| row["estimated_tokens"].as_u64().unwrap()).sum()
}

#[tokio::test]
async fn results_that_come_at_once_set_no_more_turns_going_than_may_run() {
    let house = House::open().await;
    let caller = limited(&house, turns(2)).await;
    let mut chats = Vec::new();
    for _ in 0..6 {
        chats.push(Chat::begin(&caller).await);
    }
    assert_eq!(house.pool.load().parked, 6, "what waits for its caller does not run");
    let opened = join_all(chats.iter().map(|chat| open(&caller, chat.bringing("[[hang]]")))).await;
    let statuses: Vec<_> = opened.iter().map(|(status, _)| &**status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == "200").count(), 2, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == "429").count(), 4, "{statuses:?}");
    assert_eq!(house.pool.load().parked, 4, "those that were refused wait as before");
    let refused: Vec<_> = chats.iter().zip(&statuses).filter(|(_, status)| **status == "429").collect();
    let again = caller.post(CHAT, &refused[0].0.bringing("found").to_string()).await;
    assert_eq!(again.refusal(), "429 concurrency_exceeded");
    assert_eq!(header(&again, "retry-after"), Some("1"));
    let waiting: Vec<_> = refused.iter().map(|(chat, _)| chat.bringing("found")).collect();
    drop(opened);
    for body in waiting {
        let answer = post_when_free(&caller, &body).await;
        assert_eq!(answer.json()["choices"][0]["message"]["content"], "Done after tool.", "{}", answer.body);
    }
    until_turns(&house, 0).await;
    house.stop().await;
}

#[tokio::test]
async fn a_turn_that_goes_on_without_its_caller_counts_again() {
    let house = House::open().await;
    let caller = limited(&house, turns(1)).await;
    let body = json!({"model": "asking", "messages": [{"role": "user", "content": "[[shell touch x; sleep 1000]]"}]});
    let mut feed = house.operator.events("/api/events", "").await;
    let (status, asking) = open(&caller, body).await;
    assert_eq!(status, "200");
    let approval = feed.until("approval_wanted").await["approval"].clone();
    drop(asking);
    // It waits for a person, and nobody reads it: another may run.
    assert_eq!(post_when_free(&caller, &says("[[text]]")).await.status, 200);
    let decision = json!({"verdict": "allow", "shown_hash": approval["shown_hash"]});
    let path = format!("/api/approvals/{}/decide", approval["id"].as_str().unwrap());
    let decided = house.operator.post(&path, &decision.to_string()).await;
    assert_eq!(decided.status, 200, "{}", decided.body);
    let runs = async {
        while house.pool.load().parked > 0 || caller.post(CHAT, &says("[[text]]").to_string()).await.status == 200 {
            tokio::task::yield_now().await;
        }
    };
    timeout(HANG_TIMEOUT, runs).await.expect("it goes on");
    assert_eq!(caller.post(CHAT, &says("[[text]]").to_string()).await.refusal(), "429 concurrency_exceeded");
    house.stop().await;
}

#[tokio::test]
async fn results_are_requests_and_a_refused_one_leaves_its_turn_waiting() {
    let house = House::open().await;
    let caller = limited(&house, requests(2)).await;
    let mut chat = Chat::begin(&caller).await;
    chat.bring(&caller, "[[tool look {}]]").await;
    assert_eq!(chat.bring(&caller, "found").await.refusal(), "429 rate_limited");
    assert_eq!(house.pool.load().parked, 1);
    house.stop().await;
}

#[tokio::test]
async fn results_over_a_websocket_and_responses_in_the_background_are_requests() {
    let house = House::open().await;
    let caller = limited(&house, requests(1)).await;
    let mut frames = caller.frames().await;
    let tools = json!([{"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}]);
    let called = frames.answer(json!({"model": "quiet", "input": "[[tool look {}]]", "tools": tools})).await;
    let result = json!({"type": "function_call_output", "call_id": called["output"][0]["call_id"], "output": "found"});
    let request = json!({"model": "quiet", "previous_response_id": called["id"], "input": [result], "tools": tools});
    assert_eq!(frames.refusal(request).await, "429 rate_limited");
    assert_eq!(house.pool.load().parked, 1);
    frames.close().await;

    let caller = limited(&house, requests(1)).await;
    let body = json!({"model": "quiet", "background": true, "input": "[[text]]"}).to_string();
    assert_eq!(caller.post("/v1/responses", &body).await.status, 200);
    assert_eq!(caller.post("/v1/responses", &body).await.refusal(), "429 rate_limited");
    house.stop().await;
}

#[tokio::test]
async fn each_choice_of_an_answer_is_a_request() {
    let house = House::open().await;
    let caller = limited(&house, requests(5)).await;
    let with = |n: u32| {
        let mut body = says("[[text]]");
        body["n"] = n.into();
        body.to_string()
    };
    let answered = caller.post(CHAT, &with(3)).await;
    assert_eq!(header(&answered, "x-ratelimit-remaining-requests"), Some("2"), "{}", answered.body);
    let refused = caller.post(CHAT, &with(3)).await;
    assert_eq!(refused.refusal(), "429 rate_limited");
    assert_eq!(caller.post(CHAT, &with(2)).await.status, 200, "what was refused took nothing");
    assert_eq!(caller.post(CHAT, &with(6)).await.refusal(), "400 invalid_value", "no waiting would help");
    house.stop().await;
}

#[tokio::test]
async fn who_says_more_to_a_turn_uses_a_request() {
    let house = House::open().await;
    let caller = limited(&house, requests(2)).await;
    let started = caller.post("/api/turns", r#"{"prompt":"[[slow 100000 50]]"}"#).await.json();
    let steer = started["events"].as_str().unwrap().replace("/events", "/steer");
    assert_eq!(caller.post(&steer, r#"{"prompt":""}"#).await.refusal(), "400 invalid_value", "that is free");
    assert_eq!(caller.post("/api/turns/none/steer", r#"{"prompt":"more"}"#).await.status, 404, "so is that");
    assert_eq!(caller.post(&steer, r#"{"prompt":"more"}"#).await.status, 200);
    assert_eq!(caller.post(&steer, r#"{"prompt":"more"}"#).await.refusal(), "429 rate_limited");
    house.stop().await;
}

#[tokio::test]
async fn results_do_not_keep_a_turn_going_beyond_the_days_tokens() {
    within_a_day(async || {
        let house = House::open().await;
        let caller = limited(&house, tokens(500)).await;
        let mut chat = Chat::begin(&caller).await;
        let (mut before, mut largest) = (0, 0);
        let refused = loop {
            let answer = chat.bring(&caller, "[[tool look {}]]").await;
            let now = used(&caller).await;
            if answer.status != 200 {
                break answer;
            }
            assert!(before < 500, "{now}");
            (before, largest) = (now, largest.max(now - before));
        };
        assert_eq!(refused.refusal(), "429 insufficient_quota");
        let used = used(&caller).await;
        assert!((500..500 + largest).contains(&used), "{used}, and the largest answer {largest}");
        assert_eq!(house.pool.load().parked, 1, "the turn waits for as long as it may");
        house.stop().await;
    })
    .await;
}

#[tokio::test]
async fn requests_that_come_at_once_pass_a_budget_by_one_answer_at_most() {
    within_a_day(async || {
        let house = House::open().await;
        let caller = limited(&house, tokens(500)).await;
        let mut is_left = true;
        while is_left {
            let body = says("[[deltas 20]]").to_string();
            let answers = join_all((0..30).map(|_| caller.post(CHAT, &body))).await;
            let refusals = answers.iter().filter(|answer| answer.status != 200).map(Answer::refusal);
            is_left = !refusals.into_iter().any(|refusal| refusal == "429 insufficient_quota");
        }
        let (used, answer) = (used(&caller).await, 150);
        assert!((500..500 + answer).contains(&used), "{used}");
        house.stop().await;
    })
    .await;
}

#[tokio::test]
async fn what_is_said_to_a_turn_is_refused_once_the_days_tokens_are_gone() {
    within_a_day(async || {
        let directory = TempDir::new().unwrap();
        let script = directory.path().join("script.toml");
        std::fs::write(&script, "[[turns]]\nsteps = [\"shell true\", \"slow 100000 50\"]\n").unwrap();
        let mut plan = plan(directory.path());
        plan.groups[0].args = vec!["--script".into(), script.into()];
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let house = House::of(plan, directory, listener, Settings::default(), approvals::Settings::default()).await;
        let caller = limited(&house, tokens(1)).await;
        let started = caller.post("/api/turns", r#"{"prompt":"work","profile":"quiet"}"#).await.json();
        let path = started["events"].as_str().unwrap();
        caller.events(path, "").await.until("token_usage").await;
        let refused = caller.post(&path.replace("/events", "/steer"), r#"{"prompt":"more"}"#).await;
        assert_eq!(refused.refusal(), "429 insufficient_quota");
        house.stop().await;
    })
    .await;
}

#[tokio::test]
async fn an_answer_that_a_stop_text_ends_has_its_usage_and_counts() {
    within_a_day(async || {
        let house = House::open().await;
        let caller = limited(&house, tokens(1_000_000)).await;
        // It says much more than is read of it, and reports nothing when it is cut.
        let mut body = says("[[slow 100000 2]]");
        body["stop"] = json!(["s40"]);
        let answer = caller.post(CHAT, &body.to_string()).await.json();
        let told = |answer: &Value, name: &str| answer["usage"][name].as_u64().unwrap();
        assert_eq!(answer["choices"][0]["finish_reason"], "stop");
        assert!(told(&answer, "completion_tokens") >= 30, "{answer:#}");
        assert!(told(&answer, "prompt_tokens") > 0, "{answer:#}");
        let first = told(&answer, "total_tokens");
        assert_eq!((used(&caller).await, estimated(&caller).await), (first, first));

        body["stream"] = true.into();
        body["stream_options"] = json!({"include_usage": true});
        let chunks = caller.stream(CHAT, "", &body.to_string()).await.rest().await;
        let last = &chunks[chunks.len() - 2];
        assert_eq!(used(&caller).await, first + told(last, "total_tokens"), "{last:#}");
        house.stop().await;
    })
    .await;
}

#[tokio::test]
async fn turns_that_are_left_interrupted_or_lost_count_what_they_are_thought_to_have_used() {
    within_a_day(async || {
        let house = House::open().await;
        let left = limited(&house, tokens(1)).await;
        let mut body = says("[[slow 100000 5]]");
        body["stream"] = true.into();
        let mut stream = left.stream(CHAT, "", &body.to_string()).await;
        for _ in 0..5 {
            stream.next().await.unwrap();
        }
        drop(stream);
        until_turns(&house, 0).await;
        assert!(estimated(&left).await > 0, "its caller has left");
        assert_eq!(left.post(CHAT, &body.to_string()).await.refusal(), "429 insufficient_quota");

        let interrupted = limited(&house, tokens(1)).await;
        let started = interrupted.post("/api/turns", r#"{"prompt":"[[slow 100000 5]]"}"#).await.json();
        let path = started["events"].as_str().unwrap();
        let mut events = interrupted.events(path, "").await;
        events.until("text").await;
        interrupted.post(&path.replace("/events", "/interrupt"), "").await;
        events.until("turn_ended").await;
        assert!(estimated(&interrupted).await > 0);

        let lost = limited(&house, tokens(1)).await;
        let failed = lost.post(CHAT, &says("[[crash 3 kill]]").to_string()).await;
        assert!(failed.status >= 500, "{}", failed.body);
        assert!(estimated(&lost).await > 0);
        house.stop().await;
    })
    .await;
}
