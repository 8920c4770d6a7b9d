//! A run of the binary: its own state directory, a deadline, and a look at what it left behind.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;
use tempfile::TempDir;
use testkit::HANG_TIMEOUT;
use testkit::workplace::directory_outside_tmp;

/// Far beyond what any run takes, floods and real clients included, so that only a hang meets it.
const DEADLINE: Duration = Duration::from_secs(if cfg!(feature = "soak") { 24 * 60 * 60 } else { 600 });

/// Where one or more runs keep their state.
pub(crate) struct State {
    directory: TempDir,
    /// Where the runs start, and their agents work: not where the state is, which agents may not see.
    project: TempDir,
}

/// A run that has begun.
pub(crate) struct Run {
    child: Child,
    stdout: BufReader<ChildStdout>,
    /// What has been read of stdout.
    seen: Vec<u8>,
    /// Directories of which one is named in the environment of every process of this run.
    homes: Vec<OsString>,
    /// Ends a run that hangs, so that its test fails instead of hanging too.
    _watchdog: Watchdog,
}

/// What came of a run.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl State {
    pub(crate) fn new() -> Self {
        Self { directory: TempDir::new().unwrap(), project: TempDir::new().unwrap() }
    }

    /// Out of reach of agents that may write to /tmp.
    pub(crate) fn outside_tmp() -> Self {
        Self { directory: directory_outside_tmp().unwrap(), project: directory_outside_tmp().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The directory that the runs start in.
    pub(crate) fn project(&self) -> &Path {
        self.project.path()
    }

    /// Writes the configuration of the user.
    pub(crate) fn configure(&self, text: &str) {
        let directory = self.path().join("switchboard");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("switchboard.toml"), text).unwrap();
    }

    pub(crate) fn ask(&self, arguments: &[&str]) -> Run {
        self.ask_with(arguments, &[])
    }

    pub(crate) fn ask_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Run {
        self.run_with(&[&["ask"], arguments].concat(), variables)
    }

    /// Starts any command.
    pub(crate) fn run_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Run {
        self.run_after("", arguments, variables)
    }

    /// Lets a shell say something before it becomes the command.
    pub(crate) fn run_after(&self, prologue: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Run {
        self.begin(self.command_after(prologue, arguments), variables)
    }

    /// Starts any command that is to hear something on its stdin.
    pub(crate) fn run_listening(&self, arguments: &[&str]) -> Run {
        let mut command = self.command_of(arguments);
        command.stdin(Stdio::piped());
        self.begin(command, &[])
    }

    /// Starts another program, with nothing of the environment of whoever runs the tests but its path.
    #[cfg(any(feature = "clients", feature = "schemathesis", feature = "tool-servers"))]
    #[expect(clippy::disallowed_methods, reason = "the test plays the user's shell")]
    pub(crate) fn run_program(&self, program: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Run {
        let mut command = Command::new(program);
        let path = std::env::var_os("PATH").unwrap_or_default();
        command.args(arguments).current_dir(self.project.path()).stdin(Stdio::null());
        command.env_clear().env("PATH", path).env("HOME", self.path());
        self.begin(command, variables)
    }

    fn begin(&self, mut command: Command, variables: &[(&str, &str)]) -> Run {
        command.envs(variables.iter().copied()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let homes = variables.iter().filter(|(name, _)| *name == "CODEX_HOME").map(|(_, home)| home.into());
        Run {
            stdout: BufReader::new(child.stdout.take().unwrap()),
            seen: Vec::new(),
            homes: homes.chain([self.path().into()]).collect(),
            _watchdog: Watchdog::new(Pid::from_child(&child)),
            child,
        }
    }

    /// Runs to the end with stdout going into a file.
    pub(crate) fn ask_into(&self, stdout: fs::File, arguments: &[&str]) -> Ended {
        let output = self.command(arguments).stdout(stdout).stderr(Stdio::piped()).output().unwrap();
        Ended { status: output.status, stdout: String::new(), stderr: String::from_utf8(output.stderr).unwrap() }
    }

    /// Runs to the end with that on stdin.
    pub(crate) fn ask_from(&self, stdin: &str, arguments: &[&str]) -> Ended {
        let file = self.path().join("stdin");
        fs::write(&file, stdin).unwrap();
        let output = self.command(arguments).stdin(fs::File::open(file).unwrap()).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ended { status: output.status, stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Runs any command to the end beside others, with somebody who types on its terminal.
    pub(crate) fn run_typing(&self, typed: &str, arguments: &[&str]) -> Ended {
        let (mut master, name) = terminal();
        let mut command = self.command_of(arguments);
        command.stdin(fs::File::open(name).unwrap());
        master.write_all(typed.as_bytes()).unwrap();
        self.begin(command, &[]).end_beside_others()
    }

    /// Runs to the end on a terminal, and returns what the terminal was sent.
    pub(crate) fn ask_on_terminal(&self, arguments: &[&str]) -> String {
        let (mut master, name) = terminal();
        let terminal = fs::File::options().write(true).open(name).unwrap();
        let mut child = self.command(arguments).stdout(terminal).stderr(Stdio::null()).spawn().unwrap();
        let _watchdog = Watchdog::new(Pid::from_child(&child));
        let mut sent = Vec::new();
        // The end of a terminal is an error, not an end of file; what came before it is kept.
        _ = master.read_to_end(&mut sent);
        assert!(child.wait().unwrap().success());
        String::from_utf8(sent).unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        self.command_of(&[&["ask"], arguments].concat())
    }

    fn command_of(&self, arguments: &[&str]) -> Command {
        self.command_after("", arguments)
    }

    #[expect(clippy::disallowed_methods, reason = "the test plays the user's shell")]
    fn command_after(&self, prologue: &str, arguments: &[&str]) -> Command {
        let binary = env!("CARGO_BIN_EXE_switchboard");
        let mut command = if prologue.is_empty() { Command::new(binary) } else { Command::new("sh") };
        if !prologue.is_empty() {
            command.args(["-c", &format!("{prologue}; exec \"$0\" \"$@\""), binary]);
        }
        // No configuration of whoever runs the tests counts.
        command.args(arguments).current_dir(self.project.path()).stdin(Stdio::null());
        command.env("SWITCHBOARD_STATE_DIR", self.path()).env("XDG_CONFIG_HOME", self.path());
        command
    }

    /// A demo worker that plays `script` and keeps every line it hears in a file.
    pub(crate) fn capturing_worker(&self, heard: &Path, script: &str) -> String {
        let worker = self.worker("", script);
        let text = fs::read_to_string(&worker).unwrap();
        fs::write(&worker, text.replace("--script", &format!("--capture '{}' --script", heard.display()))).unwrap();
        worker
    }

    /// A worker of its own kind: the shell runs `prologue` and then becomes a demo worker that plays `script`.
    pub(crate) fn worker(&self, prologue: &str, script: &str) -> String {
        let (worker, file) = (self.path().join("worker"), self.path().join("script.toml"));
        fs::write(&file, script).unwrap();
        let binary = env!("CARGO_BIN_EXE_switchboard");
        let home = self.path().join("home");
        fs::create_dir_all(&home).unwrap();
        let text = format!(
            "#!/bin/sh\n{prologue}\nCODEX_HOME='{}' exec '{binary}' demo-worker --script '{}'\n",
            home.display(),
            file.display()
        );
        fs::write(&worker, text).unwrap();
        fs::set_permissions(&worker, fs::Permissions::from_mode(0o755)).unwrap();
        worker.to_str().unwrap().into()
    }
}

/// A terminal: the side of the person who sits at it, and the path of the other.
fn terminal() -> (fs::File, String) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    (master.into(), name)
}

impl Run {
    /// Reads stdout until something has been said.
    pub(crate) fn wait_for(&mut self, text: &str) {
        while !self.seen.ends_with(text.as_bytes()) {
            let mut byte = [0];
            let read = self.stdout.read(&mut byte).unwrap();
            assert_eq!(read, 1, "ended after {}", String::from_utf8_lossy(&self.seen));
            self.seen.push(byte[0]);
        }
    }

    /// Reads one line of stdout; empty if there is none.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line
    }

    /// What a run that has ended said on stderr.
    pub(crate) fn stderr_now(&mut self) -> String {
        self.child.wait().unwrap();
        let mut text = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        text
    }

    /// Says one line on its stdin.
    pub(crate) fn say(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Closes its stdin.
    pub(crate) fn fall_silent(&mut self) {
        self.child.stdin = None;
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for the end while nobody reads.
    pub(crate) fn wait_for_exit(&mut self) {
        self.child.wait().unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// The reader of stdout goes away.
    pub(crate) fn hang_up(mut self) -> ExitStatus {
        drop(self.stdout);
        let status = self.child.wait().unwrap();
        assert_nothing_left(&self.homes);
        status
    }

    /// Waits for the end, and makes sure that nothing is left of it.
    pub(crate) fn end(self) -> Ended {
        let homes = self.homes.clone();
        let ended = self.end_beside_others();
        assert_nothing_left(&homes);
        ended
    }

    /// Waits for the end of a run whose state others use too.
    pub(crate) fn end_beside_others(mut self) -> Ended {
        let mut stderr = self.child.stderr.take().unwrap();
        let mut err = String::new();
        std::thread::scope(|scope| {
            scope.spawn(|| stderr.read_to_string(&mut err).unwrap());
            self.stdout.read_to_end(&mut self.seen).unwrap();
        });
        let status = self.child.wait().unwrap();
        Ended { status, stdout: String::from_utf8(self.seen).unwrap(), stderr: err }
    }
}

impl Ended {
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    pub(crate) fn events(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The names of the events, and that the last of them is the only end. Neighbours of one name count once: how many
    /// pieces a text comes in depends on how fast it is read.
    pub(crate) fn event_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.events().iter().map(|event| event["type"].as_str().unwrap().into()).collect();
        let ends = names.iter().filter(|name| *name == "turn_ended").count();
        assert_eq!(ends, 1, "{names:?}");
        assert_eq!(names.last().unwrap(), "turn_ended");
        names.dedup();
        names
    }

    /// What the last event says.
    pub(crate) fn end(&self) -> Value {
        self.event_names();
        self.events().pop().unwrap()
    }
}

/// Every process of a run has one of its homes in its environment. What was killed may need a moment to be gone.
fn assert_nothing_left(homes: &[OsString]) {
    let deadline = Instant::now() + HANG_TIMEOUT;
    loop {
        let left = processes_of(homes);
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "left running: {left:?}");
        std::thread::yield_now();
    }
}

fn processes_of(homes: &[OsString]) -> Vec<PathBuf> {
    let contains = |text: &[u8], part: &[u8]| text.windows(part.len()).any(|window| window == part);
    let is_ours = |environ: &[u8]| homes.iter().any(|home| contains(environ, home.as_encoded_bytes()));
    let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| Some(entry.ok()?.path()));
    processes.filter(|process| fs::read(process.join("environ")).is_ok_and(|environ| is_ours(&environ))).collect()
}

/// Kills a process when its time is over, or when its test fails. Dropped before that, it does nothing.
struct Watchdog {
    pid: Pid,
    _release: SyncSender<()>,
}

impl Watchdog {
    fn new(pid: Pid) -> Self {
        let (release, released) = sync_channel(0);
        std::thread::spawn(move || {
            if released.recv_timeout(DEADLINE) == Err(RecvTimeoutError::Timeout) {
                kill_process(pid, Signal::KILL).ok();
            }
        });
        Self { pid, _release: release }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        if std::thread::panicking() {
            kill_process(self.pid, Signal::KILL).ok();
        }
    }
}
