//! One call: its arguments are judged, its result is cut, what needs a confirmation waits, and all of it is written down.

use approvals::{Filter, Verdict};
use serde_json::json;
use store::{ToolCallFilter, ToolCallOutcome};
use tools::{Caller, Dialect, Server};

use crate::house::{Can, House, Lifecycle, PATIENCE, server, text, words};
use crate::meetings::{sent, until};
use crate::office::office;

#[tokio::test]
async fn wrong_arguments_are_named_by_their_path_and_never_sent() {
    let house = House::ready(vec![server("g", "dual")]).await;
    let result = house.call("g__add", json!({ "a": 1, "b": "two" })).await;
    assert_eq!(result["isError"], true);
    assert!(text(&result).contains("`$.b`"), "{result}");
    assert_eq!(result["_meta"]["switchboard/failure"]["work_may_have_run"], false);
    let frames = house.host.frames("g").unwrap().frames;
    assert!(frames.iter().all(|frame| !frame.text.contains("tools/call")));
    assert_eq!(house.called(), ["g add refused"]);
}

#[tokio::test]
async fn null_counts_as_left_out_where_that_is_allowed() {
    let house = House::ready(vec![server("g", "dual")]).await;
    let result = house.call("g__echo", json!({ "text": "x", "unknown": null })).await;
    assert_eq!(text(&result), "x");
    let result = house.call("g__echo", json!({ "text": null })).await;
    assert!(text(&result).contains("`$.text`"), "{result}");
}

#[tokio::test]
async fn a_tool_that_nobody_has_is_an_error() {
    let house = House::ready(vec![server("g", "dual")]).await;
    let error = house.host.call(&Caller::new("k", "t"), "g__nothing", json!({})).await.unwrap_err();
    assert!(error.message.contains("g__nothing"));
}

