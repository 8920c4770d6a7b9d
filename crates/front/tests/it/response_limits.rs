//! The limits of the Responses API, each small enough to be met.

use front::{ResponseLimits, Settings};
use serde_json::{Value, json};

use crate::responses::until;
use crate::support::House;

async fn house(responses: ResponseLimits) -> House {
    House::with(Settings { responses, ..Settings::default() }, approvals::Settings::default()).await
}

fn asks(input: impl Into<Value>) -> Value {
    json!({"model": "quiet", "input": input.into()})
}

async fn id_of(house: &House, request: &Value) -> String {
    let answer = house.operator.post("/v1/responses", &request.to_string()).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()["id"].as_str().unwrap().into()
}

/// Makes a response in the background and follows it to its end, in one request: it may be over before a second one.
async fn followed(house: &House, text: &str) -> String {
    let request = json!({"model": "quiet", "input": text, "background": true, "stream": true});
    let events = house.operator.post("/v1/responses", &request.to_string()).await.body;
    assert!(events.contains("event: response.completed"), "{events}");
    let created = events.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    serde_json::from_str::<Value>(created).unwrap()["response"]["id"].as_str().unwrap().into()
}

async fn refusal(house: &House, path: &str) -> String {
    let answer = house.operator.get(path).await;
    assert_eq!(answer.status, 400, "{}", answer.body);
    answer.json()["error"]["message"].as_str().unwrap().into()
}

#[tokio::test]
async fn only_the_last_finished_responses_of_the_background_can_be_followed() {
    let house = house(ResponseLimits { finished_max: 1, ..ResponseLimits::default() }).await;
    let first = followed(&house, "[[text]]").await;
    let second = followed(&house, "[[text]]").await;
    assert_eq!(
        refusal(&house, &format!("/v1/responses/{first}?stream=true")).await,
        "This response cannot be streamed: its events are not kept any more; retrieve it without `stream`."
    );
    assert_eq!(house.operator.get(&format!("/v1/responses/{first}")).await.json()["status"], "completed");
    assert_eq!(house.operator.get(&format!("/v1/responses/{second}?stream=true")).await.status, 200);
    house.stop().await;
}

#[tokio::test]
async fn finished_responses_of_the_background_are_bounded_by_bytes_too() {
    let house = house(ResponseLimits { finished_bytes_max: 1, ..ResponseLimits::default() }).await;
    let id = followed(&house, "[[text]]").await;
    assert!(refusal(&house, &format!("/v1/responses/{id}?stream=true")).await.contains("not kept any more"));
    house.stop().await;
}

#[tokio::test]
async fn of_a_long_response_only_the_last_events_can_be_followed() {
    let house = house(ResponseLimits { events_bytes_max: 4096, ..ResponseLimits::default() }).await;
    let mut request = asks("[[text]]");
    request["background"] = true.into();
    let id = id_of(&house, &request).await;
    let path = format!("/v1/responses/{id}");
    let early = refusal(&house, &format!("{path}?stream=true&starting_after=1000000")).await;
    assert!(
        early.starts_with("there have been ") && early.ends_with(" events so far; start after one of them"),
        "{early}"
    );
    until(&house.operator, &json!({"id": id}), "completed").await;
    assert!(refusal(&house, &format!("{path}?stream=true")).await.contains("events are not kept any more"));
    house.stop().await;
}

#[tokio::test]
async fn a_conversation_that_is_too_long_is_not_told_to_a_new_thread() {
    for limits in [
        ResponseLimits { conversation_responses_max: 1, ..ResponseLimits::default() },
        ResponseLimits { conversation_bytes_max: 1024, ..ResponseLimits::default() },
    ] {
        let house = house(limits).await;
        let mut request = asks("[[text]]");
        for _ in 0..2 {
            request["previous_response_id"] = id_of(&house, &request).await.into();
        }
        request["instructions"] = "Be brief.".into();
        let refused = house.operator.post("/v1/responses", &request.to_string()).await;
        assert_eq!(refused.refusal(), "400 previous_response_not_found");
        house.stop().await;
    }
}

#[tokio::test]
async fn a_connection_remembers_so_much_of_what_is_not_stored() {
    for (conversation_bytes_max, goes_on) in [(1, false), (1024, true)] {
        let house = house(ResponseLimits { conversation_bytes_max, ..ResponseLimits::default() }).await;
        let mut frames = house.operator.frames().await;
        let mut request = asks("[[text]]");
        request["store"] = false.into();
        request["previous_response_id"] = frames.answer(request.clone()).await["id"].take();
        if goes_on {
            assert_eq!(frames.answer(request).await["status"], "completed");
        } else {
            assert_eq!(frames.refusal(request).await, "400 previous_response_not_found");
        }
        drop(frames);
        house.stop().await;
    }
}

#[tokio::test]
async fn a_request_may_name_items_of_so_many_responses() {
    let house = house(ResponseLimits { references_max: 1, ..ResponseLimits::default() }).await;
    let mut named = Vec::new();
    for _ in 0..2 {
        let answer = house.operator.post("/v1/responses", &asks("[[text]]").to_string()).await.json();
        named.push(json!({"type": "item_reference", "id": answer["output"][0]["id"]}));
    }
    let message = json!({"role": "user", "content": "[[text]]"});
    id_of(&house, &asks(json!([named[0], message]))).await;
    let refused = house.operator.post("/v1/responses", &asks(json!([named[0], named[1], message])).to_string()).await;
    assert_eq!(refused.refusal(), "400 invalid_value");
    assert_eq!(refused.json()["error"]["message"], "`input` names items of 2 responses; 1 at most can be");
    house.stop().await;
}

#[tokio::test]
async fn so_much_of_what_is_only_named_is_read() {
    let house = house(ResponseLimits { references_bytes_max: 1, ..ResponseLimits::default() }).await;
    let answer = house.operator.post("/v1/responses", &asks("[[text]]").to_string()).await.json();
    let named = json!({"type": "item_reference", "id": answer["output"][0]["id"]});
    let refused = house.operator.post("/v1/responses", &asks(json!([named])).to_string()).await;
    assert_eq!(refused.refusal(), "400 invalid_value");
    house.stop().await;
}
