//! A caller that gives up its call: the server is told, the call is noted, and both go on.

use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest};
use rmcp::service::PeerRequestOptions;
use serde_json::json;

use crate::house::words;
use crate::meetings::{each_pair, sent, until, until_sent};

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_its_caller_gives_up_is_given_up_at_the_server_too() {
    each_pair(async |house, _, caller| {
        let hang = ClientRequest::CallToolRequest(CallToolRequest::new(CallToolRequestParams::new("g__hang")));
        let options = PeerRequestOptions::no_options();
        let running = caller.client.send_cancellable_request(hang, options).await.unwrap();
        let theirs = serde_json::to_value(&running.id).unwrap();
        let call = until_sent(house, "tools/call").await;
        assert_ne!(call["id"], theirs, "the caller's number is none of the server's business");
        running.cancel(Some("it takes too long".into())).await.unwrap();
        let told = until_sent(house, "notifications/cancelled").await;
        assert_eq!(told["params"]["requestId"], call["id"]);
        until("the call is noted", async || house.called().first().cloned()).await;
        assert_eq!(house.called(), ["g hang cancelled"]);
        assert_eq!(words(&caller.call("g__echo", json!({ "text": "on" })).await), "on");
        assert_eq!(sent(house, "notifications/cancelled").len(), 1);
        assert_eq!(house.called(), ["g hang cancelled", "g echo succeeded"]);
    })
    .await;
}
