//! Orphans that fall to us: what wiped its environment dies although its child crashed, what is ours to wait for keeps its
//! status, and what a living child left behind lives on. Adoption holds for a whole process, so each test has its own.

use std::fs;
use std::io::ErrorKind;
use std::process::{Command, Stdio};

use supervise::{Ending, Limits, adopt_orphans};
use tokio::task::JoinSet;

use crate::support::{launch, line, marked, run_in_own_process, runs, scale, sh, until};

/// Says the id of a process that has left everything by which it could be told to be the shell's.
const WIPED: &str = "env -i setsid sh -c 'echo $$; exec sleep 1000' &";

#[test]
fn what_wiped_its_environment_is_gone_after_a_crash() {
    run_in_own_process("adoption::what_wiped_its_environment_is_gone_after_a_crash", async {
        let _adoption = adopt_orphans().unwrap();
        for _ in 0..3 * scale() {
            let mut child = sh(&format!("{WIPED} read line; kill -KILL $$"));
            let orphan = line(&mut child.stdout).await;
            assert!(runs(&orphan));
            child.stdin.close();
            assert!(matches!(child.process.wait().await.ending, Ending::Signal { number: 9, .. }));
            until("the orphan is gone, and reaped", || fs::metadata(format!("/proc/{orphan}")).is_err()).await;
        }
    });
}

#[test]
fn no_exit_status_is_taken_from_whoever_waits_for_it() {
    run_in_own_process("adoption::no_exit_status_is_taken_from_whoever_waits_for_it", async {
        let _adoption = adopt_orphans().unwrap();
        let mut waiting = JoinSet::new();
        for number in 0..100 * i32::try_from(scale()).unwrap() {
            // Each leaves two orphans that end at about the same time as it does.
            let code = number % 200;
            let mut child = sh(&format!("(setsid true &) & (setsid sh -c 'exit 7' &) & exit {code}"));
            waiting.spawn(async move { (child.process.wait().await.ending, code) });
            if waiting.len() == 8 {
                let (ending, code) = waiting.join_next().await.unwrap().unwrap();
                assert_eq!(ending, Ending::Code(code));
            }
        }
        while let Some(ended) = waiting.join_next().await {
            let (ending, code) = ended.unwrap();
            assert_eq!(ending, Ending::Code(code));
        }
        until("all orphans are reaped", || children().is_empty()).await;
    });
}

#[test]
fn one_that_could_not_be_begun_is_no_adoption() {
    run_in_own_process("adoption::one_that_could_not_be_begun_is_no_adoption", async {
        // A thread without a runtime: there nothing can be heard of signals.
        assert!(std::thread::spawn(|| adopt_orphans().map(drop)).join().is_err());
        assert!(adopt_orphans().is_ok());
    });
}

#[test]
fn an_orphan_lives_as_long_as_the_child_it_comes_from() {
    run_in_own_process("adoption::an_orphan_lives_as_long_as_the_child_it_comes_from", async {
        let _adoption = adopt_orphans().unwrap();
        let mut child = sh("(setsid sh -c 'echo $$; exec sleep 1000' &) & exec cat");
        let orphan = line(&mut child.stdout).await;
        until("it is ours", || children().contains(&orphan)).await;
        for _ in 0..5 {
            assert_eq!(sh("exit 1").process.wait().await.ending, Ending::Code(1));
        }
        assert!(runs(&orphan));
        drop(child);
        until("the orphan is gone, and reaped", || !children().contains(&orphan)).await;
    });
}

#[test]
fn a_chain_that_runs_away_cannot_outrun_adoption() {
    run_in_own_process("adoption::a_chain_that_runs_away_cannot_outrun_adoption", async {
        let _adoption = adopt_orphans().unwrap();
        let flee = r#"if [ "$1" -gt 0 ]; then setsid sh -c "$0" "$0" $(($1 - 1)) & fi; echo on"#;
        let launch = launch("/bin/sh", &["-c", r#"sh -c "$0" "$0" 3000; exec sleep 1000"#, flee]);
        let mut child = launch.spawn(Limits::default()).unwrap();
        for _ in 0..50 {
            assert_eq!(line(&mut child.stdout).await, "on");
        }
        drop(child);
        until("all of it is gone, and reaped", || marked(launch.owner) == 0 && children().is_empty()).await;
    });
}

#[test]
fn who_was_our_child_before_is_not_ours_to_end() {
    run_in_own_process("adoption::who_was_our_child_before_is_not_ours_to_end", async {
        #[expect(clippy::disallowed_methods, reason = "a child that did not come from `supervise` is the point")]
        let mut before = Command::new("sleep").arg("1000").env_clear().stdout(Stdio::null()).spawn().unwrap();
        let _adoption = adopt_orphans().unwrap();
        for _ in 0..5 {
            assert_eq!(sh("exit 1").process.wait().await.ending, Ending::Code(1));
        }
        assert!(runs(&before.id().to_string()));
        before.kill().unwrap();
        before.wait().unwrap();
    });
}

#[test]
fn it_can_be_had_once_at_a_time() {
    run_in_own_process("adoption::it_can_be_had_once_at_a_time", async {
        let adoption = adopt_orphans().unwrap();
        assert_eq!(adopt_orphans().map(drop).unwrap_err().kind(), ErrorKind::AlreadyExists);
        drop(adoption);
        adopt_orphans().unwrap();
    });
}

/// All children of this process, zombies among them.
fn children() -> Vec<String> {
    let us = std::process::id().to_string();
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    let is_child = |pid: &String| {
        let stat = format!("/proc/{pid}/stat");
        crate::support::state(stat.as_ref()).is_some_and(|(_, parent)| parent == us)
    };
    pids.filter(is_child).collect()
}
