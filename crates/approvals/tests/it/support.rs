//! A place to ask and decide in: a store on disk that can be closed and opened again, and the notices.

use std::fmt::Write;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use approvals::{Approvals, Decided, Kind, Notice, Origin, Person, Settings, Ticket, Verdict, View, Wanted};
use store::Store;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(180);

pub(crate) struct Place {
    pub(crate) directory: TempDir,
    pub(crate) store: Store,
    pub(crate) approvals: Approvals,
    notices: mpsc::Receiver<Notice>,
}

impl Place {
    pub(crate) async fn new(settings: Settings) -> Self {
        Self::limited(settings, store::Limits::default()).await
    }

    pub(crate) async fn limited(settings: Settings, limits: store::Limits) -> Self {
        Self::open(tempfile::tempdir().unwrap(), settings, limits).await
    }

    /// Switchboard ends in the middle of everything, and starts again.
    pub(crate) async fn restarted(self, settings: Settings) -> Self {
        let Self { directory, store, approvals, .. } = self;
        drop(approvals);
        store.close().await.unwrap();
        Self::open(directory, settings, store::Limits::default()).await
    }

    async fn open(directory: TempDir, settings: Settings, limits: store::Limits) -> Self {
        let store = Store::open(directory.path().join("switchboard.db"), limits).unwrap();
        let (told, notices) = mpsc::channel(1024);
        let notify = Arc::new(move |notice| told.try_send(notice).unwrap());
        let approvals = Approvals::open(store.clone(), settings, notify).await.unwrap();
        Self { directory, store, approvals, notices }
    }

    pub(crate) async fn ask(&self, wanted: Wanted) -> Ticket {
        soon(self.approvals.ask(wanted)).await.unwrap()
    }

    pub(crate) async fn view(&self, id: &str) -> View {
        self.approvals.get(id).await.unwrap().unwrap()
    }

    pub(crate) async fn decide(&self, id: &str, verdict: Verdict) -> Decided {
        let hash = self.view(id).await.shown_hash;
        soon(self.approvals.decide(id, &hash, verdict, ada())).await.unwrap()
    }

    pub(crate) async fn notice(&mut self) -> Notice {
        soon(self.notices.recv()).await.unwrap()
    }

    /// The audit, one step a line, without times.
    pub(crate) async fn history(&self, id: &str) -> String {
        self.store.flush().await.unwrap();
        let mut text = String::new();
        for step in self.approvals.history(id).await.unwrap() {
            let line = format!("{} by {}: {}", step.step, step.by, step.detail);
            writeln!(text, "{}", line.trim_end_matches([' ', ':'])).unwrap();
        }
        text
    }
}

/// Fails a test that would hang.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.expect("it comes soon")
}

pub(crate) fn ada() -> Person {
    Person::operator("ada")
}

/// A request for a command, as the real worker sends it.
pub(crate) fn command(request: u32, words: &[&str]) -> Wanted {
    Wanted {
        kind: Kind::Command,
        origin: Origin {
            group: "main".into(),
            worker: "main-0".into(),
            thread: "th-1".into(),
            turn: "tu-1".into(),
            item: Some(format!("call_{request}")),
            request: request.to_string(),
        },
        method: "item/commandExecution/requestApproval".into(),
        params: serde_json::json!({
            "kind": "command", "threadId": "th-1", "turnId": "tu-1", "itemId": format!("call_{request}"),
            "startedAtMs": request, "command": words.join(" "), "cwd": "/srv/project", "reason": "because",
            "availableDecisions": ["accept", "acceptForSession", "decline", "cancel"],
        })
        .to_string(),
        command: Some(words.iter().map(|word| (*word).into()).collect()),
        cwd: Some("/srv/project".into()),
        changes: None,
        key: Some("key-1".into()),
        offers: None,
        timeout: None,
    }
}

/// Any other request.
pub(crate) fn request(kind: Kind, params: &str) -> Wanted {
    let method = kind.who().methods[0].into();
    Wanted { kind, method, params: params.into(), command: None, cwd: None, ..command(0, &[]) }
}
