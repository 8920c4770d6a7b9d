//! The agent and the caller as adversaries: one reads the store, the other decides with less than an operator's scopes.

use std::fs;

use approvals::{DecideError, Escalation, Kind, LinkError, Person, Powers, Settings, TokenError, Verdict, Wanted};
use serde_json::json;

use crate::support::{Place, command, request, soon};
use crate::webhook::Receiver;

/// A caller who may decide what its own turns ask, and is no operator.
fn tenant() -> Person {
    let powers = Powers { for_session: true, own_turns: true, operator: false };
    Person { name: "tenant".into(), key: Some("key-1".into()), powers }
}

#[tokio::test]
async fn nothing_on_disk_can_be_used_as_a_decision_link() {
    let mut receiver = Receiver::new(&[204]).await;
    let place = Place::new(receiver.settings()).await;
    let ticket = place.ask(command(1, &["touch", "x"])).await;
    let tokens = receiver.tokens().await;
    place.store.flush().await.unwrap();
    let (mut texts, mut files) = (Vec::new(), 0);
    for entry in fs::read_dir(place.directory.path()).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        files += 1;
        let is_hex = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
        for run in bytes.split(|byte| !is_hex(byte)).filter(|run| run.len() >= 64) {
            // Neighbouring columns of hex run together.
            texts.extend(run.windows(64).map(|window| String::from_utf8(window.to_vec()).unwrap()));
        }
    }
    assert!(files > 0 && !texts.is_empty(), "the hashes of the links are found");
    for text in texts {
        assert!(!tokens.contains(&text));
        let refused = soon(place.approvals.decide_by_token(&text)).await.unwrap_err();
        assert_eq!(refused, LinkError::Token(TokenError::Invalid), "{text}");
    }
    let [allow, ..] = tokens;
    soon(place.approvals.decide_by_token(&allow)).await.unwrap();
    assert_eq!(soon(ticket.decided()).await.verdict, Verdict::Allow);
}

#[tokio::test]
async fn what_no_key_is_known_to_have_asked_is_nobody_elses_either() {
    let place = Place::new(Settings::default()).await;
    let ticket = place.ask(Wanted { key: None, ..command(1, &["touch", "x"]) }).await;
    let hash = place.view(ticket.id()).await.shown_hash;
    let operator = |powers| Person { name: "operator".into(), key: Some("key-2".into()), powers };
    let powers = Powers { operator: true, ..Powers::default() };
    let refused = soon(place.approvals.decide(ticket.id(), &hash, Verdict::Allow, operator(powers))).await;
    assert_eq!(refused, Err(DecideError::NotAllowed("approvals:own")));
    let powers = Powers { own_turns: true, ..powers };
    soon(place.approvals.decide(ticket.id(), &hash, Verdict::Allow, operator(powers))).await.unwrap();
    assert_eq!(soon(ticket.decided()).await.verdict, Verdict::Allow);
}

#[tokio::test]
async fn there_are_no_decision_links_without_a_webhook() {
    let mut receiver = Receiver::new(&[204]).await;
    let place = Place::new(receiver.settings()).await;
    assert!(place.approvals.has_links());
    place.ask(command(1, &["touch", "x"])).await;
    let [allow, ..] = receiver.tokens().await;
    let place = place.restarted(Settings::default()).await;
    assert!(!place.approvals.has_links());
    let refused = soon(place.approvals.read_token(&allow)).await.unwrap_err();
    assert_eq!(refused, LinkError::Token(TokenError::Invalid));
    let refused = soon(place.approvals.decide_by_token(&allow)).await.unwrap_err();
    assert_eq!(refused, LinkError::Token(TokenError::Invalid));
}

#[tokio::test]
async fn only_an_operator_allows_an_escalation_even_of_its_own_turn() {
    let place = Place::new(Settings::default()).await;
    let decisions = ["accept", "acceptForSession"];
    let silent =
        json!({"threadId": "th-1", "turnId": "tu-1", "itemId": "i", "command": "touch x", "availableDecisions": decisions})
            .to_string();
    for (number, wanted) in [
        command(1, &["touch", "x"]),
        Wanted { params: silent, ..command(2, &["touch", "x"]) },
        request(Kind::Permissions, r#"{"permissions":{"network":{"enabled":true}}}"#),
        request(Kind::FileChange, r#"{"grantRoot":"/"}"#),
    ]
    .into_iter()
    .enumerate()
    {
        let mut wanted = wanted;
        wanted.origin.request = number.to_string();
        let ticket = place.ask(wanted).await;
        let view = place.view(ticket.id()).await;
        assert_ne!(view.escalation, [], "{view:?}");
        for verdict in [Verdict::Allow, Verdict::AllowForSession] {
            let refused = soon(place.approvals.decide(ticket.id(), &view.shown_hash, verdict, tenant())).await;
            assert_eq!(refused, Err(DecideError::LiftsRestrictions));
        }
        let denied = place.approvals.decide(ticket.id(), &view.shown_hash, Verdict::deny("no"), tenant());
        assert_eq!(soon(denied).await.unwrap().verdict, Verdict::deny("no"));
    }
    let change = place.ask(request(Kind::FileChange, r#"{"reason":null,"grantRoot":null}"#)).await;
    let view = place.view(change.id()).await;
    assert_eq!(view.escalation, []);
    soon(place.approvals.decide(change.id(), &view.shown_hash, Verdict::Allow, tenant())).await.unwrap();
}

#[tokio::test]
async fn only_an_operator_amends_the_policy_of_a_worker() {
    let place = Place::new(Settings::default()).await;
    let amendment = json!({"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["touch"]}});
    let params = json!({"command": "touch x", "availableDecisions": ["accept", amendment, "cancel"]}).to_string();
    let ticket = place.ask(Wanted { params, ..command(1, &["touch", "x"]) }).await;
    let view = place.view(ticket.id()).await;
    assert_eq!(view.escalation, [Escalation::Possible]);
    assert_eq!(view.offers, ["allow", "allow_with_amendment", "deny", "cancel"], "no acceptForSession was listed");
    let amended = Verdict::AllowWithAmendment(vec!["touch".into()]);
    let decide = |verdict, person| place.approvals.decide(ticket.id(), &view.shown_hash, verdict, person);
    assert_eq!(soon(decide(amended.clone(), tenant())).await, Err(DecideError::LiftsRestrictions));
    let for_session = soon(decide(Verdict::AllowForSession, Person::operator("ada"))).await;
    assert_eq!(for_session, Err(DecideError::NotOffered("allow_for_session")));
    assert_eq!(soon(decide(amended.clone(), Person::operator("ada"))).await.unwrap().verdict, amended);
}
