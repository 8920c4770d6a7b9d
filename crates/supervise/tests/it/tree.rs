//! Nothing that a process started outlives it: not what left its group, forked twice, wiped its environment while its
//! parent lived, or grows while it is being killed.

use supervise::{Child, Ending, Limits, Owner};

use crate::support::{LONG, ladder, launch, line, marked, run, runs, scale, until};

/// A process that has left the group and says its id; the shell that started it reads on.
const ESCAPED: &str = "setsid sh -c 'echo $$; exec sleep 1000' &";

/// The same, whose parent is gone besides.
const DOUBLE_FORKED: &str = "(setsid sh -c 'echo $$; exec sleep 1000' &) &";

/// The same with nothing left of its environment, so that it can be told only as a descendant.
const WIPED: &str = "env -i setsid sh -c 'echo $$; exec sleep 1000' &";

/// A wiped one's child in yet another session.
const WIPED_TWICE: &str = "env -i setsid sh -c 'setsid sh -c \"echo \\$\\$; exec sleep 1000\" & wait' &";

/// A script that has left something behind, and the id of what it left.
async fn with_leftover(leftover: &str, then: &str) -> (Child, String) {
    let mut child = crate::support::sh(&format!("{leftover} {then}"));
    let pid = line(&mut child.stdout).await;
    assert!(runs(&pid), "{leftover}");
    (child, pid)
}

#[test]
fn what_left_the_group_is_gone_after_an_exit() {
    run(async {
        for leftover in [ESCAPED, DOUBLE_FORKED] {
            let (mut child, pid) = with_leftover(leftover, "read line; exit 6").await;
            child.stdin.close();
            assert_eq!(child.process.wait().await.ending, Ending::Code(6));
            until("the leftover is gone", || !runs(&pid)).await;
        }
    });
}

#[test]
fn what_left_the_group_is_gone_after_a_crash() {
    run(async {
        for leftover in [ESCAPED, DOUBLE_FORKED] {
            let (mut child, pid) = with_leftover(leftover, "read line; kill -KILL $$").await;
            child.stdin.close();
            assert!(matches!(child.process.wait().await.ending, Ending::Signal { number: 9, .. }));
            until("the leftover is gone", || !runs(&pid)).await;
        }
    });
}

#[test]
fn what_left_the_group_is_gone_after_a_stop() {
    run(async {
        for leftover in [ESCAPED, DOUBLE_FORKED, WIPED, WIPED_TWICE] {
            let (child, pid) = with_leftover(leftover, "exec cat").await;
            child.stop(ladder(LONG, LONG, LONG)).await;
            until("the leftover is gone", || !runs(&pid)).await;
        }
    });
}

#[test]
fn what_left_the_group_is_gone_after_a_drop() {
    run(async {
        for leftover in [ESCAPED, DOUBLE_FORKED, WIPED, WIPED_TWICE] {
            let (child, pid) = with_leftover(leftover, "exec cat").await;
            drop(child);
            until("the leftover is gone", || !runs(&pid)).await;
        }
    });
}

#[test]
fn a_process_that_left_the_group_does_not_hold_up_the_exit() {
    run(async {
        let (mut child, _) = with_leftover(ESCAPED, "read line; exit 2").await;
        child.stdin.close();
        let exit = child.process.wait().await;
        assert_eq!(exit.ending, Ending::Code(2));
    });
}

#[test]
fn a_stopped_process_is_killed_like_any_other() {
    run(async {
        let (child, pid) = with_leftover(ESCAPED, "kill -STOP $$").await;
        drop(child);
        until("the leftover is gone", || !runs(&pid)).await;
    });
}

#[test]
fn other_children_and_their_escapees_live_on() {
    run(async {
        let (_other, escaped) = with_leftover(ESCAPED, "exec cat").await;
        for _ in 0..5 * scale() {
            let (child, pid) = with_leftover(DOUBLE_FORKED, "exec cat").await;
            drop(child);
            until("the leftover is gone", || !runs(&pid)).await;
        }
        assert!(runs(&escaped));
    });
}

/// 127 processes, every third in a session of its own.
const WIDE: &str = r#"
    grow='
        if [ "$1" -gt 0 ]; then
            sh -c "$0" "$0" $(($1 - 1)) & setsid sh -c "$0" "$0" $(($1 - 1)) &
        else
            echo grown
        fi
        exec sleep 1000
    '
    sh -c "$grow" "$grow" 6
"#;

/// Starts processes as fast as it can, in one session after the other.
const GROWING: &str = "i=0; while [ $i -lt 2000 ]; do i=$((i + 1)); setsid sleep 1000 & echo grown; done; wait";

/// Never more than a few processes, each of which starts the next and is gone: up to 3,000 of them, one a session.
const FLEEING: &str = r#"
    flee='
        if [ "$1" -gt 0 ]; then setsid sh -c "$0" "$0" $(($1 - 1)) & fi
        echo grown
    '
    sh -c "$flee" "$flee" 3000; exec sleep 1000
"#;

#[test]
fn a_wide_tree_is_gone_with_its_root() {
    run(gone_when_dropped_at(WIDE, 64, scale()));
}

#[test]
fn a_tree_that_grows_while_it_is_killed_is_gone_with_its_root() {
    run(gone_when_dropped_at(GROWING, 100, scale()));
}

#[test]
fn a_chain_that_runs_away_while_it_is_killed_is_gone_with_its_root() {
    // Once, however long the loops are: who flees from exec to exec can be out of sight at every look, if rarely.
    run(gone_when_dropped_at(FLEEING, 100, 1));
}

async fn gone_when_dropped_at(script: &str, grown: usize, rounds: u32) {
    for _ in 0..rounds {
        let launch = launch("/bin/sh", &["-c", script]);
        let mut child = launch.spawn(Limits::default()).unwrap();
        for _ in 0..grown {
            assert_eq!(line(&mut child.stdout).await, "grown");
        }
        drop(child);
        until("all of it is gone", || marked(launch.owner) == 0).await;
        assert_stays_gone(launch.owner).await;
    }
}

/// What got away would go on growing: look again as often as it takes to see that.
async fn assert_stays_gone(owner: Owner) {
    let mut looks = 0;
    until("it was looked at ten times", || {
        assert_eq!(marked(owner), 0);
        looks += 1;
        looks == 10
    })
    .await;
}
