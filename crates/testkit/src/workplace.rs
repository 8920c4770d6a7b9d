//! A temporary home and project for one worker: nothing of the machine it runs on shows in what it says.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A home directory with `.codex` (the worker's `CODEX_HOME`) and `project` (its working directory).
pub struct Workplace {
    root: TempDir,
}

/// A temporary directory that is in neither `/tmp` nor `TMPDIR`, to which every agent with a writable workspace may write:
/// below cargo's target directory or, if the repository is in one of them itself, in `/var/tmp`.
pub fn directory_outside_tmp() -> io::Result<TempDir> {
    let test = std::env::current_exe()?;
    // target/PROFILE/deps/it-0123
    let target = test.ancestors().nth(3).ok_or(io::ErrorKind::NotFound)?;
    if target.starts_with("/tmp") || target.starts_with(std::env::temp_dir()) {
        return TempDir::new_in("/var/tmp");
    }
    let directory = target.join("tmp");
    fs::create_dir_all(&directory)?;
    TempDir::new_in(directory)
}

impl Workplace {
    /// Makes the directories; they go when the workplace is dropped. Not in `/tmp`: the sandbox of a Codex that is killed
    /// leaves an empty `.git` there, and Codex then takes everything below for one repository.
    pub fn new() -> io::Result<Self> {
        Self::of(TempDir::new_in("/var/tmp")?)
    }

    /// The same where agents cannot write: see [`directory_outside_tmp`].
    pub fn outside_tmp() -> io::Result<Self> {
        Self::of(directory_outside_tmp()?)
    }

    fn of(root: TempDir) -> io::Result<Self> {
        let workplace = Self { root };
        fs::create_dir(workplace.codex_home())?;
        fs::create_dir(workplace.project())?;
        Ok(workplace)
    }

    /// The user's home directory.
    pub fn home(&self) -> &Path {
        self.root.path()
    }

    /// Where the worker keeps its configuration and threads.
    pub fn codex_home(&self) -> PathBuf {
        self.home().join(".codex")
    }

    /// The directory the worker works in.
    pub fn project(&self) -> PathBuf {
        self.home().join("project")
    }

    /// The whole environment of a worker.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        vec![
            ("HOME".into(), self.home().into()),
            ("PATH".into(), path),
            ("CODEX_HOME".into(), self.codex_home().into()),
        ]
    }

    /// Where the driver lets the worker's stderr go.
    pub(crate) fn open_stderr(&self) -> io::Result<File> {
        File::options().create(true).append(true).open(self.stderr_path())
    }

    /// The last lines of the worker's stderr.
    pub(crate) fn stderr_tail(&self, lines_max: usize) -> String {
        let text = fs::read(self.stderr_path()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(lines_max)..].join("\n")
    }

    fn stderr_path(&self) -> PathBuf {
        self.home().join("stderr.log")
    }
}
