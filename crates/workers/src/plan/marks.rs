//! How the commands of an agent keep the marks of their worker, whatever `shell_environment_policy` its configuration has:
//! by settings on the worker's command line. `set` reaches commands under every `inherit` and `exclude`; only `include_only`
//! drops it.

use std::ffi::OsString;

use supervise::{CHILD_PLACEHOLDER, CHILD_VARIABLE, OWNER_PLACEHOLDER, OWNER_VARIABLE};

/// Commands of agents have this variable, and the worker itself does not.
pub(crate) const COMMAND_VARIABLE: &str = "SWITCHBOARD_COMMAND";

/// Arguments of a Codex that give every command of its agents the marks of the process that they belong to. They hold
/// placeholders, which the launch replaces, so that they are the same at every start.
pub fn mark_arguments() -> impl Iterator<Item = OsString> {
    let marks = [(OWNER_VARIABLE, OWNER_PLACEHOLDER), (CHILD_VARIABLE, CHILD_PLACEHOLDER), (COMMAND_VARIABLE, "1")];
    let setting = |(name, value)| format!("shell_environment_policy.set.{name}={value:?}");
    marks.into_iter().map(setting).flat_map(|setting| ["-c".into(), setting.into()])
}
