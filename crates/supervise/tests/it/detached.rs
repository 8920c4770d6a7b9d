//! A process that outlives us: in a session of its own, left alone when dropped, found again by number, start time and
//! mark, and stopped with all that it started.

use std::fs;
use std::path::Path;

use supervise::{Detached, DetachedEntry, Ending, Ladder, Launch, Limits, Rung};
use tempfile::TempDir;

use crate::support::{launch, marked, run, runs, until};

/// A detached script, with what it takes to find it again.
struct Place {
    home: TempDir,
    launch: Launch,
}

impl Place {
    fn new(script: &str) -> Self {
        Self { home: TempDir::new().unwrap(), launch: launch("/bin/sh", &["-c", script]) }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap()
    }

    fn log_path(&self) -> std::path::PathBuf {
        self.home.path().join("log")
    }

    fn start(&self) -> Detached {
        self.launch.spawn_detached(&self.log_path(), Limits::default()).unwrap()
    }
}

fn entry(detached: &Detached) -> DetachedEntry {
    detached.entry("main-0", "/run/main-0.sock".into(), "fingerprint")
}

/// What the system calls its session.
fn session(pid: u32) -> String {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.split(' ').nth(3).unwrap().into()
}

#[test]
fn it_runs_in_a_session_of_its_own_and_writes_its_log() {
    run(async {
        let place = Place::new(
            "streams=$(readlink /proc/$$/fd/0 /proc/$$/fd/1); echo \"begun with\n$streams\" >&2; exec sleep 1000",
        );
        let detached = place.start();
        until("it has spoken", || place.log().lines().count() == 3).await;
        assert_eq!(place.log(), "begun with\n/dev/null\n/dev/null\n");
        assert_eq!(detached.log_tail().to_string(), "last stderr: begun with | /dev/null | /dev/null");
        assert_eq!(session(detached.pid()), detached.pid().to_string());
        detached.stop(Ladder::default()).await;
    });
}

#[test]
fn it_outlives_its_handle_and_is_found_again() {
    run(async {
        let place = Place::new("exec sleep 1000");
        let detached = place.start();
        let (entry, pid) = (entry(&detached), detached.pid());
        drop(detached);
        let found = Detached::find(&entry, Limits::default()).unwrap();
        assert!(found.is_alive() && found.pid() == pid);
        let exit = found.stop(Ladder::default()).await;
        assert_eq!((exit.ending, exit.rung), (Ending::Unknown, Some(Rung::Terminate)));
        assert!(!runs(&pid.to_string()));
        assert!(Detached::find(&entry, Limits::default()).is_none());
    });
}

#[test]
fn another_process_with_its_number_is_not_taken_for_it() {
    run(async {
        let place = Place::new("exec sleep 1000");
        let detached = place.start();
        let entry = entry(&detached);
        let later = DetachedEntry { start_time: entry.start_time + 1, ..entry.clone() };
        assert!(Detached::find(&later, Limits::default()).is_none());
        let other = DetachedEntry { owner: supervise::Owner::generate(), ..entry };
        // In the middle of an exec a process shows no mark, and counts as its own.
        until("its mark is seen to be another", || Detached::find(&other, Limits::default()).is_none()).await;
        assert!(detached.is_alive());
        detached.stop(Ladder::default()).await;
    });
}

#[test]
fn its_end_is_told_with_its_last_words() {
    run(async {
        let place = Place::new("echo no such model >&2; exit 3");
        let mut detached = place.start();
        let exit = detached.ended().await;
        assert_eq!(exit.ending, Ending::Code(3));
        assert_eq!(exit.stderr.to_string(), "last stderr: no such model");
        assert_eq!(detached.ended().await.to_string(), exit.to_string());
        assert!(!detached.is_alive());
    });
}

#[test]
fn nothing_that_it_started_outlives_it() {
    run(async {
        for end in ["exit 1", "exec sleep 1000"] {
            let place =
                Place::new(&format!("setsid sleep 1000 & (setsid sleep 1000 &) & sleep 1000 & echo >&2; {end}"));
            let mut detached = place.start();
            until("it has spoken", || place.log() == "\n").await;
            match end {
                "exit 1" => detached.ended().await,
                _ => detached.stop(Ladder::default()).await,
            };
            until("all of it is gone", || marked(place.launch.owner) == 0).await;
        }
    });
}

#[test]
fn it_is_not_touched_when_a_child_ends() {
    run(async {
        let place = Place::new("exec sleep 1000");
        let detached = place.start();
        drop(crate::support::sh("exec sleep 1000"));
        crate::support::sh("exit 1").process.wait().await;
        assert!(detached.is_alive());
        detached.stop(Ladder::default()).await;
    });
}

#[test]
fn a_log_that_grows_too_long_is_cut_while_somebody_watches() {
    run(async {
        let place = Place::new("i=0; while [ $i -lt 5000 ]; do i=$((i + 1)); echo line $i >&2; done; exec sleep 1000");
        let limits = Limits { log_bytes_max: 4096, stderr_bytes_max: 100, ..Limits::default() };
        let detached = place.launch.spawn_detached(&place.log_path(), limits).unwrap();
        until("the log was cut", || place.log().contains("were cut off here")).await;
        until("the last line came", || place.log().ends_with("line 5000\n")).await;
        until("the log is short", || place.log().len() <= 4096).await;
        detached.stop(Ladder::default()).await;
    });
}

#[test]
fn a_log_that_cannot_be_written_is_an_error() {
    run(async {
        let place = Place::new("exec sleep 1000");
        let Err(error) = place.launch.spawn_detached(Path::new("/no/such/log"), Limits::default()) else {
            panic!("it was started")
        };
        let expected = "log `/no/such/log` cannot be opened: No such file or directory (os error 2); \
                        name a file that this user may write";
        assert_eq!(error.to_string(), expected);
    });
}
