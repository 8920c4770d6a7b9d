//! What a codex binary tells of its own protocol. It is asked as a process with a home of its own, so that nothing of
//! the user's is read or changed, and with a deadline, so that a program that is no codex cannot hold us.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use supervise::{Ending, Exit, Launch, Limits, Owner, Rlimits, SpawnError, StderrTail};
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

/// The one file, among the many that the binary writes, which holds every definition.
const BUNDLE: &str = "codex_app_server_protocol.schemas.json";
/// A codex needs less than a second; a slow disk may need some.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// What is kept of what it prints: one line of version, or complaints.
const STDOUT_BYTES_MAX: u64 = 64 << 10;
/// What is repeated of a line that is no version.
const SAID_CHARACTERS_MAX: usize = 80;

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
    #[error("`{}` has not answered `{question}` within {limit:?} and was stopped: is it a codex?", .program.display())]
    Hangs { program: PathBuf, question: &'static str, limit: Duration },
    #[error("`{}` is no codex: asked for its version it says {said:?}; name the codex binary", .program.display())]
    NoCodex { program: PathBuf, said: String },
    #[error("codex {version} cannot print its schema ({said}); versions from 0.58 on can")]
    TooOld { version: String, said: String },
    #[error("codex {version} printed no schema that can be read: {what}")]
    Rubbish { version: String, what: String },
}

/// Asks the binary for its version and its schema, and waits so long for each answer.
pub(crate) async fn ask(program: &Path, limit: Duration) -> Result<Told, Silence> {
    let answer = TempDir::new().map_err(Silence::Place)?;
    let asked = Asked { program, home: TempDir::new().map_err(Silence::Place)?, limit };
    let version = asked.version().await?;
    let mut question = ["app-server", "generate-json-schema", "--out"].map(OsString::from).to_vec();
    question.push(answer.path().into());
    let mut with_experimental = question.clone();
    with_experimental.push("--experimental".into());

    let (exit, _) = asked.run(with_experimental, "app-server generate-json-schema").await?;
    let has_experimental = exit.ending == Ending::Code(0);
    if !has_experimental {
        let (exit, _) = asked.run(question, "app-server generate-json-schema").await?;
        if exit.ending != Ending::Code(0) {
            return Err(Silence::TooOld { version, said: last_words(&exit) });
        }
    }
    let rubbish = |what: String| Silence::Rubbish { version: version.clone(), what };
    let text = fs::read_to_string(answer.path().join(BUNDLE)).map_err(|error| rubbish(format!("{BUNDLE}: {error}")))?;
    let bundle = serde_json::from_str(&text).map_err(|error| rubbish(format!("{BUNDLE} is not JSON: {error}")))?;
    Ok(Told { version, bundle, has_experimental })
}

/// A binary that is being asked.
struct Asked<'a> {
    program: &'a Path,
    home: TempDir,
    limit: Duration,
}

impl Asked<'_> {
    /// `codex-cli 1.2.3`
    async fn version(&self) -> Result<String, Silence> {
        let (exit, said) = self.run(vec!["--version".into()], "--version").await?;
        let words: Vec<&str> = said.split_whitespace().collect();
        match words.as_slice() {
            [name, version] if name.starts_with("codex") && version.starts_with(|c: char| c.is_ascii_digit()) => {
                Ok((*version).to_owned())
            }
            _ => {
                let first_line = said.lines().next().map(|line| line.chars().take(SAID_CHARACTERS_MAX).collect());
                let said = first_line.unwrap_or_else(|| last_words(&exit));
                Err(Silence::NoCodex { program: self.program.into(), said })
            }
        }
    }

    async fn run(&self, args: Vec<OsString>, question: &'static str) -> Result<(Exit, String), Silence> {
        let launch = Launch {
            program: self.program.into(),
            args,
            cwd: self.home.path().into(),
            env: vec![("CODEX_HOME".into(), self.home.path().into())],
            owner: Owner::generate(),
            rlimits: Rlimits::default(),
        };
        let mut child = launch.spawn(Limits::default())?;
        child.stdin.close();
        let mut said = Vec::new();
        let ended = async {
            // A program that says more than this blocks, and is stopped as one that hangs.
            child.stdout.take(STDOUT_BYTES_MAX).read_to_end(&mut said).await.ok();
            child.process.wait().await
        };
        match timeout(self.limit, ended).await {
            Ok(exit) => Ok((exit, String::from_utf8_lossy(&said).into_owned())),
            Err(_) => Err(Silence::Hangs { program: self.program.into(), question, limit: self.limit }),
        }
    }
}

