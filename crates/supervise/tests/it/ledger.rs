//! What a Switchboard that was killed has left is found and ended by the next one, and nothing else is; one state
//! directory admits one Switchboard; a file that is no ledger is refused and left as it was.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use expect_test::{Expect, expect};
use rustix::process::{Pid, Signal, kill_process};
use supervise::{Child, Launch, Ledger, Limits, OWNER_VARIABLE, Owner, Reaped};
use tempfile::TempDir;

use crate::support::{
    launch, line, line_with, marked, role, run, run_in_container, runs, scale, session, spawn, start_again, until,
};

const STATE_DIR: &str = "SUPERVISE_TEST_STATE_DIR";

/// Leaves two processes that ignore SIGTERM, one of them in a session of its own, and a wiped child of one of them.
const SCRIPT: &str = "
    setsid sh -c 'trap \"\" TERM HUP; (env -i setsid sh -c \"echo \\$\\$; exec sleep 1000\") & wait' &
    trap '' TERM HUP; exec 0<&-; sleep 1000 & wait
";

fn owned(owner: Owner, script: &str) -> Launch {
    Launch { owner, ..launch("/bin/sh", &["-c", script]) }
}

#[test]
fn what_a_killed_one_left_is_reaped_by_the_next() {
    if role().is_some() {
        return run(leave_and_wait());
    }
    run(async {
        for _ in 0..scale() {
            let home = TempDir::new().unwrap();
            let (owner, wiped, detached) = killed_switchboard(home.path()).await;
            let strangers = strangers(owner);
            until("all that it left has started", || marked(owner) >= 3).await;
            assert!(runs(&wiped) && runs(&detached));

            let (ledger, leftovers) = Ledger::open(home.path()).unwrap();
            let reaped = leftovers.reap().await.unwrap();
            assert!(reaped.all_gone && reaped.killed >= 4, "{reaped:?}");
            assert_eq!(marked(owner), 0);
            assert!(!runs(&wiped));
            assert!(runs(&detached), "a detached worker is not left over");
            assert!(strangers.iter().all(|stranger| runs(&stranger.process.pid().to_string())));

            drop(ledger);
            let (ledger, leftovers) = Ledger::open(home.path()).unwrap();
            assert_eq!(leftovers.reap().await.unwrap(), Reaped { killed: 0, all_gone: true });
            let [entry] = &*ledger.detached() else { panic!("the detached worker is still known") };
            let detached = supervise::Detached::find(entry, Limits::default()).unwrap();
            detached.stop(supervise::Ladder::default()).await;
        }
    });
}

