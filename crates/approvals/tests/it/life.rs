//! From the request to its decision: rules, people, deadline, withdrawal, and a store without room.

use std::time::Duration;

use approvals::{
    By, DecideError, Filter, Kind, Notice, Person, Powers, Refused, Rule, Rules, Settings, Then, Verdict, Wanted,
    Withdrawal,
};
use expect_test::expect;
use serde_json::json;
use store::{ApprovalState, Health};

use crate::support::{Place, ada, command, request, soon};

#[tokio::test]
async fn a_person_decides_what_was_shown_and_everybody_hears_of_it() {
    let mut place = Place::new(Settings::default()).await;
    let ticket = place.ask(command(1, &["touch", "\u{200b}x"])).await;
    let Notice::ApprovalWanted { approval } = place.notice().await else {
        panic!("it was not announced");
    };
    assert_eq!((approval.id.as_str(), approval.state), (ticket.id(), ApprovalState::Pending));
    assert_eq!(place.view(ticket.id()).await, *approval, "it was shown before it was durable");
    assert_eq!(approval.command.as_deref(), Some(&["touch".to_owned(), "<U+200B>x".into()][..]));
    let decided = place.decide(ticket.id(), Verdict::deny("not now")).await;
    assert_eq!(soon(ticket.decided()).await, decided);
    let Notice::ApprovalDecided { approval } = place.notice().await else {
        panic!("its end was not announced");
    };
    assert_eq!(approval.state, ApprovalState::Denied);
    let seen = approval.decided.clone().unwrap();
    assert_eq!((seen.verdict, seen.reason.as_deref()), ("deny", Some("not now")));
    assert_eq!(place.view(ticket.id()).await, *approval);
    expect![[r#"
        asked by main-0: item/commandExecution/requestApproval
        decided by person ada: deny: not now
    "#]]
    .assert_eq(&place.history(ticket.id()).await);
}

#[tokio::test]
async fn a_rule_decides_without_anybody() {
    let rule = |words: &[&str], then| Rule {
        command: words.iter().map(|word| (*word).into()).collect(),
        then,
        ..Rule::default()
    };
    let rules = Rules::new(vec![rule(&["git", "push"], Then::Deny), rule(&["git"], Then::Allow)]).unwrap();
    let mut place = Place::new(Settings { rules, ..Settings::default() }).await;
    let allowed = place.ask(command(1, &["/bin/bash", "-lc", "git status"])).await;
    let decided = soon(allowed.decided()).await;
    assert_eq!((decided.verdict, decided.by), (Verdict::Allow, By::Rule { number: 2 }));
    assert!(matches!(place.notice().await, Notice::ApprovalDecided { .. }));
    let denied = place.ask(command(2, &["git", "push"])).await;
    let reason = "rule 1 of the configuration forbids it";
    assert_eq!(soon(denied.decided()).await.verdict, Verdict::deny(reason));
    expect![[r#"
        asked by main-0: item/commandExecution/requestApproval
        decided by rule 1: deny: rule 1 of the configuration forbids it
    "#]]
    .assert_eq(&place.history(denied.id()).await);
}

#[tokio::test]
async fn what_nobody_decides_in_time_is_denied() {
    let place = Place::new(Settings::default()).await;
    let wanted = command(1, &["touch", "x"]);
    let ticket = place.ask(approvals::Wanted { timeout: Some(Duration::from_millis(50)), ..wanted }).await;
    let decided = soon(ticket.decided()).await;
    assert_eq!((decided.verdict, decided.by), (Verdict::deny("nobody decided in time"), By::Deadline));
    assert_eq!(place.view(ticket.id()).await.state, ApprovalState::Expired);
    let hash = place.view(ticket.id()).await.shown_hash;
    let late = place.approvals.decide(ticket.id(), &hash, Verdict::Allow, ada());
    assert!(matches!(soon(late).await, Err(DecideError::AlreadyDecided { by: By::Deadline, .. })));
}

#[tokio::test]
async fn only_what_is_offered_and_allowed_to_this_person_counts() {
    let place = Place::new(Settings::default()).await;
    let ticket = place.ask(command(1, &["touch", "x"])).await;
    let hash = place.view(ticket.id()).await.shown_hash;
    let powers = Powers { operator: true, ..Powers::default() };
    let guest = || Person { name: "guest".into(), key: Some("key-1".into()), powers };
    let refusal = async |hash: &str, verdict, person| {
        soon(place.approvals.decide(ticket.id(), hash, verdict, person)).await.unwrap_err().to_string()
    };
    let refusals = [
        refusal("0000", Verdict::Allow, ada()).await,
        refusal(&hash, Verdict::Answer(json!({})), ada()).await,
        refusal(&hash, Verdict::AllowWithAmendment(vec!["touch".into()]), ada()).await,
        refusal(&hash, Verdict::AllowForSession, guest()).await,
        refusal(&hash, Verdict::Allow, guest()).await,
    ];
    expect![[r#"
        this is not what was shown: look at it again, and decide with its `shown_hash`
        the request does not offer `answer`: choose one of its `offers`
        the request does not offer `allow_with_amendment`: choose one of its `offers`
        this decision needs the scope `approvals:session`
        this decision needs the scope `approvals:own`"#]]
    .assert_eq(&refusals.join("\n"));
    let unknown = soon(place.approvals.decide("nothing", &hash, Verdict::Allow, ada())).await;
    assert_eq!(unknown, Err(DecideError::NotFound));
    soon(place.approvals.decide(ticket.id(), &hash, Verdict::deny("mine to deny"), guest())).await.unwrap();
    assert_eq!(place.history(ticket.id()).await.matches("refused by").count(), 5);
}

#[tokio::test]
async fn one_grant_for_the_session_clears_queued_equals() {
    let place = Place::new(Settings::default()).await;
    let first = place.ask(command(1, &["touch", "x"])).await;
    let equal = place.ask(command(2, &["touch", "x"])).await;
    let other = place.ask(command(3, &["touch", "y"])).await;
    place.decide(first.id(), Verdict::AllowForSession).await;
    let cleared = soon(equal.decided()).await;
    assert_eq!((cleared.verdict, cleared.by), (Verdict::Allow, By::Grant { approval: first.id().into() }));
    assert_eq!(place.view(other.id()).await.state, ApprovalState::Pending);
}

#[tokio::test]
async fn what_is_withdrawn_is_never_allowed() {
    let place = Place::new(Settings::default()).await;
    for (number, why, state) in [
        (1, Withdrawal::ResolvedElsewhere, ApprovalState::Resolved),
        (2, Withdrawal::TurnOver, ApprovalState::Resolved),
        (3, Withdrawal::WorkerGone, ApprovalState::Orphaned),
    ] {
        let ticket = place.ask(command(number, &["touch", "x"])).await;
        soon(place.approvals.withdraw(ticket.id(), why)).await;
        assert_eq!(soon(ticket.decided()).await.by, By::Withdrawn { why });
        assert_eq!(place.view(ticket.id()).await.state, state);
    }
    soon(place.approvals.withdraw("nothing", Withdrawal::TurnOver)).await;
}

#[tokio::test]
async fn the_same_request_has_the_same_approval() {
    let place = Place::new(Settings::default()).await;
    let first = place.ask(command(1, &["touch", "x"])).await;
    let again = place.ask(command(1, &["touch", "x"])).await;
    assert_eq!(first.id(), again.id());
    place.decide(first.id(), Verdict::Allow).await;
    assert_eq!(soon(first.decided()).await, soon(again.decided()).await);
    let after = place.ask(command(1, &["touch", "x"])).await;
    assert_eq!((after.id(), soon(after.decided()).await.verdict), (first.id(), Verdict::Allow));
}

#[tokio::test]
async fn an_old_decision_is_never_repeated_to_a_new_process() {
    let place = Place::new(Settings::default()).await;
    let first = place.ask(command(1, &["touch", "x"])).await;
    place.decide(first.id(), Verdict::Allow).await;
    soon(place.approvals.orphan_unclaimed("main", "main-0")).await;
    let next = place.ask(command(1, &["touch", "x"])).await;
    assert_ne!(next.id(), first.id());
    assert_eq!(place.view(next.id()).await.state, ApprovalState::Pending);
}

#[tokio::test]
async fn a_question_is_answered_with_content_that_nobody_else_sees() {
    let mut place = Place::new(Settings::default()).await;
    let ticket = place.ask(request(Kind::UserInput, r#"{"questions":[]}"#)).await;
    let answer = json!({"answers": {"q": {"answers": ["canary"]}}});
    place.decide(ticket.id(), Verdict::Answer(answer.clone())).await;
    assert_eq!(soon(ticket.decided()).await.verdict, Verdict::Answer(answer));
    let notices = [place.notice().await, place.notice().await];
    assert!(!serde_json::to_string(&notices).unwrap().contains("canary"));
    assert!(!serde_json::to_string(&place.view(ticket.id()).await).unwrap().contains("canary"));
    assert!(!place.history(ticket.id()).await.contains("canary"));
}

#[tokio::test]
async fn what_only_a_hook_may_answer_is_refused_without_one() {
    let place = Place::new(Settings::default()).await;
    let refused = soon(place.approvals.ask(request(Kind::AuthTokens, "{}"))).await.unwrap_err();
    assert_eq!(refused, Refused::Nobody { kind: "auth_tokens" });
    let unreadable = soon(place.approvals.ask(request(Kind::Command, "{"))).await.unwrap_err();
    assert!(matches!(unreadable, Refused::Unreadable(_)));
    assert!(place.approvals.list(Filter::default()).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_store_without_room_takes_no_request_and_allows_nothing() {
    let limits = store::Limits { pages_max: Some(200), retry_min: Duration::from_millis(10), ..Default::default() };
    let place = Place::limited(Settings::default(), limits).await;
    let kept = place.ask(request(Kind::UserInput, "{}")).await;
    let denied = place.ask(command(2, &["touch", "y"])).await;
    let hash = place.view(kept.id()).await.shown_hash;
    let padding = "x".repeat(50_000);
    let mut number = 3;
    let refused = loop {
        match soon(place.approvals.ask(command(number, &["touch", &padding]))).await {
            Ok(_) => number += 1,
            Err(refused) => break refused,
        }
    };
    assert!(matches!(refused, Refused::Store(_)), "{refused}");
    let large = || "x".repeat(200_000);
    let answer = Verdict::Answer(large().into());
    let allowed = soon(place.approvals.decide(kept.id(), &hash, answer.clone(), ada())).await;
    assert!(matches!(allowed, Err(DecideError::Store(_))), "{allowed:?}");
    place.decide(denied.id(), Verdict::deny(large())).await;
    assert!(!soon(denied.decided()).await.verdict.allows(), "the turn goes on without it");
    assert_eq!(place.view(denied.id()).await.state, ApprovalState::Pending, "it was written after all");
    assert_eq!(place.view(kept.id()).await.state, ApprovalState::Pending);

    place.store.set_pages_max(100_000).await.unwrap();
    soon(place.store.health().wait_for(Health::is_well)).await.unwrap();
    assert_eq!(place.decide(kept.id(), answer.clone()).await.verdict, answer);
    place.store.flush().await.unwrap();
    assert_eq!(place.view(denied.id()).await.state, ApprovalState::Denied);
}

#[tokio::test]
async fn one_key_cannot_take_the_room_of_others() {
    let limits = approvals::Limits { pending_max: 8, ..approvals::Limits::default() };
    let place = Place::new(Settings { limits, ..Settings::default() }).await;
    let of_key = |key: &str, number: u32| Wanted { key: Some(key.into()), ..command(number, &["touch", "x"]) };
    let first = place.ask(of_key("a", 0)).await;
    place.ask(of_key("a", 1)).await;
    let refused = soon(place.approvals.ask(of_key("a", 2))).await.unwrap_err();
    assert_eq!(refused, Refused::TooManyOfKey(2));
    assert_eq!(refused.to_string(), "2 approvals of this key wait already, the most of one key: decide some of them");
    place.ask(of_key("b", 3)).await;
    place.decide(first.id(), Verdict::deny("no")).await;
    place.ask(of_key("a", 4)).await;
}
