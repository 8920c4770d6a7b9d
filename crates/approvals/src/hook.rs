//! A command hook: a program that is given the approval as JSON on stdin and answers with JSON on stdout. Whatever goes
//! wrong with it, it has then said nothing, and others decide.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use supervise::{Ending, Exit, Launch, Owner, SpawnError};
use tokio::io::AsyncReadExt;
use tokio::process::ChildStdout;
use tokio::time::timeout;

use crate::excerpt::excerpt;
use crate::verdict::{Powers, Verdict};
use crate::who::Kind;

/// A hook as configured. Without `Debug`, because its arguments and variables can be secrets.
#[derive(Clone)]
pub struct Hook {
    /// What the audit calls it.
    pub name: String,
    /// The program and its arguments; no shell ever sees them.
    pub command: Vec<OsString>,
    /// The directory it starts in.
    pub cwd: PathBuf,
    /// Variables beside the few that every child gets.
    pub env: Vec<(OsString, OsString)>,
    /// The kinds that it is asked about; every kind if there are none.
    pub kinds: Vec<Kind>,
    /// How long it may take.
    pub timeout: Duration,
    /// What it may allow beyond this once.
    pub powers: Powers,
}

/// What became of one run.
pub(crate) struct Run {
    /// `None` if it leaves the decision to others.
    pub(crate) answer: Result<Option<Verdict>, HookError>,
    /// The end of its stderr on one line, if it wrote any.
    pub(crate) stderr: Option<String>,
}

/// Why a hook has not answered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HookError {
    #[error("names no program: give its `command`")]
    NoProgram,
    #[error(transparent)]
    NotStarted(#[from] SpawnError),
    #[error("has not ended within {0:?}")]
    TooSlow(Duration),
    #[error("said more than {0} bytes")]
    TooMuch(usize),
    #[error("failed: {0}")]
    Failed(Box<str>),
    #[error("gave no verdict: {reason}; it said {said:?}")]
    NoVerdict { reason: String, said: String },
}

impl HookError {
    /// For the audit, without what the hook said where that may be a secret.
    pub(crate) fn told(&self, kind: Kind) -> String {
        match self {
            Self::NoVerdict { .. } if kind.answer_is_secret() => "gave no verdict".into(),
            error => error.to_string(),
        }
    }
}

impl Hook {
    pub(crate) fn is_for(&self, kind: Kind) -> bool {
        kind.who().hook && (self.kinds.is_empty() || self.kinds.contains(&kind))
    }

    pub(crate) async fn run(&self, input: &str, owner: Owner, output_bytes_max: usize) -> Run {
        match timeout(self.timeout, self.exchange(input, owner, output_bytes_max)).await {
            Ok(Ok((exit, output))) => {
                let stderr = Some(exit.stderr.to_string()).filter(|_| exit.stderr.total_bytes > 0);
                Run { answer: read_answer(&exit, &output), stderr }
            }
            Ok(Err(error)) => Run { answer: Err(error), stderr: None },
            Err(_) => Run { answer: Err(HookError::TooSlow(self.timeout)), stderr: None },
        }
    }

    /// Dropped on its way, it leaves nothing running.
    async fn exchange(&self, input: &str, owner: Owner, output_bytes_max: usize) -> Result<(Exit, Vec<u8>), HookError> {
        let (program, args) = self.command.split_first().ok_or(HookError::NoProgram)?;
        let launch = Launch {
            program: program.clone(),
            args: args.to_vec(),
            cwd: self.cwd.clone(),
            env: self.env.clone(),
            owner,
            rlimits: supervise::Rlimits::default(),
        };
        let supervise::Child { stdin, stdout, mut process } = launch.spawn(supervise::Limits::default())?;
        // A hook need not read what it is told.
        stdin.send(format!("{input}\n").as_bytes()).await.ok();
        stdin.close();
        let read = async {
            let output = read_up_to(stdout, output_bytes_max).await;
            if output.len() > output_bytes_max { Err(HookError::TooMuch(output_bytes_max)) } else { Ok(output) }
        };
        tokio::try_join!(async { Ok(process.wait().await) }, read)
    }
}

async fn read_up_to(stdout: ChildStdout, output_bytes_max: usize) -> Vec<u8> {
    let mut output = Vec::new();
    stdout.take(output_bytes_max as u64 + 1).read_to_end(&mut output).await.ok();
    output
}

/// Only a clean exit with one JSON object that names a verdict is an answer.
fn read_answer(exit: &Exit, output: &[u8]) -> Result<Option<Verdict>, HookError> {
    #[derive(Deserialize)]
    struct Named {
        verdict: String,
    }
    if exit.ending != Ending::Code(0) {
        return Err(HookError::Failed(exit.to_string().into()));
    }
    let no_verdict = |reason: String| {
        let said = excerpt(&String::from_utf8_lossy(output));
        HookError::NoVerdict { reason, said }
    };
    let named: Named = serde_json::from_slice(output).map_err(|error| no_verdict(error.to_string()))?;
    if named.verdict == "ask" {
        return Ok(None);
    }
    serde_json::from_slice(output).map(Some).map_err(|error| no_verdict(error.to_string()))
}
