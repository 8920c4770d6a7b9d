//! Finds the file to run before anything is started, so that each way of not finding it has a name.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::launch::SpawnError;

/// The file that `program` means: a path is taken from `cwd`, a bare name is looked up on `path`.
pub(crate) fn find(program: &OsStr, path: &OsStr, cwd: &Path) -> Result<PathBuf, SpawnError> {
    if program.as_encoded_bytes().contains(&b'/') {
        return runnable(cwd.join(program));
    }
    let mut obstacle = None;
    // A relative entry would find programs in the child's directory, which may be a workspace that nobody vouches for.
    for directory in env::split_paths(path).filter(|directory| directory.is_absolute()) {
        match runnable(directory.join(program)) {
            Err(SpawnError::Missing(_)) => {}
            Err(error) => obstacle = obstacle.or(Some(error)),
            found => return found,
        }
    }
    Err(obstacle.unwrap_or_else(|| SpawnError::NotOnPath { program: program.into(), path: path.into() }))
}

fn runnable(file: PathBuf) -> Result<PathBuf, SpawnError> {
    match fs::metadata(&file) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Err(SpawnError::Missing(file))
        }
        Err(error) => Err(SpawnError::Refused { program: file, error }),
        Ok(metadata) if metadata.is_dir() => Err(SpawnError::IsDirectory(file)),
        Ok(_) if access(&file, Access::EXEC_OK).is_err() => Err(SpawnError::NotExecutable(file)),
        Ok(_) => Ok(file),
    }
}
