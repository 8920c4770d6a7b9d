//! What is written is read again, whole, after a restart too.

use store::{ApprovalFilter, ApprovalState, Change, ParkedCallFilter};

use crate::support::{Place, allowed, parked, pending, run, step};

#[test]
fn approvals_and_parked_calls_survive_a_restart() {
    run(async {
        let place = Place::new();
        let store = place.open();
        let call = parked("call-1", "key-1", "thread-1");
        store.commit(vec![Change::Approval(pending("a")), Change::Audit(step("a", 1_000, "asked"))]).await.unwrap();
        store.commit(vec![Change::Approval(pending("b")), Change::ParkedCall(call.clone())]).await.unwrap();
        store.commit(vec![Change::Approval(allowed("a")), Change::Audit(step("a", 2_000, "allowed"))]).await.unwrap();
        store.close().await.unwrap();

        let store = place.open();
        let (waiting, first, steps, calls) = store
            .read(|reader| {
                let filter = ApprovalFilter { state: Some(ApprovalState::Pending), ..ApprovalFilter::default() };
                let calls = ParkedCallFilter { id: Some("call-1".into()), ..ParkedCallFilter::default() };
                let approvals = (reader.approvals(&filter)?, reader.approval("a")?);
                Ok((approvals.0, approvals.1, reader.audit("a")?, reader.parked_calls(&calls)?))
            })
            .await
            .unwrap();
        assert_eq!(waiting, [pending("b")]);
        assert_eq!(first, Some(allowed("a")));
        assert_eq!(steps, [step("a", 1_000, "asked"), step("a", 2_000, "allowed")]);
        assert_eq!(calls, [call]);
    });
}
