//! What each limit of the host holds back, and that the rest goes on.

use serde_json::json;
use tools::{Limits, Plan, ServerState, ServerView, Speaker};

use crate::house::{Can, House, Lifecycle, plan, server, text};
use crate::killed::kill;

fn limited(name: &str, limits: Limits) -> House {
    House::of(Plan { limits, ..plan(vec![server("g", name)]) })
}

/// Waits until the server has said all that it offers, be it too much or not.
async fn listed(house: &House) -> ServerView {
    house.until("g", |view| view.state.is_usable()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_list_that_is_too_long_the_beginning_is_offered() {
    for name in ["legacy", "modern"] {
        // The legacy one lists two tools a page: the third is cut out of the second one.
        let house = limited(name, Limits { listed_max: 3, ..Limits::default() });
        let view = listed(&house).await;
        assert_eq!(view.tools, ["g__echo", "g__add", "g__fail"]);
        assert_eq!((view.resources, view.prompts), (3, 1), "each list has its own room");
        assert_eq!(text(&house.call("g__echo", json!({ "text": "x" })).await), "x");
        let caller = house.caller(Lifecycle::Legacy, Can::Nothing).await;
        assert_eq!(caller.client.list_all_tools().await.unwrap().len(), 3);
        house.host.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_lists_that_are_too_large_the_beginning_is_offered() {
    for name in ["legacy", "modern"] {
        let house = limited(name, Limits { listed_bytes_max: 1000, ..Limits::default() });
        let view = listed(&house).await;
        assert!((1..8).contains(&view.tools.len()), "{view:?}");
        assert_eq!(view.tools[0], "g__echo");
        assert_eq!(text(&house.call("g__echo", json!({ "text": "x" })).await), "x");
        house.host.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_comes_to_callers_in_pages_that_hold_all_of_it_once() {
    let house = limited("dual", Limits { page_max: 5, ..Limits::default() });
    let offered = house.until_ready("g").await.tools;
    for lifecycle in [Lifecycle::Legacy, Lifecycle::Modern] {
        let caller = house.caller(lifecycle, Can::Nothing).await;
        let (mut pages, mut cursor) = (Vec::new(), None);
        loop {
            let params = rmcp::model::PaginatedRequestParams::default().with_cursor(cursor);
            let page = caller.client.list_tools(Some(params)).await.unwrap();
            pages.push(page.tools.into_iter().map(|tool| tool.name.into_owned()).collect::<Vec<_>>());
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [5, 5, 5, 1]);
        assert_eq!(pages.concat(), offered);
    }
    house.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_above_the_limit_waits_for_its_turn_and_then_runs() {
    for name in ["legacy", "modern"] {
        let house = limited(name, Limits { calls_max: 1, ..Limits::default() });
        house.until_ready("g").await;
        let first = house.call("g__sleep", json!({ "ms": 300 }));
        let (first, second) = tokio::join!(first, house.call("g__echo", json!({ "text": "after" })));
        assert_eq!((text(&first), text(&second)), ("slept 300 ms", "after"));
        let frames = house.host.frames("g").unwrap().frames;
        let place = |speaker, word: &str| {
            frames.iter().position(|frame| frame.from == speaker && frame.text.contains(word)).unwrap()
        };
        assert!(place(Speaker::Us, "after") > place(Speaker::Server, "slept"), "the first has ended: {frames:?}");
        house.host.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_to_be_started_again_stays_failed_until_somebody_asks() {
    let mortal = tools::Server { restart: tools::Restart::Never, ..server("mortal", "dual") };
    let house = House::ready(vec![mortal, server("other", "dual")]).await;
    for restarts in 0..2 {
        let pids = ["mortal", "other"].map(|name| house.view(name).pid.unwrap());
        pids.into_iter().for_each(kill);
        let view = house.until("mortal", |view| view.state != ServerState::Ready).await;
        assert_eq!((view.state, view.restarts), (ServerState::Failed, restarts), "{view:?}");
        assert!(view.reason.unwrap().contains("SIGKILL"));
        house.until("other", |view| view.state == ServerState::Ready && view.pid != Some(pids[1])).await;
        let view = house.view("mortal");
        assert_eq!((view.state, view.pid), (ServerState::Failed, None), "another of that age is back: {view:?}");
        let result = house.call("mortal__echo", json!({ "text": "x" })).await;
        let nobody = json!({ "kind": "not_sent", "work_may_have_run": false });
        assert_eq!(result["_meta"]["switchboard/failure"], nobody, "{result}");
        assert!(house.host.restart("mortal"));
        house.until_ready("mortal").await;
        assert_eq!(text(&house.call("mortal__echo", json!({ "text": "back" })).await), "back");
    }
    house.host.stop().await;
}
