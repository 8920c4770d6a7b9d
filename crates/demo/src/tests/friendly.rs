//! What a person sees who just tries it.

use std::time::Duration;

use expect_test::expect;
use serde_json::Value;
use tempfile::TempDir;

use super::{Theatre, V2_OPENING, lines_with, turn};
use crate::options::Dialect;

#[test]
fn prompt_without_a_marker_is_answered_word_by_word_in_less_than_two_seconds() {
    let home = TempDir::new().unwrap();
    let mut theatre = Theatre::new(Dialect::V2, &home, "");
    theatre.play(V2_OPENING);
    theatre.log.clear();
    let begin = theatre.now.instant;
    theatre.play(&turn(3, "What  is\nthis?"));
    while theatre.worker.is_busy() {
        theatre.pass(1);
    }
    assert!(theatre.now.instant - begin < Duration::from_secs(2), "{:?}", theatre.now.instant - begin);
    let messages = theatre.log.lines().filter_map(|line| serde_json::from_str::<Value>(&line[2..]).ok());
    let deltas: Vec<Value> = messages.filter(|message| message["method"] == "item/agentMessage/delta").collect();
    assert!(deltas.len() > 50, "{}", deltas.len());
    let text: String = deltas.iter().map(|message| message["params"]["delta"].as_str().unwrap()).collect();
    expect![[r#"
        Hello from Switchboard's built-in demo worker. There is no model here: I understand nothing, but I speak the same protocol as the real one. You asked: “What is this?” And this answer streams to you word by word, as a model's would.

        For real answers, install Codex (`npm install -g @openai/codex`), run `codex login`, and ask again with `--worker codex`."#]].assert_eq(&text);
}

#[test]
fn prompt_with_a_schema_is_answered_in_its_form() {
    let home = TempDir::new().unwrap();
    let mut theatre = Theatre::new(Dialect::V2, &home, "");
    theatre.play(V2_OPENING);
    let play = r#"A< {"id":3,"method":"turn/start","params":{"threadId":"$2.thread.id","input":[{"type":"text","text":"hi"}],"outputSchema":{"type":"object","properties":{"ok":{"type":"boolean"},"tags":{"type":"array","items":{"type":"string"}}},"required":["ok","tags"],"additionalProperties":false}}}"#;
    expect![[r#"
        A {"method":"item/agentMessage/delta","params":{"delta":"{\"ok\":true,\"tags\":[\"demo\"]}","itemId":"msg_resp_4"}}
    "#]].assert_eq(&lines_with(theatre.play(play), &["delta"]));
}

#[test]
fn wrong_marker_is_explained() {
    let home = TempDir::new().unwrap();
    let mut theatre = Theatre::new(Dialect::V2, &home, "");
    theatre.play(V2_OPENING);
    expect![[r##"
        A {"method":"item/agentMessage/delta","params":{"delta":"unknown step `dance`; steps are text, say, remark, deltas, flood, slow, see, reason, shell, shellesc, patch, plan, propose, tool, tools, json, http, httponce, ctx, quota, drop, hang, offline, friendly, partial, garbage, utf8, line, deep, crash, stderr, orphan, sigterm, answers, overload","itemId":"msg_resp_4"}}
        A {"method":"item/completed","params":{"item":{"id":"msg_resp_4","text":"unknown step `dance`; steps are text, say, remark, deltas, flood, slow, see, reason, shell, shellesc, patch, plan, propose, tool, tools, json, http, httponce, ctx, quota, drop, hang, offline, friendly, partial, garbage, utf8, line, deep, crash, stderr, orphan, sigterm, answers, overload","type":"agentMessage"}}}
        A {"method":"turn/completed","params":{"turn":{"id":"#2","items":[{"id":"msg_resp_4","text":"unknown step `dance`; steps are text, say, remark, deltas, flood, slow, see, reason, shell, shellesc, patch, plan, propose, tool, tools, json, http, httponce, ctx, quota, drop, hang, offline, friendly, partial, garbage, utf8, line, deep, crash, stderr, orphan, sigterm, answers, overload","type":"agentMessage"}],"itemsView":"summary","status":"completed"}}}
    "##]].assert_eq(&lines_with(theatre.play(&turn(3, "[[dance]]")), &["delta"]));
}

#[test]
fn a_remark_says_what_it_is_and_so_does_the_answer() {
    let home = TempDir::new().unwrap();
    let mut theatre = Theatre::new(Dialect::V2, &home, "");
    theatre.play(V2_OPENING);
    expect![[r##"
        A {"method":"item/completed","params":{"item":{"content":[{"text":"[[remark I look first.]]","text_elements":[],"type":"text"}],"id":"#3","type":"userMessage"}}}
        A {"method":"item/completed","params":{"item":{"id":"msg_resp_4","phase":"commentary","text":"I look first.","type":"agentMessage"}}}
        A {"method":"item/completed","params":{"item":{"id":"msg_resp_5","phase":"final_answer","text":"Done after remark.","type":"agentMessage"}}}
    "##]].assert_eq(&lines_with(theatre.play(&turn(3, "[[remark I look first.]]")), &["item/completed"]));
}
