//! The log of a detached process: a file that the process appends its stderr to, cut to its end while somebody watches.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use crate::limits::Limits;
use crate::state_file;
use crate::tail::StderrTail;

/// How often to look at its length: a worker that floods it at 100 MB/s fills no disk in that time.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// Opens the file for a process to append to; what it says may be a secret, so it is for this user alone.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    state_file::open(path, OpenOptions::new().create(true).append(true))
}

/// Keeps a log within its limit for as long as it lives.
pub(crate) struct Log {
    path: PathBuf,
    tail_bytes_max: usize,
    /// Aborted on drop.
    _cutter: JoinSet<()>,
}

impl Log {
    pub(crate) fn watch(path: &Path, limits: Limits) -> Self {
        let mut cutter = JoinSet::new();
        cutter.spawn(keep_short(path.into(), limits));
        Self { path: path.into(), tail_bytes_max: limits.stderr_bytes_max, _cutter: cutter }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its end, or nothing if it cannot be read.
    pub(crate) fn tail(&self) -> StderrTail {
        tail(&self.path, self.tail_bytes_max).unwrap_or_default()
    }
}

async fn keep_short(path: PathBuf, limits: Limits) {
    let mut looks = interval(LOOK_INTERVAL);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        // A log that was removed or that we may no longer write is the operator's affair.
        cut(&path, limits).ok();
    }
}

/// Empties a log that is too long, and appends its end again. The process appends too, so both write at the file's end
/// wherever that is; what it says between our look and our cut is lost.
fn cut(path: &Path, limits: Limits) -> io::Result<()> {
    if fs::symlink_metadata(path)?.len() <= limits.log_bytes_max {
        return Ok(());
    }
    let tail = tail(path, limits.stderr_bytes_max)?;
    let whole_lines = match tail.text.split_once('\n') {
        Some((_, lines)) if tail.starts_mid_line => lines,
        _ => &tail.text,
    };
    let mut file = state_file::open(path, OpenOptions::new().append(true))?;
    file.set_len(0)?;
    file.write_all(format!("… {} bytes were cut off here\n{whole_lines}", tail.total_bytes).as_bytes())
}

fn tail(path: &Path, bytes_max: usize) -> io::Result<StderrTail> {
    let mut file = state_file::open(path, OpenOptions::new().read(true))?;
    let total_bytes = file.metadata()?.len();
    // One byte more tells whether the first line is whole.
    let start = total_bytes.saturating_sub(bytes_max as u64 + 1);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(bytes_max as u64 + 1).read_to_end(&mut bytes)?;
    let starts_mid_line = bytes.len() > bytes_max && bytes.remove(0) != b'\n';
    Ok(StderrTail { text: String::from_utf8_lossy(&bytes).into_owned(), total_bytes, starts_mid_line })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use tempfile::TempDir;

    use super::*;

    fn check(written: &str, log_bytes_max: u64, expect: &Expect) {
        let home = TempDir::new().unwrap();
        let path = home.path().join("log");
        fs::write(&path, written).unwrap();
        let mut held = open(&path).unwrap();
        cut(&path, Limits { log_bytes_max, stderr_bytes_max: 12, ..Limits::default() }).unwrap();
        held.write_all(b"and then\n").unwrap();
        expect.assert_eq(&fs::read_to_string(&path).unwrap());
    }

    #[test]
    fn a_log_that_grew_too_long_keeps_its_last_whole_lines() {
        check(
            "first\nsecond\nthird\nfourth\n",
            20,
            &expect![[r#"
                … 26 bytes were cut off here
                fourth
                and then
            "#]],
        );
    }

    #[test]
    fn a_short_log_is_left_alone() {
        check(
            "first\nsecond\n",
            20,
            &expect![[r#"
                first
                second
                and then
            "#]],
        );
    }

    #[test]
    fn a_tail_says_whether_its_first_line_is_whole() {
        let home = TempDir::new().unwrap();
        let path = home.path().join("log");
        fs::write(&path, "one\ntwo\n").unwrap();
        let seen = |bytes_max| tail(&path, bytes_max).map(|tail| (tail.text, tail.starts_mid_line)).unwrap();
        assert_eq!(seen(100), ("one\ntwo\n".into(), false));
        assert_eq!(seen(8), ("one\ntwo\n".into(), false));
        assert_eq!(seen(4), ("two\n".into(), false));
        assert_eq!(seen(3), ("wo\n".into(), true));
    }
}
