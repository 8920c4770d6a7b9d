//! What a hostile process tries to outlive its Switchboard, or to have it harm others: wiped environments, recycled numbers,
//! links in the state directory, and sockets that it holds.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use supervise::{HolderEvidence, Launch, Ledger, Limits, OWNER_VARIABLE, Owner, Reaped, SocketClaim, SocketHolder};
use tempfile::TempDir;

use crate::support::{launch, line, line_with, role, run, runs, session, spawn, start_again, until};

const STATE_DIR: &str = "SUPERVISE_TEST_STATE_DIR";

/// Leaves processes without an environment in its group: a child, and one that was forked twice.
const WIPED_IN_GROUP: &str = "
    env -i sh -c 'echo wiped $$; exec sleep 1000' &
    (env -i sh -c 'echo forked $$; exec sleep 1000' &) ; exec 0<&-; sleep 1000 & wait
";

fn owned(owner: Owner, script: &str) -> Launch {
    Launch { owner, ..launch("/bin/sh", &["-c", script]) }
}

fn kill(pid: u32) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn a_wiped_environment_in_the_group_of_a_child_does_not_outlive_the_next_start() {
    if role().is_some() {
        return run(leave_wiped_and_wait());
    }
    run(async {
        let home = TempDir::new().unwrap();
        let name = "adversary::a_wiped_environment_in_the_group_of_a_child_does_not_outlive_the_next_start";
        let mut switchboard = start_again(name, "switchboard", &[(STATE_DIR, home.path())]);
        let wiped = line_with("left", &mut switchboard.stdout).await;
        let forked = line_with("left", &mut switchboard.stdout).await;
        kill(switchboard.process.pid());
        switchboard.process.wait().await;
        assert!(runs(&wiped) && runs(&forked), "they survive the kill");

        let (ledger, leftovers) = Ledger::open(home.path()).unwrap();
        assert_eq!(ledger.recorded_groups().len(), 1);
        let reaped = leftovers.reap().await.unwrap();
        assert!(reaped.all_gone && reaped.killed >= 2, "{reaped:?}");
        assert!(!runs(&wiped) && !runs(&forked));
        assert_eq!(ledger.recorded_groups(), []);
    });
}

#[expect(clippy::print_stdout, reason = "the test reads what it leaves behind from its stdout")]
async fn leave_wiped_and_wait() {
    let state_dir = std::env::var(STATE_DIR).unwrap();
    let (ledger, _) = Ledger::open(state_dir.as_ref()).unwrap();
    let mut child = owned(ledger.owner(), WIPED_IN_GROUP).spawn(Limits::default()).unwrap();
    for _ in 0..2 {
        let said = line(&mut child.stdout).await;
        println!("left {}", said.split_once(' ').unwrap().1);
    }
    child.process.wait().await;
}

#[test]
fn an_orphan_that_left_its_session_without_an_environment_does_not_outlive_the_next_start() {
    if role().is_some() {
        return run(leave_orphan_and_wait());
    }
    run(async {
        let home = TempDir::new().unwrap();
        let name = "adversary::an_orphan_that_left_its_session_without_an_environment_does_not_outlive_the_next_start";
        let mut switchboard = start_again(name, "switchboard", &[(STATE_DIR, home.path())]);
        let orphan = line_with("left", &mut switchboard.stdout).await;
        kill(switchboard.process.pid());
        switchboard.process.wait().await;
        assert!(runs(&orphan), "it survives the kill");

        let (_ledger, leftovers) = Ledger::open(home.path()).unwrap();
        assert!(leftovers.reap().await.unwrap().all_gone);
        assert!(!runs(&orphan));
    });
}

#[expect(clippy::print_stdout, reason = "the test reads what it leaves behind from its stdout")]
async fn leave_orphan_and_wait() {
    let _adoption = supervise::adopt_orphans().unwrap();
    let state_dir = std::env::var(STATE_DIR).unwrap();
    let (ledger, _) = Ledger::open(state_dir.as_ref()).unwrap();
    let script = "(env -i setsid sh -c 'echo $$; exec sleep 1000' &); exec cat";
    let mut child = owned(ledger.owner(), script).spawn(Limits::default()).unwrap();
    let orphan = line(&mut child.stdout).await;
    let file = Path::new(&state_dir).join("groups.json");
    let is_recorded = || fs::read_to_string(&file).unwrap_or_default().contains(&format!("\"pid\": {orphan}"));
    until("the orphan is recorded", is_recorded).await;
    println!("left {orphan}");
    child.process.wait().await;
}

