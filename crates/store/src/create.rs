//! Makes a new store: whole under another name first and then linked into its place, so that a file which is there is
//! never half made and an empty one is known to be damaged.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use rusqlite::{Connection, OpenFlags};

use crate::error::OpenError;
use crate::migrations::{self, APPLICATION_ID};

/// Makes the store unless the file is there.
pub(crate) fn create_if_missing(path: &Path) -> Result<(), OpenError> {
    refuse_irregular(path).map_err(|error| OpenError::of_io(path, &error))?;
    match path.try_exists() {
        Ok(true) => Ok(()),
        Ok(false) => create(path),
        Err(error) => Err(OpenError::of_io(path, &error)),
    }
}

/// Refuses a symbolic link, because SQLite would write to wherever it leads, and what is no file, such as a pipe that SQLite
/// would wait for.
pub(crate) fn refuse_irregular(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_symlink() => Err(io::Error::other(
            "it is a symbolic link, and state files are never opened through one: remove the link",
        )),
        Ok(metadata) if !metadata.is_file() => Err(io::Error::other("it is not a file")),
        _ => Ok(()),
    }
}

fn create(path: &Path) -> Result<(), OpenError> {
    let draft = draft_of(path);
    let made = make(&draft, path);
    let placed = made.and_then(|()| place(&draft, path).map_err(|error| OpenError::of_io(path, &error)));
    // Whether or not it was placed, this name of it goes.
    remove_draft(&draft);
    placed
}

fn make(draft: &Path, path: &Path) -> Result<(), OpenError> {
    remove_draft(draft);
    // Prompts and hashes of keys are nobody else's; SQLite gives its other files the same mode.
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft);
    file.map_err(|error| OpenError::of_io(path, &error))?;
    fill(draft).map_err(|error| OpenError::of_sqlite(path, &error))
}

fn fill(draft: &Path) -> rusqlite::Result<()> {
    let mut connection = Connection::open_with_flags(draft, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    migrations::migrate(&mut connection)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.close().map_err(|(_, error)| error)
}

fn remove_draft(draft: &Path) {
    for suffix in ["", "-wal", "-shm", "-journal"] {
        // What is not there need not go, and what cannot go is noticed when it is made.
        let _ = fs::remove_file(beside(draft, suffix));
    }
}

/// Links rather than renames, for a rename would replace what another process has just made.
pub(crate) fn place(draft: &Path, path: &Path) -> io::Result<()> {
    File::open(draft)?.sync_all()?;
    match fs::hard_link(draft, path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

/// A name that nobody else writes under meanwhile.
pub(crate) fn draft_of(path: &Path) -> PathBuf {
    static DRAFTS: AtomicUsize = AtomicUsize::new(0);
    let number = DRAFTS.fetch_add(1, Ordering::Relaxed);
    beside(path, &format!(".{}.{number}.new", std::process::id()))
}

/// The file with the same name and something more.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
