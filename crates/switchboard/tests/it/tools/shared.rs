//! The same where a server runs: its tool servers are listed, called and shared, and what is done is kept.

use serde_json::{Value, json};

use super::client::Client;
use super::configure;
use crate::command::State;
use crate::served::Served;

/// A server whose tool servers have all been started.
pub(super) fn serve<'a>(state: &'a State, servers: &[(&str, &str)]) -> Served<'a> {
    configure(state, servers);
    let served = Served::start(state);
    served.wait_until("started", |served| {
        let listed = served.json(&["tools"]);
        listed["servers"].as_array().unwrap().iter().all(|server| server["state"] != "starting")
    });
    served
}

fn calls(served: &Served<'_>) -> Vec<Value> {
    let answer = served.get("/api/tool-calls");
    let body = answer.split("\r\n\r\n").nth(1).unwrap();
    serde_json::from_str::<Value>(body).unwrap()["calls"].as_array().unwrap().clone()
}

#[test]
fn tool_servers_are_listed_shown_and_restarted() {
    let state = State::new();
    let served = serve(&state, &[("good", "dual"), ("broken", "adr")]);
    let table = served.command(&["tools"]).stdout;
    let row = table.lines().find(|line| line.starts_with("good")).unwrap();
    let row: Vec<_> = row.split_whitespace().collect();
    assert_eq!(row, ["good", "ready", "2026-07-28", "modern", "16", "0"], "{table}");
    assert!(table.contains("findings: `switchboard tools list broken` shows them"), "{table}");
    let shown = served.command(&["tools", "list", "broken"]).stdout;
    assert!(shown.contains("\nD1 ") && shown.contains("\nD3 ") && shown.contains("  fix:   "), "{shown}");
    let shown = served.command(&["tools", "list", "good"]).stdout;
    assert!(shown.contains("  good__echo\n"), "{shown}");
    let unknown = served.command(&["tools", "list", "goood"]);
    assert_eq!(unknown.code(), Some(1));
    assert!(unknown.stderr.contains("did you mean \"good\"?"), "{}", unknown.stderr);
    let pid = |served: &Served<'_>| served.json(&["tools", "list", "good"])["pid"].clone();
    let before = pid(&served);
    assert_eq!(
        served.command(&["tools", "restart", "good"]).stdout,
        "good is started anew: `switchboard tools` shows what comes of it\n"
    );
    served.wait_until("another process", |served| ![before.clone(), Value::Null].contains(&pid(served)));
    served.stop();
}

