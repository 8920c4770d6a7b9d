//! What the demo worker costs: delta lines for each second of its CPU time, and its memory with idle threads. It is the
//! shim of every other benchmark, so it must never be what limits one.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::process;

const DELTAS: u32 = 2_000_000;
const LINES_PER_CPU_SECOND: f64 = 300_000.0;
const IDLE_THREADS: usize = 100;
const IDLE_MEGABYTES: f64 = 15.0;

pub(crate) fn run() -> Result<()> {
    let mut worker = Worker::start()?;
    for _ in 0..IDLE_THREADS {
        worker.call("thread/start", &json!({"cwd": "/"}))?;
    }
    let megabytes = process::resident_kilobytes(worker.child.id())? / 1000.0;
    println!("{megabytes:.1} MB with {IDLE_THREADS} idle threads (bar {IDLE_MEGABYTES} MB)");

    let thread = worker.call("thread/start", &json!({"cwd": "/"}))?["thread"]["id"].clone();
    let before = process::cpu_seconds(worker.child.id())?;
    let text = format!("[[deltas {DELTAS}]]");
    worker.send("turn/start", &json!({"threadId": thread, "input": [{"type": "text", "text": text}]}))?;
    let deltas = worker.count_deltas()?;
    let seconds = process::cpu_seconds(worker.child.id())? - before;
    let rate = f64::from(deltas) / seconds;
    println!("{deltas} delta lines in {seconds:.2} s of CPU time: {rate:.0} lines/s (bar {LINES_PER_CPU_SECOND})");
    worker.stop()?;
    ensure!(deltas == DELTAS, "{DELTAS} deltas were asked for");
    ensure!(rate >= LINES_PER_CPU_SECOND, "below the bar for lines");
    ensure!(megabytes < IDLE_MEGABYTES, "above the bar for memory");
    Ok(())
}

struct Worker {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    calls: u64,
    home: tempfile::TempDir,
}

impl Worker {
    fn start() -> Result<Self> {
        let home = tempfile::tempdir()?;
        #[expect(clippy::disallowed_methods, reason = "the benchmark measures a whole process")]
        let mut child = Command::new(std::env::current_exe()?)
            .arg("demo-worker")
            .env("CODEX_HOME", home.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdin = child.stdin.take().context("no stdin")?;
        let stdout = BufReader::with_capacity(1 << 20, child.stdout.take().context("no stdout")?);
        let mut worker = Self { child, stdin, stdout, calls: 0, home };
        worker.call("initialize", &json!({"clientInfo": {"name": "bench", "version": "0"}}))?;
        Ok(worker)
    }

    fn send(&mut self, method: &str, params: &Value) -> Result<u64> {
        self.calls += 1;
        let line = json!({"id": self.calls, "method": method, "params": params});
        writeln!(self.stdin, "{line}")?;
        Ok(self.calls)
    }

    fn call(&mut self, method: &str, params: &Value) -> Result<Value> {
        let id = self.send(method, params)?;
        loop {
            let mut line = String::new();
            ensure!(self.stdout.read_line(&mut line)? > 0, "the worker ended");
            let mut message: Value = serde_json::from_str(&line)?;
            if message["id"] == id {
                if let Some(error) = message.get("error") {
                    bail!("{method}: {error}");
                }
                return Ok(message["result"].take());
            }
        }
    }

    /// Reads to the end of the turn, as cheaply as can be.
    fn count_deltas(&mut self) -> Result<u32> {
        let mut deltas = 0;
        let mut line = Vec::new();
        loop {
            line.clear();
            ensure!(self.stdout.read_until(b'\n', &mut line)? > 0, "the worker ended");
            if line.starts_with(br#"{"method":"item/agentMessage/delta""#) {
                deltas += 1;
            } else if line.starts_with(br#"{"method":"turn/completed""#) {
                return Ok(deltas);
            }
        }
    }

    fn stop(self) -> Result<()> {
        let Self { mut child, stdin, home, .. } = self;
        drop(stdin);
        child.wait()?;
        home.close()?;
        Ok(())
    }
}
