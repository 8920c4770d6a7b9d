//! Threads as calls show them, with every key the real worker writes, nulls included.

use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};

use crate::record::{Collaboration, ReadState, Settings, Stored, ThreadRecord};
use crate::shapes::{ApprovalPolicy, Status, TurnShape};
use crate::stage::Stage;
use crate::thread::{Kept, Thread};
use crate::v2;

/// A thread.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ThreadShape {
    id: String,
    environments: Option<[Environment; 1]>,
    extra: (),
    session_id: String,
    forked_from_id: Option<String>,
    parent_thread_id: (),
    preview: String,
    ephemeral: bool,
    section: (),
    section_entered_at: (),
    project_id: (),
    history_mode: &'static str,
    model_provider: String,
    model: String,
    reasoning_effort: Option<String>,
    created_at: u64,
    updated_at: u64,
    recency_at: u64,
    status: Status,
    path: Option<String>,
    cwd: String,
    cli_version: &'static str,
    originator: String,
    source: &'static str,
    can_accept_direct_input: Option<bool>,
    thread_source: (),
    agent_nickname: (),
    agent_role: (),
    git_info: (),
    name: Option<String>,
    daybreak_enabled: (),
    pub(super) turns: Vec<TurnShape>,
}

/// A thread alone, as some answers and notifications hold it.
#[derive(Debug, Serialize)]
pub(super) struct ThreadAlone<'a> {
    pub(super) thread: &'a ThreadShape,
}

/// A turn alone, as the answer to `turn/start` holds it.
#[derive(Debug, Serialize)]
pub(super) struct TurnAlone<'a> {
    pub(super) turn: &'a TurnShape,
}

/// Where a thread works.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Environment {
    environment_id: &'static str,
    cwd: String,
    runtime_workspace_roots: [String; 1],
}

impl ThreadShape {
    /// A loaded thread.
    pub(super) fn of(thread: &Thread, stage: &Stage) -> Self {
        let path = match &thread.kept {
            Kept::Ephemeral => None,
            Kept::NotYet => Some(stage.home.thread_path(&thread.record)),
            Kept::File(file) => Some(file.path().to_owned()),
        };
        let cwd = thread.settings.cwd.clone();
        let here = Environment { environment_id: "local", runtime_workspace_roots: [cwd.clone()], cwd };
        Self {
            environments: Some([here]),
            preview: thread.preview.clone(),
            ephemeral: thread.is_ephemeral(),
            updated_at: thread.updated_ms / 1000,
            recency_at: thread.recency_ms / 1000,
            status: thread.status,
            path: path.map(|path| path.to_string_lossy().into_owned()),
            can_accept_direct_input: Some(true),
            name: thread.name.clone(),
            ..Self::known(&thread.record, &thread.settings)
        }
    }

    /// A thread that is not loaded.
    pub(super) fn of_stored(stored: &Stored, path: &Path) -> Self {
        Self {
            preview: stored.preview(),
            updated_at: stored.updated_ms / 1000,
            recency_at: stored.recency_ms / 1000,
            path: Some(path.to_string_lossy().into_owned()),
            name: stored.name.clone(),
            ..Self::known(&stored.thread, &stored.settings)
        }
    }

    /// As lists show it: they do not know where it came from and whether it can be talked to.
    pub(super) fn listed(self) -> Self {
        Self { forked_from_id: None, can_accept_direct_input: None, ..self }
    }

    fn known(record: &ThreadRecord, settings: &Settings) -> Self {
        Self {
            id: record.id.clone(),
            environments: None,
            extra: (),
            session_id: record.id.clone(),
            forked_from_id: record.forked_from.clone(),
            parent_thread_id: (),
            preview: String::new(),
            ephemeral: false,
            section: (),
            section_entered_at: (),
            project_id: (),
            history_mode: "paginated",
            model_provider: settings.model_provider.clone(),
            model: settings.model.clone(),
            reasoning_effort: settings.effort.clone(),
            created_at: record.created_ms / 1000,
            updated_at: record.created_ms / 1000,
            recency_at: record.created_ms / 1000,
            status: Status::NotLoaded,
            path: None,
            cwd: settings.cwd.clone(),
            cli_version: v2::version(),
            originator: record.originator.clone(),
            source: "vscode",
            can_accept_direct_input: None,
            thread_source: (),
            agent_nickname: (),
            agent_role: (),
            git_info: (),
            name: None,
            daybreak_enabled: (),
            turns: Vec::new(),
        }
    }
}

