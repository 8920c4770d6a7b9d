//! Where the workspace lies and what cargo knows of it.
//! Everything that a command installs or caches goes below cargo's own target directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use crate::run;

const METADATA_TIMEOUT: Duration = Duration::from_secs(60);

/// What `cargo metadata` says of the members, without their outside dependencies.
#[derive(Debug, Deserialize)]
pub(crate) struct Workspace {
    pub(crate) target_directory: PathBuf,
    pub(crate) packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) manifest_path: PathBuf,
    #[serde(default)]
    pub(crate) features: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    pub(crate) dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// `None` is a normal dependency; else `dev` or `build`.
    pub(crate) kind: Option<String>,
}

impl Workspace {
    pub(crate) fn load() -> Result<Self> {
        let mut cargo = run::cargo("metadata --no-deps --format-version 1 --offline");
        let text = run::stdout_of(&mut cargo, METADATA_TIMEOUT)?;
        serde_json::from_str(&text).context("cargo metadata printed something else than its format 1")
    }

    /// The names of the members that have a feature.
    pub(crate) fn packages_with_feature(&self, feature: &str) -> Vec<String> {
        let members = self.packages.iter().filter(|package| package.features.contains_key(feature));
        members.map(|package| package.name.clone()).collect()
    }
}

/// The workspace's root directory.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}
