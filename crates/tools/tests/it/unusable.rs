//! Answers that nobody can use: whoever waits for one is told so at once, and it is written down as what it is.

use serde_json::json;
use tools::{Limits, Server};

use crate::hostile::script;
use crate::house::{Can, House, Lifecycle, plan, server, text};

/// A server whose only tool answers its call with this result.
fn answering(result: &str) -> Server {
    script(&format!(r#"echo '{{"jsonrpc":"2.0","id":'$id',"result":{result}}}'"#))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_too_long_fails_its_call_and_no_other() {
    let limits = Limits { line_bytes_max: 64 << 10, ..Limits::default() };
    let house = House::of(tools::Plan { limits, ..plan(vec![server("g", "dual")]) });
    house.until_ready("g").await;
    let short = async {
        for _ in 0..10 {
            assert_eq!(text(&house.call("g__echo", json!({ "text": "x" })).await), "x");
        }
    };
    let (long, ()) = tokio::join!(house.call("g__big", json!({ "bytes": 1 << 20 })), short);
    assert_eq!(
        long["_meta"]["switchboard/failure"],
        json!({ "kind": "unusable_result", "work_may_have_run": true }),
        "{long}"
    );
    assert!(text(&long).contains("too long"), "{long}");
    assert!(house.called().contains(&"g big failed".to_owned()));
    house.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_too_deep_fails_its_call() {
    let deep = format!("{}{}", "[".repeat(300), "]".repeat(300));
    let house = House::ready(vec![answering(&format!(r#"{{"content":{deep}}}"#))]).await;
    let result = house.call("g__t", json!({})).await;
    assert!(text(&result).contains("too deep"), "{result}");
    assert_eq!(house.called(), ["g t failed"]);
    house.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_of_another_shape_is_a_failure_of_the_tool() {
    let house = House::ready(vec![answering(r#"{"content":"a text where blocks must be"}"#)]).await;
    for lifecycle in [Lifecycle::Legacy, Lifecycle::Modern] {
        let result = house.caller(lifecycle, Can::Nothing).await.call("g__t", json!({})).await;
        assert_eq!(result.is_error, Some(true), "{result:?}");
    }
    assert_eq!(house.called(), ["g t failed", "g t failed"]);
    house.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_that_is_too_long_is_refused_with_its_size() {
    let small = Server { result_bytes_max: 40, ..server("g", "dual") };
    let house = House::ready(vec![small]).await;
    let caller = house.caller(Lifecycle::Legacy, Can::Nothing).await;
    let params = rmcp::model::ReadResourceRequestParams::new("gallery://greeting");
    let error = caller.client.read_resource(params).await.unwrap_err().to_string();
    assert!(error.contains("result_bytes_max") && error.contains("40"), "{error}");
    house.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_was_put_aside_says_why_it_cannot_be_called() {
    let house = House::start(vec![server("d7", "d7")]);
    let view = house.until("d7", |view| !view.quarantined.is_empty()).await;
    let name = format!("d7__{}", view.quarantined[0].name);
    let error = house.host.call(&tools::Caller::new("k", "t"), &name, json!({})).await.unwrap_err();
    assert!(error.message.contains("inputSchema"), "{}", error.message);
    house.host.stop().await;
}
