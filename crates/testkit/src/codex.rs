//! The set-up of a real codex: its binary, and a home whose configuration points at the stand-in model.

use std::path::PathBuf;
use std::{fs, io};

use crate::driver::Launch;
use crate::model::StandIn;
use crate::workplace::Workplace;

/// Names the binary of the real codex; the tests that need it are built with the feature `real-codex`.
pub const CODEX_VARIABLE: &str = "SWITCHBOARD_CODEX";

/// The codex binary that [`CODEX_VARIABLE`] names.
pub fn binary() -> Result<PathBuf, NoCodex> {
    let path = PathBuf::from(std::env::var_os(CODEX_VARIABLE).ok_or(NoCodex::Unset)?);
    if path.is_file() { Ok(path) } else { Err(NoCodex::Missing(path)) }
}

/// Why there is no real codex to run.
#[derive(Debug, thiserror::Error)]
pub enum NoCodex {
    /// The variable is not set.
    #[error("{CODEX_VARIABLE} is not set: let it name a codex binary (`cargo xtask test` installs one)")]
    Unset,
    /// The variable names no file.
    #[error("{CODEX_VARIABLE} names no file: {}", .0.display())]
    Missing(PathBuf),
}

/// How to start `binary` as an app-server in `workplace`, with `model` as its only provider.
pub fn launch(binary: PathBuf, workplace: &Workplace, model: &StandIn) -> io::Result<Launch> {
    configure(workplace, &model.base_url())?;
    Ok(Launch {
        argv: vec![binary.into(), "app-server".into()],
        environment: workplace.environment(),
        cwd: workplace.project(),
    })
}

/// Writes the configuration with which every worker is compared; its only provider is at `base_url`.
pub fn configure(workplace: &Workplace, base_url: &str) -> io::Result<()> {
    fs::write(workplace.codex_home().join("config.toml"), configuration(base_url))
}

/// One retry each keeps a failing turn short; without the shell snapshot no login shell starts for every thread.
fn configuration(base_url: &str) -> String {
    format!(
        r#"model = "mock-model"
model_provider = "mock"
approval_policy = "on-request"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false

[analytics]
enabled = false

[features]
shell_snapshot = false

[model_providers.mock]
name = "Mock"
base_url = "{base_url}"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 1
supports_websockets = false
"#
    )
}