/// What starting, resuming and forking a thread answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Opened {
    pub(super) thread: ThreadShape,
    model: String,
    model_provider: String,
    service_tier: (),
    disabled_plugin_ids: [(); 0],
    cwd: String,
    runtime_workspace_roots: [String; 1],
    instruction_sources: [(); 0],
    approval_policy: ApprovalPolicy,
    approvals_reviewer: &'static str,
    sandbox: Value,
    active_permission_profile: Option<ActivePermissionProfile>,
    reasoning_effort: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    collaboration_mode: Option<Value>,
    multi_agent_mode: &'static str,
    #[serde(flatten)]
    pub(super) resumed: Option<Resumed>,
}

#[derive(Debug, Serialize)]
struct ActivePermissionProfile {
    id: String,
    extends: (),
}

impl ActivePermissionProfile {
    fn of(id: String) -> Self {
        Self { id, extends: () }
    }
}

/// What only resuming answers.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Resumed {
    pub(super) initial_turns_page: (),
    pub(super) turns_backwards_cursor: Option<String>,
    pub(super) items_backwards_cursor: Option<String>,
}

impl Opened {
    pub(super) fn of(thread: &Thread, stage: &Stage) -> Self {
        let settings = thread.settings.clone();
        Self {
            thread: ThreadShape::of(thread, stage),
            model: settings.model,
            model_provider: settings.model_provider,
            service_tier: (),
            disabled_plugin_ids: [],
            runtime_workspace_roots: [settings.cwd.clone()],
            cwd: settings.cwd,
            instruction_sources: [],
            approval_policy: settings.approval_policy,
            approvals_reviewer: "user",
            sandbox: settings.sandbox,
            active_permission_profile: settings.permission_profile.map(ActivePermissionProfile::of),
            reasoning_effort: settings.effort,
            collaboration_mode: None,
            multi_agent_mode: "explicitRequestOnly",
            resumed: None,
        }
    }

    pub(super) fn with_resumed(self, resumed: Resumed, settings: &Settings) -> Self {
        Self { collaboration_mode: Some(collaboration_mode(settings)), resumed: Some(resumed), ..self }
    }
}

fn collaboration_mode(settings: &Settings) -> Value {
    let Collaboration { mode, developer_instructions } = &settings.collaboration;
    json!({
        "mode": mode,
        "settings": {
            "model": settings.model, "reasoning_effort": settings.effort,
            "developer_instructions": developer_instructions,
        },
    })
}

/// The settings of a thread, as the notification of their change shows them.
pub(super) fn settings_shape(settings: &Settings) -> Value {
    json!({
        "disabledPluginIds": [],
        "cwd": settings.cwd,
        "approvalPolicy": settings.approval_policy,
        "approvalsReviewer": "user",
        "sandboxPolicy": settings.sandbox,
        "activePermissionProfile": settings.permission_profile.clone().map(ActivePermissionProfile::of),
        "model": settings.model,
        "modelProvider": settings.model_provider,
        "serviceTier": null,
        "effort": settings.effort,
        "summary": settings.summary,
        "collaborationMode": collaboration_mode(settings),
        "multiAgentMode": "explicitRequestOnly",
        "personality": null,
    })
}

/// What nobody has read yet.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReadStateShape<'a> {
    first_unread: Option<UnreadTurn<'a>>,
    revision: String,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "turn", rename_all = "camelCase")]
struct UnreadTurn<'a> {
    turn_id: &'a str,
}

impl<'a> ReadStateShape<'a> {
    pub(super) fn of(read_state: &'a ReadState, thread_id: &str) -> Self {
        Self {
            first_unread: read_state.first_unread_turn.as_deref().map(|turn_id| UnreadTurn { turn_id }),
            revision: read_state.revision.clone().unwrap_or_else(|| format!("initial:{thread_id}")),
        }
    }
}
