//! The few settings that the worker takes from `config.toml` in its home, as the real one does.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::shapes::{ApprovalPolicy, SandboxMode};

/// The defaults of new threads.
#[derive(Debug, Deserialize)]
#[serde(default)]
pub(crate) struct Config {
    pub(crate) model: String,
    pub(crate) model_provider: String,
    pub(crate) approval_policy: ApprovalPolicy,
    pub(crate) sandbox_mode: SandboxMode,
    pub(crate) thread_unload_delay_secs: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            model: DEMO_MODEL.to_owned(),
            model_provider: "demo".to_owned(),
            approval_policy: ApprovalPolicy::OnRequest,
            sandbox_mode: SandboxMode::ReadOnly,
            thread_unload_delay_secs: 60,
        }
    }
}

/// The model that the demo worker offers.
pub(crate) const DEMO_MODEL: &str = "demo";

impl Config {
    /// What the file says, or the defaults: a demo does not fail because of a setting that is not its own.
    pub(crate) fn read(home: &Path) -> Self {
        let text = fs::read_to_string(home.join("config.toml")).unwrap_or_default();
        toml::from_str(&text).unwrap_or_default()
    }
}

/// Whether a turn with this model needs no warning.
pub(crate) fn is_known(model: &str) -> bool {
    model.starts_with(DEMO_MODEL) || model.starts_with("gpt-")
}
