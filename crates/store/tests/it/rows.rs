//! What is written is read again, whole, after a restart too.

use std::os::unix::fs::PermissionsExt;

use store::{
    ApprovalFilter, ApprovalState, Change, Limits, ParkedCallFilter, ReadError, Reader, Store, ThreadFilter, TurnState,
    UsageFilter, WriteError,
};

use crate::support::{Place, allowed, approvals, key, parked, pending, response, run, step, thread, used};

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
        let waiting = ApprovalFilter { state: Some(ApprovalState::Pending), ..ApprovalFilter::default() };
        let (waiting, first, steps, calls) = store
            .read(move |reader| {
                let calls = reader.parked_calls(&ParkedCallFilter::default())?;
                Ok((reader.approvals(&waiting)?, reader.approval("a")?, reader.audit("a")?, calls))
            })
            .await
            .unwrap();
        assert_eq!(waiting, [pending("b")]);
        assert_eq!(first, Some(allowed("a")));
        assert_eq!(steps, [step("a", 1_000, "asked"), step("a", 2_000, "allowed")]);
        assert_eq!(calls, [call]);
    });
}

#[test]
fn an_approval_that_has_ended_is_never_decided_again() {
    run(async {
        let place = Place::new();
        let store = place.open();
        store.commit(vec![Change::Approval(pending("a"))]).await.unwrap();
        store.commit(vec![Change::Approval(allowed("a"))]).await.unwrap();
        store.commit(vec![Change::Approval(allowed("a"))]).await.expect("the same again is no contradiction");
        let mut denied = allowed("a");
        denied.state = ApprovalState::Denied;
        for late in [denied, pending("a")] {
            let error = store.commit(vec![Change::Approval(late)]).await.unwrap_err();
            assert_eq!(error, WriteError::Rejected("the approval has ended already".into()));
        }
        assert_eq!(approvals(&store).await, [allowed("a")]);
    });
}

#[test]
fn calls_of_one_id_are_apart_by_key_and_thread() {
    run(async {
        let place = Place::new();
        let store = place.open();
        let calls = [parked("call-1", "k1", "t1"), parked("call-1", "k1", "t2"), parked("call-1", "k2", "t1")];
        store.commit(calls.clone().map(Change::ParkedCall).into()).await.unwrap();
        let done = Change::ParkedCallDone { id: "call-1".into(), key: "k1".into(), thread: "t1".into() };
        store.commit(vec![done]).await.unwrap();
        let filter = ParkedCallFilter { id: Some("call-1".into()), key: Some("k1".into()), ..Default::default() };
        assert_eq!(store.read(move |reader| reader.parked_calls(&filter)).await.unwrap(), [calls[1].clone()]);
    });
}

#[test]
fn threads_are_written_behind_and_listed_in_pages() {
    run(async {
        let place = Place::new();
        let store = place.open();
        for id in ["1", "2", "3", "4", "5"] {
            store.note(Change::Thread(thread(id)));
        }
        store.note(Change::ThreadGone { id: "2".into() });
        let mut fourth = thread("4");
        (fourth.last_turn, fourth.last_turn_state) = (Some("turn-9".into()), Some(TurnState::Ended));
        (fourth.archived, fourth.history_hash) = (true, Some("h".into()));
        store.note(Change::Thread(fourth.clone()));
        store.flush().await.unwrap();
        assert_eq!((store.counts().notes_written, store.counts().transactions), (5, 1));

        let page = |before: Option<&str>| {
            let filter = ThreadFilter { rows_max: Some(2), before: before.map(Into::into), ..ThreadFilter::default() };
            store.read(move |reader| reader.threads(&filter))
        };
        assert_eq!(page(None).await.unwrap(), [thread("5"), fourth.clone()]);
        assert_eq!(page(Some("4")).await.unwrap(), [thread("3"), thread("1")]);
        let known = ThreadFilter { history_hash: Some("h".into()), archived: Some(true), ..ThreadFilter::default() };
        assert_eq!(store.read(move |reader| reader.threads(&known)).await.unwrap(), [fourth]);
        assert_eq!(store.read(|reader| reader.thread("2")).await.unwrap(), None);
    });
}

#[test]
fn a_note_is_written_without_being_asked_for() {
    run(async {
        let place = Place::new();
        let store = place.open();
        store.note(Change::Thread(thread("1")));
        while store.read(|reader| reader.thread("1")).await.unwrap().is_none() {}
        assert_eq!(store.counts().notes_waiting, 0);
    });
}