#[test]
fn a_group_is_recorded_from_the_start_of_its_leader_to_its_end() {
    run(async {
        let home = TempDir::new().unwrap();
        let (ledger, _) = Ledger::open(home.path()).unwrap();
        let child = owned(ledger.owner(), "exec cat").spawn(Limits::default()).unwrap();
        let [group] = &*ledger.recorded_groups() else { panic!("one group is recorded") };
        assert_eq!((group.leader, group.owner), (child.process.pid(), ledger.owner()));
        assert!(group.contains(child.process.pid()));
        assert!(!group.contains(std::process::id()));
        child.stop(supervise::Ladder::default()).await;
        assert_eq!(ledger.recorded_groups(), []);
        let other = owned(Owner::generate(), "exec cat").spawn(Limits::default()).unwrap();
        assert_eq!(ledger.recorded_groups(), [], "a child of nobody who has a ledger");
        drop(other);
    });
}

#[test]
fn what_a_dead_detached_worker_left_in_its_session_is_ended() {
    run(async {
        let home = TempDir::new().unwrap();
        let (ledger, _) = Ledger::open(home.path()).unwrap();
        let pid_file = home.path().join("wiped");
        let script =
            format!("env -i sh -c 'echo $$ >{0}.new; mv {0}.new {0}; exec sleep 1000' & wait", pid_file.display());
        let launch = owned(ledger.announce("main-0").unwrap(), &script);
        let detached = launch.spawn_detached(&home.path().join("main-0.log"), Limits::default()).unwrap();
        let entry = detached.entry("main-0", home.path().join("main-0.sock"), "fingerprint");
        ledger.record(entry.clone()).unwrap();
        until("the wiped one runs", || pid_file.exists()).await;
        let wiped = fs::read_to_string(&pid_file).unwrap().trim().to_owned();
        assert_eq!(session(&wiped), Some(detached.pid().to_string()));
        // As after the death of the Switchboard: nobody is there to see the end of the worker.
        kill(detached.pid());
        drop(detached);
        assert!(runs(&wiped));

        let reaped = ledger.end_remains(&entry).await.unwrap();
        assert!(reaped.all_gone && reaped.killed >= 1, "{reaped:?}");
        assert!(!runs(&wiped));
        assert_eq!((ledger.detached(), ledger.recorded_groups()), (Vec::new(), Vec::new()));
    });
}

#[test]
fn a_stranger_that_was_given_a_recorded_number_is_spared() {
    run(async {
        let home = TempDir::new().unwrap();
        drop(Ledger::open(home.path()).unwrap());
        let ledger_file = home.path().join("ledger.json");
        let page: Value = serde_json::from_slice(&fs::read(&ledger_file).unwrap()).unwrap();
        let stranger = spawn("/bin/sh", &["-c", "exec sleep 1000"]);
        let pid = stranger.process.pid();
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        let (session, start_time): (u32, u64) = (fields[3].parse().unwrap(), fields[19].parse().unwrap());
        let user = rustix::process::geteuid().as_raw();
        // A leader that was started before had the number of the stranger.
        let group = json!({
            "owner": page["owner"], "leader": pid, "start_time": start_time - 1, "session": session, "users": [user],
        });
        let file = json!({"boot": page["boot"], "groups": [group]});
        fs::write(home.path().join("groups.json"), file.to_string()).unwrap();

        let (ledger, leftovers) = Ledger::open(home.path()).unwrap();
        assert_eq!(ledger.recorded_groups().len(), 1, "it was read");
        assert_eq!(leftovers.reap().await.unwrap(), Reaped { killed: 0, all_gone: true });
        assert!(runs(&pid.to_string()));
    });
}

#[test]
fn state_files_are_never_opened_through_links() {
    for name in ["lock", "ledger.json", "groups.json"] {
        for canary_text in ["canary", ""] {
            let home = TempDir::new().unwrap();
            let canary = home.path().join("canary");
            fs::write(&canary, canary_text).unwrap();
            let state_dir = home.path().join("state");
            drop(Ledger::open(&state_dir).unwrap());
            _ = fs::remove_file(state_dir.join(name));
            symlink(&canary, state_dir.join(name)).unwrap();
            let refusal = Ledger::open(&state_dir).map(drop).unwrap_err().to_string();
            assert!(refusal.contains("symbolic link"), "{name}: {refusal}");
            assert_eq!(fs::read_to_string(&canary).unwrap(), canary_text, "{name}");
        }
    }
}

