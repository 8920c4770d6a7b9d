//! Thirteen servers, thirty-two callers: everybody gets their own answer.

use serde_json::json;

use crate::house::{Can, House, Lifecycle, server, words};

const SERVERS: usize = 13;
const CALLERS: usize = 32;

#[tokio::test(flavor = "multi_thread")]
async fn no_answer_goes_to_another_caller() {
    let eras = ["legacy", "modern", "dual"].iter().cycle();
    let servers = eras.take(SERVERS).enumerate().map(|(number, era)| server(&format!("s{number}"), era)).collect();
    let house = House::ready(servers).await;
    let mut callers = Vec::new();
    for number in 0..CALLERS {
        let lifecycle = if number % 2 == 0 { Lifecycle::Legacy } else { Lifecycle::Modern };
        callers.push(house.caller(lifecycle, Can::Nothing).await);
    }
    let each = callers.iter().enumerate().map(|(number, caller)| async move {
        for round in 0..2 * SERVERS {
            // Each begins with another server.
            let (server, sent) = ((number + round) % SERVERS, format!("{number}-{round}"));
            let result = caller.call(&format!("s{server}__echo"), json!({ "text": sent })).await;
            assert_eq!(words(&result), sent);
        }
    });
    futures_util::future::join_all(each).await;
    assert_eq!(house.called().len(), CALLERS * 2 * SERVERS);
    house.host.stop().await;
}
