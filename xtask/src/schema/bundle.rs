//! Asks a codex binary for the JSON Schema of its whole app-server protocol.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::run;

const GENERATE_TIMEOUT: Duration = Duration::from_secs(60);

/// The one file, among the many that the binary writes, which holds every definition.
const BUNDLE: &str = "codex_app_server_protocol.schemas.json";

/// How much of the protocol to ask for.
#[derive(Clone, Copy)]
pub(super) enum Extent {
    Stable,
    Experimental,
}

pub(super) fn ask(binary: &Path, extent: Extent) -> Result<Value> {
    // The binary refuses to start when its home does not exist.
    let home = tempfile::tempdir()?;
    let answer = tempfile::tempdir()?;
    let mut codex = run::program(binary);
    codex.env("CODEX_HOME", home.path());
    codex.args(["app-server", "generate-json-schema", "--out"]).arg(answer.path());
    if let Extent::Experimental = extent {
        codex.arg("--experimental");
    }
    run::stdout_of(&mut codex, GENERATE_TIMEOUT)?;
    let text = fs::read_to_string(answer.path().join(BUNDLE))
        .with_context(|| format!("{} wrote no {BUNDLE}: is it older than the app-server?", binary.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{BUNDLE} is not JSON"))
}
