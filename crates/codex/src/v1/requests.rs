//! The two requests of a v1 worker, and the decisions that answer them.
//!
//! They must be answered with a decision: an error leaves the turn waiting until it is interrupted.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::protocol::Request;

/// May this command run?
#[derive(Clone, Copy, Debug)]
pub enum ExecCommandApproval {}

/// May these files change?
#[derive(Clone, Copy, Debug)]
pub enum ApplyPatchApproval {}

impl Request for ExecCommandApproval {
    const METHOD: &'static str = "execCommandApproval";
    type Params = ExecCommandApprovalParams;
    type Answer = ApprovalAnswer;
}

impl Request for ApplyPatchApproval {
    const METHOD: &'static str = "applyPatchApproval";
    type Params = ApplyPatchApprovalParams;
    type Answer = ApprovalAnswer;
}

/// The command that waits.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecCommandApprovalParams {
    /// Its conversation.
    pub conversation_id: Box<str>,
    /// Its item.
    pub call_id: Box<str>,
    /// The command and its arguments.
    pub command: Vec<Box<str>>,
    /// Where it would run.
    pub cwd: Box<str>,
    /// Why it needs more than it may.
    pub reason: Option<Box<str>>,
    /// What the command does, as far as the worker can tell.
    #[serde(default)]
    pub parsed_cmd: Vec<Value>,
}

/// The patch that waits.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApplyPatchApprovalParams {
    /// Its conversation.
    pub conversation_id: Box<str>,
    /// Its item.
    pub call_id: Box<str>,
    /// By file: what would change.
    pub file_changes: Value,
    /// Why it needs more than it may.
    pub reason: Option<Box<str>>,
    /// The directory that would stay writable.
    pub grant_root: Option<Box<str>>,
}

/// The answer to either request.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ApprovalAnswer {
    /// What was decided.
    pub decision: Decision,
}

/// What can be decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// It may be.
    Approved,
    /// It may be, now and again until the conversation is closed.
    ApprovedForSession,
    /// It may not be; the turn goes on.
    Denied,
    /// It may not be, and the turn is over.
    Abort,
}
