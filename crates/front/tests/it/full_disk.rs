//! Responses while the store is full: what is not stored says so, what needs the store is refused, and nothing that was told as stored
//! is lost.

use serde_json::{Value, json};
use testkit::HANG_TIMEOUT;
use tokio::time::timeout;

use crate::health::fill;
use crate::http::{Answer, Caller};
use crate::responses::{create, path_of, retrieve, until};
use crate::support::House;
use crate::until_turns;

async fn post(caller: &Caller, request: &Value) -> Answer {
    caller.post("/v1/responses", &request.to_string()).await
}

async fn make_room(house: &House) {
    house.store.set_pages_max(1_000_000).await.unwrap();
    let well = async { house.store.health().wait_for(store::Health::is_well).await.map(drop) };
    timeout(HANG_TIMEOUT, well).await.expect("the store becomes well").unwrap();
    house.store.flush().await.unwrap();
}

/// The last event of a streamed response.
async fn stream_end(caller: &Caller, request: &Value) -> Value {
    let mut request = request.clone();
    request["stream"] = json!(true);
    let events = caller.stream("/v1/responses", "", &request.to_string()).await.rest().await;
    assert_eq!(events.last().unwrap(), "[DONE]");
    let end = &events[events.len() - 2];
    assert_eq!(end["type"], "response.completed", "{end:#}");
    end["response"].clone()
}

#[tokio::test]
async fn what_a_full_disk_does_not_take_is_told_as_not_stored() {
    let house = House::open().await;
    let operator = &house.operator;
    let request = json!({"model": "quiet", "input": "[[text]]"});
    let before = create(operator, &request).await;
    let conversation = operator.post("/v1/conversations", "").await.json();
    assert_eq!(before["store"], true);
    house.store.set_pages_max(1).await.unwrap();
    fill(&house.store).await;

    let whole = create(operator, &request).await;
    let streamed = stream_end(operator, &request).await;
    for response in [&whole, &streamed] {
        assert_eq!((&response["status"], &response["store"]), (&json!("completed"), &json!(false)));
        assert_eq!(response["output"][0]["content"], before["output"][0]["content"], "the answer is not lost");
        assert_eq!(operator.get(&path_of(response)).await.refusal(), "404 response_not_found");
    }
    let with = |name: &str, value: &Value| {
        let mut request = request.clone();
        request[name] = value.clone();
        request
    };
    for needing in [
        with("background", &json!(true)),
        with("previous_response_id", &before["id"]),
        with("conversation", &conversation["id"]),
    ] {
        let refused = post(operator, &needing).await;
        assert_eq!(refused.refusal(), "503 store_unavailable", "{needing}");
        assert!(refused.headers.contains("retry-after: "), "{}", refused.headers);
    }
    let mut unstored = with("previous_response_id", &before["id"]);
    unstored["store"] = json!(false);
    assert_eq!(create(operator, &unstored).await["status"], "completed", "what is not to be stored needs no room");
    until_turns(&house, 0).await;

    make_room(&house).await;
    let after = create(operator, &with("previous_response_id", &before["id"])).await;
    assert_eq!(after["store"], true);
    let house = House::reopen(house.stop().await).await;
    for (response, status) in [(&before, 200), (&after, 200), (&whole, 404), (&streamed, 404)] {
        assert_eq!(house.operator.get(&path_of(response)).await.status, status, "{response:#}");
    }
    house.stop().await;
}

#[tokio::test]
async fn a_response_in_the_background_is_made_only_if_it_can_be_found_again() {
    let house = House::open().await;
    house.store.set_pages_max(1).await.unwrap();
    assert!(house.store.health_now().is_well(), "nobody knows yet that the disk is full");
    let padding = "x".repeat(200_000);
    let request = json!({"model": "quiet", "input": "[[hang]]", "instructions": padding, "background": true});
    let refused = post(&house.operator, &request).await;
    assert_eq!(refused.refusal(), "503 store_unavailable");
    until_turns(&house, 0).await;
    make_room(&house).await;
    for status in ["queued", "in_progress", "completed", "failed", "cancelled"] {
        let rows = house.store.read(move |reader| reader.responses_in(status)).await.unwrap();
        assert!(rows.is_empty(), "{rows:?}");
    }
    house.stop().await;
}

#[tokio::test]
async fn the_end_of_a_response_in_the_background_waits_for_room() {
    let house = House::open().await;
    let operator = &house.operator;
    let mut feed = operator.events("/api/events", "").await;
    // Longer than what room its row may have left.
    let command = "x".repeat(8_000);
    let request = json!({"model": "asking", "input": format!("[[shell touch {command}]]"), "background": true});
    let begun = operator.post_with("/v1/responses", "x-switchboard-work: items\r\n", &request.to_string()).await.json();
    let approval = feed.until("approval_wanted").await["approval"].clone();
    house.store.set_pages_max(1).await.unwrap();
    fill(&house.store).await;
    let path = format!("/api/approvals/{}/decide", approval["id"].as_str().unwrap());
    let denied =
        operator.post(&path, &json!({"verdict": "deny", "shown_hash": approval["shown_hash"]}).to_string()).await;
    assert_eq!(denied.status, 200, "{}", denied.body);
    until_turns(&house, 0).await;
    let now = retrieve(operator, &begun).await;
    assert_eq!(now["status"], "in_progress", "{now:#}");
    make_room(&house).await;
    let ended = until(operator, &begun, "completed").await;
    assert_eq!(ended["store"], true);
    let house = House::reopen(house.stop().await).await;
    assert_eq!(retrieve(&house.operator, &begun).await, ended);
    house.stop().await;
}
