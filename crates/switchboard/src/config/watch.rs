//! The configuration file while the server runs. Of what is changed in it, tool servers that are gone are stopped at once,
//! others wait until an operator accepts them, and all else counts after a restart. A file that cannot be used changes
//! nothing. What there is to be said is said once.

use std::collections::BTreeMap;
use std::future::pending;
use std::os::unix::fs::MetadataExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use front::{ConfigAccepted, ConfigConflict, ConfigRequest, ConfigView, PendingServer};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tools::Server;

use super::acceptance::{ServerChanges, split_changes};
use super::load::{load, location};
use super::meaning::tools::PATTERN;
use super::reading::{Section, Shown};
use super::{Boundaries, Flag, Resolved};

/// A change counts at the second look that sees the same: between two, whoever writes the file is done with it.
const INTERVAL: Duration = Duration::from_secs(1);

/// A file system that takes longer hangs.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Looks at the file again and again.
pub(crate) struct Watch {
    named: Option<PathBuf>,
    flags: Vec<Flag>,
    /// Where the file is, or would be.
    path: Option<PathBuf>,
    interval: Duration,
    files: FileReader,
    /// The file at the last look, and when it was last read.
    seen: Option<Stamp>,
    read: Option<Stamp>,
    is_there: bool,
    /// The tool servers that are in effect.
    servers: Vec<Server>,
    pending: Option<Pending>,
    /// The keys that count after a restart.
    after_restart: Vec<String>,
    /// Why the file cannot be used as it is now.
    problems: Vec<String>,
    /// What the server was started with.
    started_with: Keys,
    boundaries: Arc<Boundaries>,
    /// What was said of the file when it was last read.
    said: Vec<String>,
}

/// Tool servers that wait for an operator. They were read once: what is accepted is what was shown, whatever the file says
/// by then.
struct Pending {
    hash: String,
    configured: Vec<Server>,
    waiting: Vec<PendingServer>,
}

/// What tells one state of a file from another, or why there is none.
type Stamp = Result<(i64, i64, u64), io::ErrorKind>;

