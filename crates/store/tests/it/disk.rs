//! A disk of its own for a test: two megabytes in memory, where root may mount one.

use std::path::PathBuf;
use std::process::Command;

pub(crate) struct SmallDisk {
    pub(crate) path: PathBuf,
    _directory: tempfile::TempDir,
}

impl SmallDisk {
    /// Mounts one, or says that it cannot be done here.
    #[expect(clippy::print_stdout, reason = "a test that was skipped says so")]
    pub(crate) fn new() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_owned();
        let is_mounted = system("mount", &["-t", "tmpfs", "-o", "size=2m", "none", path.to_str()?]);
        if !is_mounted {
            println!("skipped: only root can mount a disk, and only where mounting is allowed");
        }
        is_mounted.then_some(Self { path, _directory: directory })
    }

    pub(crate) fn make_read_only(&self) {
        assert!(system("mount", &["-o", "remount,ro", self.path.to_str().unwrap()]));
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        assert!(system("umount", &["-l", self.path.to_str().unwrap()]), "{} stays mounted", self.path.display());
    }
}

#[expect(clippy::disallowed_methods, reason = "no worker: it ends at once")]
fn system(program: &str, args: &[&str]) -> bool {
    Command::new(program).args(args).output().is_ok_and(|output| output.status.success())
}