#[test]
fn usage_is_summed_by_key_thread_and_day() {
    run(async {
        let place = Place::new();
        let store = place.open();
        store.note(Change::Usage(used("k", "t", "2026-01-30", 10)));
        store.note(Change::Usage(used("k", "t", "2026-01-31", 10)));
        store.note(Change::Usage(used("k", "t", "2026-01-31", 20)));
        store.flush().await.unwrap();
        store.note(Change::Usage(used("k", "t", "2026-01-31", 30)));
        store.note(Change::Usage(used("other", "t", "2026-01-31", 1)));
        store.flush().await.unwrap();
        let filter = UsageFilter { key: Some("k".into()), from_day: Some("2026-01-31".into()), ..Default::default() };
        let mut sum = used("k", "t", "2026-01-31", 60);
        (sum.output, sum.reasoning, sum.turns, sum.estimated) = (21, 9, 3, 6);
        assert_eq!(store.read(move |reader| reader.usage(&filter)).await.unwrap(), [sum]);
    });
}

#[test]
fn usage_of_days_is_summed_over_threads_with_the_newest_day_first() {
    run(async {
        let place = Place::new();
        let store = place.open();
        for (key, thread, day, input) in [
            ("k", "t1", "2026-01-30", 10),
            ("k", "t1", "2026-01-31", 20),
            ("k", "t2", "2026-01-31", 30),
            ("j", "t3", "2026-01-31", 1),
            ("k", "t1", "2026-02-01", i64::MAX),
            ("k", "t2", "2026-02-01", i64::MAX),
        ] {
            store.note(Change::Usage(used(key, thread, day, input)));
        }
        store.flush().await.unwrap();
        let days = async |filter: UsageFilter, rows_max: u32| {
            let rows = store.read(move |reader| reader.usage_of_days(&filter, rows_max)).await.unwrap();
            let shown = rows.iter().map(|row| format!("{} {} {} in {}", row.day, row.key, row.input, row.turns));
            shown.collect::<Vec<_>>().join(", ")
        };
        let month = UsageFilter { to_day: Some("2026-01-31".into()), ..Default::default() };
        assert_eq!(days(month.clone(), 9).await, "2026-01-31 j 1 in 1, 2026-01-31 k 50 in 2, 2026-01-30 k 10 in 1");
        assert_eq!(days(month, 1).await, "2026-01-31 j 1 in 1");
        let later = UsageFilter { from_day: Some("2026-02-01".into()), ..Default::default() };
        assert_eq!(days(later, 9).await, format!("2026-02-01 k {} in 2", i64::MAX), "never too large to be told");
    });
}

#[test]
fn a_response_is_changed_only_while_it_is_as_it_was_read() {
    run(async {
        let place = Place::new();
        let store = place.open();
        let in_state = |status: &str| store::Response { status: status.into(), ..response("r", "k") };
        let ended = || Change::ResponseIfStill { status: "in_progress".into(), row: in_state("failed") };
        for (before, after) in [("in_progress", "failed"), ("queued", "queued"), ("deleted", "deleted")] {
            store.commit(vec![Change::Response(in_state(before))]).await.unwrap();
            store.note(ended());
            store.flush().await.unwrap();
            let row = store.read(|reader| reader.response("r", "k")).await.unwrap().unwrap();
            assert_eq!(row.status, after);
        }
        store.note(Change::ResponseGone { id: "r".into() });
        store.note(ended());
        store.flush().await.unwrap();
        assert_eq!(store.read(|reader| reader.response("r", "k")).await.unwrap(), None, "it stays away");
    });
}

#[test]
fn a_response_is_found_with_its_own_key_alone() {
    run(async {
        let place = Place::new();
        let store = place.open();
        store.commit(vec![Change::Response(response("r", "k1"))]).await.unwrap();
        let (own, other) =
            store.read(|reader| Ok((reader.response("r", "k1")?, reader.response("r", "k2")?))).await.unwrap();
        assert_eq!((own, other), (Some(response("r", "k1")), None));
        store.commit(vec![Change::ResponseGone { id: "r".into() }]).await.unwrap();
        assert_eq!(store.read(|reader| reader.response("r", "k1")).await.unwrap(), None);
    });
}

#[test]
fn only_the_hash_of_a_key_can_be_kept() {
    run(async {
        let place = Place::new();
        let store = place.open();
        let error = store.commit(vec![Change::Key(key("k", "sb_k_0123456789abcdef"))]).await.unwrap_err();
        assert!(matches!(error, WriteError::Rejected(_)), "{error}");
        let kept = key("k", &"0a".repeat(32));
        store.commit(vec![Change::Key(kept.clone())]).await.unwrap();
        assert_eq!(
            store.read(|reader| Ok((reader.key("k")?, reader.keys()?))).await.unwrap(),
            (Some(kept.clone()), vec![kept])
        );
        store.close().await.unwrap();
        let secret_is_kept = place.files().values().any(|bytes| bytes.windows(4).any(|bytes| bytes == b"sb_k"));
        assert!(!secret_is_kept);
        let mode = std::fs::metadata(&place.path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "nobody else may read it");
    });
}

