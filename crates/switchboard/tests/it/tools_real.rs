//! The real codex calls tools of tool servers: they are offered to its model, what it asks before it calls one can be decided, the
//! result reaches the model, and a worker that outlives the server goes on with them.

use std::fs;
use std::net::TcpListener;

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::processes;

use crate::chat_real::{Outliving, body_of};
use crate::command::State;
use crate::real::Real;
use crate::served::Served;
use crate::tools_served::{KEY, table, wait_for_state};

/// What the model stand-in is told to ask for; codex has the tools of one server in one namespace.
const ECHO: &str = r#"[[tool mcp__switchboard.shop__echo {"text":"hallo"}]]"#;

fn start<'a>(state: &'a State, real: &Real, arguments: &[&str]) -> Served<'a> {
    let variables = [("CODEX_HOME", real.home.as_str()), ("SWITCHBOARD_KEY", KEY)];
    let served = Served::start_with(state, &[&["--worker", &real.binary], arguments].concat(), &variables);
    wait_for_state(&served, "shop", "ready");
    served
}

/// Starts a turn, allows the one thing that it asks for, and waits for its end.
pub(crate) fn allowed_turn(served: &Served<'_>, prompt: &str) -> Value {
    allowed(served, &json!({ "prompt": prompt }))
}

fn allowed(served: &Served<'_>, order: &Value) -> Value {
    let turn = started(served, order);
    let pending = |served: &Served<'_>| body_of(&served.get("/api/approvals?state=pending"))["approvals"][0].clone();
    served.wait_until("it asks", |served| pending(served).is_object());
    let asked = pending(served);
    let verdict = json!({ "verdict": "allow", "shown_hash": asked["shown_hash"] }).to_string();
    let decided = served.post(&format!("/api/approvals/{}/decide", asked["id"].as_str().unwrap()), &verdict);
    assert!(decided.starts_with("HTTP/1.1 200"), "{decided}\n{asked}");
    finish(served, &turn);
    asked
}

/// Starts a turn and gives its path.
fn started(served: &Served<'_>, order: &Value) -> String {
    let turn = body_of(&served.post("/api/turns", &order.to_string()));
    format!("/api/turns/{}", turn["turn"].as_str().unwrap())
}

fn finish(served: &Served<'_>, turn: &str) {
    let status = |served: &Served<'_>| body_of(&served.get(turn))["status"].clone();
    served.wait_until("it is over", |served| status(served) != "running");
    assert_eq!(status(served), "completed");
}

/// What the model was told that came of the tool.
fn output(real: &Real) -> String {
    let asked = real.model.requests().pop().unwrap();
    let items = asked["input"].as_array().unwrap().clone();
    let output = items.into_iter().rfind(|item| item["type"] == "function_call_output");
    output.map(|item| item["output"].to_string()).unwrap_or_default()
}

fn offered(asked: &Value) -> String {
    asked["tools"].to_string()
}

#[test]
fn an_agent_has_the_tools_of_tool_servers_and_a_plain_model_has_not() {
    let (real, state) = (Real::new(), State::new());
    state.configure(&table(&state, "shop", "dual", ""));
    let served = start(&state, &real, &[]);
    let asked = allowed_turn(&served, ECHO);
    assert_eq!(asked["kind"], "elicitation", "{asked}");
    assert!(asked["params"].to_string().contains("shop__echo"), "a person sees which tool: {asked}");
    assert!(output(&real).contains("hallo"), "{}", output(&real));
    let calls = body_of(&served.get("/api/tool-calls"));
    let call = &calls["calls"][0];
    assert_eq!((&call["key"], &call["caller"]), (&json!("worker-main"), &json!("main")), "{calls}");
    assert_eq!((&call["tool"], &call["outcome"]), (&json!("echo"), &json!("succeeded")), "{calls}");

    let request = json!({ "model": "codex-plain", "messages": [{ "role": "user", "content": "[[text]]" }] });
    let answer = body_of(&served.post("/v1/chat/completions", &request.to_string()));
    assert_eq!(answer["choices"][0]["message"]["content"], "Hello from mock.", "{answer}");
    let asked = real.model.requests();
    assert!(offered(&asked[0]).contains("shop__echo"), "{}", offered(&asked[0]));
    assert!(!offered(asked.last().unwrap()).contains("shop__"), "{}", offered(asked.last().unwrap()));
    let ended = served.stop();
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
}

#[test]
fn a_group_can_go_without_tools() {
    let (real, state) = (Real::new(), State::new());
    let tools = table(&state, "shop", "dual", "");
    state.configure(&format!("[[workers]]\ncommand = {:?}\ntools = false\n{tools}", real.binary));
    let served = start(&state, &real, &[]);
    served.post("/v1/chat/completions", r#"{"model":"codex","messages":[{"role":"user","content":"[[text]]"}]}"#);
    let asked = real.model.requests().pop().unwrap();
    assert!(!offered(&asked).contains("shop__"), "{}", offered(&asked));
    assert_eq!(served.stop().code(), Some(0));
}

#[test]
fn the_key_of_a_worker_is_on_no_command_line_and_in_no_log_and_opens_nothing_else() {
    let (real, state) = (Real::new(), State::new());
    state.configure(&format!("[log]\nlevel = \"trace\"\n{}", table(&state, "shop", "dual", "")));
    let served = start(&state, &real, &[]);
    let workers = processes::with(&format!("CODEX_HOME={}", real.home));
    let variables = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/environ")).unwrap_or_default();
    let found = workers.iter().find_map(|pid| {
        let text = variables(pid);
        text.split('\0').find_map(|one| one.strip_prefix("SWITCHBOARD_TOOLS_TOKEN=").map(str::to_owned))
    });
    let token = found.expect("a worker has a token");
    for pid in workers {
        let words = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        assert!(!words.contains(&token), "{words}");
    }
    let refused = served.get_as(&token, "/api/turns");
    assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");
    let turn = started(&served, &json!({ "prompt": "[[shell echo \"<$SWITCHBOARD_TOOLS_TOKEN>\"]]" }));
    finish(&served, &turn);
    assert!(output(&real).contains("<>"), "its commands do not inherit it: {}", output(&real));
    let stderr = served.stop().stderr;
    assert!(!stderr.contains(&token));
}

#[test]
fn a_worker_that_outlives_the_server_goes_on_with_its_tools() {
    let (real, state) = (Real::new(), State::new());
    let _worker = Outliving(&real);
    // The next server must listen where the first one did.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let group =
        format!("[[workers]]\ncommand = {:?}\ncodex_home = {:?}\ntransport = \"unix\"\n", real.binary, real.home);
    state.configure(&format!("{group}{}", table(&state, "shop", "dual", "")));
    let begin = || {
        let served = Served::start_at(&free, &state, &[], &[("SWITCHBOARD_KEY", KEY)]);
        wait_for_state(&served, "shop", "ready");
        served
    };
    let served = begin();
    let asked = allowed_turn(&served, ECHO);
    let pid = body_of(&served.get("/api/workers"))["workers"][0]["pid"].clone();
    served.run.signal(Signal::KILL);
    served.run.end_beside_others();
    let served = begin();
    assert_eq!(body_of(&served.get("/api/workers"))["workers"][0]["pid"], pid, "the same worker");
    allowed(&served, &json!({ "prompt": ECHO, "thread": asked["thread"] }));
    assert!(output(&real).contains("hallo"), "{}", output(&real));
    served.run.signal(Signal::TERM);
    assert_eq!(served.run.end_beside_others().code(), Some(0));
}
