//! Thirteen servers, thirty-two callers: everybody gets their own answer.

use serde_json::json;

use crate::house::{Can, House, Lifecycle, server, words};

#[tokio::test(flavor = "multi_thread")]
async fn no_answer_goes_to_another_caller() {
    let house = House::ready(vec![server("one", "legacy"), server("two", "modern")]).await;
    let mut callers = Vec::new();
    for number in 0..8 {
        let lifecycle = if number % 2 == 0 { Lifecycle::Legacy } else { Lifecycle::Modern };
        callers.push(house.caller(lifecycle, Can::Nothing).await);
    }
    let each = callers.iter().enumerate().map(|(number, caller)| async move {
        for round in 0..25 {
            let (server, sent) = (if round % 2 == 0 { "one" } else { "two" }, format!("{number}-{round}"));
            let result = caller.call(&format!("{server}__echo"), json!({ "text": sent })).await;
            assert_eq!(words(&result), sent);
        }
    });
    futures_util::future::join_all(each).await;
    house.host.stop().await;
}
