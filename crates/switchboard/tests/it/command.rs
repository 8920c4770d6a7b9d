//! A run of the binary: its own state directory, a deadline, and a look at what it left behind.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// Far beyond what any run takes, so that only a hang meets it.
const DEADLINE: Duration = Duration::from_secs(60);

/// Where one or more runs keep their state.
pub(crate) struct State {
    directory: TempDir,
}

/// A run that has begun.
pub(crate) struct Run<'a> {
    state: &'a State,
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
}

/// What came of a run.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl State {
    pub(crate) fn new() -> Self {
        Self {
            directory: TempDir::new().unwrap(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn ask(&self, arguments: &[&str]) -> Run<'_> {
        self.ask_with(arguments, &[])
    }

    pub(crate) fn ask_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Run<'_> {
        #[expect(clippy::disallowed_methods, reason = "the test plays the user's shell")]
        let mut command = Command::new(env!("CARGO_BIN_EXE_switchboard"));
        let mut child = command
            .arg("ask")
            .args(arguments)
            .env("SWITCHBOARD_STATE_DIR", self.path())
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Run {
            state: self,
            child,
            stdout,
        }
    }

    /// Workers of this state that still run: their home is inside it.
    fn leftovers(&self) -> Vec<String> {
        let home = self.path().as_os_str().as_encoded_bytes();
        let is_ours = |environ: &[u8]| environ.windows(home.len()).any(|window| window == home);
        fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|process| {
                fs::read(process.join("environ")).is_ok_and(|environ| is_ours(&environ))
            })
            .map(|process| process.display().to_string())
            .collect()
    }
}

impl Run<'_> {
    /// Reads stdout until something has been said.
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        let mut seen = String::new();
        while !seen.contains(text) {
            let mut byte = [0];
            assert_eq!(
                self.stdout.read(&mut byte).unwrap(),
                1,
                "ended after {seen:?}"
            );
            seen.push(char::from(byte[0]));
        }
        seen
    }

    /// Reads stdout until a line says this.
    pub(crate) fn wait_for_line(&mut self, text: &str) {
        let mut seen = String::new();
        loop {
            let start = seen.len();
            let read = self.stdout.read_line(&mut seen).unwrap();
            assert!(read > 0, "ended after {seen:?}");
            if seen[start..].contains(text) {
                return;
            }
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).unwrap();
    }

    /// The reader of stdout goes away.
    pub(crate) fn hang_up(self) -> ExitStatus {
        let Self {
            state,
            mut child,
            stdout,
        } = self;
        drop(stdout);
        let status = wait(&mut child);
        assert!(
            state.leftovers().is_empty(),
            "left running: {:?}",
            state.leftovers()
        );
        status
    }

    /// Waits for the end, and makes sure that nothing is left of it.
    pub(crate) fn end(self) -> Ended {
        let Self {
            state,
            mut child,
            mut stdout,
        } = self;
        let mut stderr = child.stderr.take().unwrap();
        let (mut out, mut err) = (String::new(), String::new());
        std::thread::scope(|scope| {
            scope.spawn(|| stderr.read_to_string(&mut err).unwrap());
            stdout.read_to_string(&mut out).unwrap();
        });
        let status = wait(&mut child);
        assert!(
            state.leftovers().is_empty(),
            "left running: {:?}",
            state.leftovers()
        );
        Ended {
            status,
            stdout: out,
            stderr: err,
        }
    }
}

impl Ended {
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    pub(crate) fn events(&self) -> Vec<Value> {
        let lines = self.stdout.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// The names of the events, and that the last of them is the only end.
    pub(crate) fn event_names(&self) -> Vec<String> {
        let names: Vec<String> = self
            .events()
            .iter()
            .map(|event| event["type"].as_str().unwrap().into())
            .collect();
        let ends = names.iter().filter(|name| *name == "turn_ended").count();
        assert_eq!(ends, 1, "{names:?}");
        assert_eq!(names.last().unwrap(), "turn_ended");
        names
    }

    /// What the last event says.
    pub(crate) fn end(&self) -> Value {
        self.events().pop().unwrap()
    }
}

fn wait(child: &mut Child) -> ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(
            start.elapsed() < DEADLINE,
            "still running after {DEADLINE:?}"
        );
        std::thread::yield_now();
    }
}
