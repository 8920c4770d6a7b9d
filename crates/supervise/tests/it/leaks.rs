//! Starting and ending processes again and again leaves no descriptor open and no zombie behind.

use std::fs;
use std::path::PathBuf;

use supervise::Ladder;

use crate::support::{run_alone, scale, spawn, state, until};

#[test]
fn many_cycles_leave_no_descriptors_and_no_children() {
    run_alone(async {
        // The first cycle opens what the runtime keeps for all.
        cycle().await;
        until("the first children are gone", || children().is_empty()).await;
        let before = descriptors();
        for _ in 0..50 * scale() {
            cycle().await;
        }
        until("all children are gone", || children().is_empty()).await;
        until("all descriptors are closed", || descriptors() <= before).await;
    });
}

/// One process ends on request, one by itself, and one because nobody wants it any more.
async fn cycle() {
    let exit = spawn("cat", &[]).stop(Ladder::default()).await;
    assert!(exit.rung.is_some(), "{exit}");
    spawn("true", &[]).process.wait().await;
    drop(spawn("sleep", &["1000"]));
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// All children of this process, zombies among them.
fn children() -> Vec<PathBuf> {
    let me = std::process::id().to_string();
    let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    processes.filter(|process| state(&process.join("stat")).is_some_and(|(_, parent)| parent == me)).collect()
}
