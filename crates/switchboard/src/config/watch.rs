//! The configuration file while the server runs. Of what is changed in it, tool servers count at once and all else after a
//! restart; a file that cannot be used changes nothing. What there is to be said is said once.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use std::{fs, io};

use tools::Server;

use super::load::{load, location};
use super::meaning::tools::PATTERN;
use super::reading::{Section, Shown};
use super::{Flag, Resolved};

/// A change counts at the second look that sees the same: between two, whoever writes the file is done with it.
const INTERVAL: Duration = Duration::from_secs(1);

/// Looks at the file again and again.
pub(crate) struct Watch {
    named: Option<PathBuf>,
    flags: Vec<Flag>,
    /// Where the file is, or would be.
    path: Option<PathBuf>,
    interval: Duration,
    /// The file at the last look, and when it was last read.
    seen: Option<Stamp>,
    read: Option<Stamp>,
    is_there: bool,
    servers: Vec<Server>,
    /// What the server was started with.
    started_with: Keys,
    /// What was said of the file when it was last read.
    said: Vec<String>,
}

/// What tells one state of a file from another, or why there is none.
type Stamp = Result<(SystemTime, u64, u64), io::ErrorKind>;

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
}

impl Watch {
    /// Looks for what is no longer as it was resolved, from what `load` was given.
    pub(crate) fn new(named: Option<&Path>, flags: Vec<Flag>, resolved: &Resolved) -> Self {
        Self {
            named: named.map(Path::to_owned),
            flags,
            path: location(named),
            interval: INTERVAL,
            // Never seen: the file may have been changed since it was resolved.
            seen: None,
            read: None,
            is_there: resolved.file.is_some(),
            servers: resolved.config.tools.clone(),
            started_with: keys_of(&resolved.sections),
            said: resolved.warnings.clone(),
        }
    }

    /// Waits until other tool servers are configured than before, and gives them all. Nothing is lost if it is dropped.
    pub(crate) async fn changed(&mut self) -> Vec<Server> {
        loop {
            tokio::time::sleep(self.interval).await;
            let News { servers, said } = self.look();
            said.iter().for_each(|what| tracing::warn!("{what}"));
            if let Some(servers) = servers {
                return servers;
            }
        }
    }

    fn look(&mut self) -> News {
        let Some(path) = &self.path else { return News::default() };
        let stamp = stamp_of(path);
        let is_settled = self.seen.replace(stamp) == Some(stamp);
        if !is_settled || self.read == Some(stamp) {
            return News::default();
        }
        self.read = Some(stamp);
        self.is_there |= stamp.is_ok();
        match stamp {
            // Whoever starts without a file may go on without one.
            Err(_) if !self.is_there => News::default(),
            Err(why) => self.refused(vec![format!("it cannot be read: {why}")]),
            Ok(_) => match load(self.named.as_deref(), self.flags.clone()) {
                // Gone since it was looked at: the next look says so.
                Ok(resolved) if resolved.file.is_none() => News::default(),
                Ok(resolved) => self.taken(resolved),
                Err(error) => self.refused(format!("{error:#}").lines().map(str::to_owned).collect()),
            },
        }
    }

    fn taken(&mut self, resolved: Resolved) -> News {
        let mut said = resolved.warnings;
        let waiting = differences(&self.started_with, &keys_of(&resolved.sections));
        if !waiting.is_empty() {
            said.push(format!(
                "changed in the configuration file, but only for the next start: {}",
                waiting.join(", ")
            ));
        }
        let is_changed = resolved.config.tools != self.servers;
        self.servers = resolved.config.tools;
        News { servers: is_changed.then(|| self.servers.clone()), said: self.unsaid(said) }
    }

    fn refused(&mut self, problems: Vec<String>) -> News {
        let path = self.path.as_deref().unwrap_or(Path::new("")).display();
        let mut said = vec![format!("{path} cannot be used as it is now: tool servers stay as they are")];
        said.extend(problems);
        News { servers: None, said: self.unsaid(said) }
    }

    /// What was not said the last time.
    fn unsaid(&mut self, said: Vec<String>) -> Vec<String> {
        let before = std::mem::replace(&mut self.said, said);
        self.said.iter().filter(|what| !before.contains(what)).cloned().collect()
    }
}

fn stamp_of(path: &Path) -> Stamp {
    let of = |metadata: fs::Metadata| Ok((metadata.modified()?, metadata.len(), metadata.ino()));
    fs::metadata(path).and_then(of).map_err(|error| error.kind())
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