#[test]
fn a_link_in_the_place_of_a_draft_is_replaced_and_not_followed() {
    let home = TempDir::new().unwrap();
    let canary = home.path().join("canary");
    fs::write(&canary, "canary").unwrap();
    let state_dir = home.path().join("state");
    drop(Ledger::open(&state_dir).unwrap());
    for name in ["ledger.json.new", "groups.json.new"] {
        symlink(&canary, state_dir.join(name)).unwrap();
    }
    run(async {
        let (ledger, _) = Ledger::open(&state_dir).unwrap();
        drop(owned(ledger.owner(), "exec cat").spawn(Limits::default()).unwrap());
    });
    assert_eq!(fs::read_to_string(&canary).unwrap(), "canary");
}

#[test]
fn a_link_that_leads_nowhere_makes_no_file() {
    let home = TempDir::new().unwrap();
    let state_dir = home.path().join("state");
    fs::create_dir(&state_dir).unwrap();
    symlink(home.path().join("made"), state_dir.join("lock")).unwrap();
    let refusal = Ledger::open(&state_dir).map(drop).unwrap_err().to_string();
    assert!(refusal.contains("symbolic link"), "{refusal}");
    assert!(!home.path().join("made").exists());
}

#[test]
fn the_log_of_a_detached_worker_is_not_opened_through_a_link() {
    run(async {
        let home = TempDir::new().unwrap();
        let (canary, log) = (home.path().join("canary"), home.path().join("main-0.log"));
        fs::write(&canary, "canary").unwrap();
        symlink(&canary, &log).unwrap();
        let spawned = owned(Owner::generate(), "echo noise >&2").spawn_detached(&log, Limits::default());
        let refusal = spawned.err().expect("it is refused").to_string();
        assert!(refusal.contains("symbolic link"), "{refusal}");
        assert_eq!(fs::read_to_string(&canary).unwrap(), "canary");
    });
}

/// A process of its own that listens at the socket, started with this mark in its environment or with none.
async fn listener(socket: &Path, mark: Option<Owner>) -> supervise::Child {
    let script = "import socket, sys, time\ns = socket.socket(socket.AF_UNIX)\ns.bind(sys.argv[1])\ns.listen()\n\
                  print('listens', flush=True)\nsys.stdin.read()";
    let unmark = format!("unset {OWNER_VARIABLE}; exec python3 -c \"$0\" \"$1\"");
    let shell = if mark.is_some() { "exec python3 -c \"$0\" \"$1\"" } else { &unmark };
    let launch = Launch {
        owner: mark.unwrap_or_else(Owner::generate),
        ..launch("/bin/sh", &["-c", shell, script, socket.to_str().unwrap()])
    };
    let mut child = launch.spawn(Limits::default()).unwrap();
    assert_eq!(line(&mut child.stdout).await, "listens");
    child
}

#[test]
fn only_a_holder_of_a_socket_that_is_ours_is_claimed() {
    run(async {
        let home = TempDir::new().unwrap();
        let (ledger, _) = Ledger::open(&home.path().join("state")).unwrap();
        let owner = ledger.announce("main-0").unwrap();
        let no_program = Path::new("/nowhere/codex");
        let (ours, foreign, other) = (home.path().join("ours"), home.path().join("foreign"), home.path().join("other"));
        let our_child = listener(&ours, Some(owner)).await;
        let foreign_child = listener(&foreign, None).await;
        let other_child = listener(&other, Some(Owner::generate())).await;
        let holder = |socket: &Path| {
            let [holder] = &*SocketHolder::find(socket) else { panic!("one holder of {socket:?}") };
            assert_eq!(holder.evidence, HolderEvidence::Listens);
            holder.clone()
        };
        assert_eq!(holder(&ours).pid(), our_child.process.pid());
        let claim = |socket: &Path, program: &Path| ledger.claim("main-0", &holder(socket), program);
        assert_eq!(claim(&ours, no_program), SocketClaim::Own);
        assert_eq!(claim(&foreign, no_program), SocketClaim::Stranger);
        assert_eq!(claim(&other, no_program), SocketClaim::Stranger, "another Switchboard's, another program");
        let python = holder(&other).executable().unwrap();
        assert_eq!(claim(&other, &python), SocketClaim::Own, "one that the ledger has forgotten");
        assert_eq!(claim(&foreign, &python), SocketClaim::Stranger);
        let neighbour = home.path().join("neighbour");
        let neighbour_child = listener(&neighbour, Some(ledger.announce("main-1").unwrap())).await;
        assert_eq!(claim(&neighbour, &python), SocketClaim::OtherWorker);

        let ended = holder(&ours).end(&home.path().join("log"), supervise::Ladder::default()).await;
        assert!(ended.is_some());
        assert_eq!(SocketHolder::find(&ours), []);
        drop((our_child, foreign_child, other_child, neighbour_child));
    });
}
