//! Processes that hold what a worker needs: orphans of ours that nobody knows any more, and strangers.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tempfile::TempDir;
use testkit::HANG_TIMEOUT;
use testkit::processes;
use workers::{Transport, WorkerState};

use crate::reattach::stop_for_good;
use crate::support::{House, Setup, finish, kill, until};

fn unix() -> Setup {
    Setup { transport: Transport::Unix, ..Setup::default() }
}

/// A script that runs the demo worker as its child, as the script of npm runs the native codex.
fn wrapper(directory: &Path) -> PathBuf {
    let script = directory.join("wrapper");
    let worker = testkit::built::demo_worker();
    fs::write(&script, format!("#!/bin/sh\n'{}' \"$@\" &\nwait\n", worker.display())).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    script
}

/// All processes of the pool's workers.
fn running(directory: &Path) -> Vec<u32> {
    processes::with(&format!("CODEX_HOME={}", directory.join("home").display()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_whose_wrapper_was_killed_does_not_keep_its_successor_from_the_socket() {
    let directory = Arc::new(TempDir::new().unwrap());
    let house = House::open_in(Setup { program: wrapper(directory.path()), ..unix() }, Arc::clone(&directory)).await;
    house.until_ready().await;
    let turn = house.turn("[[slow 3 10]]").await;
    let before = running(directory.path());
    assert_eq!(before.len(), 2, "the wrapper and the worker");
    let wrapper = house.pool.workers()[0].pid.unwrap();
    kill(wrapper);
    let orphan = before.into_iter().find(|pid| *pid != wrapper).unwrap();
    until("the wrapper is gone", || !processes::is_running(wrapper)).await;
    assert!(processes::is_running(orphan));

    let house = house.reopen_in_mid_turn(turn).await;
    house.until_ready().await;
    assert_eq!(processes::until_gone(&[orphan], HANG_TIMEOUT).await, [0_u32; 0]);
    assert_eq!(finish(&mut house.turn("[[say again]]").await).await.0, "again");
    let left = running(directory.path());
    assert_eq!(left.len(), 2, "the new wrapper and its worker: {left:?}");
    house.stop().await;
    left.iter().for_each(|pid| kill(*pid));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_listens_in_place_of_a_process_that_is_gone_is_adopted() {
    let house = House::open(unix()).await;
    house.until_ready().await;
    let turn = house.turn("[[shell touch x]]").await;
    let pid = house.pool.workers()[0].pid.unwrap();
    let ledger = house.path().join("ledger.json");
    let house = house
        .reopen_changed(turn, |_| {
            // As if the recorded process had been another, which is gone.
            let mut page: Value = serde_json::from_slice(&fs::read(&ledger).unwrap()).unwrap();
            page["detached"][0]["start_time"] = 1.into();
            fs::write(&ledger, page.to_string()).unwrap();
        })
        .await;
    house.until_ready().await;
    assert_eq!(house.pool.workers()[0].pid, Some(pid));
    until("its turn is followed", || house.pool.load().parked == 1).await;
    stop_for_good(house, pid).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_that_holds_the_socket_is_named_and_left_alone() {
    let directory = Arc::new(TempDir::new().unwrap());
    let socket = directory.path().join("main-0.sock");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let house = House::open_in(unix(), directory).await;
    let reason = || house.pool.workers()[0].reason.clone().unwrap_or_default();
    let named = format!("PID {} ", std::process::id());
    until("it is refused", || reason().contains(&named)).await;
    assert!(reason().contains("was not started by this Switchboard"), "{}", reason());
    assert_ne!(house.pool.workers()[0].state, WorkerState::Failed);
    drop(listener);
    house.until_ready().await;
    let pid = house.pool.workers()[0].pid.unwrap();
    stop_for_good(house, pid).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_from_one_socket_to_another_ends_no_other_worker() {
    let house = House::open(Setup { count: 2, ..unix() }).await;
    house.until_ready().await;
    let pid_of = |house: &House, name: &str| {
        house.pool.workers().iter().find(|worker| &*worker.name == name).and_then(|worker| worker.pid).unwrap()
    };
    let (deceiver, other) = (pid_of(&house, "main-0"), pid_of(&house, "main-1"));
    let turn = house.turn("[[text]]").await;
    let directory = house.path().to_owned();
    let house = house
        .reopen_changed(turn, |_| {
            kill(deceiver);
            fs::remove_file(directory.join("main-0.sock")).unwrap();
            symlink("main-1.sock", directory.join("main-0.sock")).unwrap();
        })
        .await;
    house.until_ready().await;
    assert_eq!(pid_of(&house, "main-1"), other, "the other worker is still the same process");
    let successor = pid_of(&house, "main-0");
    assert_ne!(successor, other);
    kill(other);
    stop_for_good(house, successor).await;
}
