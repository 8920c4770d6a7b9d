//! `server.json`: that a server runs, and where. It holds no secret: commands of the same user reach the server by its
//! control socket. It is there while the server runs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};
use supervise::{Durability, read_state_file, replace_state_file};

const FILE_NAME: &str = "server.json";
/// Only its owner may read or write it.
const MODE: u32 = 0o600;

/// What stands in the file.
#[derive(Deserialize, Serialize)]
pub(crate) struct Announcement {
    /// Where callers with a key connect.
    pub(crate) url: String,
    pub(crate) pid: u32,
    /// When it was started, in milliseconds of Unix time: tells one run from the next.
    pub(crate) started_ms: u64,
}

/// Removes the file when the server is over.
pub(crate) struct Announced {
    path: PathBuf,
}

impl Announcement {
    /// What the running server tells; none if none runs, also if one was killed and left its file.
    pub(crate) fn read(state_dir: &Path) -> Option<Self> {
        let text = read_state_file(&state_dir.join(FILE_NAME)).ok()?;
        let announcement: Self = serde_json::from_slice(&text).ok()?;
        let pid = i32::try_from(announcement.pid).ok().and_then(Pid::from_raw)?;
        test_kill_process(pid).is_ok().then_some(announcement)
    }
}

/// Files of earlier versions that hold live secrets, and what a killed server has left.
const LEFT_BEHIND: [&str; 4] = [FILE_NAME, "server.json.new", "workers.key", "links.key"];

/// Removes what an earlier server has left in the state directory and nobody needs any more. The caller holds the lock of
/// the directory.
pub(crate) fn remove_left_behind(state_dir: &Path) -> io::Result<()> {
    for name in LEFT_BEHIND {
        match fs::remove_file(state_dir.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Tells the commands of this user where the server is.
pub(crate) fn announce(state_dir: &Path, announcement: &Announcement) -> io::Result<Announced> {
    let path = state_dir.join(FILE_NAME);
    replace_state_file(&path, &serde_json::to_vec(announcement)?, MODE, Durability::Unflushed)?;
    Ok(Announced { path })
}

impl Drop for Announced {
    fn drop(&mut self) {
        // Without it the next command finds nobody; with it, only a process that is gone.
        _ = fs::remove_file(&self.path);
    }
}
