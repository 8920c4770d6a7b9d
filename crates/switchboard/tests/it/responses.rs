//! Responses over a restart of the server: what was told is there again, and what was in progress says what became of it.

use std::time::{Duration, SystemTime};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testkit::processes;

use crate::command::State;
use crate::served::Served;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

const KEY: &str = "the-key-of-some-responses-0123456789abcdef";
/// Long enough for nothing: a server that is asked to stop stops at once.
const GRACE: &str = "drain_grace = \"0s\"\n";

fn serve<'a>(state: &'a State, transport: &str) -> Served<'a> {
    let file = state.path().join("config.toml");
    let config = format!("{GRACE}[[workers]]\nname = \"main\"\ncommand = \"demo\"\ntransport = \"{transport}\"\n");
    std::fs::write(&file, config).unwrap();
    Served::start_with(state, &["--config", file.to_str().unwrap()], &[("SWITCHBOARD_KEY", KEY)])
}

fn kill(served: Served<'_>) {
    served.run.signal(Signal::KILL);
    served.run.end_beside_others();
}

fn respond(served: &Served<'_>, body: &Value) -> Value {
    json_in(&served.post("/v1/responses", &body.to_string()))
}

fn retrieve(served: &Served<'_>, id: &Value) -> Value {
    json_in(&served.get(&format!("/v1/responses/{}", id.as_str().unwrap())))
}

fn json_in(answer: &str) -> Value {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
    serde_json::from_str(body).unwrap()
}

fn said(response: &Value) -> String {
    let items = response["output"].as_array().unwrap().iter().filter(|item| item["type"] == "message");
    items.filter_map(|item| item["content"][0]["text"].as_str()).collect()
}

#[test]
fn what_was_told_is_there_after_a_kill_and_goes_on() {
    let state = State::new();
    let served = serve(&state, "stdio");
    let told = respond(&served, &json!({"model": "codex", "input": "[[text]]", "metadata": {"a": "b"}}));
    kill(served);
    let served = serve(&state, "stdio");
    assert_eq!(retrieve(&served, &told["id"]), told);
    let next =
        respond(&served, &json!({"model": "codex", "input": "[[say More.]]", "previous_response_id": told["id"]}));
    assert_eq!((next["status"].as_str(), said(&next).as_str()), (Some("completed"), "More."));
    served.stop();
}

#[test]
fn what_was_in_progress_has_failed_with_its_worker() {
    let state = State::new();
    let served = serve(&state, "stdio");
    let begun = respond(&served, &json!({"model": "codex", "background": true, "input": "[[slow 100000 5]]"}));
    let id = &begun["id"];
    served.wait_until("it runs", |served| retrieve(served, id)["status"] == "in_progress");
    kill(served);
    let served = serve(&state, "stdio");
    served.wait_until("its worker was asked", |served| retrieve(served, id)["status"] != "in_progress");
    let found = retrieve(&served, id);
    assert_eq!(found["status"], "failed", "{found}");
    assert_eq!(found["error"]["code"], "server_restarted", "{found}");
    assert_eq!(retrieve(&served, id), found, "and stays so");
    served.stop();
}

#[test]
fn what_was_in_progress_goes_on_with_a_worker_that_outlives_the_server() {
    for signal in [Signal::KILL, Signal::TERM] {
        let state = State::new();
        let served = serve(&state, "unix");
        let begun = respond(&served, &json!({"model": "codex", "background": true, "input": "[[slow 100 60]]"}));
        let id = &begun["id"];
        served.wait_until("it runs", |served| retrieve(served, id)["status"] == "in_progress");
        served.run.signal(signal);
        served.run.end_beside_others();
        let served = serve(&state, "unix");
        assert_eq!(retrieve(&served, id)["status"], "in_progress", "its turn still runs");
        served.wait_until("it is complete", |served| retrieve(served, id)["status"] != "in_progress");
        let found = retrieve(&served, id);
        assert_eq!(found["status"], "completed", "{found}");
        let expected: String = (0..100).map(|number| format!("s{number} ")).collect();
        assert_eq!(said(&found), expected, "nothing of it is lost");
        let next = respond(&served, &json!({"model": "codex", "input": "[[say More.]]", "previous_response_id": id}));
        assert_eq!(said(&next), "More.");
        end_with_its_worker(&state, served);
    }
}

/// Ends the server, and then the worker that outlives it.
fn end_with_its_worker(state: &State, served: Served<'_>) {
    served.run.signal(Signal::TERM);
    assert_eq!(served.run.end_beside_others().code(), Some(0));
    let workers = processes::with(&format!("CODEX_HOME={}", state.path().join("demo").display()));
    assert_eq!(workers.len(), 1, "the worker outlives the server");
    kill_process(Pid::from_raw(workers[0].cast_signed()).unwrap(), Signal::KILL).unwrap();
}

/// Begins a response in the background of a new conversation, and restarts the server in its middle.
fn restarted_within_a_conversation<'a>(state: &'a State, prompt: &str) -> (Served<'a>, Value, Value) {
    let served = serve(state, "unix");
    let conversation = json_in(&served.post("/v1/conversations", "{}"))["id"].clone();
    let begun = respond(&served, &within(&conversation, prompt, true));
    served.wait_until("it runs", |served| retrieve(served, &begun["id"])["status"] == "in_progress");
    kill(served);
    (serve(state, "unix"), conversation, begun["id"].clone())
}

