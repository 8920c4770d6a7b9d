//! A path as the system follows it: every directory entry on the way, links included, and where it ends. Who can replace
//! one of these entries decides what the path leads to.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

/// As many links as Linux follows in one path.
const LINKS_MAX: usize = 40;

/// How a path is followed.
#[derive(Debug)]
pub(super) struct ResolvedPath {
    /// Every entry on the way, each in a real directory.
    entries: Vec<PathBuf>,
    /// The real path, also of what does not exist yet.
    end: PathBuf,
    /// Device and inode of each existing directory from the end upwards: the same directory can be mounted twice.
    directories: Vec<Option<(u64, u64)>>,
}

/// Whether somebody who may write to everything below `root` can change what `path` leads to. A path that cannot be followed
/// counts as inside, and a root that cannot be followed contains everything.
pub(super) fn can_change(root: &io::Result<ResolvedPath>, path: &io::Result<ResolvedPath>) -> bool {
    let (Ok(root), Ok(path)) = (root, path) else { return true };
    let is_replaceable = |entry: &PathBuf| *entry != root.end && entry.starts_with(&root.end);
    let mounted = root.directories.first().copied().flatten();
    path.end.starts_with(&root.end)
        || path.entries.iter().any(is_replaceable)
        || mounted.is_some_and(|root| path.directories.contains(&Some(root)))
}

/// The same, but for the root itself: whether what the path leads to is below the root, or can be led elsewhere.
pub(super) fn can_change_below(root: &io::Result<ResolvedPath>, path: &io::Result<ResolvedPath>) -> bool {
    let is_root = |root: &ResolvedPath, path: &ResolvedPath| {
        let is_replaceable = |entry: &PathBuf| *entry != root.end && entry.starts_with(&root.end);
        path.end == root.end && !path.entries.iter().any(is_replaceable)
    };
    let is_same = matches!((root, path), (Ok(root), Ok(path)) if is_root(root, path));
    !is_same && can_change(root, path)
}

impl ResolvedPath {
    /// Follows an absolute path. What does not exist yet is taken as it is written.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        if !path.is_absolute() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not an absolute path"));
        }
        let mut steps = steps_of(path);
        let mut resolved = Self { entries: Vec::new(), end: PathBuf::from("/"), directories: Vec::new() };
        let mut links = 0;
        while let Some(step) = steps.pop_front() {
            let PathStep::Down(name) = step else {
                resolved.take(step);
                continue;
            };
            let entry = resolved.end.join(&name);
            resolved.entries.push(entry.clone());
            match fs::symlink_metadata(&entry) {
                Ok(metadata) if metadata.is_symlink() => {
                    links += 1;
                    if links > LINKS_MAX {
                        return Err(io::Error::other("too many links"));
                    }
                    let target = steps_of(&fs::read_link(&entry)?);
                    steps = target.into_iter().chain(steps).collect();
                }
                Ok(_) => resolved.end = entry,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    resolved.end = entry;
                    resolved.push_missing(steps)?;
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        let identity = |directory: &Path| fs::metadata(directory).ok().map(|made| (made.dev(), made.ino()));
        resolved.directories = resolved.end.ancestors().map(identity).collect();
        Ok(resolved)
    }

    fn take(&mut self, step: PathStep) {
        match step {
            PathStep::Top => self.end = PathBuf::from("/"),
            PathStep::Up => _ = self.end.pop(),
            PathStep::Down(name) => self.end.push(name),
        }
    }

    /// Nobody knows where `..` will lead from a directory that is not there.
    fn push_missing(&mut self, steps: VecDeque<PathStep>) -> io::Result<()> {
        for step in steps {
            if !matches!(step, PathStep::Down(_)) {
                return Err(io::ErrorKind::NotFound.into());
            }
            self.take(step);
            self.entries.push(self.end.clone());
        }
        Ok(())
    }
}

/// One part of a path.
enum PathStep {
    Top,
    Up,
    Down(OsString),
}

fn steps_of(path: &Path) -> VecDeque<PathStep> {
    let step = |part: Component<'_>| match part {
        Component::RootDir => Some(PathStep::Top),
        Component::ParentDir => Some(PathStep::Up),
        Component::Normal(name) => Some(PathStep::Down(name.into())),
        Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(step).collect()
}
