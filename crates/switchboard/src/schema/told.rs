//! What a codex binary tells of its own protocol. It is asked as a process with a home of its own, so that nothing of
//! the user's is read or changed, and with a deadline, so that a program that is no codex cannot hold us.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use supervise::{Ending, Exit, Launch, Limits, Owner, SpawnError};
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

/// The one file, among the many that the binary writes, which holds every definition.
const BUNDLE: &str = "codex_app_server_protocol.schemas.json";
/// A codex needs less than a second; a slow disk may need some.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// What is kept of what it prints: one line of version, or complaints.
const STDOUT_BYTES_MAX: u64 = 64 << 10;

/// A binary's account of itself.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) version: String,
    pub(crate) bundle: Value,
    /// Whether the bundle has the experimental part, which older versions cannot print.
    pub(crate) has_experimental: bool,
}

/// Why a binary told nothing of use.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Silence {
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    #[error("cannot make a directory for its answer: {0}; check the space and rights of the temporary directory")]
    Place(std::io::Error),
    #[error("`{}` has not answered `{question}` within {} s and was stopped: is it a codex?", .program.display(), ANSWER_TIMEOUT.as_secs())]
    Hangs { program: PathBuf, question: &'static str },
    #[error("`{}` is no codex: asked for its version it says {said:?}; name the codex binary", .program.display())]
    NoCodex { program: PathBuf, said: String },
    #[error("codex {version} cannot print its schema ({said}); versions from 0.58 on can")]
    TooOld { version: String, said: String },
    #[error("codex {version} printed no schema that can be read: {what}")]
    Rubbish { version: String, what: String },
}

/// Asks the binary for its version and its schema.
pub(crate) async fn ask(program: &Path) -> Result<Told, Silence> {
    let home = TempDir::new().map_err(Silence::Place)?;
    let answer = TempDir::new().map_err(Silence::Place)?;
    let version = version(program, &home).await?;
    let mut question = ["app-server", "generate-json-schema", "--out"].map(OsString::from).to_vec();
    question.push(answer.path().into());
    let mut with_experimental = question.clone();
    with_experimental.push("--experimental".into());

    let (exit, _) = run(program, &home, with_experimental, "app-server generate-json-schema").await?;
    let has_experimental = exit.ending == Ending::Code(0);
    if !has_experimental {
        let (exit, _) = run(program, &home, question, "app-server generate-json-schema").await?;
        if exit.ending != Ending::Code(0) {
            return Err(Silence::TooOld { version, said: last_words(&exit) });
        }
    }
    let rubbish = |what: String| Silence::Rubbish { version: version.clone(), what };
    let text = fs::read_to_string(answer.path().join(BUNDLE)).map_err(|error| rubbish(format!("{BUNDLE}: {error}")))?;
    let bundle = serde_json::from_str(&text).map_err(|error| rubbish(format!("{BUNDLE} is not JSON: {error}")))?;
    Ok(Told { version, bundle, has_experimental })
}

/// `codex-cli 1.2.3`
async fn version(program: &Path, home: &TempDir) -> Result<String, Silence> {
    let (exit, said) = run(program, home, vec!["--version".into()], "--version").await?;
    let words: Vec<&str> = said.split_whitespace().collect();
    match words.as_slice() {
        [name, version] if name.starts_with("codex") && version.starts_with(|first: char| first.is_ascii_digit()) => {
            Ok((*version).to_owned())
        }
        _ => {
            let said = if said.trim().is_empty() { last_words(&exit) } else { said.trim().chars().take(200).collect() };
            Err(Silence::NoCodex { program: program.into(), said })
        }
    }
}

async fn run(
    program: &Path,
    home: &TempDir,
    args: Vec<OsString>,
    question: &'static str,
) -> Result<(Exit, String), Silence> {
    let env = vec![("CODEX_HOME".into(), home.path().into())];
    let launch = Launch { program: program.into(), args, cwd: home.path().into(), env, owner: Owner::generate() };
    let mut child = launch.spawn(Limits::default())?;
    child.stdin.close();
    let mut said = Vec::new();
    let ended = async {
        // A program that says more than this blocks, and is stopped as one that hangs.
        child.stdout.take(STDOUT_BYTES_MAX).read_to_end(&mut said).await.ok();
        child.process.wait().await
    };
    match timeout(ANSWER_TIMEOUT, ended).await {
        Ok(exit) => Ok((exit, String::from_utf8_lossy(&said).into_owned())),
        Err(_) => Err(Silence::Hangs { program: program.into(), question }),
    }
}

/// How it ended, and the last line that it complained with.
fn last_words(exit: &Exit) -> String {
    let stderr = exit.stderr.to_string();
    let line = stderr.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    format!("it {}: {}", exit.ending, line.trim())
}