fn within(conversation: &Value, prompt: &str, background: impl Into<Value>) -> Value {
    json!({"model": "codex", "conversation": conversation, "background": background.into(), "input": prompt})
}

fn items(served: &Served<'_>, conversation: &Value) -> Value {
    let path = format!("/v1/conversations/{}/items?order=asc", conversation.as_str().unwrap());
    json_in(&served.get(&path))["data"].clone()
}

#[test]
fn what_goes_on_after_a_restart_can_be_cancelled_and_holds_its_conversation_until_then() {
    let state = State::new();
    let (served, conversation, id) = restarted_within_a_conversation(&state, "[[slow 100000 5]]");
    let another = within(&conversation, "[[text]]", false);
    let refused = served.post("/v1/responses", &another.to_string());
    assert!(refused.starts_with("HTTP/1.1 409") && refused.contains("conversation_locked"), "{refused}");
    let turns = |served: &Served<'_>| json_in(&served.get("/api/turns"))["turns"].as_array().map_or(0, Vec::len);
    served.wait_until("its turn is found again", |served| turns(served) == 1);
    let cancelled = json_in(&served.post(&format!("/v1/responses/{}/cancel", id.as_str().unwrap()), ""));
    assert_eq!(cancelled["status"], "cancelled", "{cancelled}");
    assert_eq!(retrieve(&served, &id), cancelled);
    served.wait_until("its turn is over", |served| turns(served) == 0);
    assert_eq!(items(&served, &conversation), json!([]));
    assert_eq!(respond(&served, &another)["status"], "completed", "the conversation is free");
    end_with_its_worker(&state, served);
}

#[test]
fn a_conversation_goes_on_with_what_was_completed_after_a_restart() {
    let state = State::new();
    let (served, conversation, id) = restarted_within_a_conversation(&state, "[[slow 50 80]]");
    served.wait_until("it is complete", |served| retrieve(served, &id)["status"] == "completed");
    let told = items(&served, &conversation);
    assert_eq!(told.as_array().map(Vec::len), Some(2), "{told}");
    assert!(told[1]["content"][0]["text"].as_str().unwrap().ends_with("s49 "), "{told}");
    let next = respond(&served, &within(&conversation, "[[say More.]]", false));
    assert_eq!(said(&next), "More.");
    assert_eq!(items(&served, &conversation).as_array().map(Vec::len), Some(4));
    let threads = json_in(&served.get("/api/threads"));
    assert_eq!(threads["threads"].as_array().map(Vec::len), Some(1), "on the same thread: {threads}");
    end_with_its_worker(&state, served);
}

#[test]
fn of_what_is_not_stored_nothing_is_left() {
    let state = State::new();
    let served = serve(&state, "stdio");
    for prompt in ["[[text]]", "[[http 500]]", "[[ctx]]"] {
        served.post("/v1/responses", &json!({"model": "codex", "store": false, "input": prompt}).to_string());
    }
    served.post("/v1/responses/compact", &json!({"model": "codex", "input": "a secret"}).to_string());
    let no_threads = |served: &Served<'_>| json_in(&served.get("/api/threads"))["threads"] == json!([]);
    served.wait_until("all threads are forgotten", no_threads);
    assert_eq!(served.stop().code(), Some(0));
    let kept = std::fs::read(state.path().join("switchboard.db")).unwrap();
    let has = |text: &str| kept.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(!has("a secret") && !has("resp_"), "nothing is in the store");
}

fn with_store<F: Future<Output = ()>>(state: &State, change: impl FnOnce(store::Store) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = store::Store::open(state.path().join("switchboard.db"), store::Limits::default()).unwrap();
        change(store.clone()).await;
        store.close().await.unwrap();
    });
}

/// Makes a response of the store older by so many days.
fn age(state: &State, id: &Value, days: i64) {
    let id = id.as_str().unwrap().to_owned();
    with_store(state, |store| async move {
        let row = store.read(move |reader| reader.response(&id, "chosen")).await.unwrap().unwrap();
        let older = store::Response { created_at: row.created_at - days * DAY_MS, ..row };
        store.commit(vec![store::Change::Response(older)]).await.unwrap();
    });
}

#[test]
fn a_start_with_the_clock_far_ahead_keeps_what_has_not_expired() {
    let state = State::new();
    // To the server, this is a clock that is 200 days ahead.
    let now_ms = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
    let wall_ms = i64::try_from(now_ms).unwrap() - 200 * DAY_MS;
    with_store(&state, |store| async move {
        let reading = store::ClockReading { wall_ms, watched: Duration::ZERO };
        assert_eq!(store.observe_clock(reading).await.unwrap(), wall_ms);
    });
    let served = serve(&state, "stdio");
    let request = json!({"model": "codex", "input": "[[text]]"});
    let (new, expired) = (respond(&served, &request), respond(&served, &request));
    served.stop();
    age(&state, &new["id"], 200);
    age(&state, &expired["id"], 240);
    let served = serve(&state, "stdio");
    let path = format!("/v1/responses/{}", expired["id"].as_str().unwrap());
    served.wait_until("what had expired is removed", |served| served.get(&path).starts_with("HTTP/1.1 404"));
    assert_eq!(retrieve(&served, &new["id"]), new);
    served.stop();
}
