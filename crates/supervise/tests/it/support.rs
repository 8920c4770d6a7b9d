//! What every test here needs: a runtime with a deadline, shell scripts as children, and a look at who still lives.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use supervise::{Child, Ending, Ladder, Launch, Limits, OWNER_VARIABLE, Owner, Rlimits};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::ChildStdout;
use tokio::runtime::Runtime;
use tokio::time::{sleep, timeout};

/// How long a test may take at scale 1; only a failure takes so long.
const DEADLINE: Duration = Duration::from_secs(180);

/// A wait that is not expected to pass.
pub(crate) const LONG: Duration = Duration::from_secs(170);

/// A wait that is expected to pass.
pub(crate) const SHORT: Duration = Duration::from_millis(50);

/// Descriptors and children are counted for the whole process, so a test that counts them runs alone.
static ALONE: RwLock<()> = RwLock::new(());

pub(crate) fn run(test: impl Future<Output = ()>) {
    let _beside_others = ALONE.read().unwrap_or_else(PoisonError::into_inner);
    block_on(test);
}

pub(crate) fn run_alone(test: impl Future<Output = ()>) {
    let _alone = ALONE.write().unwrap_or_else(PoisonError::into_inner);
    block_on(test);
}

fn block_on(test: impl Future<Output = ()>) {
    let runtime = Runtime::new().unwrap();
    let test = async { timeout(DEADLINE * scale(), test).await };
    runtime.block_on(test).expect("the test took too long");
}

/// Runs the test in a process of its own, because it changes something that holds for a whole process: starts this test
/// binary again for the one test of that name.
pub(crate) fn run_in_own_process(name: &str, test: impl Future<Output = ()>) {
    if std::env::var_os(ROLE).is_some() {
        return run(test);
    }
    run(async {
        let mut child = start_again(name, "alone", &[]);
        let said = everything(&mut child.stdout).await;
        let exit = child.process.wait().await;
        assert!(exit.ending == Ending::Code(0) && said.contains("1 passed"), "{exit}\n{said}");
    });
}

/// The part that this process plays in a test that needs several.
const ROLE: &str = "SUPERVISE_TEST_ROLE";

pub(crate) fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// This test binary as another process, which plays a role in the one test of that name.
pub(crate) fn start_again(name: &str, role: &str, env: &[(&str, &Path)]) -> Child {
    let binary = std::env::current_exe().unwrap();
    let mut launch = launch(binary.to_str().unwrap(), &["--exact", name, "--nocapture", "--test-threads=1"]);
    launch.env = env.iter().map(|(name, value)| (name.into(), value.into())).collect();
    launch.env.extend([(ROLE.into(), role.into()), ("SWITCHBOARD_TEST_SCALE".into(), scale().to_string().into())]);
    launch.spawn(Limits::default()).unwrap()
}

/// Runs the test as the first process of a container, whose session is outside it: starts this test binary again in a new
/// process namespace. Does nothing where the system allows no such namespace.
pub(crate) fn run_in_container(name: &str, test: impl Future<Output = ()>) {
    if role().is_some() {
        return run(test);
    }
    run(async {
        let namespace = ["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"];
        let binary = std::env::current_exe().unwrap();
        let inside = |command: &[&str]| {
            let mut launch = launch("/usr/bin/unshare", &[&namespace, command].concat());
            launch.env.push((ROLE.into(), "inside".into()));
            launch.spawn(Limits::default()).unwrap()
        };
        if inside(&["true"]).process.wait().await.ending != Ending::Code(0) {
            return;
        }
        let mut child = inside(&[binary.to_str().unwrap(), "--exact", name, "--nocapture", "--test-threads=1"]);
        let said = everything(&mut child.stdout).await;
        let exit = child.process.wait().await;
        assert!(exit.ending == Ending::Code(0) && said.contains("1 passed"), "{exit}\n{said}");
    });
}

/// What follows the word in the next line that has it; the test harness may have begun that line, or written others.
pub(crate) async fn line_with(word: &str, stdout: &mut ChildStdout) -> String {
    let mut lines = BufReader::with_capacity(1, stdout).lines();
    loop {
        let line = lines.next_line().await.unwrap().unwrap_or_else(|| panic!("there was no line with {word}"));
        if let Some((_, rest)) = line.split_once(&format!("{word} ")) {
            return rest.into();
        }
    }
}

/// How many times longer than usual the loops should run.
pub(crate) fn scale() -> u32 {
    std::env::var("SWITCHBOARD_TEST_SCALE").map_or(1, |scale| scale.parse().expect("a whole number"))
}

pub(crate) fn launch(program: &str, args: &[&str]) -> Launch {
    Launch {
        program: program.into(),
        args: args.iter().map(OsString::from).collect(),
        cwd: "/".into(),
        env: Vec::new(),
        owner: Owner::generate(),
        rlimits: Rlimits::default(),
    }
}

pub(crate) fn spawn(program: &str, args: &[&str]) -> Child {
    launch(program, args).spawn(Limits::default()).unwrap()
}

pub(crate) fn sh(script: &str) -> Child {
    spawn("/bin/sh", &["-c", script])
}

/// A ladder with these waits, and enough for the last.
pub(crate) fn ladder(stdin_wait: Duration, terminate_wait: Duration, terminate_again_wait: Duration) -> Ladder {
    Ladder { stdin_wait, terminate_wait, terminate_again_wait, kill_wait: LONG }
}

pub(crate) async fn line(stdout: &mut ChildStdout) -> String {
    let mut line = String::new();
    BufReader::with_capacity(1, stdout).read_line(&mut line).await.unwrap();
    line.trim_end().into()
}

pub(crate) async fn everything(stdout: &mut ChildStdout) -> String {
    let mut text = String::new();
    stdout.read_to_string(&mut text).await.unwrap();
    text
}

/// Waits until the condition holds.
pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let wait = async {
        while !condition() {
            sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(LONG, wait).await.unwrap_or_else(|_| panic!("waited in vain until {what}"));
}

/// How many processes run that carry the owner's mark.
pub(crate) fn marked(owner: Owner) -> usize {
    let mark = format!("{OWNER_VARIABLE}={owner}").into_bytes();
    let is_marked = |pid: &str| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark)
    };
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    pids.filter(|pid| is_marked(pid) && runs(pid)).count()
}

/// Whether the process still runs; a zombie, which only waits for its parent to look, does not.
pub(crate) fn runs(pid: &str) -> bool {
    state(Path::new("/proc").join(pid).join("stat").as_path()).is_some_and(|(state, _)| state != "Z")
}

/// The process session that it is in.
pub(crate) fn session(pid: &str) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(3).map(Into::into)
}

/// The state and the parent in a `stat` file of a process, if that process is there.
pub(crate) fn state(stat: &Path) -> Option<(String, String)> {
    let stat = fs::read_to_string(stat).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    Some((fields.next()?.into(), fields.next()?.into()))
}
