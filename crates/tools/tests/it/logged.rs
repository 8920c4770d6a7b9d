//! What a server logs reaches the caller whose call it is about, if that wants to know.

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, LoggingLevel, RequestMetaObject, SetLevelRequestParams,
};
use rmcp::service::PeerRequestOptions;
use serde_json::json;

use crate::house::{Calling, Lifecycle};
use crate::meetings::{each_pair, sent};

impl Calling {
    /// Has the server log a text as `info`, and asks in the request itself for what is at least so bad.
    async fn log_asking_for(&self, level: Option<LoggingLevel>, text: &str) {
        let arguments = json!({ "text": text }).as_object().unwrap().clone();
        let params = CallToolRequestParams::new("g__log").with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let mut meta = RequestMetaObject::default();
        if let Some(level) = level {
            meta.set_log_level(level);
        }
        let options = PeerRequestOptions::no_options().with_meta(meta);
        let sent = self.client.send_request_with_option(request, options).await.unwrap();
        sent.await_response().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_legacy_caller_is_told_what_is_logged_from_the_level_on_that_it_has_set() {
    each_pair(async |house, lifecycle, caller| {
        if !matches!(lifecycle, Lifecycle::Legacy) {
            return;
        }
        for (level, text) in [(LoggingLevel::Error, "quiet"), (LoggingLevel::Info, "loud")] {
            caller.client.set_level(SetLevelRequestParams::new(level)).await.unwrap();
            caller.call("g__log", json!({ "text": text })).await;
        }
        caller.until(|heard| heard.logs.iter().any(|log| log.contains("loud"))).await;
        assert_eq!(caller.heard().logs, ["\"loud\""]);
        // A server of either era is told too, in its own way.
        let levels = match house.view("g").era {
            Some(tools::Era::Legacy) => {
                sent(house, "logging/setLevel").iter().map(|request| request["params"]["level"].clone()).collect()
            }
            _ => {
                let level = "io.modelcontextprotocol/logLevel";
                let calls = sent(house, "tools/call");
                calls.iter().map(|request| request["params"]["_meta"][level].clone()).collect::<Vec<_>>()
            }
        };
        assert_eq!(levels, ["error", "info"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_modern_caller_is_told_what_is_logged_if_its_request_asks_for_it() {
    each_pair(async |_, lifecycle, caller| {
        if !matches!(lifecycle, Lifecycle::Modern) {
            return;
        }
        caller.log_asking_for(None, "unasked").await;
        caller.log_asking_for(Some(LoggingLevel::Error), "quiet").await;
        caller.log_asking_for(Some(LoggingLevel::Info), "loud").await;
        caller.until(|heard| heard.logs.iter().any(|log| log.contains("loud"))).await;
        assert_eq!(caller.heard().logs, ["\"loud\""]);
    })
    .await;
}
