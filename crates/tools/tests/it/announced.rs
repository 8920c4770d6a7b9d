//! A change of what a server lists is told to callers of both eras, each list by itself, and is then seen by them.

use rmcp::model::{ServerNotification, SubscriptionFilter};
use serde_json::json;

use crate::house::{Can, House, Lifecycle, PATIENCE, server};

const SERVERS: [&str; 2] = ["legacy-shelf", "modern-shelf"];

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_the_prompts_is_told_and_seen() {
    for name in SERVERS {
        println!("{name} server");
        let house = House::ready(vec![server("g", name)]).await;
        let legacy = house.caller(Lifecycle::Legacy, Can::Nothing).await;
        let modern = house.caller(Lifecycle::Modern, Can::Nothing).await;
        let filter = SubscriptionFilter::builder().prompts_list_changed().build();
        let mut listening = modern.client.listen(filter).await.unwrap();
        assert_eq!(legacy.client.list_all_prompts().await.unwrap().len(), 1);
        legacy.call("g__add_prompt", json!({})).await;
        legacy.until(|heard| heard.prompt_list_changes > 0).await;
        let told = tokio::time::timeout(PATIENCE, listening.next()).await.expect("it is told").unwrap();
        assert!(matches!(told, Some(ServerNotification::PromptListChangedNotification(_))), "{told:?}");
        for caller in [&legacy, &modern] {
            let prompts = caller.client.list_all_prompts().await.unwrap();
            assert_eq!(prompts.iter().map(|prompt| &*prompt.name).collect::<Vec<_>>(), ["g__greet", "g__thank"]);
        }
        let heard = legacy.heard();
        assert_eq!((heard.tool_list_changes, heard.resource_list_changes), (0, 0), "they are as they were");
        house.host.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_the_resources_is_told_and_seen() {
    for name in SERVERS {
        println!("{name} server");
        let house = House::ready(vec![server("g", name)]).await;
        let legacy = house.caller(Lifecycle::Legacy, Can::Nothing).await;
        let modern = house.caller(Lifecycle::Modern, Can::Nothing).await;
        let filter = SubscriptionFilter::builder().resources_list_changed().build();
        let mut listening = modern.client.listen(filter).await.unwrap();
        assert_eq!(legacy.client.list_all_resources().await.unwrap().len(), 2);
        legacy.call("g__add_resource", json!({})).await;
        legacy.until(|heard| heard.resource_list_changes > 0).await;
        let told = tokio::time::timeout(PATIENCE, listening.next()).await.expect("it is told").unwrap();
        assert!(matches!(told, Some(ServerNotification::ResourceListChangedNotification(_))), "{told:?}");
        for caller in [&legacy, &modern] {
            let resources = caller.client.list_all_resources().await.unwrap();
            assert!(resources.iter().any(|resource| resource.uri == "gallery://farewell"), "{resources:?}");
        }
        let heard = legacy.heard();
        assert_eq!((heard.tool_list_changes, heard.prompt_list_changes), (0, 0), "they are as they were");
        house.host.stop().await;
    }
}
