//! The repository as text: every file that is or could be committed, and what cargo knows of the members.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::run;
use crate::workspace::{self, Package, Workspace};

const GIT_TIMEOUT: Duration = Duration::from_secs(60);

/// Directories that a walk without git leaves out.
const NOT_OURS: [&str; 3] = [".git", "node_modules", "target"];

pub(super) struct Tree {
    pub(super) files: Vec<File>,
    pub(super) packages: Vec<Package>,
}

/// A text file; its path is relative to the root, with slashes.
pub(super) struct File {
    pub(super) path: String,
    pub(super) text: String,
}

impl Tree {
    pub(super) fn load() -> Result<Self> {
        let root = workspace::root();
        let mut paths = match paths_known_to_git(root) {
            Some(paths) => paths,
            None => paths_below(root).with_context(|| format!("cannot list {}", root.display()))?,
        };
        paths.sort_unstable();
        paths.dedup();
        let files = paths.into_iter().filter_map(|path| {
            // A deleted file is still in git's index, and a binary one is nobody's text.
            let text = fs::read_to_string(root.join(&path)).ok()?;
            Some(File { path, text })
        });
        let mut packages = Workspace::load()?.packages;
        for package in &mut packages {
            if let Ok(relative) = package.manifest_path.strip_prefix(root) {
                package.manifest_path = relative.to_owned();
            }
        }
        Ok(Self { files: files.collect(), packages })
    }

    pub(super) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    pub(super) fn rust_files(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }

    /// Every file but one: a rule that spells out what it forbids passes its own `file!()`.
    pub(super) fn files_except(&self, own: &'static str) -> impl Iterator<Item = &File> {
        self.files.iter().filter(move |file| file.path != own)
    }
}

impl File {
    /// The first line that satisfies a condition, counted from 1; else 1, the file as a whole.
    pub(super) fn line_where(&self, condition: impl Fn(&str) -> bool) -> usize {
        self.text.lines().position(condition).map_or(1, |index| index + 1)
    }

    pub(super) fn numbered_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}

/// `None` if the tree is no checkout of its own: a parent directory's repository knows nothing of our files.
fn paths_known_to_git(root: &Path) -> Option<Vec<String>> {
    if !root.join(".git").exists() {
        return None;
    }
    let mut git = run::program("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let listing = run::stdout_of(&mut git, GIT_TIMEOUT).ok()?;
    Some(listing.split_terminator('\0').map(str::to_owned).collect())
}

fn paths_below(root: &Path) -> std::io::Result<Vec<String>> {
    let mut paths = Vec::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            if NOT_OURS.iter().any(|name| entry.file_name() == *name) {
                continue;
            }
            if entry.file_type()?.is_dir() {
                directories.push(entry.path());
            } else if let Ok(relative) = entry.path().strip_prefix(root) {
                paths.push(relative.to_string_lossy().replace('\\', "/"));
            }
        }
    }
    Ok(paths)
}

#[cfg(test)]
impl Tree {
    /// A small tree made of text.
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, text)| File { path: (*path).to_owned(), text: (*text).to_owned() });
        Self { files: files.collect(), packages: Vec::new() }
    }

    /// The same tree with a member in `crates/`; a dependency may say its kind, as in `dev:testkit`.
    pub(super) fn with_package(mut self, name: &str, dependencies: &[&str]) -> Self {
        let dependencies = dependencies.iter().map(|dependency| {
            let (kind, name) =
                dependency.split_once(':').map_or((None, *dependency), |(kind, name)| (Some(kind), name));
            workspace::Dependency { name: name.to_owned(), kind: kind.map(str::to_owned) }
        });
        self.packages.push(Package {
            name: name.to_owned(),
            manifest_path: format!("crates/{name}/Cargo.toml").into(),
            features: std::collections::BTreeMap::new(),
            dependencies: dependencies.collect(),
        });
        self
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    #[test]
    fn a_walk_without_git_finds_the_files_that_are_ours() {
        let root = tempfile::tempdir().unwrap();
        for path in ["Cargo.toml", "crates/wire/src/lib.rs", "target/debug/build.rs", ".git/config", ".ci/run"] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let mut paths = super::paths_below(root.path()).unwrap();
        paths.sort_unstable();
        assert_eq!(paths, [".ci/run", "Cargo.toml", "crates/wire/src/lib.rs"]);
    }
}
