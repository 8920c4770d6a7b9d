//! A full disk: nothing new is accepted, what was noted waits, health says so, and room ends it all by itself.

use std::time::Duration;

use store::{Change, Health, Limits, Store, WriteError};

use crate::disk::SmallDisk;
use crate::support::{Place, allowed, approvals, pending, run, thread, used};

const PAGES: u32 = 1_000_000;

/// Tries again soon, so that no test waits long.
fn limits() -> Limits {
    let soon = Duration::from_millis(10);
    Limits { retry_min: soon, retry_max: 2 * soon, note_delay: soon, ..Limits::default() }
}

fn large(id: &str) -> Change {
    let mut approval = pending(id);
    approval.params = "x".repeat(100_000);
    Change::Approval(approval)
}

async fn until(store: &Store, wanted: impl FnMut(&Health) -> bool) -> Health {
    store.health().wait_for(wanted).await.unwrap().clone()
}

#[test]
fn a_full_store_refuses_keeps_notes_and_recovers() {
    run(async {
        let place = Place::new();
        let store = place.open_with(limits());
        store.commit(vec![Change::Approval(pending("a"))]).await.unwrap();
        store.set_pages_max(1).await.unwrap();

        let error = store.commit(vec![Change::Approval(pending("b")), large("c")]).await.unwrap_err();
        assert_eq!(error, WriteError::Full("database or disk is full".into()));
        assert_eq!(approvals(&store).await, [pending("a")], "nothing of it is visible");
        let Health::Degraded { reason } = until(&store, |health| !health.is_well()).await else { unreachable!() };
        let name = place.path.display();
        let said = "the store is full (database or disk is full); nothing was written; free some space on its disk";
        assert_eq!(*reason, format!("{name}: {said}"));
        store.commit(vec![Change::Approval(allowed("a"))]).await.expect("a decision needs no room");
        assert!(!store.health().borrow().is_well(), "one that fits is no sign of room");

        let mut kept = thread("t");
        kept.unsaid = "x".repeat(100_000);
        store.note(Change::Thread(kept.clone()));
        store.note(Change::Usage(used("k", "t", "2026-01-31", 5)));
        assert!(matches!(store.flush().await, Err(WriteError::Full(_))));
        assert_eq!(store.counts().notes_waiting, 2);

        store.set_pages_max(PAGES).await.unwrap();
        until(&store, Health::is_well).await;
        store.flush().await.unwrap();
        assert_eq!(store.read(|reader| reader.thread("t")).await.unwrap(), Some(kept));
        store.commit(vec![large("c")]).await.unwrap();
        assert_eq!(store.counts().notes_dropped, 0);
    });
}

#[test]
fn notes_that_wait_are_bounded_and_what_is_dropped_is_counted() {
    run(async {
        let place = Place::new();
        let store = place.open_with(Limits { notes_max: 10, ..limits() });
        store.set_pages_max(1).await.unwrap();
        store.commit(vec![large("a")]).await.unwrap_err();
        for number in 0..30 {
            let mut noted = thread(&format!("{number:02}"));
            noted.unsaid = "x".repeat(10_000);
            store.note(Change::Thread(noted));
        }
        assert!(matches!(store.flush().await, Err(WriteError::Full(_))));
        assert_eq!((store.counts().notes_waiting, store.counts().notes_dropped), (10, 20));
        store.set_pages_max(PAGES).await.unwrap();
        until(&store, Health::is_well).await;
        store.flush().await.unwrap();
        let oldest = store.read(|reader| Ok((reader.thread("19")?, reader.thread("20")?))).await.unwrap();
        assert!(oldest.0.is_none() && oldest.1.is_some());
    });
}

#[test]
fn a_full_store_can_be_closed() {
    run(async {
        let place = Place::new();
        let store = place.open_with(limits());
        store.set_pages_max(1).await.unwrap();
        let mut noted = thread("t");
        noted.unsaid = "x".repeat(100_000);
        store.note(Change::Thread(noted));
        assert!(matches!(store.close().await, Err(WriteError::Full(_))));
        assert_eq!(store.counts().notes_dropped, 1);
    });
}

#[test]
fn the_bound_holds_from_the_start() {
    run(async {
        let place = Place::new();
        let store = place.open_with(Limits { pages_max: Some(72), ..limits() });
        let outcomes = [store.commit(vec![large("a")]).await, store.commit(vec![large("b")]).await];
        assert!(outcomes[0].is_ok() && matches!(outcomes[1], Err(WriteError::Full(_))), "{outcomes:?}");
    });
}

#[test]
fn a_disk_that_is_really_full_is_survived() {
    let Some(disk) = SmallDisk::new() else { return };
    run(async {
        let store = Store::open(disk.path.join("switchboard.db"), limits()).unwrap();
        store.commit(vec![Change::Approval(pending("a"))]).await.unwrap();
        let ballast = disk.path.join("ballast");
        let filled = std::fs::write(&ballast, vec![0; 16 << 20]);
        assert_eq!(filled.unwrap_err().kind(), std::io::ErrorKind::StorageFull);

        let mut accepted = vec!["a".to_owned()];
        let error = loop {
            let id = format!("b{:03}", accepted.len());
            match store.commit(vec![large(&id)]).await {
                Ok(()) => accepted.push(id),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, WriteError::Full(_) | WriteError::Failed(_)), "{error}");
        until(&store, |health| !health.is_well()).await;
        store.note(Change::Thread(thread("t")));

        std::fs::remove_file(&ballast).unwrap();
        until(&store, Health::is_well).await;
        store.commit(vec![large("c")]).await.unwrap();
        accepted.push("c".into());
        store.close().await.unwrap();
        let store = Store::open(disk.path.join("switchboard.db"), limits()).unwrap();
        let ids: Vec<_> = approvals(&store).await.into_iter().map(|approval| approval.id).collect();
        assert_eq!(ids, accepted);
        assert_eq!(store.read(|reader| reader.thread("t")).await.unwrap(), Some(thread("t")));
        store.close().await.unwrap();
    });
}
