//! A caller that subscribed to a resource is told of its changes, whoever serves it, and whatever became of that meanwhile.

use rmcp::model::{ServerNotification, SubscribeRequestParams, SubscriptionFilter, SubscriptionFilterBuilder};
use rmcp::service::Subscription;
use serde_json::json;
use tools::{Server, ServerState, Speaker, Verdict};

use crate::house::{Calling, Can, House, Lifecycle, PATIENCE, server};
use crate::killed::kill;
use crate::meetings::{each_pair, until};

const COUNTER: &str = "gallery://counter";

/// A caller that wants to be told of the counter, each in the way of its era.
struct Subscriber {
    caller: Calling,
    listening: Option<Subscription>,
}

impl Subscriber {
    async fn new(caller: Calling, lifecycle: Lifecycle) -> Self {
        let listening = match lifecycle {
            Lifecycle::Legacy => {
                caller.client.subscribe(SubscribeRequestParams::new(COUNTER)).await.unwrap();
                None
            }
            Lifecycle::Modern => {
                let filter = SubscriptionFilter::builder().resource_subscription(COUNTER).build();
                Some(caller.client.listen(filter).await.unwrap())
            }
        };
        Self { caller, listening }
    }

    /// Counts up, and waits until it is told of that for the `times`th time.
    async fn touch(&mut self, times: usize) {
        self.caller.call("g__touch", json!({})).await;
        let Some(listening) = &mut self.listening else {
            self.caller.until(|heard| heard.updates.len() >= times).await;
            return assert_eq!(self.caller.heard().updates, vec![COUNTER; times]);
        };
        let told = tokio::time::timeout(PATIENCE, listening.next()).await.expect("it is told").unwrap();
        match told {
            Some(ServerNotification::ResourceUpdatedNotification(update)) => assert_eq!(update.params.uri, COUNTER),
            other => panic!("something else was told: {other:?}"),
        }
    }
}

/// Waits until the present life of the server has taken note of the subscription.
async fn until_subscribed(house: &House) {
    let is_taken = |frame: &tools::Frame| {
        let is_answer = matches!(&frame.verdict, Verdict::Answer { method, .. } if **method == *"resources/subscribe");
        let is_listened = frame.text.contains("subscriptions/acknowledged") && frame.text.contains(COUNTER);
        frame.from == Speaker::Server && (is_answer || is_listened)
    };
    until("the server knows of the subscription", async || {
        house.host.frames("g").unwrap().frames.iter().any(is_taken).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_is_told_when_a_resource_changes_that_it_subscribed_to() {
    each_pair(async |house, lifecycle, caller| {
        let mut subscriber = Subscriber::new(caller, lifecycle).await;
        until_subscribed(house).await;
        subscriber.touch(1).await;
        subscriber.touch(2).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_outlives_the_process_that_it_was_made_with() {
    each_pair(async |house, lifecycle, caller| {
        let mut subscriber = Subscriber::new(caller, lifecycle).await;
        until_subscribed(house).await;
        let pid = house.view("g").pid.unwrap();
        kill(pid);
        house.until("g", |view| view.state == ServerState::Ready && view.pid != Some(pid)).await;
        until_subscribed(house).await;
        subscriber.touch(1).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_outlives_a_change_of_its_servers_configuration() {
    for name in ["legacy", "modern"] {
        for lifecycle in [Lifecycle::Legacy, Lifecycle::Modern] {
            println!("{lifecycle:?} caller, {name} server");
            let house = House::ready(vec![server("g", name)]).await;
            let mut subscriber = Subscriber::new(house.caller(lifecycle, Can::Nothing).await, lifecycle).await;
            until_subscribed(&house).await;
            let pid = house.view("g").pid;
            house.host.apply(vec![Server { result_bytes_max: 1 << 19, ..server("g", name) }]);
            house.until("g", |view| view.state == ServerState::Ready && view.pid != pid).await;
            until_subscribed(&house).await;
            subscriber.touch(1).await;
            house.host.stop().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_addresses_that_one_caller_subscribes_to_have_a_limit_together() {
    let house = House::ready(vec![server("g", "legacy")]).await;
    let caller = house.caller(Lifecycle::Legacy, Can::Nothing).await;
    let long = |number: usize| SubscribeRequestParams::new(format!("gallery://{number}{}", "x".repeat(4080)));
    for number in 0..4 {
        caller.client.subscribe(long(number)).await.unwrap();
        caller.client.subscribe(long(number)).await.expect("the same again takes no room");
    }
    let refused = caller.client.subscribe(long(4)).await.unwrap_err();
    assert!(refused.to_string().contains("all of them together 16384"), "{refused}");
    house.host.stop().await;

    let house = House::ready(vec![server("g", "modern")]).await;
    let caller = house.caller(Lifecycle::Modern, Can::Nothing).await;
    let filter = (0..5).map(|number| long(number).uri).chain([COUNTER.to_owned()]);
    let filter = filter.fold(SubscriptionFilter::builder(), SubscriptionFilterBuilder::resource_subscription).build();
    let listening = caller.client.listen(filter).await.unwrap();
    let accepted = listening.acknowledged().resource_subscriptions.clone().unwrap();
    let expected: Vec<_> = (0..4).map(|number| long(number).uri).chain([COUNTER.to_owned()]).collect();
    assert_eq!(accepted, expected, "the short one has room where the fifth long one has none");
    house.host.stop().await;
}