#[tokio::test]
async fn a_long_result_is_cut_with_a_note() {
    let small = Server { result_bytes_max: 2000, ..server("g", "dual") };
    let house = House::ready(vec![small]).await;
    let result = house.call("g__big", json!({ "bytes": 100_000 })).await;
    assert!(result.to_string().len() < 3000);
    let note = result["content"].as_array().unwrap().last().unwrap()["text"].as_str().unwrap();
    assert!(note.contains("result_bytes_max") && note.contains("2000"), "{note}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_destructive_tool_waits_for_a_decision_and_runs_only_if_it_is_allowed() {
    for lifecycle in [Lifecycle::Legacy, Lifecycle::Modern] {
        let office = office(vec![server("g", "dual")]).await;
        let caller = office.house.caller(lifecycle, Can::Nothing).await;
        let (result, ()) =
            tokio::join!(caller.call("g__delete", json!({ "path": "/x" })), office.decide(Verdict::deny("not today")));
        assert_eq!(result.is_error, Some(true));
        assert!(words(&result).contains("not today"), "{result:?}");
        let (result, ()) =
            tokio::join!(caller.call("g__delete", json!({ "path": "/x" })), office.decide(Verdict::Allow));
        assert_ne!(result.is_error, Some(true), "{result:?}");
        office.house.host.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_of_a_server_that_is_gone_is_taken_back() {
    let office = office(vec![server("g", "legacy")]).await;
    let asked = Filter { state: Some(store::ApprovalState::Pending), ..Filter::default() };
    let pending = async || office.approvals.list(asked.clone()).await.unwrap().len();
    let caller = Caller::new("k", "t");
    let ending = async {
        until("it is asked", async || (pending().await > 0).then_some(())).await;
        assert!(office.house.host.restart("g"));
        until("it is taken back", async || (pending().await == 0).then_some(())).await;
    };
    let both = async { tokio::join!(office.house.host.call(&caller, "g__ask", json!({})), ending) };
    let (result, ()) = tokio::time::timeout(PATIENCE, both).await.unwrap();
    assert_eq!(result.unwrap()["_meta"]["switchboard/failure"]["work_may_have_run"], true);
    office.house.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_confirmation_that_nobody_waits_for_any_more_is_taken_back() {
    let office = office(vec![server("g", "dual")]).await;
    let asked = Filter { state: Some(store::ApprovalState::Pending), ..Filter::default() };
    let pending = async || office.approvals.list(asked.clone()).await.unwrap().len();
    let caller = Caller::new("k", "t");
    tokio::select! {
        result = office.house.host.call(&caller, "g__delete", json!({ "path": "/x" })) => panic!("nobody has decided: {result:?}"),
        () = until("it is asked", async || (pending().await > 0).then_some(())) => {}
    }
    until("it is taken back", async || (pending().await == 0).then_some(())).await;
    assert_eq!(office.house.called(), ["g delete cancelled"]);
}

#[tokio::test]
async fn without_anybody_to_confirm_it_is_refused() {
    let house = House::ready(vec![server("g", "dual")]).await;
    let result = house.call("g__delete", json!({ "path": "/x" })).await;
    assert!(text(&result).contains("needs a confirmation"), "{result}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_no_caller_can_answer_waits_for_a_person() {
    let office = office(vec![server("g", "legacy")]).await;
    let caller = office.house.caller(Lifecycle::Legacy, Can::Nothing).await;
    let answer = Verdict::Answer(json!({ "name": "grace" }));
    let (result, ()) = tokio::join!(caller.call("g__ask", json!({})), office.decide(answer));
    assert!(words(&result).contains("grace"), "{result:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_confirmation_flags_of_localcowork_are_honoured() {
    for (name, plain, flagged) in [
        ("localcowork-python", "security.scan_for_pii", "security.encrypt_file"),
        ("localcowork-typescript", "filesystem.read_file", "filesystem.delete_file"),
    ] {
        let theirs = Server { dialect: Dialect::LocalCowork, ..server("g", name) };
        let office = office(vec![theirs]).await;
        let (house, path) = (&office.house, json!({ "path": "/x" }));
        let offered = [plain, flagged].map(|own| format!("g__{}", own.replace('.', "_")));
        let called =
            |tool: &str| sent(house, "tools/call").iter().filter(|call| call["params"]["name"] == tool).count();
        tokio::select! {
            result = house.call(&offered[0], path.clone()) => assert!(text(&result).contains("/x"), "{result}"),
            asked = office.wanted() => panic!("nobody has to confirm this: {asked:?}"),
        }
        assert_eq!(called(plain), 1);
        let denied = async {
            let asked = office.wanted().await;
            assert_eq!(asked.params["tool"], flagged, "{asked:?}");
            assert_eq!(called(flagged), 0, "it waits");
            office.settle(&asked, Verdict::deny("not today")).await;
        };
        let (result, ()) = tokio::join!(house.call(&offered[1], path.clone()), denied);
        assert!(text(&result).contains("not today"), "{result}");
        assert_eq!(called(flagged), 0);
        let (result, ()) = tokio::join!(house.call(&offered[1], path), office.decide(Verdict::Allow));
        assert!(text(&result).contains("/x"), "{result}");
        assert_eq!(called(flagged), 1);
        house.host.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_is_written_down_once() {
    let office = office(vec![server("g", "dual")]).await;
    office.house.call("g__echo", json!({ "text": "x" })).await;
    office.house.call("g__fail", json!({})).await;
    office.house.call("g__add", json!({})).await;
    office.house.call("g__exit", json!({ "code": 3 })).await;
    office.store.flush().await.unwrap();
    let calls = office.store.read(|reader| reader.tool_calls(&ToolCallFilter::default())).await.unwrap();
    let mut told: Vec<_> = calls.iter().map(|call| (call.tool.as_str(), call.outcome)).collect();
    told.reverse();
    assert_eq!(
        told,
        [
            ("echo", ToolCallOutcome::Succeeded),
            ("fail", ToolCallOutcome::Failed),
            ("add", ToolCallOutcome::Refused),
            ("exit", ToolCallOutcome::Lost)
        ]
    );
    assert!(calls.iter().all(|call| call.key == "key" && call.server == "g"));
}
