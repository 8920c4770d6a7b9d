//! The configuration: what was typed (a file, variables, flags) is read once and becomes what it means.

mod acceptance;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod kind;
mod load;
mod meaning;
mod nearest;
mod print;
mod problem;
mod reading;
mod secret;
#[cfg(test)]
mod tests;
mod variables;
mod watch;
mod writable;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use approvals::Rules;
use front::{Origin, TlsFiles};
use toml::de::DeTable;
use workers::{Profile, Transport};

pub(crate) use kind::{parse_duration, show_duration};
pub(crate) use load::load;
pub(crate) use meaning::tools::refusal as refused_url;
pub(crate) use nearest::nearest;
use problem::Problem;
pub(crate) use problem::Problems;
use reading::Reading;
pub(crate) use reading::{File, Flag, Section, Typed};
pub(crate) use secret::{Secret, public_address};
pub(crate) use watch::Watch;
use writable::Boundaries;

use crate::worker::Worker;

/// Everything that can be configured.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) listen: SocketAddr,
    /// Names by which callers may reach us, beside those of this machine.
    pub(crate) hosts: Vec<String>,
    /// Whose web pages may ask us.
    pub(crate) cors_origins: Vec<Origin>,
    /// Whether other machines may connect without TLS.
    allow_clear_text: bool,
    /// What callers are encrypted with; none is clear text.
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) state_dir: PathBuf,
    /// The one key of a single-key installation.
    pub(crate) key: Option<Secret>,
    /// How long running turns may take to end when the server is to stop.
    pub(crate) drain_grace: Duration,
    /// At least one; the first is the default.
    pub(crate) groups: Vec<Group>,
    pub(crate) profiles: Vec<Profile>,
    pub(crate) approvals: Approvals,
    /// In the order of their names.
    pub(crate) tools: Vec<tools::Server>,
    pub(crate) limits: Limits,
    /// How much is kept of what only grows.
    pub(crate) retention: store::Retention,
    pub(crate) log: Log,
}

/// A group of workers that are alike.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) command: Worker,
    pub(crate) transport: Transport,
    pub(crate) count: usize,
    pub(crate) codex_home: Option<PathBuf>,
    pub(crate) cwd: PathBuf,
    /// The user that its workers run as, if not ours.
    pub(crate) user: Option<String>,
    /// Variables of ours that its workers may see.
    pub(crate) env: Vec<String>,
    /// Whether its workers have the tools of tool servers.
    pub(crate) tools: bool,
    pub(crate) turns_max: usize,
    pub(crate) threads_loaded_max: usize,
    pub(crate) open_files_max: Option<usize>,
    pub(crate) processes_max: Option<usize>,
    pub(crate) memory_bytes_max: Option<usize>,
}

/// Who decides what workers ask, besides people, and by when.
#[derive(Debug)]
pub(crate) struct Approvals {
    pub(crate) deadline: Duration,
    pub(crate) rules: Rules,
    pub(crate) hooks: Vec<Hook>,
    pub(crate) webhook: Option<Told>,
}

/// A program that may decide.
#[derive(Debug)]
pub(crate) struct Hook {
    pub(crate) name: String,
    pub(crate) command: Vec<String>,
    pub(crate) cwd: PathBuf,
    /// Variables of ours that it may see.
    pub(crate) env: Vec<String>,
    pub(crate) kinds: Vec<approvals::Kind>,
    pub(crate) timeout: Duration,
    pub(crate) may_allow_for_session: bool,
}

/// Who is told of what waits for people.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) url: String,
    pub(crate) authorization: Option<Secret>,
    /// What decision links begin with.
    pub(crate) links: String,
}

/// Every limit of the program, each in the struct of the part that keeps it.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    pub(crate) pool: workers::Limits,
    pub(crate) approvals: approvals::Limits,
    pub(crate) store: store::Limits,
    pub(crate) connections: front::ConnectionLimits,
    pub(crate) requests: front::RequestLimits,
    pub(crate) responses: front::ResponseLimits,
    pub(crate) turns: front::TurnLimits,
    pub(crate) tools: tools::Limits,
}

/// What is logged, and how.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    pub(crate) level: String,
    pub(crate) format: LogFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// JSON unless stderr is a terminal.
    Auto,
    Json,
    Text,
}

/// A configuration and how it came to be.
pub(crate) struct Resolved {
    pub(crate) config: Config,
    /// Every key with its value and where it came from.
    pub(crate) sections: Vec<Section>,
    /// What looks like a mistake but harms nobody.
    pub(crate) warnings: Vec<String>,
    /// What keeps a server from starting. Commands that ask one elsewhere can use the configuration all the same.
    obstacles: Vec<Problem>,
    /// The file that was read, if there was one.
    pub(crate) file: Option<PathBuf>,
    /// The SHA-256 of its content.
    pub(crate) content_hash: Option<String>,
    /// Where the file is looked for, also if there is none.
    pub(crate) location: Option<PathBuf>,
}

impl Resolved {
    /// What agents may write to, and what they must not find there.
    pub(crate) fn boundaries(&self) -> Boundaries {
        Boundaries::of(&self.config, self.location.as_deref())
    }
}

/// Reads what was typed; everything that is wrong with it is told at once.
pub(crate) fn resolve(typed: &Typed) -> Result<Resolved, Problems> {
    let text = typed.file.as_ref().map_or("", |file| &file.text);
    let (root, errors) = DeTable::parse_recoverable(text);
    // Of a text that is no TOML nothing more can be said with certainty.
    if let (false, Some(file)) = (errors.is_empty(), &typed.file) {
        let problem = |error: &toml::de::Error| Problem {
            source: file.line_of(&error.span().unwrap_or_default()),
            what: error.message().into(),
        };
        let mut problems: Vec<Problem> = errors.iter().map(problem).collect();
        problems.sort();
        return Err(Problems(problems));
    }
    let mut reading = Reading::new(typed, root.get_ref());
    let config = meaning::config(&mut reading, &typed.variables);
    let mut warnings = std::mem::take(&mut reading.warnings);
    let obstacles = std::mem::take(&mut reading.obstacles);
    let sections = reading.finish().map_err(Problems)?;
    warnings.extend(variables::unknown(&typed.variables, &sections));
    let file = typed.file.as_ref().map(|file| file.path.clone());
    let content_hash = typed.file.as_ref().map(|file| acceptance::hash(&file.text));
    Ok(Resolved { config, sections, warnings, obstacles, content_hash, location: file.clone(), file })
}

impl Resolved {
    /// Whether a server may be started with it.
    ///
    /// # Errors
    /// Everything that speaks against it.
    pub(crate) fn may_serve(&mut self) -> Result<(), Problems> {
        let obstacles = std::mem::take(&mut self.obstacles);
        if obstacles.is_empty() { Ok(()) } else { Err(Problems(obstacles)) }
    }
}

impl Config {
    /// Where this server is reached at an address.
    pub(crate) fn url_at(&self, address: SocketAddr) -> String {
        meaning::url(self.tls.is_some(), address)
    }

    /// What must be known by whoever lets others than this machine connect.
    pub(crate) fn clear_text(&self) -> Option<String> {
        let is_exposed = self.tls.is_none() && !self.listen.ip().to_canonical().is_loopback();
        let is_allowed = is_exposed && self.allow_clear_text;
        is_allowed.then(|| format!("keys and prompts travel to {} in clear text", self.listen))
    }
}
