//! Questions of servers whose answerer is not certain, or who ask when nobody expects it.

use serde_json::{Value, json};
use supervise::Owner;
use tools::{Caller, Limits, Server, Severity, check};

use crate::hostile::{script, shell};
use crate::house::{Can, House, Lifecycle};
use crate::meetings::{sent, until, until_sent};

/// What the server `g` was answered to its question, if it was.
fn answer(house: &House) -> Option<Value> {
    let frames = house.host.frames("g").unwrap().frames;
    let ours = frames.iter().filter(|frame| frame.from == tools::Speaker::Us);
    let messages = ours.filter_map(|frame| serde_json::from_str::<Value>(&frame.text).ok());
    messages.into_iter().find(|message| message["id"] == "q" && message.get("method").is_none())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_about_a_call_that_was_given_up_reaches_nobody_else() {
    let asks = r#"{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"who?","requestedSchema":{"type":"object","properties":{}}}}"#;
    // It never answers a call, and asks when the first is cancelled.
    let server = script(&format!(";; *cancelled*) echo '{asks}'"));
    let house = House::ready(vec![server]).await;
    let other = house.caller(Lifecycle::Legacy, Can::Everything).await;
    let caller = Caller::new("k", "t");
    let leaving = async {
        {
            let call = house.host.call(&caller, "g__t", json!({}));
            tokio::select! {
                _ = call => panic!("it is never answered"),
                _ = until_sent(&house, "tools/call") => {}
            }
        }
        until("the question is answered", async || answer(&house)).await
    };
    let staying = async {
        until("the first call was sent", async || (!sent(&house, "tools/call").is_empty()).then_some(())).await;
        other.call("g__t", json!({})).await
    };
    let answered = tokio::select! {
        answered = leaving => answered,
        _ = staying => panic!("it is never answered"),
    };
    assert_eq!(answered["result"]["action"], "decline", "{answered}");
    assert!(other.heard().asked.is_empty());
    house.host.stop().await;
}

/// A server that wants to know its roots before it lists its tools.
fn curious() -> Server {
    let script = r#"while IFS= read -r line; do
        id=${line#*'"id":'}; id=${id%%,*}
        case $line in
            *'"server/discover"'*) echo '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32601,"message":"no"}}';;
            *'"initialize"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}'; begun=yes;;
            *'"tools/list"'*) listing=$id; [ "$begun" ] && echo '{"jsonrpc":"2.0","id":"q","method":"roots/list"}';;
            *'"id":"q"'*) echo '{"jsonrpc":"2.0","id":'$listing',"result":{"tools":[{"name":"t","description":"does it","inputSchema":{"type":"object","properties":{"a":{"type":"string"}}}}]}}';;
        esac
    done"#;
    shell("g", script)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_asks_before_it_lists_its_tools_is_answered() {
    let house = House::ready(vec![curious()]).await;
    assert_eq!(house.view("g").tools, ["g__t"]);
    house.host.stop().await;
    let report = check(&curious(), Owner::generate(), &Limits::default()).await;
    assert!(report.findings.iter().all(|finding| finding.severity == Severity::Note), "{report}");
    assert!(report.to_string().contains("1 tool"), "{report}");
}
