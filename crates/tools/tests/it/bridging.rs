//! Every caller reaches every server: each era on either side, with what is asked and told in the middle.

use rmcp::model::{GetPromptRequestParams, ReadResourceRequestParams};
use rmcp::service::ServiceError;
use serde_json::{Value, json};

use crate::house::{Calling, Can, House, Lifecycle, server, words};
use crate::meetings::until_sent;

/// What says so of a caller since 2026-07-28.
const MISSING_CAPABILITY: i32 = -32021;

const SERVERS: [&str; 3] = ["legacy", "modern", "dual"];
const CALLERS: [Lifecycle; 2] = [Lifecycle::Legacy, Lifecycle::Modern];

async fn each(play: impl AsyncFn(&House, &str, Calling)) {
    for name in SERVERS {
        let house = House::ready(vec![server("g", name)]).await;
        for lifecycle in CALLERS {
            println!("{lifecycle:?} caller, {name} server");
            let caller = house.caller(lifecycle, Can::Everything).await;
            play(&house, name, caller).await;
        }
        house.host.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_are_listed_and_called() {
    each(async |_, _, caller| {
        let tools = caller.client.list_all_tools().await.unwrap();
        let echo = tools.iter().find(|tool| tool.name == "g__echo").unwrap();
        assert!(echo.input_schema["properties"]["text"].is_object());
        assert_eq!(words(&caller.call("g__echo", json!({ "text": "hällo\n" })).await), "hällo\n");
        let failed = caller.call("g__fail", json!({})).await;
        assert_eq!(failed.is_error, Some(true));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_asks_in_the_middle_is_asked_of_its_caller() {
    each(async |_, _, caller| {
        let said = words(&caller.call("g__ask", json!({})).await);
        assert!(said.contains("ada"), "{said}");
        let said = words(&caller.call("g__sample", json!({})).await);
        assert!(said.contains("sampled"), "{said}");
        let said = words(&caller.call("g__roots", json!({})).await);
        assert!(said.contains("root-of-the-caller"), "{said}");
        assert_eq!(caller.heard().asked.len(), 3);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_cannot_be_asked_gets_an_answer_all_the_same() {
    for name in SERVERS {
        let house = House::ready(vec![server("g", name)]).await;
        for lifecycle in CALLERS {
            println!("{lifecycle:?} caller, {name} server");
            let caller = house.caller(lifecycle, Can::Nothing).await;
            let params = rmcp::model::CallToolRequestParams::new("g__ask");
            let outcome = caller.client.call_tool(params).await;
            match (lifecycle, name) {
                // It would be asked of a person, and there is none.
                (Lifecycle::Legacy, "legacy") => assert_eq!(words(&outcome.unwrap()), "the user chose to decline"),
                // A modern server refuses a caller that lacks what it needs, and a modern caller is refused for a legacy one.
                _ => match outcome.unwrap_err() {
                    ServiceError::McpError(error) => assert_eq!(error.code.0, MISSING_CAPABILITY, "{error}"),
                    error => panic!("{error}"),
                },
            }
            assert!(caller.heard().asked.is_empty());
        }
        house.host.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn resources_and_prompts_are_read() {
    each(async |_, _, caller| {
        let resources = caller.client.list_all_resources().await.unwrap();
        let uri = resources[0].uri.clone();
        let read = caller.client.read_resource(ReadResourceRequestParams::new(uri)).await.unwrap();
        assert!(!read.contents.is_empty());
        let prompts = caller.client.list_all_prompts().await.unwrap();
        let arguments: Value = prompts[0]
            .arguments
            .iter()
            .flatten()
            .map(|argument| (argument.name.clone(), Value::from("x")))
            .collect::<serde_json::Map<_, _>>()
            .into();
        let mut params = GetPromptRequestParams::new(prompts[0].name.clone());
        params.arguments = arguments.as_object().cloned();
        let prompt = caller.client.get_prompt(params).await.unwrap();
        assert!(!prompt.messages.is_empty());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_the_tools_is_told_and_seen() {
    for name in SERVERS {
        let house = House::ready(vec![server("g", name)]).await;
        let legacy = house.caller(Lifecycle::Legacy, Can::Nothing).await;
        let modern = house.caller(Lifecycle::Modern, Can::Nothing).await;
        let filter = rmcp::model::SubscriptionFilter::builder().tools_list_changed().build();
        let mut listening = modern.client.listen(filter).await.unwrap();
        let before = legacy.client.list_all_tools().await.unwrap().len();
        legacy.call("g__change", json!({})).await;
        legacy.until(|heard| heard.tool_list_changes > 0).await;
        let told = tokio::time::timeout(crate::house::PATIENCE, listening.next()).await.unwrap().unwrap();
        assert!(told.is_some());
        assert_eq!(modern.client.list_all_tools().await.unwrap().len(), before + 1);
        house.host.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_never_reaches_another_caller() {
    let house = House::ready(vec![server("g", "legacy")]).await;
    let one = house.caller(Lifecycle::Legacy, Can::Everything).await;
    let other = house.caller(Lifecycle::Legacy, Can::Everything).await;
    let long = one.call("g__hang", json!({}));
    let asked = async {
        // While a call of somebody else is under way nobody can tell whose question it is: nobody is asked.
        until_sent(&house, "tools/call").await;
        let params = rmcp::model::CallToolRequestParams::new("g__ask");
        other.client.call_tool(params).await
    };
    let result = tokio::select! {
        ended = long => panic!("it hangs: {ended:?}"),
        result = asked => result,
    };
    let said = result.map(|result| words(&result)).unwrap_or_default();
    assert!(!said.contains("ada"), "{said}");
    assert!(one.heard().asked.is_empty() && other.heard().asked.is_empty());
    house.host.stop().await;
}