#[test]
fn a_call_goes_through_the_running_server_which_keeps_it() {
    let state = State::new();
    let served = serve(&state, &[("good", "legacy")]);
    let called = served.command(&["tools", "call", "good__echo", r#"{"text":"hi"}"#]);
    assert_eq!((called.code(), called.stdout.as_str()), (Some(0), "hi\n"), "{}", called.stderr);
    let failed = served.command(&["tools", "call", "good__fail"]);
    assert_eq!((failed.code(), failed.stdout.as_str()), (Some(1), "it failed, as it should\n"), "{}", failed.stderr);
    let unknown = served.command(&["tools", "call", "good__ecko"]);
    assert_eq!(unknown.code(), Some(2));
    assert!(unknown.stderr.contains("did you mean \"good__echo\"?"), "{}", unknown.stderr);
    let kept: Vec<_> = calls(&served).iter().map(|call| format!("{} {}", call["tool"], call["outcome"])).collect();
    assert_eq!(kept, [r#""fail" "failed""#, r#""echo" "succeeded""#]);
    served.stop();
}

#[test]
fn what_wants_a_confirmation_waits_for_it_with_a_server_and_is_refused_without() {
    let state = State::new();
    let served = serve(&state, &[("good", "modern")]);
    let arguments = ["tools", "call", "good__delete", r#"{"path":"a"}"#];
    let calling = state.run_with(&arguments, &[]);
    served.wait_until("asked", |served| served.json(&["approvals"])["approvals"][0]["state"] == "pending");
    let id = served.json(&["approvals"])["approvals"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(served.command(&["approvals", "allow", &id]).code(), Some(0));
    let called = calling.end_beside_others();
    assert_eq!((called.code(), called.stdout.as_str()), (Some(0), "deleted a\n"), "{}", called.stderr);
    served.stop();
    let refused = state.run_with(&arguments, &[]).end();
    assert_eq!(refused.code(), Some(1));
    assert!(refused.stdout.contains("nobody is here to give one"), "{}", refused.stdout);
}

#[test]
fn a_question_that_no_caller_can_be_asked_is_answered_from_the_command_line() {
    let state = State::new();
    let served = serve(&state, &[("g", "legacy")]);
    let ask = || {
        let calling = state.run_with(&["tools", "call", "g__ask"], &[]);
        served.wait_until("asked", |served| served.json(&["approvals"])["approvals"][0]["state"] == "pending");
        (calling, served.json(&["approvals"])["approvals"][0]["id"].as_str().unwrap().to_owned())
    };
    let (calling, id) = ask();
    let shown = served.command(&["approvals", "show", &id]).stdout;
    for part in
        ["asks         What is your name?\n", "offers       answer, deny, cancel\n", "\"required\": [", "\"name\""]
    {
        assert!(shown.contains(part), "no {part:?} in {shown}");
    }
    for (answer, part) in [
        ("name", "cannot read the answer: no JSON: "),
        ("[]", "cannot read the answer: no JSON object"),
        (r#"{"nmae":"ada"}"#, "`nmae` is not asked for: there are `name`"),
        ("{}", "`name` is missing: there are `name`"),
    ] {
        let refused = served.command(&["approvals", "answer", &id, answer]);
        assert_eq!(refused.code(), Some(1), "{answer}: {}", refused.stdout);
        assert!(refused.stderr.contains(part), "{answer}: {}", refused.stderr);
    }
    let ada = r#"{"name":"ada"}"#;
    let other = served.command(&["approvals", "answer", &id, ada, "--shown-hash", "0"]);
    assert!(other.stderr.contains("this is not what was shown"), "{}", other.stderr);
    let answered = served.command(&["approvals", "answer", &id, ada]);
    assert!(answered.stdout.ends_with("decided      answer\n"), "{}{}", answered.stdout, answered.stderr);
    let called = calling.end_beside_others();
    assert_eq!((called.code(), called.stdout.as_str()), (Some(0), "hello ada\n"), "{}", called.stderr);
    let late = served.command(&["approvals", "answer", &id, ada]);
    assert_eq!((late.code(), late.stderr.as_str()), (Some(1), "switchboard: it is decided already: allowed\n"));

    let (calling, id) = ask();
    let mut answering = state.run_listening(&["approvals", "answer", &id, "-"]);
    answering.say(r#"{"name":"grace"}"#);
    answering.fall_silent();
    assert_eq!(answering.end_beside_others().code(), Some(0));
    assert_eq!(calling.end_beside_others().stdout, "hello grace\n");
    served.stop();
}

#[test]
fn what_asks_for_no_input_is_not_answered() {
    let state = State::new();
    let served = serve(&state, &[("g", "modern")]);
    let calling = state.run_with(&["tools", "call", "g__delete", r#"{"path":"a"}"#], &[]);
    served.wait_until("asked", |served| served.json(&["approvals"])["approvals"][0]["state"] == "pending");
    let id = served.json(&["approvals"])["approvals"][0]["id"].as_str().unwrap().to_owned();
    let refused = served.command(&["approvals", "answer", &id, "{}"]);
    assert_eq!(refused.code(), Some(1), "{}", refused.stdout);
    assert!(
        refused.stderr.contains("tool_confirmation asks for no input: use `switchboard approvals allow`"),
        "{}",
        refused.stderr
    );
    assert_eq!(served.command(&["approvals", "deny", &id]).code(), Some(0));
    assert_eq!(calling.end_beside_others().code(), Some(1));
    served.stop();
}

#[test]
fn clients_over_stdio_share_the_tool_servers_of_a_running_server() {
    let state = State::new();
    let served = serve(&state, &[("new", "modern"), ("old", "legacy")]);
    let mut clients = [Client::legacy(&state, &[], &json!({})), Client::modern(&state, &[], &json!({}))];
    for client in &mut clients {
        assert_eq!(client.tools(1).len(), 32);
        client.echo(2, "new__echo");
        client.echo(3, "old__echo");
        let unknown = client.ask(4, "tools/call", json!({ "name": "old__ecko", "arguments": {} }));
        assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    }
    assert_eq!(calls(&served).len(), 4);
    for client in clients {
        let ended = client.leave().end_beside_others();
        assert_eq!((ended.code(), ended.stdout.as_str()), (Some(0), ""), "{}", ended.stderr);
    }
    served.stop();
}

#[test]
fn progress_and_questions_reach_a_client_behind_the_proxy() {
    let state = State::new();
    let served = serve(&state, &[("new", "modern"), ("old", "legacy")]);
    let capabilities = json!({ "elicitation": {} });
    let sleep = json!({ "name": "old__sleep", "arguments": { "ms": 100 }, "_meta": { "progressToken": "p" } });

    let mut legacy = Client::legacy(&state, &[], &capabilities);
    legacy.say(1, "tools/call", sleep.clone());
    legacy.hear_progress();
    legacy.say(2, "tools/call", json!({ "name": "new__ask", "arguments": {} }));
    let question = std::iter::repeat_with(|| legacy.hear()).find(|heard| heard["method"] == "elicitation/create");
    let answer = json!({ "action": "accept", "content": { "name": "ada" } });
    legacy.run.say(&json!({ "jsonrpc": "2.0", "id": question.unwrap()["id"], "result": answer }).to_string());
    let answered = std::iter::repeat_with(|| legacy.hear()).find(|heard| heard["id"] == 2).unwrap();
    assert_eq!(answered["result"]["content"][0]["text"], "hello ada", "{answered}");

    let mut modern = Client::modern(&state, &[], &capabilities);
    modern.say(1, "tools/call", sleep);
    modern.hear_progress();
    // While it has two calls, nobody knows which of them a question of a legacy server is about.
    std::iter::repeat_with(|| modern.hear()).find(|heard| heard["id"] == 1).unwrap();
    let mut params = json!({ "name": "old__ask", "arguments": {} });
    let required = modern.ask(2, "tools/call", params.clone());
    assert_eq!(required["result"]["resultType"], "input_required", "{required}");
    let questions = required["result"]["inputRequests"].as_object().unwrap();
    let answers: Value =
        questions.keys().map(|id| (id.clone(), answer.clone())).collect::<serde_json::Map<_, _>>().into();
    params["inputResponses"] = answers;
    params["requestState"] = required["result"]["requestState"].clone();
    let answered = modern.ask(3, "tools/call", params);
    assert_eq!(answered["result"]["content"][0]["text"], "hello ada", "{answered}");

    for client in [legacy, modern] {
        assert_eq!(client.leave().end_beside_others().code(), Some(0));
    }
    served.stop();
}

#[test]
fn a_client_goes_on_when_the_server_was_started_anew() {
    let state = State::new();
    let served = serve(&state, &[("old", "legacy")]);
    let mut clients = [Client::legacy(&state, &[], &json!({})), Client::modern(&state, &[], &json!({}))];
    clients.iter_mut().for_each(|client| client.echo(1, "old__echo"));
    served.run.signal(rustix::process::Signal::TERM);
    served.run.end_beside_others();
    for client in &mut clients {
        let lost = client.ask(2, "tools/list", json!({}));
        assert!(lost["error"]["message"].as_str().unwrap().contains("start one with `switchboard serve`"), "{lost}");
    }
    let served = serve(&state, &[("old", "legacy")]);
    clients.iter_mut().for_each(|client| client.echo(3, "old__echo"));
    for client in clients {
        assert_eq!(client.leave().end_beside_others().code(), Some(0));
    }
    served.stop();
}

#[test]
fn the_doctor_tells_of_tool_servers_with_and_without_a_server() {
    let state = State::new();
    let servers = [("good", "dual"), ("broken", "adr")];
    let told = |stdout: &str| {
        let findings: Vec<Value> = serde_json::from_str(stdout).unwrap();
        let of = |check: &str| -> Vec<String> {
            let ours = findings.iter().filter(|finding| finding["check"] == check);
            ours.map(|finding| format!("{} {}", finding["state"].as_str().unwrap(), finding["what"])).collect()
        };
        (of("tools.good"), of("tools.broken"), of("store"))
    };
    let holds = |(good, broken, store): (Vec<String>, Vec<String>, Vec<String>)| {
        assert!(good.len() == 1 && good[0].starts_with("ok \"ready ("), "{good:?}");
        assert!(broken[0].starts_with("warning "), "{broken:?}");
        for code in ["D1 ", "D3 "] {
            assert!(broken.iter().any(|finding| finding.contains(code)), "no {code}: {broken:?}");
        }
        assert!(store.iter().all(|finding| finding.starts_with("ok ")), "{store:?}");
    };
    configure(&state, &servers);
    let variables = [("SWITCHBOARD_LISTEN", "127.0.0.1:0"), ("SWITCHBOARD_WORKERS_MAIN_COMMAND", "demo")];
    let without = state.run_with(&["doctor", "--json"], &variables).end();
    assert_eq!(without.code(), Some(0), "{}", without.stdout);
    holds(told(&without.stdout));
    let served = serve(&state, &servers);
    holds(told(&served.command(&["doctor", "--json"]).stdout));
    served.stop();
}
