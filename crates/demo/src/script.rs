//! The script file: which faults to commit, and what to play for which prompt.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::answers::AnswerFault;
use crate::outputs::{Ending, Grandchild};
use crate::play::{Fault, Step, StepError, last_marker};

/// A script; the empty one plays what the prompts' markers say.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    /// Makes every id come out the same.
    pub(crate) seed: Option<u64>,
    pub(crate) process: ProcessFaults,
    pub(crate) handshake: HandshakeFaults,
    pub(crate) calls: CallFaults,
    pub(crate) turns: Vec<ScriptedTurn>,
}

/// What the process does wrong, from its start.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ProcessFaults {
    /// Ends at once.
    pub(crate) exit_at_start: Option<u8>,
    pub(crate) ignore_sigterm: bool,
    /// Noise on standard error.
    pub(crate) stderr_bytes: u64,
    /// Processes left behind.
    pub(crate) orphans: Vec<Orphan>,
}

/// See [`Grandchild`].
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Orphan {
    Group,
    Own,
}

/// What the handshake does wrong.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct HandshakeFaults {
    /// Refuses an `initialize` that says more than who the client is.
    pub(crate) reject_v2: bool,
    /// Answers `initialized` with an error.
    pub(crate) reject_initialized: bool,
    /// Never answers `initialize`.
    pub(crate) silent: bool,
}

/// What calls are answered wrongly.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CallFaults {
    pub(crate) answers: AnswerFault,
    /// Refuses every so-manyth call with -32001; 0 is never.
    pub(crate) overloaded_every: u64,
    /// Methods that are never answered.
    pub(crate) unanswered: Vec<String>,
    /// Methods whose call ends the process, unanswered, with code 1.
    pub(crate) exit_on: Vec<String>,
}

/// What is played for a prompt.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScriptedTurn {
    /// Only for a prompt that contains this; else for the next prompt, once.
    #[serde(default, rename = "match")]
    matching: Option<String>,
    steps: Vec<ScriptedStep>,
    #[serde(skip)]
    is_played: bool,
}

/// A step in the words of a marker.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
struct ScriptedStep(Step);

impl TryFrom<String> for ScriptedStep {
    type Error = StepError;

    fn try_from(words: String) -> Result<Self, StepError> {
        Step::parse(&words).map(Self)
    }
}

/// A script that could not be used.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// It is not there, or not readable.
    #[error("cannot read the script {path:?}: {error}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// It says something unknown; the message names the line and the key.
    #[error("the script {path:?} is wrong: {}", error.to_string().trim_end())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// Where and why.
        error: Box<toml::de::Error>,
    },
}

impl Script {
    /// Reads a script file.
    pub fn read(path: &Path) -> Result<Self, ScriptError> {
        let text =
            fs::read_to_string(path).map_err(|error| ScriptError::Unreadable { path: path.to_owned(), error })?;
        Self::parse(&text).map_err(|error| ScriptError::Wrong { path: path.to_owned(), error: Box::new(error) })
    }

    pub(crate) fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// What is played for a prompt: what the script says, or its last marker, or a helpful answer.
    pub(crate) fn steps_for(&mut self, prompt: &str) -> Vec<Step> {
        let by_text =
            self.turns.iter().position(|turn| turn.matching.as_ref().is_some_and(|text| prompt.contains(text)));
        let in_order = || self.turns.iter().position(|turn| turn.matching.is_none() && !turn.is_played);
        if let Some(at) = by_text.or_else(in_order) {
            self.turns[at].is_played = true;
            return self.turns[at].steps.iter().map(|ScriptedStep(step)| step.clone()).collect();
        }
        match last_marker(prompt).map(Step::parse) {
            None => vec![Step::Friendly],
            Some(Ok(step)) => vec![step],
            Some(Err(error)) => vec![Step::Say(vec![error.to_string()])],
        }
    }

    /// What goes wrong before anything is said.
    pub(crate) fn faults_at_start(&self) -> Vec<Fault> {
        let ProcessFaults { exit_at_start, ignore_sigterm, stderr_bytes, orphans } = &self.process;
        let orphans = orphans.iter().map(|orphan| match orphan {
            Orphan::Group => Fault::Leave(Grandchild::InGroup),
            Orphan::Own => Fault::Leave(Grandchild::Apart),
        });
        let noise = (*stderr_bytes > 0).then_some(Fault::Noise { bytes: *stderr_bytes });
        let deafness = ignore_sigterm.then_some(Fault::IgnoreTerminate);
        let end = exit_at_start.map(|code| Fault::Crash { after: 0, ending: Ending::Exit(code) });
        deafness.into_iter().chain(noise).chain(orphans).chain(end).collect()
    }
}
