//! Conversations of the OpenAI API with the real codex: what its model is told is what the caller said, and a call that waits is
//! answered even if the server was killed meanwhile.

use expect_test::{Expect, expect};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testkit::processes;

use crate::command::State;
use crate::real::Real;
use crate::served::Served;

const KEY: &str = "the-key-of-a-conversation-0123456789abcdef";
const PICTURE: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

#[test]
fn what_the_caller_says_arrives_at_the_model() {
    let (real, state) = (Real::new(), State::new());
    let served = Served::start_with(&state, &["--worker", &real.binary], &[("CODEX_HOME", &real.home)]);
    let expected = expect![[r#"
        developer: Be brief.
        user: Who are you?
        assistant: A model.
        user: Look these up. | the picture
        assistant: I will.
        call call_a: lookup {"id":1}
        call call_b: lookup {"id":2}
        output call_b: "two"
        output call_a: "one"
        assistant: One and two.
        developer: From now on in JSON.
        user: Add them. [[json {"sum":3}]]
    "#]];
    for model in ["codex-plain", "codex"] {
        let answer = complete(&served, &conversation(model));
        assert_eq!(answer["choices"][0]["message"]["content"], r#"{"sum":3}"#, "{answer}");
        let asked = real.model.requests().pop().unwrap();
        check(&asked, &expected);
        assert_eq!(tool_of(&asked), tool()["function"], "{model}");
        assert_eq!(asked["text"]["format"]["schema"], schema(), "{model}");
        assert_eq!(asked["reasoning"]["effort"], "high", "{model}");
    }
    assert_eq!(served.stop().code(), Some(0));
}

fn conversation(model: &str) -> Value {
    let call = |id: &str, number: u64| {
        let function = json!({ "name": "lookup", "arguments": json!({ "id": number }).to_string() });
        json!({ "id": id, "type": "function", "function": function })
    };
    let picture = json!({ "type": "image_url", "image_url": { "url": PICTURE } });
    json!({
        "model": model,
        "reasoning_effort": "high",
        "tools": [tool()],
        "response_format": { "type": "json_schema", "json_schema": { "name": "sum", "schema": schema(), "strict": true } },
        "messages": [
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": "Who are you?" },
            { "role": "assistant", "content": "A model." },
            { "role": "user", "content": [{ "type": "text", "text": "Look these up." }, picture] },
            { "role": "assistant", "content": "I will.", "tool_calls": [call("call_a", 1), call("call_b", 2)] },
            { "role": "tool", "tool_call_id": "call_b", "content": "two" },
            { "role": "tool", "tool_call_id": "call_a", "content": "one" },
            { "role": "assistant", "content": "One and two." },
            { "role": "developer", "content": "From now on in JSON." },
            { "role": "user", "content": "Add them. [[json {\"sum\":3}]]" },
        ],
    })
}

fn tool() -> Value {
    let parameters = json!({
        "type": "object", "properties": { "id": { "type": "integer" } }, "required": ["id"], "additionalProperties": false,
    });
    let function = json!({ "name": "lookup", "description": "Look up an entry.", "parameters": parameters });
    json!({ "type": "function", "function": function })
}

fn schema() -> Value {
    json!({
        "type": "object", "properties": { "sum": { "type": "integer" } }, "required": ["sum"], "additionalProperties": false,
    })
}

/// The caller's tool as the model was offered it.
fn tool_of(asked: &Value) -> Value {
    let tools = asked["tools"].as_array().unwrap();
    let tool = tools.iter().find(|tool| tool["name"] == "lookup").unwrap_or_else(|| panic!("{tools:?}"));
    json!({ "name": tool["name"], "description": tool["description"], "parameters": tool["parameters"] })
}

/// How codex begins what it says in its own name.
const CODEX_OWN: [&str; 3] = ["<", "# AGENTS", "You are a coding agent"];

/// What the model was told, an item a line, without what codex says in its own name.
fn check(asked: &Value, expected: &Expect) {
    let items = asked["input"].as_array().unwrap();
    let told: String = items.iter().filter_map(shown).map(|line| line + "\n").collect();
    expected.assert_eq(&told);
}

fn shown(item: &Value) -> Option<String> {
    let word = |key: &str| item[key].as_str().unwrap_or_default();
    match item["type"].as_str().unwrap_or("message") {
        "message" => {
            let is_codex_own = |part: &String| CODEX_OWN.iter().any(|start| part.starts_with(start));
            let parts = item["content"].as_array()?.iter().map(part);
            let parts: Vec<String> = parts.filter(|part| !is_codex_own(part)).collect();
            (!parts.is_empty()).then(|| format!("{}: {}", word("role"), parts.join(" | ")))
        }
        "function_call" => Some(format!("call {}: {} {}", word("call_id"), word("name"), word("arguments"))),
        "function_call_output" => Some(format!("output {}: {}", word("call_id"), item["output"])),
        kind => Some(format!("{kind}: {item}")),
    }
}

fn part(part: &Value) -> String {
    match part["text"].as_str() {
        Some(text) => text.to_owned(),
        None if part["image_url"] == PICTURE => "the picture".to_owned(),
        None => part.to_string(),
    }
}

#[test]
fn a_call_that_waits_is_answered_after_the_server_was_killed() {
    let (real, state) = (Real::new(), State::new());
    configure_outliving(&state, &real);
    let _worker = Outliving(&real);
    let start = || Served::start_with(&state, &[], &[("SWITCHBOARD_KEY", KEY)]);
    let user = json!({ "role": "user", "content": "[[tool lookup {\"id\":1}]]" });
    let mut request = json!({ "model": "codex", "tools": [tool()], "messages": [user] });

    let served = start();
    let wanted = complete(&served, &request);
    assert_eq!(wanted["choices"][0]["finish_reason"], "tool_calls", "{wanted}");
    served.run.signal(Signal::KILL);
    served.run.end_beside_others();

    let served = start();
    let message = wanted["choices"][0]["message"].clone();
    let result = json!({ "role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "one" });
    request["messages"].as_array_mut().unwrap().extend([message, result]);
    let answer = complete(&served, &request);
    assert_eq!(answer["choices"][0]["message"]["content"], "Done after tool.", "{answer}");
    let asked = real.model.requests();
    assert_eq!(asked.len(), 2, "one turn, of two requests to the model");
    check(
        &asked[1],
        &expect![[r#"
        user: [[tool lookup {"id":1}]]
        call call_resp_1: lookup {"id":1}
        output call_resp_1: "one"
    "#]],
    );
    let threads = served.json(&["threads"]);
    assert_eq!(threads["threads"].as_array().unwrap().len(), 1, "the same thread: {threads}");
    served.run.signal(Signal::TERM);
    assert_eq!(served.run.end_beside_others().code(), Some(0));
}

#[test]
fn a_response_in_the_background_goes_on_while_the_server_is_killed() {
    let (real, state) = (Real::new(), State::new());
    configure_outliving(&state, &real);
    let _worker = Outliving(&real);
    let start = || Served::start_with(&state, &[], &[("SWITCHBOARD_KEY", KEY)]);
    let retrieve = |served: &Served<'_>, id: &Value| body_of(&served.get(&format!("/v1/responses/{}", word(id))));

    let served = start();
    let request = json!({ "model": "codex-plain", "background": true, "input": "[[slow 80 100]]" });
    let begun = body_of(&served.post("/v1/responses", &request.to_string()));
    let id = &begun["id"];
    served.wait_until("its model is asked", |_| real.model.requests().len() == 1);
    served.wait_until("it runs", |served| retrieve(served, id)["status"] == "in_progress");
    served.run.signal(Signal::KILL);
    served.run.end_beside_others();

    let served = start();
    assert_eq!(retrieve(&served, id)["status"], "in_progress", "its turn still runs");
    served.wait_until("it is over", |served| retrieve(served, id)["status"] != "in_progress");
    let found = retrieve(&served, id);
    let expected: String = (0..80).map(|number| format!("s{number} ")).collect();
    assert_eq!(found["status"], "completed", "{found}");
    assert_eq!(found["output"].as_array().unwrap().last().unwrap()["content"][0]["text"], expected, "{found}");

    let request = json!({ "model": "codex-plain", "input": "[[text]]", "previous_response_id": id });
    let next = body_of(&served.post("/v1/responses", &request.to_string()));
    assert_eq!(next["status"], "completed", "{next}");
    let asked = real.model.requests();
    let told = asked[1]["input"].to_string();
    assert!(asked.len() == 2 && told.contains("[[slow 80 100]]") && told.contains(&expected), "it goes on: {told}");
    served.run.signal(Signal::TERM);
    assert_eq!(served.run.end_beside_others().code(), Some(0));
}

/// Lets the worker outlive its server.
fn configure_outliving(state: &State, real: &Real) {
    state.configure(&format!(
        "[[workers]]\nname = \"main\"\ncommand = \"{}\"\ncodex_home = \"{}\"\ntransport = \"unix\"\n",
        real.binary, real.home
    ));
}

/// The worker of a home, which outlives its server; at the end it is ended.
pub(crate) struct Outliving<'a>(pub(crate) &'a Real);

impl Drop for Outliving<'_> {
    fn drop(&mut self) {
        for pid in processes::with(&format!("CODEX_HOME={}", self.0.home)) {
            kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).ok();
        }
    }
}

/// The body of the answer to a chat request.
fn complete(served: &Served<'_>, request: &Value) -> Value {
    body_of(&served.post("/v1/chat/completions", &request.to_string()))
}

pub(crate) fn body_of(answer: &str) -> Value {
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap_or_else(|_| panic!("{answer}"))
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}
