//! How long, and how often, a caller is waited for that is asked something in the middle of its call.

use std::time::Duration;

use rmcp::service::ServiceError;
use serde_json::{Value, json};
use tools::{Frame, Limits, Plan, Server, Speaker};

use crate::hostile::shell;
use crate::house::{Can, House, Lifecycle, plan, server, text};
use crate::meetings::{sent, until};
use crate::pipe::Pipe;

/// Short, and for the waits alone: nobody answers here at all.
const INPUT_TIMEOUT: Duration = Duration::from_millis(50);

async fn hurried(one: Server) -> House {
    let limits = Limits { input_timeout: INPUT_TIMEOUT, input_rounds_max: 3, ..Limits::default() };
    let house = House::of(Plan { limits, ..plan(vec![one]) });
    house.until_ready("g").await;
    house
}

/// Waits until the server has an answer to what it asked, and gives it.
async fn until_answered(house: &House) -> Value {
    let answer = |frame: &Frame| {
        let message: Value = serde_json::from_str(&frame.text).ok()?;
        (frame.from == Speaker::Us && message.get("method").is_none()).then_some(message)
    };
    until("the server's question is answered", async || house.host.frames("g").unwrap().frames.iter().find_map(answer))
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_modern_caller_that_does_not_come_back_in_time_has_lost_its_call() {
    let house = hurried(server("g", "legacy")).await;
    let mut caller = Pipe::open(&house, Lifecycle::Modern).await;
    caller.ask("first", "tools/call", json!({ "name": "g__ask", "arguments": {} })).await;
    let asked = caller.next().await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let answer = until_answered(&house).await;
    assert!(answer["error"]["message"].is_string(), "{answer}");
    until("the call is given up", async || sent(&house, "notifications/cancelled").pop()).await;
    let answers = json!({ "question-1": { "action": "accept", "content": { "name": "ada" } } });
    let state = &asked["result"]["requestState"];
    let late = json!({ "name": "g__ask", "arguments": {}, "inputResponses": answers, "requestState": state });
    caller.ask("late", "tools/call", late).await;
    let refused = caller.next().await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("begin again"), "{refused}");
    assert_eq!(sent(&house, "tools/call").len(), 1, "it was not made anew");
    caller.ask("on", "tools/call", json!({ "name": "g__echo", "arguments": { "text": "on" } })).await;
    assert_eq!(text(&caller.next().await["result"]), "on");
    house.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_legacy_caller_that_does_not_answer_in_time_leaves_its_server_with_an_error() {
    for name in ["legacy", "modern"] {
        println!("{name} server");
        let house = hurried(server("g", name)).await;
        let mut caller = Pipe::open(&house, Lifecycle::Legacy).await;
        caller.ask("call", "tools/call", json!({ "name": "g__ask", "arguments": {} })).await;
        assert_eq!(caller.next().await["method"], "elicitation/create");
        let end = loop {
            let message = caller.next().await;
            if message["id"] == "call" {
                break message;
            }
            assert_eq!(message["method"], "notifications/cancelled", "it is told that nobody waits: {message}");
        };
        let said = end.to_string();
        assert!(said.contains("timeout") || said.contains("cannot be asked"), "{said}");
        if name == "legacy" {
            assert!(until_answered(&house).await["error"].is_object());
            assert_eq!(end["result"]["isError"], true, "the tool says what it makes of it: {end}");
        } else {
            assert!(end["error"].is_object(), "{end}");
        }
        house.host.stop().await;
    }
}

/// A modern server of one tool, which asks for a name whatever it is told.
fn insatiable() -> Server {
    let hello = r#"{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"resultType":"complete"}"#;
    let tools = r#"{"tools":[{"name":"t","inputSchema":{"type":"object"}}],"resultType":"complete"}"#;
    let schema = r#"{"type":"object","properties":{"name":{"type":"string"}}}"#;
    let request = format!(r#"{{"mode":"form","message":"Who?","requestedSchema":{schema}}}"#);
    let requests = format!(r#"{{"who":{{"method":"elicitation/create","params":{request}}}}}"#);
    let asks = format!(r#"{{"resultType":"input_required","inputRequests":{requests},"requestState":"s"}}"#);
    let script = r#"while IFS= read -r line; do
        id=${line#*'"id":'}; id=${id%%,*}
        case $line in
            *'"server/discover"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":HELLO}';;
            *'"tools/list"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":TOOLS}';;
            *'"tools/call"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":ASKS}';;
        esac
    done"#;
    shell("g", &script.replace("HELLO", hello).replace("TOOLS", tools).replace("ASKS", &asks))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_asks_a_legacy_caller_again_and_again_is_given_up() {
    let limits = Limits { input_rounds_max: 3, ..Limits::default() };
    let house = House::of(Plan { limits, ..plan(vec![insatiable()]) });
    house.until_ready("g").await;
    let caller = house.caller(Lifecycle::Legacy, Can::Everything).await;
    let asking = caller.client.call_tool(rmcp::model::CallToolRequestParams::new("g__t"));
    match tokio::time::timeout(crate::house::PATIENCE, asking).await.expect("it has an end").unwrap_err() {
        ServiceError::McpError(error) => assert!(error.message.contains("more than 3 times"), "{error}"),
        error => panic!("{error}"),
    }
    assert_eq!(house.called(), ["g t failed"]);
    assert_eq!(sent(&house, "tools/call").len(), 4);
    assert_eq!(caller.heard().asked.len(), 3, "what would not be passed on is not asked");
    house.host.stop().await;
}
