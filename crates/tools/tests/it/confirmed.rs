//! A call that waits for its confirmation while its server comes to an end.

use approvals::{By, DecideError, Verdict};
use serde_json::json;
use tools::{Caller, ServerState};

use crate::house::{PATIENCE, runs, server, text};
use crate::killed::kill;
use crate::meetings::{sent, until};
use crate::office::office;

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_confirmed_after_its_server_was_killed_is_made_once_by_the_next_one() {
    for name in ["legacy", "modern"] {
        let office = office(vec![server("g", name)]).await;
        let (house, caller) = (&office.house, Caller::new("k", "t"));
        let deciding = async {
            let asked = office.wanted().await;
            assert!(sent(house, "tools/call").is_empty());
            let pid = house.view("g").pid.unwrap();
            kill(pid);
            house.until("g", |view| view.state == ServerState::Ready && view.pid != Some(pid)).await;
            office.settle(&asked, Verdict::Allow).await;
        };
        let call = house.host.call(&caller, "g__delete", json!({ "path": "/x" }));
        let both = async { tokio::join!(call, deciding) };
        let (result, ()) = tokio::time::timeout(PATIENCE, both).await.expect("it has an end");
        assert_eq!(text(&result.unwrap()), "deleted /x");
        assert_eq!(sent(house, "tools/call").len(), 1);
        assert_eq!(house.called(), ["g delete succeeded"]);
        house.host.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_confirmed_after_its_server_was_taken_away_is_refused() {
    let office = office(vec![server("g", "dual"), server("other", "dual")]).await;
    let (house, caller) = (&office.house, Caller::new("k", "t"));
    let deciding = async {
        let asked = office.wanted().await;
        let pid = house.view("g").pid.unwrap();
        house.host.apply(vec![server("other", "dual")]);
        until("it is gone", async || (!runs(pid)).then_some(())).await;
        // The call withdraws its approval when it learns that its server is gone: before or after this.
        if let Err(late) = office.try_settle(&asked, Verdict::Allow).await {
            assert!(matches!(late, DecideError::AlreadyDecided { by: By::Withdrawn { .. }, .. }), "{late}");
        }
    };
    let call = house.host.call(&caller, "g__delete", json!({ "path": "/x" }));
    let both = async { tokio::join!(call, deciding) };
    let (result, ()) = tokio::time::timeout(PATIENCE, both).await.expect("it has an end");
    let result = result.unwrap();
    assert_eq!(result["isError"], true, "{result}");
    assert_eq!(result["_meta"]["switchboard/failure"]["work_may_have_run"], false, "{result}");
    assert!(text(&result).contains("not there"), "{result}");
    assert_eq!(house.called(), ["g delete refused"]);
    house.host.stop().await;
}
