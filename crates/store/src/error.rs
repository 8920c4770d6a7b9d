//! What can go wrong at the three doors: opening, writing, reading.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// Why a file was not opened. It is as it was before.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It is no database, or another program's.
    #[error("{} is not a store of Switchboard ({finding}); name another file, or move this one away", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// How that was seen.
        finding: Box<str>,
    },
    /// It is ours and damaged.
    #[error(
        "the store {} is damaged ({finding}); nothing was changed; restore a copy of it, \
         or move it away together with its -wal file to begin anew",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        finding: Box<str>,
    },
    /// A newer Switchboard wrote it.
    #[error(
        "the store {} has version {found}, and this Switchboard knows versions up to {known}; nothing was changed; \
         start the newer Switchboard, or name another state_dir",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// Our latest.
        known: u32,
    },
    /// It cannot be read or written.
    #[error(
        "the store {} cannot be used ({reason}); check that it and its directory can be written by this user",
        path.display()
    )]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: Box<str>,
    },
    /// There is no room for it.
    #[error("there is no room for the store {} ({reason}); free some space on its disk", path.display())]
    Full {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: Box<str>,
    },
}

impl OpenError {
    pub(crate) fn of_sqlite(path: &Path, error: &rusqlite::Error) -> Self {
        let (path, reason) = (path.into(), error.to_string().into());
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full { path, reason },
            Some(ErrorCode::NotADatabase) => Self::Foreign { path, finding: reason },
            Some(ErrorCode::DatabaseCorrupt) => Self::Damaged { path, finding: reason },
            _ => Self::Unusable { path, reason },
        }
    }

    pub(crate) fn of_io(path: &Path, error: &std::io::Error) -> Self {
        let (path, reason) = (path.into(), error.to_string().into());
        match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => Self::Full { path, reason },
            _ => Self::Unusable { path, reason },
        }
    }
}

/// Why a commit was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// There is no room; nothing of it was written.
    #[error("the store is full ({0}); nothing was written; free some space on its disk")]
    Full(Box<str>),
    /// The disk or another process is in the way. Nothing of it can be read now; where the disk failed while it was being
    /// made durable, it may be there after a restart.
    #[error("the store cannot be written ({0}); check its disk")]
    Failed(Box<str>),
    /// The rows contradict what is there; nothing of it was written.
    #[error("the store rejects the change: {0}")]
    Rejected(Box<str>),
    /// It is larger than a commit may be; nothing of it was written.
    #[error("the change has {bytes} bytes, and a commit may have {bytes_max}; make it smaller")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

impl WriteError {
    pub(crate) fn of(error: &rusqlite::Error) -> Self {
        let reason = error.to_string().into();
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full(reason),
            Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig) => Self::Rejected(reason),
            _ => Self::Failed(reason),
        }
    }

    /// Whether the fault is the change's own, so that others may still succeed.
    pub(crate) fn is_of_the_change(&self) -> bool {
        matches!(self, Self::Rejected(_) | Self::TooLarge { .. })
    }
}

/// Why a read gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A row is not as it was written.
    #[error("a row of {table} is not as it was written; restore a copy of the store")]
    Damaged {
        /// The table.
        table: &'static str,
    },
    /// SQLite could not read.
    #[error("the store cannot be read ({0}); check its disk")]
    Failed(Box<str>),
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

impl From<rusqlite::Error> for ReadError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Failed(error.to_string().into())
    }
}
