//! What every test here needs: a runtime with a deadline, a directory, and rows.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use store::{
    Approval, ApprovalFilter, ApprovalState, AuditEntry, Key, Limits, ParkedCall, ParkedCallState, Response, Store,
    Thread, ToolCall, ToolCallOutcome, ToolList, UsageAdded,
};
use tempfile::TempDir;
use testkit::HANG_TIMEOUT;
use tokio::runtime::Builder;
use tokio::time::timeout;

pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let test = async { timeout(HANG_TIMEOUT * scale(), test).await };
    runtime.block_on(test).expect("the test took too long");
}

/// How many times longer than usual the loops should run.
pub(crate) fn scale() -> u32 {
    std::env::var("SWITCHBOARD_TEST_SCALE").map_or(1, |scale| scale.parse().expect("a whole number"))
}

/// A directory that goes with the test, and the path of a store in it.
pub(crate) struct Place {
    _directory: TempDir,
    pub(crate) path: PathBuf,
}

impl Place {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("switchboard.db");
        Self { _directory: directory, path }
    }

    pub(crate) fn open(&self) -> Store {
        self.open_with(Limits::default())
    }

    /// Every file beside the store and the store itself, with its bytes.
    pub(crate) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let entries = fs::read_dir(self.path.parent().unwrap()).unwrap().map(Result::unwrap);
        entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.files().into_keys().collect()
    }

    pub(crate) fn open_with(&self, limits: Limits) -> Store {
        Store::open(&self.path, limits).unwrap()
    }
}

/// All approvals, the oldest first.
pub(crate) async fn approvals(store: &Store) -> Vec<Approval> {
    let mut approvals = store.read(|reader| reader.approvals(&ApprovalFilter::default())).await.unwrap();
    approvals.reverse();
    approvals
}

pub(crate) fn pending(id: &str) -> Approval {
    Approval {
        id: id.into(),
        group: "main".into(),
        worker: "main-0".into(),
        thread: "thread-1".into(),
        turn: "turn-1".into(),
        item: Some("item-1".into()),
        request: "7".into(),
        method: "item/commandExecution/requestApproval".into(),
        kind: "command".into(),
        key: "key-1".into(),
        params: r#"{"command":["rm","-rf","target"]}"#.into(),
        shown_hash: "hash".into(),
        state: ApprovalState::Pending,
        verdict: None,
        reason: None,
        decided_by: None,
        created_at: 1_000,
        deadline_at: Some(601_000),
        decided_at: None,
    }
}

pub(crate) fn allowed(id: &str) -> Approval {
    Approval {
        state: ApprovalState::Allowed,
        verdict: Some(r#""allow""#.into()),
        decided_by: Some("person:ada".into()),
        decided_at: Some(2_000),
        ..pending(id)
    }
}

pub(crate) fn step(approval: &str, at: i64, step: &str) -> AuditEntry {
    AuditEntry { approval: approval.into(), at, step: step.into(), by: "person:ada".into(), detail: String::new() }
}

pub(crate) fn parked(id: &str, key: &str, thread: &str) -> ParkedCall {
    ParkedCall {
        id: id.into(),
        key: key.into(),
        group: "main".into(),
        worker: "main-0".into(),
        thread: thread.into(),
        turn: "turn-1".into(),
        request: "8".into(),
        namespace: None,
        tool: "weather".into(),
        arguments: r#"{"city":"Ulm"}"#.into(),
        state: ParkedCallState::Waiting,
        created_at: 1_000,
        deadline_at: Some(3_601_000),
    }
}

pub(crate) fn thread(id: &str) -> Thread {
    Thread {
        id: id.into(),
        owner: "instance-1".into(),
        group: "main".into(),
        worker: Some("main-0".into()),
        cwd: "/srv/project".into(),
        key: "key-1".into(),
        profile: Some("codex".into()),
        model: None,
        last_turn: None,
        last_turn_state: None,
        history_hash: None,
        unsaid: "[]".into(),
        created_at: 1_000,
        used_at: 1_000,
        archived: false,
    }
}

pub(crate) fn response(id: &str, key: &str) -> Response {
    Response {
        id: id.into(),
        key: key.into(),
        thread: "thread-1".into(),
        turn: "turn-1".into(),
        previous: None,
        status: "completed".into(),
        body: r#"{"output":[]}"#.into(),
        created_at: 1_000,
        expires_at: None,
    }
}

pub(crate) fn key(id: &str, hash: &str) -> Key {
    Key {
        id: id.into(),
        name: "ada's".into(),
        hash: hash.into(),
        scopes: r#"["turns"]"#.into(),
        profiles: "null".into(),
        limits: "{}".into(),
        created_at: 1_000,
        last_used_at: None,
        revoked_at: None,
    }
}

pub(crate) fn used(key: &str, thread: &str, day: &str, input: i64) -> UsageAdded {
    let (key, thread, day) = (key.into(), thread.into(), day.into());
    UsageAdded { key, thread, day, input, cached: input / 2, output: 7, reasoning: 3, turns: 1, estimated: 2 }
}

pub(crate) fn offered(server: &str) -> ToolList {
    ToolList {
        server: server.into(),
        hash: "hash".into(),
        version: "1.2.3".into(),
        body: r#"{"tools":[{"name":"read"}]}"#.into(),
        at: 1_000,
    }
}

pub(crate) fn called(id: &str, server: &str, tool: &str) -> ToolCall {
    ToolCall {
        id: id.into(),
        at: 1_000,
        key: "key-1".into(),
        caller: "mcp".into(),
        server: server.into(),
        tool: tool.into(),
        took_ms: 12,
        request_bytes: 20,
        result_bytes: 300,
        outcome: ToolCallOutcome::Succeeded,
        detail: None,
        approval: None,
    }
}
