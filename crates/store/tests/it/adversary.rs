//! What a reader of the file can do with it: of a decision link it finds the hash, and a link cannot be made from that.

use std::time::Duration;

use store::{Change, DecisionLink, Keep, Retention, Store, WriteError};

use crate::support::{Place, allowed, run};

fn link(approval: &str, verdict: &str, digit: char) -> DecisionLink {
    DecisionLink {
        approval: approval.into(),
        verdict: verdict.into(),
        hash: digit.to_string().repeat(64),
        shown_hash: "shown".into(),
        expires_at: 10_000,
    }
}

async fn found(store: &Store, digit: char) -> Option<DecisionLink> {
    let hash = digit.to_string().repeat(64);
    store.read(move |reader| reader.decision_link(&hash)).await.unwrap()
}

#[test]
fn the_token_of_a_decision_link_cannot_be_stored() {
    run(async {
        let store = Place::new().open();
        for token in ["", "sb_link", &"g".repeat(64), &"A".repeat(64), &"a".repeat(65)] {
            let row = DecisionLink { hash: token.into(), ..link("a", "allow", 'a') };
            let refused = store.commit(vec![Change::DecisionLink(row)]).await.unwrap_err();
            assert!(matches!(refused, WriteError::Rejected(_)), "{token}: {refused}");
        }
        let row = link("a", "allow_for_session", 'a');
        assert!(store.commit(vec![Change::DecisionLink(row)]).await.is_err(), "a link gives no verdict that lasts");
    });
}

#[test]
fn an_approval_has_one_link_for_each_verdict_and_none_after_its_retention() {
    run(async {
        let place = Place::new();
        let store = place.open();
        let links = [link("a", "allow", 'a'), link("a", "deny", 'b'), link("a", "allow", 'c')];
        let changes = links.clone().into_iter().map(Change::DecisionLink);
        store.commit([Change::Approval(allowed("a"))].into_iter().chain(changes).collect()).await.unwrap();
        let [_, deny, replacement] = links;
        assert_eq!(found(&store, 'a').await, None, "the later one takes its place");
        assert_eq!(found(&store, 'b').await, Some(deny));
        assert_eq!(found(&store, 'c').await, Some(replacement));
        let keep = Keep { age_max: Duration::ZERO, rows_max: 0 };
        store.sweep(i64::MAX, Retention { approvals: keep, ..Retention::default() }).await.unwrap();
        assert_eq!((found(&store, 'b').await, found(&store, 'c').await), (None, None));
    });
}
