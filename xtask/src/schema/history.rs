//! `schema/history.json`: which of the older versions in `schema/TESTED` have which method, as measured by
//! `cargo xtask schema --history`. The newest version is not in it: what no older one has is new there.

use std::fs;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::codex::{Codex, older_versions};
use crate::workspace;

pub(super) mod told;

/// Who says a method and whether it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Kind {
    Call,
    ClientNotification,
    Notification,
    Request,
}

/// The methods of the older versions.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct History {
    versions: Vec<String>,
    methods: Vec<Row>,
}

/// A method, and the first and last of the versions that have it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    pub(crate) kind: Kind,
    pub(crate) method: String,
    pub(crate) since: String,
    pub(crate) until: String,
}

impl History {
    pub(crate) fn read(text: &str) -> Result<Self> {
        Ok(serde_json::from_str(text)?)
    }

    /// The versions that were asked, oldest first.
    pub(crate) fn versions(&self) -> &[String] {
        &self.versions
    }

    /// The first version that has a method.
    pub(crate) fn since(&self, kind: Kind, method: &str) -> Option<&str> {
        let row = self.methods.iter().find(|row| row.kind == kind && row.method == method)?;
        Some(&row.since)
    }

    /// Takes in the methods of one version, younger than all before it.
    fn add(&mut self, version: &str, methods: Vec<(Kind, String)>) {
        for (kind, method) in methods {
            match self.methods.iter_mut().find(|row| row.kind == kind && row.method == method) {
                Some(row) => version.clone_into(&mut row.until),
                None => self.methods.push(Row { kind, method, since: version.to_owned(), until: version.to_owned() }),
            }
        }
    }

    /// As JSON, one method a line.
    fn to_text(&self) -> String {
        let line = |row| format!("\n  {}", serde_json::to_string(row).expect("a row is JSON"));
        let rows: Vec<String> = self.methods.iter().map(line).collect();
        let versions = serde_json::to_string(&self.versions).expect("a list is JSON");
        format!("{{\n \"versions\": {versions},\n \"methods\": [{}\n ]\n}}\n", rows.join(","))
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.methods.iter()
    }
}

/// Asks every older version and writes the file.
pub(super) fn write() -> Result<()> {
    let versions = older_versions()?;
    let mut history = History { versions: versions.clone(), methods: Vec::new() };
    for version in &versions {
        let codex = Codex::published(version)?;
        let methods = told::methods_of(&codex.binary).with_context(|| format!("codex {version}"))?;
        println!("codex {version} has {} methods", methods.len());
        history.add(version, methods);
    }
    let path = workspace::root().join("schema/history.json");
    Ok(fs::write(path, history.to_text())?)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::{History, Kind};

    #[test]
    fn a_method_is_there_from_its_first_version_to_its_last() {
        let mut history = History { versions: vec!["1.0.0".to_owned(), "2.0.0".to_owned()], methods: Vec::new() };
        let told = |method: &str| (Kind::Notification, method.to_owned());
        history.add("1.0.0", vec![(Kind::Call, "go".to_owned()), told("gone")]);
        history.add("2.0.0", vec![(Kind::Call, "go".to_owned()), told("went")]);
        expect![[r#"
            {
             "versions": ["1.0.0","2.0.0"],
             "methods": [
              {"kind":"call","method":"go","since":"1.0.0","until":"2.0.0"},
              {"kind":"notification","method":"gone","since":"1.0.0","until":"1.0.0"},
              {"kind":"notification","method":"went","since":"2.0.0","until":"2.0.0"}
             ]
            }
        "#]]
        .assert_eq(&history.to_text());
        assert_eq!(History::read(&history.to_text()).unwrap(), history);
        assert_eq!(history.since(Kind::Notification, "went"), Some("2.0.0"));
        assert_eq!(history.since(Kind::Call, "went"), None);
    }
}
