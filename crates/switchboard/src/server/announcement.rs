//! `server.json`: what a running server tells the commands of the same user. Nobody else may read it, because it holds a
//! key; it is there while the server runs.

use std::fs;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};

const FILE_NAME: &str = "server.json";
/// Only its owner may read or write it.
const MODE: u32 = 0o600;

/// What stands in the file. Without `Debug`, because of the token.
#[derive(Deserialize, Serialize)]
pub(crate) struct Announcement {
    pub(crate) address: SocketAddr,
    pub(crate) pid: u32,
    pub(crate) token: String,
}

/// Removes the file when the server is over.
pub(crate) struct Announced {
    path: PathBuf,
}

impl Announcement {
    /// What the running server tells; none if none runs, also if one was killed and left its file.
    pub(crate) fn read(state_dir: &Path) -> Option<Self> {
        let text = fs::read_to_string(state_dir.join(FILE_NAME)).ok()?;
        let announcement: Self = serde_json::from_str(&text).ok()?;
        let pid = i32::try_from(announcement.pid).ok().and_then(Pid::from_raw)?;
        test_kill_process(pid).is_ok().then_some(announcement)
    }
}

/// Tells the commands of this user where the server is.
pub(crate) fn announce(state_dir: &Path, announcement: &Announcement) -> io::Result<Announced> {
    let path = state_dir.join(FILE_NAME);
    let unfinished = state_dir.join(format!("{FILE_NAME}.new"));
    // A file that was left behind may be readable by others.
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(MODE).open(&unfinished)?;
    file.write_all(serde_json::to_string(announcement)?.as_bytes())?;
    fs::rename(&unfinished, &path)?;
    Ok(Announced { path })
}

impl Drop for Announced {
    fn drop(&mut self) {
        // Without it the next command finds nobody; with it, only a process that is gone.
        _ = fs::remove_file(&self.path);
    }
}
