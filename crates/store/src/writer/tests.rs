//! Rounds of the writer, one at a time, so that what shares a transaction is known and not a matter of speed.

use tokio::sync::oneshot;

use super::*;
use crate::change::Change;
use crate::create;
use crate::limits::Limits;
use crate::rows::{Approval, Key};
use crate::words::ApprovalState;

struct Bench {
    writer: Writer,
    directory: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("switchboard.db");
        create::create_if_missing(&path).unwrap();
        let limits = Limits::default();
        let writer = Writer {
            desk: Arc::new(Desk::new(limits)),
            connection: Connection::open(&path).unwrap(),
            health: watch::Sender::new(Health::Well),
            backoff: Backoff::new(&limits),
            retry_at: None,
            path,
        };
        Self { writer, directory }
    }

    fn ask(&self, work: Work) -> oneshot::Receiver<Outcome> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(self.writer.desk.place(work)).unwrap()
    }

    fn round(&mut self) {
        let round = self.writer.desk.next_round(self.writer.retry_at).unwrap();
        let _ = self.writer.perform(round);
    }

    fn ids(&self) -> String {
        let sql = "SELECT group_concat(id, ' ') FROM (SELECT id FROM approvals ORDER BY id)";
        self.writer.connection.query_row(sql, [], |row| row.get::<_, Option<String>>(0)).unwrap().unwrap_or_default()
    }
}

fn approval(id: &str, state: ApprovalState) -> Change {
    Change::Approval(Approval {
        id: id.into(),
        group: String::new(),
        worker: String::new(),
        thread: String::new(),
        turn: String::new(),
        item: None,
        request: String::new(),
        method: String::new(),
        kind: String::new(),
        key: String::new(),
        params: String::new(),
        shown_hash: String::new(),
        state,
        verdict: None,
        reason: None,
        decided_by: None,
        created_at: 0,
        deadline_at: None,
        decided_at: None,
    })
}

fn pending(id: &str) -> Change {
    approval(id, ApprovalState::Pending)
}

fn key_with(hash: &str) -> Change {
    Change::Key(Key {
        id: "k".into(),
        name: String::new(),
        hash: hash.into(),
        scopes: "[]".into(),
        profiles: "[]".into(),
        limits: "{}".into(),
        created_at: 0,
        last_used_at: None,
        revoked_at: None,
    })
}

#[test]
fn all_that_waits_shares_one_transaction() {
    let mut bench = Bench::new();
    let mut outcomes: Vec<_> = (100..300).map(|id| bench.ask(Work::Commit(vec![pending(&id.to_string())]))).collect();
    bench.writer.desk.note(pending("a note"));
    bench.round();
    assert!(outcomes.iter_mut().all(|outcome| outcome.try_recv() == Ok(Ok(0))));
    let counts = bench.writer.desk.counts();
    assert_eq!((counts.transactions, counts.commits, counts.notes_waiting), (1, 200, 1), "{:?}", bench.directory);
}

#[test]
fn a_bad_commit_fails_alone_and_wholly() {
    let mut bench = Bench::new();
    let before = bench.ask(Work::Commit(vec![approval("a", ApprovalState::Denied)]));
    let bad = bench.ask(Work::Commit(vec![pending("b"), pending("a")]));
    let secret = bench.ask(Work::Commit(vec![pending("c"), key_with("sb_1_secret")]));
    let after = bench.ask(Work::Commit(vec![pending("d"), key_with(&"0f".repeat(32))]));
    bench.round();
    let outcomes = [before, bad, secret, after].map(|mut outcome| match outcome.try_recv().unwrap() {
        Ok(_) => "done".to_owned(),
        Err(error) => error.to_string(),
    });
    expect_test::expect![[r#"
        done
        the store rejects the change: the approval has ended already
        the store rejects the change: CHECK constraint failed: length(hash) = 64 AND hash NOT GLOB '*[^0-9a-f]*'
        done"#]]
    .assert_eq(&outcomes.join("\n"));
    assert_eq!(bench.ids(), "a d");
    assert_eq!(bench.writer.desk.counts().transactions, 1);
    assert!(bench.writer.health.borrow().is_well(), "a bad commit is no fault of the store");
}

#[test]
fn a_bad_note_is_dropped_and_counted_and_the_others_are_written() {
    let mut bench = Bench::new();
    bench.writer.desk.note(approval("a", ApprovalState::Denied));
    bench.writer.desk.note(key_with("sb_1_secret"));
    bench.writer.desk.note(pending("b"));
    let before = bench.writer.desk.next_number();
    let mut flushed = bench.ask(Work::Flush { before });
    bench.round();
    assert_eq!(flushed.try_recv(), Ok(Ok(0)));
    let counts = bench.writer.desk.counts();
    assert_eq!((counts.notes_written, counts.notes_dropped, counts.notes_waiting), (2, 1, 0));
    assert_eq!(bench.ids(), "a b");
}

#[test]
fn a_change_that_was_left_later_is_written_later() {
    let mut bench = Bench::new();
    let state_of = |bench: &Bench| {
        let sql = "SELECT state FROM approvals";
        bench.writer.connection.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap()
    };
    bench.writer.desk.note(pending("a"));
    let _committed = bench.ask(Work::Commit(vec![approval("a", ApprovalState::Denied)]));
    bench.round();
    assert_eq!(state_of(&bench), "denied");
    assert_eq!(bench.writer.desk.counts().notes_dropped, 0);
}

#[test]
fn when_all_do_not_fit_those_that_fit_are_written() {
    let mut bench = Bench::new();
    let pages: u32 = bench.writer.connection.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
    bench.writer.connection.pragma_update(None, "max_page_count", pages).unwrap();
    let large = Change::ThreadGone { id: "x".into() };
    let Change::Approval(mut row) = pending("large") else { unreachable!() };
    row.params = "x".repeat(1 << 20);
    let small_first = bench.ask(Work::Commit(vec![pending("a"), large]));
    let too_large = bench.ask(Work::Commit(vec![pending("b"), Change::Approval(row)]));
    let small_last = bench.ask(Work::Commit(vec![pending("c")]));
    bench.round();
    let outcomes = [small_first, too_large, small_last].map(|mut outcome| outcome.try_recv().unwrap());
    let full = WriteError::Full("database or disk is full".into());
    assert_eq!(outcomes, [Ok(0), Err(full), Ok(0)]);
    assert_eq!(bench.ids(), "a c");
    assert!(!bench.writer.health.borrow().is_well());
    assert!(bench.writer.retry_at.is_some());
}

#[test]
fn a_writer_that_is_gone_leaves_nobody_waiting() {
    let bench = Bench::new();
    let mut waiting = bench.ask(Work::Commit(vec![pending("a")]));
    let desk = Arc::clone(&bench.writer.desk);
    desk.note(pending("b"));
    drop(bench);
    assert!(waiting.try_recv().is_err(), "the answer is that there will be none");
    assert_eq!(desk.counts().notes_dropped, 1);
}
