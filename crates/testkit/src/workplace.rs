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

impl Workplace {
    /// Makes the directories; they go when the workplace is dropped.
    pub fn new() -> io::Result<Self> {
        let workplace = Self { root: TempDir::new()? };
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
