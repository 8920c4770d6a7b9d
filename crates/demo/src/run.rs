//! Runs a worker until its client goes or it is told to end.

use std::path::PathBuf;
use std::process::ExitCode;
use std::{env, io};

use crate::clock::Now;
use crate::home::{Home, HomeError};
use crate::options::{Listen, Options};
use crate::script::{Script, ScriptError};
use crate::shell::{self, Capture};
use crate::worker::Worker;

/// Why a worker did not run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Its home.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// Its script.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// The file for `--capture`.
    #[error("cannot write to the capture file {path:?}: {error}")]
    Capture {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// The address for `--listen`.
    #[error("cannot listen: {0}")]
    Listen(io::Error),
}

/// Runs a worker; returns when it has ended.
pub fn run(options: &Options) -> Result<ExitCode, RunError> {
    let script = options.script.as_deref().map(Script::read).transpose()?.unwrap_or_default();
    let home = Home::open(env::var_os("CODEX_HOME").filter(|home| !home.is_empty()).map(PathBuf::from))?;
    let capture = Capture::open(options.capture.as_deref())?;
    let worker = Worker::new(options.dialect, home, script, Now::read());
    match &options.listen {
        Listen::Stdio => Ok(shell::stdio::run(worker, capture, options.writes)),
        listen => shell::sockets::run(worker, capture, listen).map_err(RunError::Listen),
    }
}
