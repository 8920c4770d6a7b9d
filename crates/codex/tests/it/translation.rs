//! Recordings of the real worker as turn events.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use codex::event::{ConnectionEvent, Placed, Told, TurnEvent};
use codex::protocol::{
    ContextCompactedNotification, FileChangeOutputDeltaNotification, McpToolCallProgressNotification,
    TerminalInteractionNotification,
};
use codex::v2;
use expect_test::{Expect, expect};
use serde_json::Value;
use wire::Json;

fn transcripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../transcripts")
}

fn recordings() -> Vec<PathBuf> {
    let entries = fs::read_dir(transcripts()).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl")).collect()
}

/// What the worker sent in one recording.
fn received(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["dir"] == "received").map(|mut line| line["message"].take()).collect()
}

fn placed(message: &Value) -> Option<Placed> {
    let method = message["method"].as_str()?;
    let params = Json::of(&message["params"]).unwrap();
    match message.get("id") {
        Some(id) => v2::request(&id.to_string(), method, &params),
        None => match v2::notification(method, &params) {
            Some(Told::Turn(placed)) => Some(placed),
            Some(Told::Connection(_)) | None => None,
        },
    }
}

fn name_of(event: &TurnEvent) -> String {
    serde_json::to_value(event).unwrap()["type"].as_str().unwrap().into()
}

/// The events of a recording's turns, each on one line.
fn check(recording: &str, expected: &Expect) {
    let mut seen = String::new();
    let path = transcripts().join(recording).with_extension("jsonl");
    for placed in received(&path).iter().filter_map(placed) {
        let mut event = serde_json::to_value(&placed.event).unwrap();
        if let Some(item) = event.get_mut("item").and_then(Value::as_object_mut) {
            item.remove("raw");
        }
        if let Some(params) = event.get_mut("params") {
            params.take();
        }
        writeln!(seen, "{event}").unwrap();
    }
    expected.assert_eq(&seen);
}