#[test]
fn commits_at_the_same_time_share_transactions() {
    run(async {
        let place = Place::new();
        let store = place.open();
        let commits = (0..500).map(|number| store.commit(vec![Change::Approval(pending(&format!("{number:03}")))]));
        let outcomes = futures_util::future::join_all(commits).await;
        assert!(outcomes.iter().all(Result::is_ok));
        assert_eq!(approvals(&store).await.len(), 500);
        let counts = store.counts();
        assert_eq!(counts.commits, 500);
        assert!(counts.transactions <= 100, "{counts:?}");
    });
}

#[test]
fn more_commits_than_there_are_places_wait_for_one() {
    run(async {
        let place = Place::new();
        let store = place.open_with(Limits { commits_waiting_max: 2, ..Limits::default() });
        let commits = (0..20).map(|number| store.commit(vec![Change::Approval(pending(&number.to_string()))]));
        let outcomes = futures_util::future::join_all(commits).await;
        assert!(outcomes.iter().all(Result::is_ok));
        assert!(store.counts().transactions >= 10, "{:?}", store.counts());
    });
}

#[test]
fn a_commit_above_the_limit_is_refused() {
    run(async {
        let place = Place::new();
        let store = place.open_with(Limits { commit_bytes_max: 10_000, ..Limits::default() });
        let mut large = pending("a");
        large.params = "x".repeat(10_001);
        let error = store.commit(vec![Change::Approval(large)]).await.unwrap_err();
        assert!(matches!(error, WriteError::TooLarge { bytes_max: 10_000, .. }), "{error}");
        assert_eq!(approvals(&store).await, []);
    });
}

#[test]
fn a_closed_store_says_so_and_leaves_one_file() {
    run(async {
        let place = Place::new();
        let store = place.open();
        store.note(Change::Thread(thread("1")));
        store.close().await.unwrap();
        assert_eq!(place.names(), ["switchboard.db"]);
        assert_eq!(store.commit(vec![Change::Approval(pending("a"))]).await, Err(WriteError::Closed));
        assert!(matches!(store.read(Reader::keys).await, Err(ReadError::Closed)));
        store.note(Change::Thread(thread("2")));
        assert_eq!(store.counts().notes_dropped, 1);
        let store = Store::open(&place.path, Limits::default()).unwrap();
        assert_eq!(store.read(|reader| reader.thread("1")).await.unwrap(), Some(thread("1")));
    });
}

#[test]
fn a_store_that_is_dropped_writes_what_was_noted() {
    run(async {
        let place = Place::new();
        let store = place.open();
        let mut health = store.health();
        store.note(Change::Thread(thread("1")));
        drop(store);
        while health.changed().await.is_ok() {}
        let store = place.open();
        assert_eq!(store.read(|reader| reader.thread("1")).await.unwrap(), Some(thread("1")));
    });
}

#[test]
fn a_store_whose_writer_is_gone_is_not_well() {
    run(async {
        let place = Place::new();
        let store = place.open();
        assert!(store.health_now().is_well());
        store.close().await.unwrap();
        assert!(store.health().borrow().is_well(), "nothing failed");
        assert!(!store.health_now().is_well(), "but nobody writes");
    });
}

#[test]
fn a_response_is_gone_on_from_by_another_of_its_key() {
    run(async {
        let place = Place::new();
        let store = place.open();
        let after = |id: &str, key: &str, previous: &str| {
            let previous = Some(previous.to_owned());
            Change::Response(store::Response { previous, ..response(id, key) })
        };
        let first = Change::Response(response("a", "key-1"));
        store.commit(vec![first, after("b", "key-1", "a"), after("c", "key-2", "b")]).await.unwrap();
        let gone_on_from = |id: &'static str, key: &'static str| {
            let store = store.clone();
            async move { store.read(move |reader| reader.is_gone_on_from(id, key)).await.unwrap() }
        };
        assert!(gone_on_from("a", "key-1").await);
        assert!(!gone_on_from("a", "key-2").await, "it is another key's");
        assert!(!gone_on_from("b", "key-1").await, "only another key's goes on from it");
        assert!(!gone_on_from("nothing", "key-1").await);
        store.commit(vec![Change::ResponseGone { id: "b".into() }]).await.unwrap();
        assert!(!gone_on_from("a", "key-1").await, "what went on is gone");
    });
}

#[test]
fn the_responses_in_a_state_come_with_the_oldest_first() {
    run(async {
        let place = Place::new();
        let store = place.open();
        let row = |id: &str, status: &str, created_at| {
            Change::Response(store::Response { status: status.into(), created_at, ..response(id, "key-1") })
        };
        let rows = vec![row("a", "queued", 2), row("b", "completed", 1), row("c", "queued", 1)];
        store.commit(rows).await.unwrap();
        let queued = store.read(|reader| reader.responses_in("queued")).await.unwrap();
        assert_eq!(queued.iter().map(|row| &*row.id).collect::<Vec<_>>(), ["c", "a"]);
    });
}
