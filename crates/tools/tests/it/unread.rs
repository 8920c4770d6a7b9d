//! A server that lives and reads nothing: nobody waits for it for ever, and it is started again.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tools::{Server, ServerState, Timeouts};

use crate::hostile::script;
use crate::house::{House, PATIENCE, server, text};

const CALLS: usize = 80;
/// More than a pipe holds.
const ARGUMENT_BYTES: usize = 256 << 10;

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_a_server_that_no_longer_reads_all_end_and_it_is_started_again() {
    let timeouts = Timeouts { call: Duration::from_secs(1), ..Timeouts::default() };
    let deaf = Server { timeouts, ..script("while :; do sleep 1; done") };
    let house = House::ready(vec![deaf, server("other", "dual")]).await;
    // This one it reads, and then no more.
    tokio::time::timeout(PATIENCE, house.call("g__t", json!({}))).await.expect("it ends");
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
    let (results, ()) = tokio::time::timeout(PATIENCE, both).await.expect("all of them end");
    for result in &results {
        let kind = result["_meta"]["switchboard/failure"]["kind"].as_str();
        assert!(matches!(kind, Some("timed_out" | "not_sent" | "server_gone")), "{result}");
    }
    assert_eq!(house.called().iter().filter(|call| call.starts_with("g t ")).count(), 1 + CALLS);
    let again = house.until("g", |view| view.state == ServerState::Ready && view.pid != pid).await;
    assert!(again.last_end.as_deref().unwrap().contains("read nothing"), "{again:?}");
    house.host.stop().await;
}

/// One that does one thing after the other reads nothing meanwhile, and is as it should be.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_at_work_may_leave_unread_what_it_is_told() {
    // Steps of a quarter of a second, for longer than a call may take without a sign.
    let works = r#"case $line in *'"work"'*)
            for step in 1 2 3 4 5 6 7 8 9 10 11 12; do
                sleep 0.25
                echo '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":'$id',"progress":'$step'}}'
            done;; esac
        echo '{"jsonrpc":"2.0","id":'$id',"result":{"content":[{"type":"text","text":"done"}]}}'"#;
    let timeouts = Timeouts { call: Duration::from_secs(2), ..Timeouts::default() };
    let house = House::ready(vec![Server { timeouts, ..script(works) }]).await;
    let pid = house.view("g").pid;
    let work = house.call("g__t", json!({ "work": true }));
    let meanwhile = async {
        let is_call = |frame: &tools::Frame| frame.text.contains("tools/call");
        house.until("g", |_| house.host.frames("g").unwrap().frames.iter().any(is_call)).await;
        let large = "x".repeat(ARGUMENT_BYTES);
        join_all((0..16).map(|_| house.call("g__t", json!({ "text": large })))).await
    };
    let (worked, _) = tokio::join!(work, meanwhile);
    assert_eq!(text(&worked), "done", "{worked}");
    assert_eq!(house.view("g").pid, pid, "{:?}", house.view("g").last_end);
    house.host.stop().await;
}