/// What was typed for each key that counts only at a start: the header of its table, which of those that have the same, and
/// its name.
type Keys = BTreeMap<(String, usize, &'static str), Shown>;

/// What a look has found.
#[derive(Debug, Default, PartialEq)]
struct News {
    /// Tool servers, if they are not as they were.
    servers: Option<Vec<Server>>,
    /// What somebody should know of.
    said: Vec<String>,
    /// The names of tool servers that wait since this look.
    waiting: Option<String>,
}

impl Watch {
    /// Looks for what is no longer as it was resolved, from what `load` was given.
    pub(crate) fn new(named: Option<&Path>, flags: Vec<Flag>, resolved: &Resolved) -> Self {
        Self {
            named: named.map(Path::to_owned),
            flags,
            path: location(named),
            interval: INTERVAL,
            files: FileReader { timeout: READ_TIMEOUT, permit: Arc::new(Semaphore::new(1)) },
            // Never seen: the file may have been changed since it was resolved.
            seen: None,
            read: None,
            is_there: resolved.file.is_some(),
            servers: resolved.config.tools.clone(),
            pending: None,
            after_restart: Vec::new(),
            problems: Vec::new(),
            started_with: keys_of(&resolved.sections),
            boundaries: Arc::new(resolved.boundaries()),
            said: resolved.warnings.clone(),
        }
    }

    /// Waits until other tool servers are in effect than before, and gives them all. Nothing is lost if it is dropped.
    pub(crate) async fn changed(&mut self) -> Vec<Server> {
        loop {
            tokio::time::sleep(self.interval).await;
            if let Some(servers) = self.look_and_report().await {
                return servers;
            }
        }
    }

    /// Answers an operator; returns all tool servers if others are in effect than before.
    pub(crate) async fn answer(&mut self, request: ConfigRequest) -> Option<Vec<Server>> {
        // An operator who has left needs no answer.
        match request {
            ConfigRequest::Show(reply) => {
                let servers = self.refresh().await;
                _ = reply.send(self.view());
                servers
            }
            ConfigRequest::Accept { hash, reply } => {
                let accepted = self.accept(&hash);
                let servers = accepted.is_ok().then(|| self.servers.clone());
                _ = reply.send(accepted);
                servers
            }
        }
    }

    /// Takes what the file says now, not only when the next look is due.
    async fn refresh(&mut self) -> Option<Vec<Server>> {
        let path = self.path.clone()?;
        if self.read == Some(self.files.stamp(path).await) {
            return None;
        }
        let first = self.look_and_report().await;
        tokio::time::sleep(self.interval).await;
        self.look_and_report().await.or(first)
    }

    fn view(&self) -> ConfigView {
        ConfigView {
            file: self.path.as_deref().map(|path| path.display().to_string()),
            hash: self.pending.as_ref().map(|pending| pending.hash.clone()),
            pending: self.pending.as_ref().map(|pending| pending.waiting.clone()).unwrap_or_default(),
            after_restart: self.after_restart.clone(),
            problems: self.problems.clone(),
        }
    }

    fn accept(&mut self, hash: &str) -> Result<ConfigAccepted, ConfigConflict> {
        let conflict = match &self.pending {
            None => ConfigConflict::NothingPending,
            Some(_) => ConfigConflict::OtherContent,
        };
        let Pending { hash, configured, waiting } =
            self.pending.take_if(|pending| pending.hash == hash).ok_or(conflict)?;
        self.servers = configured;
        Ok(ConfigAccepted { hash, accepted: waiting.into_iter().map(|server| server.server).collect() })
    }

    async fn look_and_report(&mut self) -> Option<Vec<Server>> {
        let News { servers, said, waiting } = self.look().await;
        said.iter().for_each(|what| tracing::warn!("{what}"));
        if let (Some(servers), Some(pending)) = (waiting, &self.pending) {
            let file = self.path.as_deref().unwrap_or(Path::new("")).display();
            tracing::warn!(
                %file,
                hash = pending.hash,
                servers,
                "configuration change waits for acceptance; `switchboard config accept` shows it"
            );
        }
        servers
    }

    async fn look(&mut self) -> News {
        let Some(path) = self.path.clone() else { return News::default() };
        let stamp = self.files.stamp(path).await;
        let is_settled = self.seen.replace(stamp) == Some(stamp);
        if !is_settled || self.read == Some(stamp) {
            return News::default();
        }
        let loaded = match stamp {
            Ok(_) => match self.load().await {
                Ok(loaded) => loaded,
                Err(ReadTimedOut) => {
                    return self.refused(vec![format!("it cannot be read: {}", io::ErrorKind::TimedOut)]);
                }
            },
            Err(why) => Err(vec![format!("it cannot be read: {why}")]),
        };
        self.read = Some(stamp);
        self.is_there |= stamp.is_ok();
        match loaded {
            // Gone since it was looked at: the next look says so.
            Ok(resolved) if resolved.file.is_none() => News::default(),
            Ok(resolved) => self.taken(resolved),
            // Whoever starts without a file may go on without one.
            Err(_) if !self.is_there => News::default(),
            Err(problems) => self.refused(problems),
        }
    }

    /// Reads the file, and checks the boundaries of the agents that run now, whose links may have changed since the start,
    /// and of those of the next start. The problems have a line each.
    async fn load(&self) -> Result<Result<Resolved, Vec<String>>, ReadTimedOut> {
        let (named, flags, boundaries) = (self.named.clone(), self.flags.clone(), Arc::clone(&self.boundaries));
        let load = move || {
            let lines = |text: String| text.lines().map(str::to_owned).collect::<Vec<_>>();
            let mut resolved = load(named.as_deref(), flags).map_err(|error| lines(format!("{error:#}")))?;
            if resolved.file.is_some() {
                let checked = boundaries.check().and_then(|_| resolved.boundaries().check());
                resolved.warnings.extend(checked.map_err(|problems| lines(problems.to_string()))?);
            }
            Ok(resolved)
        };
        self.files.read(load).await
    }

    fn taken(&mut self, resolved: Resolved) -> News {
        let mut said = resolved.warnings;
        self.problems.clear();
        self.after_restart = differences(&self.started_with, &keys_of(&resolved.sections));
        if !self.after_restart.is_empty() {
            said.push(format!(
                "changed in the configuration file, but only for the next start: {}",
                self.after_restart.join(", ")
            ));
        }
        let ServerChanges { at_once, waiting } = split_changes(&self.servers, &resolved.config.tools);
        let is_changed = at_once != self.servers;
        self.servers = at_once;
        let pending = (!waiting.is_empty()).then(|| Pending {
            hash: resolved.content_hash.unwrap_or_default(),
            configured: resolved.config.tools,
            waiting,
        });
        let is_new = |pending: &&Pending| self.pending.as_ref().is_none_or(|before| before.hash != pending.hash);
        let waiting = pending.as_ref().filter(is_new).map(Pending::names);
        self.pending = pending;
        News { servers: is_changed.then(|| self.servers.clone()), said: self.unsaid(said), waiting }
    }

    fn refused(&mut self, problems: Vec<String>) -> News {
        let path = self.path.as_deref().unwrap_or(Path::new("")).display();
        let mut said = vec![format!("{path} cannot be used as it is now: tool servers stay as they are")];
        said.extend(problems.iter().cloned());
        self.problems = problems;
        // What waited is not what the file says any more.
        self.pending = None;
        News { said: self.unsaid(said), ..News::default() }
    }

    /// What was not said the last time.
    fn unsaid(&mut self, said: Vec<String>) -> Vec<String> {
        let before = std::mem::replace(&mut self.said, said);
        self.said.iter().filter(|what| !before.contains(what)).cloned().collect()
    }
}

impl Pending {
    fn names(&self) -> String {
        let names: Vec<&str> = self.waiting.iter().map(|server| server.server.as_str()).collect();
        names.join(" ")
    }
}

/// Reads files on a blocking thread, one at a time: the task that follows the configuration also accepts connections, and
/// a file system that hangs must neither stop it nor take more than one thread.
struct FileReader {
    timeout: Duration,
    permit: Arc<Semaphore>,
}

/// The file system did not answer in time.
struct ReadTimedOut;

impl FileReader {
    async fn read<T: Send + 'static>(&self, read: impl FnOnce() -> T + Send + 'static) -> Result<T, ReadTimedOut> {
        let reading = async {
            let permit = Arc::clone(&self.permit).acquire_owned().await;
            let read = move || {
                let read = read();
                drop(permit);
                read
            };
            match spawn_blocking(read).await {
                Ok(read) => read,
                Err(failed) => match failed.try_into_panic() {
                    Ok(panic) => resume_unwind(panic),
                    // The runtime ends, and the server with it.
                    Err(_) => pending().await,
                },
            }
        };
        timeout(self.timeout, reading).await.map_err(|_| ReadTimedOut)
    }

    async fn stamp(&self, path: PathBuf) -> Stamp {
        let stamp = self.read(move || stamp_of(&path)).await;
        stamp.unwrap_or(Err(io::ErrorKind::TimedOut))
    }
}

