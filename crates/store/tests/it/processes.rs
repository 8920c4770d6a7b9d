//! Other processes at the same file: one that is killed loses nothing that it was promised, two at once spoil nothing.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use fastrand::Rng;
use rusqlite::Connection;
use store::{Change, Health, Limits, WriteError};

use crate::support::{Place, approvals, pending, run, scale};

/// A process that commits approvals and prints their ids.
struct Committer {
    child: Child,
    told: BufReader<ChildStdout>,
}

impl Committer {
    fn start(place: &Place, name: &str) -> Self {
        #[expect(clippy::disallowed_methods, reason = "it is to be killed in a way that `supervise` has no need of")]
        let mut command = Command::new(testkit::built::example("store", "commits"));
        let mut child = command.arg(&place.path).arg(name).stdout(Stdio::piped()).spawn().unwrap();
        let told = BufReader::new(child.stdout.take().unwrap());
        Self { child, told }
    }

    /// So many of the ids that it tells; none is half told.
    fn ids(&mut self, count: usize) -> Vec<String> {
        self.told.by_ref().lines().take(count).map(Result::unwrap).collect()
    }

    /// Kills it with SIGKILL and gives the rest of what it had told.
    fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.ids(usize::MAX)
    }
}

#[test]
fn what_was_told_before_a_kill_is_there_after_it() {
    run(async {
        let place = Place::new();
        let mut told = BTreeSet::new();
        for round in 0..10 * u64::from(scale()) {
            let mut committer = Committer::start(&place, &round.to_string());
            told.extend(committer.ids(Rng::with_seed(round).usize(0..60)));
            told.extend(committer.kill());
            let store = place.open();
            let kept: BTreeSet<_> = approvals(&store).await.into_iter().map(|approval| approval.id).collect();
            let lost: Vec<_> = told.difference(&kept).collect();
            assert!(lost.is_empty(), "round {round} lost {lost:?} of {}", told.len());
            // Every second round leaves the log behind for the next process.
            if round % 2 == 0 {
                store.close().await.unwrap();
            }
        }
        assert!(told.len() > 100, "only {} were told", told.len());
    });
}

#[test]
fn two_processes_at_once_wait_for_each_other() {
    run(async {
        let place = Place::new();
        let store = place.open();
        let mut committer = Committer::start(&place, "other");
        let mut told: BTreeSet<_> = committer.ids(1).into_iter().collect();
        for number in 0..40 {
            let id = format!("own-{number}");
            store.commit(vec![Change::Approval(pending(&id))]).await.unwrap();
            told.insert(id);
        }
        told.extend(committer.kill());
        store.close().await.unwrap();
        let store = place.open();
        let kept: BTreeSet<_> = approvals(&store).await.into_iter().map(|approval| approval.id).collect();
        assert!(told.is_subset(&kept));
    });
}

#[test]
fn another_process_that_keeps_the_file_is_waited_for_and_told_of() {
    run(async {
        let place = Place::new();
        let soon = Duration::from_millis(20);
        let store =
            place.open_with(Limits { busy_timeout: soon, retry_min: soon, retry_max: soon, ..Limits::default() });
        let other = Connection::open(&place.path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let error = store.commit(vec![Change::Approval(pending("a"))]).await.unwrap_err();
        assert_eq!(error, WriteError::Failed("database is locked".into()));
        assert!(!store.health().borrow().is_well());
        other.execute_batch("ROLLBACK").unwrap();
        store.health().wait_for(Health::is_well).await.unwrap();
        store.commit(vec![Change::Approval(pending("a"))]).await.unwrap();
    });
}
