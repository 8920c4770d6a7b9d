//! A plain model: a thread whose model is given nothing but what its caller says. What is left of an agent's own tools asks
//! and shows, and does nothing.

use codex::{ApprovalPolicy, Sandbox, ThreadOptions};
use serde_json::Value;

/// What the worker adds of its own, to be left out. A worker passes over those that it does not know.
const ADDED: [&str; 18] = [
    "features.apps",
    "features.goals",
    "features.image_generation",
    "features.multi_agent",
    "features.plugins",
    "features.shell_snapshot",
    "features.shell_tool",
    "features.skills",
    "features.unified_exec",
    "features.view_image",
    "include_apps_instructions",
    "include_collaboration_mode_instructions",
    "include_environment_context",
    "include_permissions_instructions",
    "skills.bundled.enabled",
    "skills.include_instructions",
    "tools.experimental_request_user_input.enabled",
    "tools.web_search",
];

/// Makes a thread one of a plain model.
pub(super) fn made(mut options: ThreadOptions) -> ThreadOptions {
    let left_out = ADDED.iter().map(|name| ((*name).into(), Value::Bool(false)));
    options.config.extend(left_out);
    options.config.insert("web_search".into(), "disabled".into());
    // What a project tells agents is not said by the caller either.
    options.config.insert("project_doc_max_bytes".into(), 0.into());
    ThreadOptions {
        sandbox: Sandbox::ReadOnly,
        approval_policy: ApprovalPolicy::Never,
        base_instructions: Some(String::new()),
        is_plain: true,
        ..options
    }
}
