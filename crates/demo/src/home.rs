//! The directory where threads live, in the layout of the real worker: `sessions/YYYY/MM/DD/rollout-…-ID.jsonl`, and
//! `archived_sessions/`. Each open file is locked, so that a thread has one writer.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::clock::Utc;
use crate::record::{Record, Stored, ThreadRecord};

/// How deep the layout is: year, month, day.
const DEPTH_MAX: usize = 3;

/// A home that could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// The real worker does not create it either.
    #[error("CODEX_HOME points to {0:?}, which is not a directory: create it or unset the variable")]
    Missing(PathBuf),
    /// Without CODEX_HOME a temporary one is needed.
    #[error("cannot create a temporary home: {0}")]
    Temporary(io::Error),
}

/// An open home.
#[derive(Debug)]
pub struct Home {
    root: PathBuf,
    _removed_at_exit: Option<TempDir>,
}

/// The two places of thread files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shelf {
    Active,
    Archived,
}

/// A thread file that this worker writes, and no other.
#[derive(Debug)]
pub(crate) struct ThreadFile {
    file: File,
    path: PathBuf,
}

/// Why a thread file was not opened.
#[derive(Debug)]
pub(crate) enum Unopened {
    /// Another worker writes it.
    HasWriter,
    Io(io::Error),
}

impl Home {
    /// The given home, or a fresh one that is removed at the end.
    pub fn open(codex_home: Option<PathBuf>) -> Result<Self, HomeError> {
        match codex_home {
            Some(root) if root.is_dir() => {
                let root = fs::canonicalize(&root).unwrap_or(root);
                Ok(Self { root, _removed_at_exit: None })
            }
            Some(root) => Err(HomeError::Missing(root)),
            None => {
                let temporary =
                    tempfile::Builder::new().prefix("demo-worker-").tempdir().map_err(HomeError::Temporary)?;
                Ok(Self { root: temporary.path().to_owned(), _removed_at_exit: Some(temporary) })
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.root
    }

    /// Where a thread's file is or will be.
    pub(crate) fn thread_path(&self, thread: &ThreadRecord) -> PathBuf {
        let created = Utc::from_unix_ms(thread.created_ms);
        self.shelf(Shelf::Active)
            .join(format!("{:04}/{:02}/{:02}", created.year, created.month, created.day))
            .join(format!("rollout-{}-{}.jsonl", created.file_stamp(), thread.id))
    }

    /// Opens the file at `path` for appending, creating it if need be. A line that a kill cut short is ended.
    pub(crate) fn open_thread(path: PathBuf) -> Result<ThreadFile, Unopened> {
        let open = || {
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
                return Err(io::Error::other("it is not a regular file"));
            }
            OpenOptions::new().create(true).read(true).append(true).open(&path)
        };
        let mut file = open().map_err(Unopened::Io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Unopened::HasWriter),
            Err(TryLockError::Error(error)) => return Err(Unopened::Io(error)),
        }
        end_cut_line(&mut file).map_err(Unopened::Io)?;
        Ok(ThreadFile { file, path })
    }

    /// The file of a thread that was stored before.
    pub(crate) fn find(&self, thread_id: &str, shelf: Shelf) -> Option<PathBuf> {
        let ending = format!("-{thread_id}.jsonl");
        self.files(shelf).into_iter().find(|path| path.to_string_lossy().ends_with(&ending))
    }

    /// Every thread file of a shelf. Links are not followed, so that the walk ends.
    pub(crate) fn files(&self, shelf: Shelf) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut directories = vec![(self.shelf(shelf), 0)];
        while let Some((directory, depth)) = directories.pop() {
            for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                let Ok(kind) = entry.file_type() else { continue };
                let path = entry.path();
                if kind.is_dir() && depth < DEPTH_MAX {
                    directories.push((path, depth + 1));
                } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "jsonl") {
                    found.push(path);
                }
            }
        }
        found
    }

    /// Moves a file to the archive.
    pub(crate) fn archive(&self, path: &Path) -> io::Result<PathBuf> {
        let archived = self.shelf(Shelf::Archived).join(path.file_name().unwrap_or_default());
        moved(path, archived)
    }

    /// Moves a file back from the archive.
    pub(crate) fn unarchive(&self, path: &Path, thread: &ThreadRecord) -> io::Result<PathBuf> {
        moved(path, self.thread_path(thread))
    }

    fn shelf(&self, shelf: Shelf) -> PathBuf {
        self.root.join(match shelf {
            Shelf::Active => "sessions",
            Shelf::Archived => "archived_sessions",
        })
    }
}

fn moved(from: &Path, to: PathBuf) -> io::Result<PathBuf> {
    to.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::rename(from, &to)?;
    Ok(to)
}

fn end_cut_line(file: &mut File) -> io::Result<()> {
    let mut last = [b'\n'];
    if file.seek(SeekFrom::End(-1)).is_ok() {
        file.read_exact(&mut last)?;
    }
    if last == [b'\n'] { Ok(()) } else { file.write_all(b"\n") }
}

/// What a file says; `None` if it is no thread file, or that of another thread than its name says.
pub(crate) fn read_thread(path: &Path) -> Option<Stored> {
    let is_file = path.symlink_metadata().is_ok_and(|found| found.is_file());
    let text = is_file.then(|| fs::read(path).ok()).flatten()?;
    let stored = Stored::read(&String::from_utf8_lossy(&text))?;
    let stem = path.file_stem()?.to_string_lossy();
    stem.ends_with(&stored.thread.id).then_some(stored)
}

impl ThreadFile {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn append(&mut self, record: &Record) -> io::Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        self.file.write_all(&line)
    }

    /// Copies the turns that another thread's file tells. What that thread is called and works with is its own.
    pub(crate) fn append_turns(&mut self, source: &Path, last_turn: Option<&str>) -> io::Result<()> {
        let kept = fs::read(source)?;
        let text = String::from_utf8_lossy(&kept);
        let mut turns = String::new();
        for line in text.lines() {
            let Ok(record) = serde_json::from_str::<Record>(line) else { continue };
            if record.tells_of_turns() {
                turns = turns + line + "\n";
            }
            if last_turn.is_some_and(|last| record.ends(last)) {
                break;
            }
        }
        self.file.write_all(turns.as_bytes())
    }
}
