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
//! `what` is `missing`, `extra`, `type` or `value` where the demo worker differs. Where the real worker itself does not
//! always say the same, it is `place` (either may come first, the line or one of `past = ["…"]`, unless both are about one
//! item) or `presence` (the line may also not come, or once more).
//!
//! An entry that stands for a script in vain is a fault too. A difference does if the demo worker does not differ there. A
//! race need not show in any two plays, so `place` does only where the line can reach none of the lines of `past`, and a
//! name in `past` that is reached in no script; `presence` where the line is not said.

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
    #[serde(default)]
    past: Vec<String>,
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
    /// An entry says `past` without a race, or a race of places without it.
    #[error("the entry for `{0}` must say `past` which lines if `what` is `place`, and only then")]
    NoPlace(String),
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
pub struct Needed(BTreeSet<Need>);

/// The number of an entry, the script that needs it, and for a race the line that is raced with.
type Need = (usize, String, Option<String>);

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
        for entry in &read.entries {
            if entry.reason.trim().is_empty() {
                return Err(DifferencesError::NoReason(entry.line.clone()));
            }
            if (entry.what == Allowed::Place) == entry.past.is_empty() {
                return Err(DifferencesError::NoPlace(entry.line.clone()));
            }
        }
        Ok(read)
    }

    /// Compares what was said in `script`.
    pub fn judge(&self, script: &str, expected: &Transcript, actual: &Transcript) -> Judgement {
        let mut judgement = Judgement::default();
        let needed = &mut judgement.needed.0;
        for mismatch in compare(expected, actual, &self.races(script)) {
            let mut entries = self.entries.iter();
            match entries.position(|entry| entry.is_about(script) && entry.explains(&mismatch)) {
                Some(index) => needed.extend([(index, script.to_owned(), None)]),
                None => judgement.unexplained.push(mismatch),
            }
        }
        for said in [names(expected), names(actual)] {
            for (index, entry) in self.entries.iter().enumerate().filter(|(_, entry)| entry.is_about(script)) {
                needed.extend(
                    entry.raced(&said).into_iter().map(|raced| (index, script.to_owned(), Some(raced.to_owned()))),
                );
            }
        }
        judgement
    }

    /// What the real worker itself does not always say in one way in `script`.
    pub fn races(&self, script: &str) -> Races<'_> {
        let entries = || self.entries.iter().filter(|entry| entry.is_about(script));
        let optional = entries().filter(|entry| entry.what == Allowed::Presence);
        Races {
            swaps: entries().flat_map(Difference::swaps).collect(),
            optional: optional.map(|entry| entry.line.as_str()).collect(),
        }
    }

    /// The entries that are not `needed`, in words, once for each script for which they stand in vain.
    pub fn stale(&self, needed: &Needed) -> Vec<String> {
        let mut stale = Vec::new();
        for (index, entry) in self.entries.iter().enumerate() {
            let needs: Vec<_> = needed.0.iter().filter(|(needed, ..)| *needed == index).collect();
            let is_needed_in = |script: &str| needs.iter().any(|(_, needed, _)| needed == script);
            let is_raced = |line: &String| needs.iter().any(|(.., raced)| raced.as_ref() == Some(line));
            match &entry.scripts {
                Some(scripts) => {
                    let in_vain = scripts.iter().filter(|script| !is_needed_in(script));
                    stale.extend(in_vain.map(|script| entry.in_words(script)));
                }
                None if needs.is_empty() => stale.push(entry.in_words("any script")),
                None => {}
            }
            let in_vain = entry.past.iter().filter(|line| !is_raced(line));
            stale.extend(in_vain.map(|line| format!("{} past {line}", entry.in_words("any script"))));
        }
        stale
    }
}

impl Difference {
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

    fn swaps(&self) -> impl Iterator<Item = (&str, &str)> {
        self.past.iter().map(|past| (self.line.as_str(), past.as_str()))
    }

    /// The lines with which the line may race in what was `said`: those it can reach past no others.
    fn raced<'a>(&self, said: &'a [String]) -> BTreeSet<&'a str> {
        let mut raced = BTreeSet::new();
        for at in (0..said.len()).filter(|at| said[*at] == self.line) {
            let may_swap = |name: &&String| self.past.contains(name);
            raced.extend(said[..at].iter().rev().take_while(may_swap).map(String::as_str));
            raced.extend(said[at + 1..].iter().take_while(may_swap).map(String::as_str));
            if self.what == Allowed::Presence {
                raced.insert(&said[at]);
            }
        }
        raced
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
    fn a_place_is_a_place_among_lines() {
        let entry = "[[difference]]\nline = \"warning\"\nwhat = \"place\"\nreason = \"luck\"\n";
        assert_eq!(
            Differences::parse(entry).unwrap_err().to_string(),
            "the entry for `warning` must say `past` which lines if `what` is `place`, and only then"
        );
    }

    #[test]
    fn a_race_is_stale_where_its_lines_do_not_meet() {
        let differences = Differences::parse(
            r#"
            [[difference]]
            scripts = ["near", "far"]
            line = "warning"
            past = ["turn/started", "turn/completed"]
            what = "place"
            reason = "luck"
            "#,
        )
        .unwrap();
        let transcript = |methods: &[&str]| {
            let line = |method: &&str| format!("{{\"dir\":\"received\",\"message\":{{\"method\":\"{method}\"}}}}\n");
            Transcript::parse(&methods.iter().map(line).collect::<String>()).unwrap()
        };
        let near = transcript(&["turn/started", "warning", "error", "turn/completed"]);
        let far = transcript(&["turn/started", "error", "warning"]);
        let mut needed = differences.judge("near", &near, &near).needed;
        needed.extend(differences.judge("far", &far, &far).needed);
        assert_eq!(
            differences.stale(&needed),
            ["far: warning  (Place)", "any script: warning  (Place) past turn/completed"]
        );
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