fn stamp_of(path: &Path) -> Stamp {
    // The time of the last change of any kind: also of the mode, which may have been why the file could not be read.
    let of = |metadata: fs::Metadata| (metadata.ctime(), metadata.ctime_nsec(), metadata.ino());
    fs::metadata(path).map(of).map_err(|error| error.kind())
}

fn keys_of(sections: &[Section]) -> Keys {
    let mut keys = Keys::new();
    let mut alike: BTreeMap<&str, usize> = BTreeMap::new();
    for section in sections.iter().filter(|section| section.pattern != PATTERN) {
        let number = alike.entry(&section.header).or_default();
        *number += 1;
        let of = |name: &'static str| (section.header.clone(), *number, name);
        keys.extend(section.keys.iter().map(|key| (of(key.name), key.shown.clone())));
    }
    keys
}

/// The keys that are not the same in both, as people write them.
fn differences(before: &Keys, after: &Keys) -> Vec<String> {
    let all: BTreeMap<_, _> = before.iter().chain(after).collect();
    let changed = all.into_keys().filter(|key| before.get(key) != after.get(key));
    let mut names: Vec<String> =
        changed.map(|(header, _, name)| format!("{header} {name}").trim_start().to_owned()).collect();
    names.dedup();
    names
}

#[cfg(test)]
mod tests;
