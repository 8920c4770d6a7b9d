//! A host whose confirmations are asked for, and a person who gives them.

use std::sync::Arc;

use approvals::{Approvals, DecideError, Decided, Notice, Person, Settings, Verdict, View};
use store::Store;
use tokio::sync::{Mutex, mpsc};
use tools::{Plan, Server};

use crate::house::{House, PATIENCE, plan};

/// A host with somebody who decides.
pub(crate) struct Office {
    pub(crate) house: House,
    pub(crate) approvals: Approvals,
    /// What was asked and is not decided yet.
    wanted: Mutex<mpsc::Receiver<View>>,
    pub(crate) store: Store,
    _directory: tempfile::TempDir,
}

pub(crate) async fn office(servers: Vec<Server>) -> Office {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path().join("s.db"), store::Limits::default()).unwrap();
    let (asked, wanted) = mpsc::channel(16);
    let notify = Arc::new(move |notice| {
        if let Notice::ApprovalWanted { approval } = notice {
            asked.try_send((*approval).clone()).unwrap();
        }
    });
    let approvals = Approvals::open(store.clone(), Settings::default(), notify).await.unwrap();
    let house = House::of(Plan { store: Some(store.clone()), approvals: Some(approvals.clone()), ..plan(servers) });
    assert!(house.host.settled(PATIENCE).await);
    Office { house, approvals, wanted: Mutex::new(wanted), store, _directory: directory }
}

impl Office {
    /// Waits for the next thing that wants a decision, and decides it.
    pub(crate) async fn decide(&self, verdict: Verdict) {
        let one = self.wanted().await;
        self.settle(&one, verdict).await;
    }

    /// Waits for the next thing that wants a decision.
    pub(crate) async fn wanted(&self) -> View {
        let wanted = async { self.wanted.lock().await.recv().await.unwrap() };
        tokio::time::timeout(PATIENCE, wanted).await.expect("a decision is wanted")
    }

    pub(crate) async fn settle(&self, one: &View, verdict: Verdict) {
        self.try_settle(one, verdict).await.unwrap();
    }

    pub(crate) async fn try_settle(&self, one: &View, verdict: Verdict) -> Result<Decided, DecideError> {
        self.approvals.decide(&one.id, &one.shown_hash, verdict, Person::operator("ada")).await
    }
}
