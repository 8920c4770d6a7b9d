//! What a turn may do: when it asks, and what its commands can reach.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// When the worker asks for a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalPolicy {
    /// Before every command that is not known to be harmless.
    Untrusted,
    /// When a command has failed in the sandbox.
    OnFailure,
    /// When the model wishes to.
    OnRequest,
    /// Never.
    Never,
}

/// What the commands of a conversation can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxMode {
    /// Files can be read.
    ReadOnly,
    /// Files of the workspace can be written.
    WorkspaceWrite,
    /// Everything.
    DangerFullAccess,
}

/// What the commands of one turn can reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SandboxPolicy {
    /// Files can be read.
    ReadOnly,
    /// Files of the workspace can be written.
    WorkspaceWrite(Workspace),
    /// Everything.
    DangerFullAccess,
}

/// The workspace that commands can write to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workspace {
    /// Directories beside the working directory.
    pub writable_roots: Vec<Box<str>>,
    /// Whether the network can be reached.
    pub network_access: bool,
    /// Whether `$TMPDIR` is left out.
    pub exclude_tmpdir_env_var: bool,
    /// Whether `/tmp` is left out.
    pub exclude_slash_tmp: bool,
}

impl From<SandboxMode> for SandboxPolicy {
    fn from(mode: SandboxMode) -> Self {
        match mode {
            SandboxMode::ReadOnly => Self::ReadOnly,
            SandboxMode::WorkspaceWrite => Self::WorkspaceWrite(Workspace::default()),
            SandboxMode::DangerFullAccess => Self::DangerFullAccess,
        }
    }
}

impl Serialize for SandboxPolicy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mode = match self {
            Self::ReadOnly => SandboxMode::ReadOnly,
            Self::WorkspaceWrite(_) => SandboxMode::WorkspaceWrite,
            Self::DangerFullAccess => SandboxMode::DangerFullAccess,
        };
        let mut policy = serializer.serialize_map(None)?;
        // Up to 0.58 the key is `mode`, in 0.60 it is `type`; each passes over the other.
        policy.serialize_entry("mode", &mode)?;
        policy.serialize_entry("type", &mode)?;
        if let Self::WorkspaceWrite(workspace) = self {
            policy.serialize_entry("writable_roots", &workspace.writable_roots)?;
            policy.serialize_entry("network_access", &workspace.network_access)?;
            policy.serialize_entry("exclude_tmpdir_env_var", &workspace.exclude_tmpdir_env_var)?;
            policy.serialize_entry("exclude_slash_tmp", &workspace.exclude_slash_tmp)?;
        }
        policy.end()
    }
}

/// How hard the model thinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// As little as it can.
    Minimal,
    /// Little.
    Low,
    /// As usual.
    Medium,
    /// Much.
    High,
}

/// How the model sums up its reasoning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Summary {
    /// As the model likes.
    #[default]
    Auto,
    /// Shortly.
    Concise,
    /// At length.
    Detailed,
    /// Not at all.
    None,
}