/// How it ended, and the first line that it complained with, fit to be shown.
fn last_words(exit: &Exit) -> String {
    let line = exit.stderr.text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let shown = StderrTail { text: line.to_owned(), ..StderrTail::default() };
    format!("it {}; {shown}", exit.ending)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::{ANSWER_TIMEOUT, Duration, Silence, TempDir, Told, ask};

    /// What becomes of asking a shell script.
    async fn told_by(script: &str, limit: Duration) -> Result<Told, Silence> {
        let place = TempDir::new().unwrap();
        let program = place.path().join("codex");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let told = ask(&program, limit).await;
        told.map_err(|silence| match silence {
            Silence::Hangs { question, limit, .. } => Silence::Hangs { program: "codex".into(), question, limit },
            Silence::NoCodex { said, .. } => Silence::NoCodex { program: "codex".into(), said },
            other => other,
        })
    }

    async fn refusal(script: &str) -> String {
        told_by(script, ANSWER_TIMEOUT).await.unwrap_err().to_string()
    }

    #[tokio::test]
    async fn a_program_that_is_no_codex_is_named() {
        let expected = "`codex` is no codex: asked for its version it says \"tree 1.2 (c)\"; name the codex binary";
        assert_eq!(refusal("echo 'tree 1.2 (c)'; echo more").await, expected);
        let expected = "`codex` is no codex: asked for its version it says \"it exited with code 3; last stderr: no such flag\"; \
                        name the codex binary";
        assert_eq!(refusal("echo 'no such flag' >&2; exit 3").await, expected);
    }

    #[tokio::test]
    async fn a_version_that_prints_no_schema_is_too_old() {
        let script = r#"case "$1" in --version) echo codex-cli 0.1.0;; *) echo "error: what?" >&2; exit 2;; esac"#;
        let expected = "codex 0.1.0 cannot print its schema (it exited with code 2; last stderr: error: what?); \
                        versions from 0.58 on can";
        assert_eq!(refusal(script).await, expected);
    }

    #[tokio::test]
    async fn a_version_that_knows_no_experimental_part_is_asked_without() {
        let script = r#"case "$1" in
            --version) echo codex-cli 1.0.0;;
            *) [ $# = 4 ] || exit 2; echo '{"definitions":{}}' > "$4/codex_app_server_protocol.schemas.json";;
        esac"#;
        let told = told_by(script, ANSWER_TIMEOUT).await.unwrap();
        assert_eq!((told.version.as_str(), told.has_experimental), ("1.0.0", false));
    }

    #[tokio::test]
    async fn rubbish_instead_of_a_schema_is_called_so() {
        let nothing = r#"[ "$1" = --version ] && echo codex-cli 1.0.0; exit 0"#;
        assert!(refusal(nothing).await.starts_with("codex 1.0.0 printed no schema that can be read: codex_app_server"));
        let broken = r#"case "$1" in
            --version) echo codex-cli 1.0.0;;
            *) echo '{' > "$4/codex_app_server_protocol.schemas.json";;
        esac"#;
        assert!(refusal(broken).await.contains("is not JSON"));
    }

    #[tokio::test]
    async fn a_program_that_hangs_is_stopped() {
        let told = told_by("exec sleep 600", Duration::from_millis(300)).await;
        let expected = "`codex` has not answered `--version` within 300ms and was stopped: is it a codex?";
        assert_eq!(told.unwrap_err().to_string(), expected);
    }
}
