//! What survives the end of Switchboard: pending approvals are claimed by the same request, decided ones answer it, and
//! the rest is orphaned.

use std::time::Duration;

use approvals::{By, Filter, Settings, Verdict, Wanted, Withdrawal};
use expect_test::expect;
use store::{ApprovalState, Change};

use crate::support::{Place, command, soon};

#[tokio::test]
async fn a_request_that_comes_again_claims_its_approval() {
    let place = Place::new(Settings::default()).await;
    let wanted = Wanted { changes: Some("+x".into()), ..command(1, &["touch", "x"]) };
    let id = place.ask(wanted).await.id().to_owned();
    let before = place.view(&id).await;

    let mut place = place.restarted(Settings::default()).await;
    assert_eq!(place.view(&id).await, before);
    let ticket = place.ask(command(1, &["touch", "x"])).await;
    assert_eq!(ticket.id(), id);
    assert!(matches!(place.notice().await, approvals::Notice::ApprovalWanted { .. }), "it was not shown again");
    assert_eq!(place.view(&id).await, before, "its deadline or its hash has changed");
    soon(place.approvals.orphan_unclaimed("main", "main-0")).await;
    place.decide(&id, Verdict::Allow).await;
    assert_eq!(soon(ticket.decided()).await.verdict, Verdict::Allow);
    expect![[r#"
        asked by main-0: item/commandExecution/requestApproval
        repeated by main-0
        decided by person ada: allow
    "#]]
    .assert_eq(&place.history(&id).await);
}

#[tokio::test]
async fn one_that_was_decided_meanwhile_is_answered_as_it_was_decided() {
    let place = Place::new(Settings::default()).await;
    let id = place.ask(command(1, &["touch", "x"])).await.id().to_owned();
    let place = place.restarted(Settings::default()).await;
    place.decide(&id, Verdict::deny("changed my mind")).await;
    let ticket = place.ask(command(1, &["touch", "x"])).await;
    assert_eq!(ticket.id(), id);
    assert_eq!(soon(ticket.decided()).await.verdict, Verdict::deny("changed my mind"));
}

#[tokio::test]
async fn a_decision_that_the_worker_never_heard_of_is_repeated_after_a_restart() {
    let place = Place::new(Settings::default()).await;
    let id = place.ask(command(1, &["touch", "x"])).await.id().to_owned();
    place.decide(&id, Verdict::Allow).await;
    let place = place.restarted(Settings::default()).await;
    let ticket = place.ask(command(1, &["touch", "x"])).await;
    assert_eq!((ticket.id(), soon(ticket.decided()).await.verdict), (id.as_str(), Verdict::Allow));
}

#[tokio::test]
async fn a_request_that_is_not_quite_the_same_claims_nothing() {
    let place = Place::new(Settings::default()).await;
    let id = place.ask(command(1, &["touch", "x"])).await.id().to_owned();
    let place = place.restarted(Settings::default()).await;
    place.decide(&id, Verdict::Allow).await;
    let mut elsewhere = command(1, &["touch", "x"]);
    elsewhere.origin.thread = "th-2".into();
    for other in [command(1, &["rm", "x"]), command(2, &["touch", "x"]), elsewhere] {
        let ticket = place.ask(other).await;
        assert_ne!(ticket.id(), id);
        assert_eq!(place.view(ticket.id()).await.state, ApprovalState::Pending);
    }
}

#[tokio::test]
async fn what_nobody_claims_is_orphaned_and_of_other_workers_nothing() {
    let place = Place::new(Settings::default()).await;
    let mut elsewhere = command(2, &["touch", "y"]);
    elsewhere.origin.worker = "main-1".into();
    let (lost, other) = (place.ask(command(1, &["touch", "x"])).await, place.ask(elsewhere).await);
    let (lost, other) = (lost.id().to_owned(), other.id().to_owned());
    let place = place.restarted(Settings::default()).await;
    soon(place.approvals.orphan_unclaimed("main", "main-0")).await;
    let orphan = place.view(&lost).await;
    assert_eq!(orphan.state, ApprovalState::Orphaned);
    assert_eq!(orphan.decided.unwrap().by, By::Withdrawn { why: Withdrawal::WorkerGone });
    assert_eq!(place.view(&other).await.state, ApprovalState::Pending);
    let next = place.ask(command(1, &["touch", "x"])).await;
    assert_ne!(next.id(), lost);
}

#[tokio::test]
async fn a_deadline_that_passed_meanwhile_denies() {
    let place = Place::new(Settings::default()).await;
    let wanted = || Wanted { timeout: Some(Duration::from_millis(100)), ..command(1, &["touch", "x"]) };
    let id = place.ask(wanted()).await.id().to_owned();
    // As if the process had been killed before its deadline: nobody is there to write the denial.
    let place = place.restarted(Settings::default()).await;
    let ticket = place.ask(wanted()).await;
    assert_eq!(ticket.id(), id);
    assert_eq!(soon(ticket.decided()).await.by, By::Deadline);
    assert_eq!(place.view(&id).await.state, ApprovalState::Expired);
}

#[tokio::test]
async fn every_restart_lists_what_is_pending() {
    let mut place = Place::new(Settings::default()).await;
    for number in 1..=5 {
        place.ask(command(number, &["touch", "x"])).await;
        place = place.restarted(Settings::default()).await;
        let pending = Filter { state: Some(ApprovalState::Pending), ..Filter::default() };
        assert_eq!(place.approvals.list(pending).await.unwrap().len(), number as usize);
    }
}

#[tokio::test]
async fn what_this_version_cannot_show_is_orphaned_and_counts_no_more() {
    let place = Place::new(Settings::default()).await;
    let id = place.ask(command(1, &["touch", "x"])).await.id().to_owned();
    let read = id.clone();
    let row = place.store.read(move |reader| reader.approval(&read)).await.unwrap().unwrap();
    let strange = store::Approval { id: "strange".into(), params: r#"{"from":"another version"}"#.into(), ..row };
    place.store.commit(vec![Change::Approval(strange)]).await.unwrap();
    let place = place.restarted(Settings::default()).await;
    assert_eq!(place.approvals.pending(), 1);
    expect![[r#"
        unreadable by open: this version cannot show what another one wrote
        decided by withdrawn: its worker is gone: cancel
    "#]]
    .assert_eq(&place.history("strange").await);
    let strange = place.store.read(|reader| reader.approval("strange")).await.unwrap().unwrap();
    assert_eq!(strange.state, ApprovalState::Orphaned);
    assert_eq!(place.view(&id).await.state, ApprovalState::Pending);
}
