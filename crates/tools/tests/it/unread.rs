//! A server that lives and reads nothing: nobody waits for it for ever, and it is started again.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tools::{Server, ServerState, Timeouts};

use crate::hostile::script;
use crate::house::{House, server, text};

const CALLS: usize = 80;
/// More than a pipe holds.
const ARGUMENT_BYTES: usize = 256 << 10;
/// They take a second or two; this is for a machine that is busy.
const ROUND_MAX: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_a_server_that_no_longer_reads_all_end_and_it_is_started_again() {
    let timeouts = Timeouts { call: Duration::from_secs(1), ..Timeouts::default() };
    let deaf = Server { timeouts, ..script("while :; do sleep 1; done") };
    let house = House::ready(vec![deaf, server("other", "dual")]).await;
    // This one it reads, and then no more.
    tokio::time::timeout(ROUND_MAX, house.call("g__t", json!({}))).await.expect("it ends");
    assert_eq!(house.called(), ["g t timed_out"]);
    let large = "x".repeat(ARGUMENT_BYTES);
    let pid = house.view("g").pid;
    let calls = join_all((0..CALLS).map(|_| house.call("g__t", json!({ "text": large }))));
    let others = async {
        for number in 0..20 {
            let sent = number.to_string();
            assert_eq!(text(&house.call("other__echo", json!({ "text": sent })).await), sent);
        }
    };
    let both = async { tokio::join!(calls, others) };
    let (results, ()) = tokio::time::timeout(ROUND_MAX, both).await.expect("all of them end");
    for result in &results {
        let kind = result["_meta"]["switchboard/failure"]["kind"].as_str();
        assert!(matches!(kind, Some("timed_out" | "not_sent" | "server_gone")), "{result}");
    }
    assert_eq!(house.called().iter().filter(|call| call.starts_with("g t ")).count(), 1 + CALLS);
    let again = house.until("g", |view| view.state == ServerState::Ready && view.pid != pid).await;
    assert!(again.last_end.as_deref().unwrap().contains("read nothing"), "{again:?}");
    house.host.stop().await;
}