#[test]
fn a_delta_is_kept_as_the_worker_wrote_it() {
    let params =
        |delta: &str| Json::new(&format!(r#"{{"threadId":"t","turnId":"u","itemId":"i","delta":{delta}}}"#)).unwrap();
    let written = params(r#""a\u0041\/\ud83d\ude42\n\\""#);
    let delta = v2::delta("item/agentMessage/delta", &written).unwrap();
    let TurnEvent::Text { item, text } = delta.event else { panic!("it is text") };
    assert_eq!((&*item, text.as_json()), ("i", r"a\u0041\/\ud83d\ude42\n\\"));
    assert_eq!(text.to_str(), "aA/🙂\n\\");
    for unusable in [r#""\ud83d""#, r#""\ude42x""#, "7", "null", "[]"] {
        let params = params(unusable);
        assert!(v2::delta("item/agentMessage/delta", &params).is_none(), "{unusable}");
        let told = v2::notification("item/agentMessage/delta", &params);
        let Some(Told::Turn(Placed { event: TurnEvent::Raw { params: raw, .. }, .. })) = told else {
            panic!("{unusable} is passed on as it came");
        };
        assert_eq!(raw, params);
    }
}

#[test]
fn what_the_model_itself_says() {
    let path = transcripts().join("raw-tools.jsonl");
    let lines = received(&path);
    let told = lines.iter().filter_map(placed).filter_map(|placed| match placed.event {
        TurnEvent::ToolChosen { call, tool, arguments } => Some(format!("{call}: {tool} {arguments}")),
        TurnEvent::ModelAnswered { usage } => {
            Some(format!("answered with {} tokens", usage.map_or(0, |usage| usage.total_tokens)))
        }
        TurnEvent::ToolWanted { call, .. } => Some(format!("{call} wanted")),
        _ => None,
    });
    let mut told: Vec<String> = told.collect();
    // How the first call and the rest of the answer race is not ours to decide.
    told.sort();
    expect![[r#"
        answered with 110 tokens
        answered with 220 tokens
        call_1 wanted
        call_1: ask_operator {"question":"q1"}
        call_2 wanted
        call_2: ask_operator {"question":"q2"}"#]]
    .assert_eq(&told.join("\n"));
}

#[test]
fn a_reasoning_turn() {
    check(
        "turn-reasoning",
        &expect![[r#"
        {"message":"Model metadata for `mock-model` not found. Defaulting to fallback metadata; this can degrade performance and cause issues.","type":"warning"}
        {"thread":"00000000-0000-7000-8000-000000000002","turn":"00000000-0000-7000-8000-000000000003","type":"turn_started"}
        {"item":{"id":"00000000-0000-7000-8000-000000000004","kind":"user_message","status":null},"type":"item_started"}
        {"item":{"id":"00000000-0000-7000-8000-000000000004","kind":"user_message","status":null},"type":"item_completed"}
        {"item":{"id":"rs_1","kind":"reasoning","status":null},"type":"item_started"}
        {"index":0,"item":"rs_1","type":"reasoning_part"}
        {"index":0,"item":"rs_1","text":"**Thinking","type":"reasoning_summary"}
        {"index":0,"item":"rs_1","text":" hard** ","type":"reasoning_summary"}
        {"index":0,"item":"rs_1","text":"about it.","type":"reasoning_summary"}
        {"index":1,"item":"rs_1","type":"reasoning_part"}
        {"index":1,"item":"rs_1","text":"Second part.","type":"reasoning_summary"}
        {"index":0,"item":"rs_1","text":"raw ","type":"reasoning"}
        {"index":0,"item":"rs_1","text":"chain","type":"reasoning"}
        {"item":{"id":"rs_1","kind":"reasoning","status":null},"type":"item_completed"}
        {"item":{"id":"msg_1","kind":"agent_message","status":null},"type":"item_started"}
        {"item":"msg_1","text":"Reasoned ","type":"text"}
        {"item":"msg_1","text":"answer.","type":"text"}
        {"item":{"id":"msg_1","kind":"agent_message","status":null},"type":"item_completed"}
        {"context_window":258400,"last":{"cache_write_input_tokens":0,"cached_input_tokens":40,"input_tokens":100,"output_tokens":30,"reasoning_output_tokens":20,"total_tokens":130},"total":{"cache_write_input_tokens":0,"cached_input_tokens":40,"input_tokens":100,"output_tokens":30,"reasoning_output_tokens":20,"total_tokens":130},"type":"token_usage"}
        {"error":null,"status":"completed","type":"turn_ended"}
    "#]],
    );
}

#[test]
fn a_plan() {
    check(
        "turn-plan",
        &expect![[r#"
        {"message":"Model metadata for `mock-model` not found. Defaulting to fallback metadata; this can degrade performance and cause issues.","type":"warning"}
        {"thread":"00000000-0000-7000-8000-000000000002","turn":"00000000-0000-7000-8000-000000000003","type":"turn_started"}
        {"item":{"id":"00000000-0000-7000-8000-000000000004","kind":"user_message","status":null},"type":"item_started"}
        {"item":{"id":"00000000-0000-7000-8000-000000000004","kind":"user_message","status":null},"type":"item_completed"}
        {"explanation":"Three steps.","steps":[{"status":"completed","step":"Read the code"},{"status":"in_progress","step":"Change it"},{"status":"pending","step":"Run the tests"}],"type":"plan"}
        {"context_window":258400,"last":{"cache_write_input_tokens":0,"cached_input_tokens":40,"input_tokens":200,"output_tokens":20,"reasoning_output_tokens":0,"total_tokens":220},"total":{"cache_write_input_tokens":0,"cached_input_tokens":40,"input_tokens":200,"output_tokens":20,"reasoning_output_tokens":0,"total_tokens":220},"type":"token_usage"}
        {"item":{"id":"msg_1","kind":"agent_message","status":null},"type":"item_started"}
        {"item":"msg_1","text":"Done ","type":"text"}
        {"item":"msg_1","text":"after ","type":"text"}
        {"item":"msg_1","text":"tool.","type":"text"}
        {"item":{"id":"msg_1","kind":"agent_message","status":null},"type":"item_completed"}
        {"context_window":258400,"last":{"cache_write_input_tokens":0,"cached_input_tokens":40,"input_tokens":100,"output_tokens":10,"reasoning_output_tokens":0,"total_tokens":110},"total":{"cache_write_input_tokens":0,"cached_input_tokens":80,"input_tokens":300,"output_tokens":30,"reasoning_output_tokens":0,"total_tokens":330},"type":"token_usage"}
        {"error":null,"status":"completed","type":"turn_ended"}
    "#]],
    );
}

#[test]
fn an_approval() {
    check(
        "command-decline",
        &expect![[r#"
        {"message":"Model metadata for `mock-model` not found. Defaulting to fallback metadata; this can degrade performance and cause issues.","type":"warning"}
        {"thread":"00000000-0000-7000-8000-000000000002","turn":"00000000-0000-7000-8000-000000000003","type":"turn_started"}
        {"item":{"id":"00000000-0000-7000-8000-000000000004","kind":"user_message","status":null},"type":"item_started"}
        {"item":{"id":"00000000-0000-7000-8000-000000000004","kind":"user_message","status":null},"type":"item_completed"}
        {"item":{"id":"call_1","kind":"command_execution","status":"in_progress"},"type":"item_started"}
        {"item":"call_1","kind":"command","params":null,"request":"0","type":"approval_wanted"}
        {"request":"0","type":"approval_resolved"}
        {"item":{"id":"call_1","kind":"command_execution","status":"declined"},"type":"item_completed"}
        {"context_window":258400,"last":{"cache_write_input_tokens":0,"cached_input_tokens":40,"input_tokens":200,"output_tokens":20,"reasoning_output_tokens":0,"total_tokens":220},"total":{"cache_write_input_tokens":0,"cached_input_tokens":40,"input_tokens":200,"output_tokens":20,"reasoning_output_tokens":0,"total_tokens":220},"type":"token_usage"}
        {"item":{"id":"msg_1","kind":"agent_message","status":null},"type":"item_started"}
        {"item":"msg_1","text":"Done ","type":"text"}
        {"item":"msg_1","text":"after ","type":"text"}
        {"item":"msg_1","text":"tool.","type":"text"}
        {"item":{"id":"msg_1","kind":"agent_message","status":null},"type":"item_completed"}
        {"context_window":258400,"last":{"cache_write_input_tokens":0,"cached_input_tokens":40,"input_tokens":100,"output_tokens":10,"reasoning_output_tokens":0,"total_tokens":110},"total":{"cache_write_input_tokens":0,"cached_input_tokens":80,"input_tokens":300,"output_tokens":30,"reasoning_output_tokens":0,"total_tokens":330},"type":"token_usage"}
        {"error":null,"status":"completed","type":"turn_ended"}
    "#]],
    );
}

#[test]
fn tools_of_the_caller() {
    check(
        "tool-namespace",
        &expect![[r#"
        {"message":"Model metadata for `mock-model` not found. Defaulting to fallback metadata; this can degrade performance and cause issues.","type":"warning"}
        {"thread":"00000000-0000-7000-8000-000000000002","turn":"00000000-0000-7000-8000-000000000003","type":"turn_started"}
        {"item":{"id":"00000000-0000-7000-8000-000000000004","kind":"user_message","status":null},"type":"item_started"}
        {"item":{"id":"00000000-0000-7000-8000-000000000004","kind":"user_message","status":null},"type":"item_completed"}
        {"item":{"id":"call_1","kind":"dynamic_tool_call","status":"in_progress"},"type":"item_started"}
        {"arguments":{"id":7},"call":"call_1","namespace":"tickets","request":"0","tool":"lookup","type":"tool_wanted"}
        {"item":{"id":"call_1","kind":"dynamic_tool_call","status":"completed"},"type":"item_completed"}
        {"context_window":258400,"last":{"cache_write_input_tokens":0,"cached_input_tokens":40,"input_tokens":200,"output_tokens":20,"reasoning_output_tokens":0,"total_tokens":220},"total":{"cache_write_input_tokens":0,"cached_input_tokens":40,"input_tokens":200,"output_tokens":20,"reasoning_output_tokens":0,"total_tokens":220},"type":"token_usage"}
        {"item":{"id":"msg_1","kind":"agent_message","status":null},"type":"item_started"}
        {"item":"msg_1","text":"Done ","type":"text"}
        {"item":"msg_1","text":"after ","type":"text"}
        {"item":"msg_1","text":"tool.","type":"text"}
        {"item":{"id":"msg_1","kind":"agent_message","status":null},"type":"item_completed"}
        {"context_window":258400,"last":{"cache_write_input_tokens":0,"cached_input_tokens":40,"input_tokens":100,"output_tokens":10,"reasoning_output_tokens":0,"total_tokens":110},"total":{"cache_write_input_tokens":0,"cached_input_tokens":80,"input_tokens":300,"output_tokens":30,"reasoning_output_tokens":0,"total_tokens":330},"type":"token_usage"}
        {"error":null,"status":"completed","type":"turn_ended"}
    "#]],
    );
}

#[test]
fn a_failure() {
    check(
        "error-429",
        &expect![[r#"
            {"message":"Model metadata for `mock-model` not found. Defaulting to fallback metadata; this can degrade performance and cause issues.","type":"warning"}
            {"thread":"00000000-0000-7000-8000-000000000002","turn":"00000000-0000-7000-8000-000000000003","type":"turn_started"}
            {"item":{"id":"00000000-0000-7000-8000-000000000004","kind":"user_message","status":null},"type":"item_started"}
            {"item":{"id":"00000000-0000-7000-8000-000000000004","kind":"user_message","status":null},"type":"item_completed"}
            {"error":{"details":"exceeded retry limit, last status: 429 Too Many Requests","http_status":429,"kind":"response_stream_disconnected","message":"Reconnecting... 1/1"},"type":"error","will_retry":true}
            {"error":{"details":null,"http_status":429,"kind":"response_too_many_failed_attempts","message":"exceeded retry limit, last status: 429 Too Many Requests"},"type":"error","will_retry":false}
            {"error":{"details":null,"http_status":429,"kind":"response_too_many_failed_attempts","message":"exceeded retry limit, last status: 429 Too Many Requests"},"status":"failed","type":"turn_ended"}
            {"message":"Model metadata for `mock-model` not found. Defaulting to fallback metadata; this can degrade performance and cause issues.","type":"warning"}
            {"thread":"00000000-0000-7000-8000-000000000002","turn":"00000000-0000-7000-8000-000000000005","type":"turn_started"}
            {"item":{"id":"00000000-0000-7000-8000-000000000006","kind":"user_message","status":null},"type":"item_started"}
            {"item":{"id":"00000000-0000-7000-8000-000000000006","kind":"user_message","status":null},"type":"item_completed"}
            {"item":{"id":"msg_1","kind":"agent_message","status":null},"type":"item_started"}
            {"item":"msg_1","text":"Hello ","type":"text"}
            {"item":"msg_1","text":"from ","type":"text"}
            {"item":"msg_1","text":"mock","type":"text"}
            {"item":"msg_1","text":".","type":"text"}
            {"item":{"id":"msg_1","kind":"agent_message","status":null},"type":"item_completed"}
            {"context_window":258400,"last":{"cache_write_input_tokens":0,"cached_input_tokens":40,"input_tokens":100,"output_tokens":10,"reasoning_output_tokens":0,"total_tokens":110},"total":{"cache_write_input_tokens":0,"cached_input_tokens":40,"input_tokens":100,"output_tokens":10,"reasoning_output_tokens":0,"total_tokens":110},"type":"token_usage"}
            {"error":null,"status":"completed","type":"turn_ended"}
        "#]],
    );
}

#[test]
fn every_recorded_method_becomes_the_event_it_should() {
    let mut table: BTreeMap<String, String> = BTreeMap::new();
    for path in recordings() {
        for message in received(&path) {
            let Some(method) = message["method"].as_str() else {
                continue;
            };
            let event = placed(&message).map_or("–".into(), |placed| name_of(&placed.event));
            // Of the model's own items only some tell what no other event does.
            let method = match (method, message["params"]["item"]["type"].as_str()) {
                ("rawResponseItem/completed", Some(kind)) => format!("{method} {kind}"),
                _ => method.into(),
            };
            let known = table.entry(method.clone()).or_insert_with(|| event.clone());
            assert_eq!(*known, event, "{method} in {}", path.display());
        }
    }
    let mut seen = String::new();
    for (method, event) in table {
        writeln!(seen, "{method:<40} {event}").unwrap();
    }
    expect![[r#"
        account/rateLimits/updated               –
        configWarning                            –
        deprecationNotice                        –
        error                                    error
        item/agentMessage/delta                  text
        item/commandExecution/outputDelta        command_output
        item/commandExecution/requestApproval    approval_wanted
        item/completed                           item_completed
        item/fileChange/requestApproval          approval_wanted
        item/plan/delta                          raw
        item/reasoning/summaryPartAdded          reasoning_part
        item/reasoning/summaryTextDelta          reasoning_summary
        item/reasoning/textDelta                 reasoning
        item/started                             item_started
        item/tool/call                           tool_wanted
        rawResponse/completed                    model_answered
        rawResponseItem/completed function_call  tool_chosen
        rawResponseItem/completed function_call_output raw
        rawResponseItem/completed message        raw
        rawResponseItem/completed reasoning      raw
        remoteControl/status/changed             –
        serverRequest/resolved                   approval_resolved
        thread/archived                          –
        thread/closed                            –
        thread/goal/cleared                      –
        thread/readState/changed                 –
        thread/settings/updated                  –
        thread/started                           –
        thread/status/changed                    –
        thread/tokenUsage/updated                token_usage
        turn/completed                           turn_ended
        turn/diff/updated                        diff
        turn/plan/updated                        plan
        turn/started                             turn_started
        warning                                  warning
    "#]]
    .assert_eq(&seen);
}

/// What the deltas of each item add up to.
type Texts = BTreeMap<Box<str>, String>;

#[test]
fn every_recorded_turn_ends_once_and_its_text_is_whole() {
    let mut ended = 0;
    for path in recordings() {
        let mut turns: BTreeMap<Box<str>, (bool, Texts)> = BTreeMap::new();
        for placed in received(&path).iter().filter_map(placed) {
            let Some(id) = placed.turn else {
                continue;
            };
            let (is_over, texts) = turns.entry(id).or_default();
            let event = Some(placed.event).filter(|_| !*is_over);
            match event {
                Some(TurnEvent::Text { item, text }) => texts.entry(item).or_default().push_str(&text.to_str()),
                Some(TurnEvent::ItemCompleted { item }) if &*item.kind == "agent_message" => {
                    // A connection can opt out of deltas.
                    if let Some(text) = texts.get(&item.id) {
                        let whole: Value = item.raw.parse().unwrap();
                        assert_eq!(whole["text"].as_str(), Some(text.as_str()));
                    }
                }
                Some(TurnEvent::TurnEnded { .. }) => {
                    *is_over = true;
                    ended += 1;
                }
                _ => {}
            }
        }
    }
    assert!(ended > 50, "only {ended} turns ended in all recordings");
}

#[test]
fn what_is_newer_than_we_are_is_passed_on_raw() {
    let told = |method: &str, params: &str| match v2::notification(method, &Json::new(params).unwrap()) {
        Some(Told::Turn(placed)) => name_of(&placed.event),
        Some(Told::Connection(ConnectionEvent::Raw { .. })) => "raw, of no turn".into(),
        other => format!("{other:?}"),
    };
    let in_turn = r#"{"threadId":"t","turnId":"u","surprise":[1]}"#;
    assert_eq!(told("item/hologram/delta", in_turn), "raw");
    assert_eq!(told("item/agentMessage/delta", in_turn), "raw");
    assert_eq!(told("thread/mood/changed", r#"{"threadId":"t"}"#), "raw, of no turn");
    assert_eq!(told("weather/changed", r#"{"rain":true}"#), "raw, of no turn");
    assert_eq!(told("weather/changed", "[1]"), "raw, of no turn");
    let ended = |turn: &str| {
        let params = Json::new(&format!(r#"{{"threadId":"t","turn":{turn}}}"#)).unwrap();
        let Some(Told::Turn(placed)) = v2::notification("turn/completed", &params) else {
            panic!("{turn} ends no turn");
        };
        serde_json::to_value(placed.event).unwrap()
    };
    assert_eq!(ended(r#"{"id":"u","status":"completed","error":{"code":7}}"#)["error"]["message"], r#"{"code":7}"#);
    assert_eq!(ended(r#"{"id":"u","status":{"type":"evaporated"}}"#)["status"], "failed");
    assert_eq!(ended(r#"{"id":"u"}"#)["type"], "turn_ended");
    let spoiled = r#"{"threadId":"t","turnId":"u","itemId":"i","delta":"x","plan":7,"turn":[],"error":1}"#;
    assert_eq!(told("item/agentMessage/delta", spoiled), "text");
    let delta = r#"{"threadId":"t","turnId":"u","itemId":"i","delta":7}"#;
    assert_eq!(told("item/agentMessage/delta", delta), "raw");
}

#[test]
fn the_duplicates_of_the_old_dialect_are_dropped_by_name() {
    assert!(v2::notification("codex/event/agent_message_delta", &Json::new(r#"{"msg":{}}"#).unwrap()).is_none());
}

#[test]
fn what_belongs_to_no_turn_is_told_of_the_connection() {
    let told = |method: &str, params: &str| match v2::notification(method, &Json::new(params).unwrap()) {
        Some(Told::Connection(event)) => serde_json::to_string(&event).unwrap(),
        other => format!("{other:?}"),
    };
    let seen = [
        told(
            "thread/status/changed",
            r#"{"threadId":"t","status":{"type":"active","activeFlags":["waitingOnApproval"]}}"#,
        ),
        told("thread/status/changed", r#"{"threadId":"t","status":{"type":"systemError"}}"#),
        told("account/login/completed", r#"{"loginId":"l","success":false,"error":"no"}"#),
        told("mcpServer/oauthLogin/completed", r#"{"name":"jira","success":true,"error":null}"#),
        told("configWarning", r#"{"summary":"unknown key","details":"colour"}"#),
        told("warning", r#"{"threadId":null,"message":"low on disk"}"#),
        told("account/rateLimits/updated", r#"{"rateLimits":{"primary":null}}"#),
    ];
    expect![[r#"
        {"type":"thread_status","thread":"t","status":"active","flags":["waiting_on_approval"]}
        {"type":"thread_status","thread":"t","status":"system_error","flags":[]}
        {"type":"login_completed","success":false,"error":"no"}
        {"type":"tool_server_login","name":"jira","success":true,"error":null}
        {"type":"warning","message":"unknown key: colour"}
        {"type":"warning","message":"low on disk"}
        {"type":"rate_limits","params":{"rateLimits":{"primary":null}}}"#]]
    .assert_eq(&seen.join("\n"));
}

/// No recording holds these; their shapes are those of upstream's schema.
#[test]
fn what_was_never_recorded_is_understood_as_the_schema_writes_it() {
    let (thread, turn, item) = ("t".to_owned(), "u".to_owned(), "i".to_owned());
    let typed = TerminalInteractionNotification {
        item_id: item.clone(),
        process_id: "7".into(),
        stdin: "yes\n".into(),
        thread_id: thread.clone(),
        turn_id: turn.clone(),
    };
    let output = FileChangeOutputDeltaNotification {
        delta: "patched".into(),
        item_id: item.clone(),
        thread_id: thread.clone(),
        turn_id: turn.clone(),
    };
    let progress = McpToolCallProgressNotification {
        item_id: item,
        message: "half".into(),
        thread_id: thread.clone(),
        turn_id: turn.clone(),
    };
    let compacted = ContextCompactedNotification { thread_id: thread, turn_id: turn };
    let told = |method: &str, params: serde_json::Result<Json>| match v2::notification(method, &params.unwrap()) {
        Some(Told::Turn(placed)) => serde_json::to_string(&placed.event).unwrap(),
        other => format!("{other:?}"),
    };
    let seen = [
        told("item/commandExecution/terminalInteraction", Json::of(&typed)),
        told("item/fileChange/outputDelta", Json::of(&output)),
        told("item/mcpToolCall/progress", Json::of(&progress)),
        told("thread/compacted", Json::of(&compacted)),
    ];
    expect![[r#"
        {"type":"terminal_interaction","item":"i","process":"7","input":"yes\n"}
        {"type":"file_change_output","item":"i","text":"patched"}
        {"type":"tool_progress","item":"i","message":"half"}
        {"type":"compacted"}"#]]
    .assert_eq(&seen.join("\n"));
}
