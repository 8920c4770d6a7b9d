//! The reviewed file of differences: where the demo worker may say something else than the real one, and why.
//!
//! ```toml
//! [[difference]]
//! scripts = ["model-list"]        # all, if left out
//! line = "model/list result"      # or "warning", "item/completed commandExecution", "turn/start error"
//! path = "result.data.*.id"       # `*` is one segment, `**` any number; the whole line, if left out
//! what = "value"
//! reason = "…"
//! ```
//!
//! `what` is `missing`, `extra`, `type` or `value` where the demo worker differs; and where the real worker itself does
//! not always say the same, `place` (the line may come earlier or later) or `presence` (or not at all). An entry that is
//! not needed in a script for which it stands is a fault too.

use std::collections::BTreeSet;
use std::path::Path;
use std::{fs, io};

use serde::Deserialize;

use crate::compare::{Mismatch, Races, What, compare, names};
use crate::transcript::Transcript;

/// The reviewed differences.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Differences {
    #[serde(rename = "difference")]
    entries: Vec<Difference>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Difference {
    scripts: Option<Vec<String>>,
    line: String,
    #[serde(default)]
    path: String,
    what: Allowed,
    reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Allowed {
    Missing,
    Extra,
    Type,
    Value,
    Place,
    Presence,
}

/// Why there are no differences to go by.
#[derive(Debug, thiserror::Error)]
pub enum DifferencesError {
    /// The file cannot be read.
    #[error("cannot read the differences: {0}")]
    Unreadable(#[from] io::Error),
    /// The file is not as it should be.
    #[error("cannot understand the differences: {0}")]
    Invalid(#[from] toml::de::Error),
    /// An entry does not say why.
    #[error("the entry for `{0}` has no reason")]
    NoReason(String),
}

/// What came of the comparison of one script.
#[derive(Debug, Default)]
pub struct Judgement {
    /// What no entry explains.
    pub unexplained: Vec<Mismatch>,
    /// The entries that are needed.
    pub needed: Needed,
}

/// Which entries are needed in which script.
#[derive(Debug, Default)]
pub struct Needed(BTreeSet<(usize, String)>);

impl Needed {
    /// Adds what another script needs.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

impl Differences {
    /// Reads the file.
    pub fn load(path: &Path) -> Result<Self, DifferencesError> {
        Self::parse(&fs::read_to_string(path)?)
    }

    fn parse(text: &str) -> Result<Self, DifferencesError> {
        let read: Self = toml::from_str(text)?;
        match read.entries.iter().find(|entry| entry.reason.trim().is_empty()) {
            Some(entry) => Err(DifferencesError::NoReason(entry.line.clone())),
            None => Ok(read),
        }
    }

    /// Compares what was said in `script`.
    pub fn judge(&self, script: &str, expected: &Transcript, actual: &Transcript) -> Judgement {
        let mut judgement = Judgement::default();
        let mut need = |index| judgement.needed.0.insert((index, script.to_owned()));
        for mismatch in compare(expected, actual, &self.races(script)) {
            let mut entries = self.entries.iter();
            match entries.position(|entry| entry.is_about(script) && entry.explains(&mismatch)) {
                Some(index) => drop(need(index)),
                None => judgement.unexplained.push(mismatch),
            }
        }
        let said = &names(expected) | &names(actual);
        for (index, entry) in self.entries.iter().enumerate() {
            if entry.is_race() && said.contains(&entry.line) {
                need(index);
            }
        }
        judgement
    }

    /// What the real worker itself does not always say in one way in `script`.
    pub fn races(&self, script: &str) -> Races<'_> {
        let races = || self.entries.iter().filter(|entry| entry.is_race() && entry.is_about(script));
        let optional = races().filter(|entry| entry.what == Allowed::Presence);
        Races {
            floating: races().map(|entry| entry.line.as_str()).collect(),
            optional: optional.map(|entry| entry.line.as_str()).collect(),
        }
    }

    /// The entries that are not `needed`, in words, once for each script for which they stand in vain.
    pub fn stale(&self, needed: &Needed) -> Vec<String> {
        let mut stale = Vec::new();
        for (index, entry) in self.entries.iter().enumerate() {
            let in_vain: Vec<&str> = match &entry.scripts {
                Some(scripts) => {
                    let unneeded = |script: &&String| !needed.0.contains(&(index, (*script).clone()));
                    scripts.iter().filter(unneeded).map(String::as_str).collect()
                }
                None if needed.0.iter().any(|(needed, _)| *needed == index) => Vec::new(),
                None => vec!["any script"],
            };
            stale.extend(in_vain.iter().map(|script| entry.in_words(script)));
        }
        stale
    }
}

impl Difference {
    fn is_race(&self) -> bool {
        matches!(self.what, Allowed::Place | Allowed::Presence)
    }

    fn is_about(&self, script: &str) -> bool {
        self.scripts.as_ref().is_none_or(|scripts| scripts.iter().any(|name| name == script))
    }

    fn explains(&self, mismatch: &Mismatch) -> bool {
        let allowed = match mismatch.what {
            What::Missing => Allowed::Missing,
            What::Extra => Allowed::Extra,
            What::Type => Allowed::Type,
            What::Value => Allowed::Value,
        };
        let (pattern, path): (Vec<_>, Vec<_>) = (self.path.split('.').collect(), mismatch.path.split('.').collect());
        self.what == allowed && (self.line == "*" || self.line == mismatch.line) && covers(&pattern, &path)
    }

    fn in_words(&self, script: &str) -> String {
        format!("{script}: {} {} ({:?})", self.line, self.path, self.what)
    }
}

fn covers(pattern: &[&str], path: &[&str]) -> bool {
    match (pattern.split_first(), path.split_first()) {
        (None, None) => true,
        (Some((&"**", pattern)), _) => (0..=path.len()).any(|start| covers(pattern, &path[start..])),
        (Some((segment, pattern)), Some((first, path))) => {
            (*segment == "*" || segment == first) && covers(pattern, path)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{Differences, Needed, covers};
    use crate::transcript::Transcript;

    fn path_covers(pattern: &str, path: &str) -> bool {
        covers(&pattern.split('.').collect::<Vec<_>>(), &path.split('.').collect::<Vec<_>>())
    }

    #[test]
    fn patterns_cover_paths() {
        assert!(path_covers("result.data.*.id", "result.data.3.id"));
        assert!(!path_covers("result.data.*.id", "result.data.3.name"));
        assert!(path_covers("**.model", "params.thread.model"));
        assert!(path_covers("params.**", "params.thread.model"));
        assert!(!path_covers("**.model", "params.thread.modelProvider"));
        assert!(!path_covers("", "params"));
    }

    #[test]
    fn an_entry_has_to_say_why() {
        let entry = "[[difference]]\nline = \"warning\"\nwhat = \"place\"\nreason = \" \"\n";
        assert_eq!(Differences::parse(entry).unwrap_err().to_string(), "the entry for `warning` has no reason");
    }

    #[test]
    fn an_entry_explains_its_difference_and_is_stale_elsewhere() {
        let differences = Differences::parse(
            r#"
            [[difference]]
            scripts = ["a", "b"]
            line = "error"
            path = "params.message"
            what = "value"
            reason = "another text"
            "#,
        )
        .unwrap();
        let transcript = |text: &str| {
            let line =
                format!(r#"{{"dir":"received","message":{{"method":"error","params":{{"message":"{text}"}}}}}}"#);
            Transcript::parse(&line).unwrap()
        };
        let (expected, actual) = (transcript("one"), transcript("two"));
        let mut needed = Needed::default();
        let judgement = differences.judge("a", &expected, &actual);
        assert!(judgement.unexplained.is_empty());
        needed.extend(judgement.needed);
        needed.extend(differences.judge("b", &expected, &expected).needed);
        assert_eq!(differences.stale(&needed), ["b: error params.message (Value)"]);
        assert_eq!(differences.judge("c", &expected, &actual).unexplained.len(), 1);
    }
}