/// A Switchboard with children and a detached worker, killed with SIGKILL: its mark, and the ids of two that it left.
async fn killed_switchboard(state_dir: &Path) -> (Owner, String, String) {
    let name = "ledger::what_a_killed_one_left_is_reaped_by_the_next";
    let mut switchboard = start_again(name, "switchboard", &[(STATE_DIR, state_dir)]);
    let owner = line_with("owner", &mut switchboard.stdout).await;
    let wiped = line_with("wiped", &mut switchboard.stdout).await;
    let detached = line_with("detached", &mut switchboard.stdout).await;
    let pid = Pid::from_raw(switchboard.process.pid().cast_signed()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    switchboard.process.wait().await;
    (serde_json::from_value(owner.into()).unwrap(), wiped, detached)
}

/// What the Switchboard that will be killed does.
#[expect(clippy::print_stdout, reason = "the test reads what it leaves behind from its stdout")]
async fn leave_and_wait() {
    let state_dir = std::env::var(STATE_DIR).unwrap();
    let (ledger, _) = Ledger::open(state_dir.as_ref()).unwrap();
    println!("owner {}", ledger.owner());
    let mut child = owned(ledger.owner(), SCRIPT).spawn(Limits::default()).unwrap();
    println!("wiped {}", line(&mut child.stdout).await);
    let launch = owned(ledger.announce("main-0").unwrap(), "exec sleep 1000");
    let detached = launch.spawn_detached(&Path::new(&state_dir).join("main-0.log"), Limits::default()).unwrap();
    ledger.record(detached.entry("main-0", "/run/main-0.sock".into(), "codex")).unwrap();
    let pid = detached.pid().to_string();
    until("it has left the group that is killed with this one", || session(&pid).as_ref() == Some(&pid)).await;
    println!("detached {pid}");
    child.process.wait().await;
}

/// Processes that look like leftovers and are none.
fn strangers(owner: Owner) -> Vec<Child> {
    let quote = format!("{OWNER_VARIABLE}={owner}");
    let with = |name: &str, value: &str| {
        let env = vec![(name.into(), value.into())];
        Launch { env, ..owned(Owner::generate(), "exec sleep 1000") }
    };
    let strangers = [
        with("NOTE", &quote),
        with("NOTE", &format!("a\n{quote}")),
        with(&format!("X_{OWNER_VARIABLE}"), &owner.to_string()),
        with(&format!("{OWNER_VARIABLE}_X"), &owner.to_string()),
        owned(Owner::generate(), &format!("export {quote}0; exec sleep 1000")),
        owned(Owner::generate(), &format!(": {quote}; sleep 1000; :")),
    ];
    strangers.iter().map(|launch| launch.spawn(Limits::default()).unwrap()).collect()
}

#[test]
fn a_detached_worker_that_was_never_recorded_is_reaped() {
    run(async {
        let home = TempDir::new().unwrap();
        let (ledger, _) = Ledger::open(home.path()).unwrap();
        let owner = ledger.announce("main-0").unwrap();
        assert_eq!(ledger.announce("main-0").unwrap(), owner);
        let log = home.path().join("log");
        drop(owned(owner, "exec sleep 1000").spawn_detached(&log, Limits::default()).unwrap());
        until("it runs", || marked(owner) == 1).await;

        drop(ledger);
        let (_ledger, leftovers) = Ledger::open(home.path()).unwrap();
        assert_eq!(leftovers.reap().await.unwrap(), Reaped { killed: 1, all_gone: true });
        assert_eq!(marked(owner), 0);
    });
}

#[test]
fn what_was_not_reaped_is_looked_for_again() {
    run(async {
        let home = TempDir::new().unwrap();
        let (ledger, _) = Ledger::open(home.path()).unwrap();
        let child = owned(ledger.owner(), "exec cat").spawn(Limits::default()).unwrap();
        for _ in 0..3 {
            drop(Ledger::open(home.path()).map(drop));
        }
        drop(ledger);
        // A start that did not come to reaping, and then one that does.
        drop(Ledger::open(home.path()).unwrap());
        let (_ledger, leftovers) = Ledger::open(home.path()).unwrap();
        assert_eq!(leftovers.reap().await.unwrap(), Reaped { killed: 1, all_gone: true });
        drop(child);
    });
}

#[test]
fn a_child_is_recorded_in_a_container_whose_session_is_outside() {
    run_in_container("ledger::a_child_is_recorded_in_a_container_whose_session_is_outside", async {
        let own = std::process::id().to_string();
        assert_eq!((&*own, session(&own).as_deref()), ("1", Some("0")), "the system numbers what is inside alone");
        let home = TempDir::new().unwrap();
        let (ledger, _) = Ledger::open(home.path()).unwrap();
        let child = owned(ledger.owner(), "exec sleep 1000").spawn(Limits::default()).unwrap();
        let [group] = &*ledger.recorded_groups() else { panic!("one group is recorded") };
        assert_eq!((group.leader, group.session), (child.process.pid(), 0));
        assert!(group.contains(child.process.pid()));
        child.stop(supervise::Ladder::default()).await;
        assert_eq!(ledger.recorded_groups(), []);
    });
}

#[test]
fn one_state_directory_admits_one() {
    run(async {
        let home = TempDir::new().unwrap();
        let (ledger, _) = Ledger::open(home.path()).unwrap();
        let refusal = Ledger::open(home.path()).map(drop).unwrap_err().to_string();
        let expected = format!(
            "state directory `{}` belongs to the running Switchboard with pid {}: stop that one or name another",
            home.path().display(),
            std::process::id()
        );
        assert_eq!(refusal, expected);
        drop(ledger);
        Ledger::open(home.path()).map(drop).unwrap();
    });
}

#[test]
fn a_lock_that_a_child_still_has_is_not_its_dead_parents() {
    run(async {
        let home = TempDir::new().unwrap();
        let lock = home.path().join("lock");
        let dead = spawn("/bin/true", &[]);
        let pid = dead.process.pid();
        dead.stop(supervise::Ladder::default()).await;
        fs::write(&lock, pid.to_string()).unwrap();
        // It has the lock until its stdin is closed.
        let mut child = spawn("flock", &[lock.to_str().unwrap(), "-c", "echo locked; read line"]);
        assert_eq!(line(&mut child.stdout).await, "locked");
        let state_dir = home.path().to_path_buf();
        let opened = tokio::task::spawn_blocking(move || Ledger::open(&state_dir).map(drop));
        child.stdin.close();
        opened.await.unwrap().unwrap();
    });
}

#[test]
fn entries_are_kept_until_they_are_forgotten_or_the_machine_has_started_anew() {
    run(async {
        let home = TempDir::new().unwrap();
        let entry = |name: &str| supervise::DetachedEntry {
            name: name.into(),
            owner: Owner::generate(),
            pid: 1,
            start_time: 2,
            socket: "/run/s".into(),
            fingerprint: "f".into(),
            log: "/run/l".into(),
            token_hash: None,
        };
        let names = |ledger: &Ledger| ledger.detached().iter().map(|entry| entry.name.to_string()).collect::<Vec<_>>();
        let (ledger, _) = Ledger::open(home.path()).unwrap();
        for name in ["main-0", "main-1", "main-0"] {
            ledger.record(entry(name)).unwrap();
        }
        assert_eq!(names(&ledger), ["main-1", "main-0"]);
        drop(ledger);

        let (ledger, _) = Ledger::open(home.path()).unwrap();
        ledger.forget("main-1").unwrap();
        assert_eq!(names(&ledger), ["main-0"]);
        drop(ledger);

        let file = home.path().join("ledger.json");
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        let earlier = fs::read_to_string(&file).unwrap().replace(boot.trim(), "an-earlier-run");
        fs::write(&file, earlier).unwrap();
        let (ledger, leftovers) = Ledger::open(home.path()).unwrap();
        assert!(names(&ledger).is_empty());
        assert_eq!(leftovers.reap().await.unwrap(), Reaped { killed: 0, all_gone: true });
    });
}

#[test]
fn a_file_that_is_no_ledger_is_refused_and_left_as_it_was() {
    check(
        "",
        &expect![
            "`STATE/ledger.json` is no ledger: EOF while parsing a value at line 1 column 0; it was left untouched. Move it away to start without it, and end by hand what an earlier Switchboard may have left running (`grep -l SWITCHBOARD_OWNER /proc/*/environ`)"
        ],
    );
    check(
        "{\"format\": 1, \"boot\": \"b",
        &expect![
            "`STATE/ledger.json` is no ledger: EOF while parsing a string at line 1 column 24; it was left untouched. Move it away to start without it, and end by hand what an earlier Switchboard may have left running (`grep -l SWITCHBOARD_OWNER /proc/*/environ`)"
        ],
    );
    check(
        "{\"format\": 1, \"boot\": \"b\"}",
        &expect![
            "`STATE/ledger.json` is no ledger: missing field `owner` at line 1 column 26; it was left untouched. Move it away to start without it, and end by hand what an earlier Switchboard may have left running (`grep -l SWITCHBOARD_OWNER /proc/*/environ`)"
        ],
    );
    check(
        "{\"format\": 2, \"pages\": []}",
        &expect![
            "`STATE/ledger.json` has format 2, this Switchboard writes 1: start the one that wrote it; it was left untouched"
        ],
    );
    check(
        "my shopping list\n",
        &expect![
            "`STATE/ledger.json` is no ledger: expected value at line 1 column 1; it was left untouched. Move it away to start without it, and end by hand what an earlier Switchboard may have left running (`grep -l SWITCHBOARD_OWNER /proc/*/environ`)"
        ],
    );
}

fn check(text: &str, expect: &Expect) {
    let home = TempDir::new().unwrap();
    let file = home.path().join("ledger.json");
    fs::write(&file, text).unwrap();
    let error = Ledger::open(home.path()).map(drop).unwrap_err().to_string();
    expect.assert_eq(&error.replace(home.path().to_str().unwrap(), "STATE"));
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
}

#[test]
fn the_state_directory_is_its_owners_alone_whoever_made_it() {
    let place = TempDir::new().unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let (made, found) = (place.path().join("made"), place.path().join("found"));
    fs::create_dir(&found).unwrap();
    fs::set_permissions(&found, fs::Permissions::from_mode(0o755)).unwrap();
    for directory in [&made, &found] {
        let _ledger = Ledger::open(directory).unwrap();
        assert_eq!(mode(directory), 0o700, "{directory:?}");
    }
    let everybodys = place.path().join("everybodys");
    fs::create_dir(&everybodys).unwrap();
    fs::set_permissions(&everybodys, fs::Permissions::from_mode(0o777)).unwrap();
    let refused = Ledger::open(&everybodys).err().expect("it is refused").to_string();
    assert!(refused.contains("other users may write to it"), "{refused}");
    assert_eq!(mode(&everybodys), 0o777);
}
