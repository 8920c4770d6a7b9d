//! Plays an exchange script against a worker process and records every line, both ways.
//!
//! Every wait has a deadline; when it passes, the error shows what had been received and the end of the worker's
//! stderr. Stdin stays open until the script closes it or is over: a worker that ends before did so by itself.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, BufReader, Split};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::HANG_TIMEOUT;
use crate::script::{Action, Answered, Call, Ending, Reply, Script};
use crate::substitute::substitute;
use crate::transcript::{Direction, Transcript};
use crate::workplace::Workplace;

const SHOWN_LINES_MAX: usize = 30;
const SHOWN_LINE_CHARS_MAX: usize = 300;

/// How to start a worker.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// The whole environment.
    pub environment: Vec<(OsString, OsString)>,
    /// The working directory.
    pub cwd: PathBuf,
}

/// Plays `script` against the worker of `launch`, which lives in `workplace`.
pub fn play(script: &Script, launch: &Launch, workplace: &Workplace) -> Result<Transcript, PlayError> {
    play_within(HANG_TIMEOUT, script, launch, workplace)
}

fn play_within(
    wait_max: Duration,
    script: &Script,
    launch: &Launch,
    workplace: &Workplace,
) -> Result<Transcript, PlayError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| PlayError(format!("{}: no runtime: {error}", script.name)))?;
    runtime.block_on(async {
        let mut player = Player::new(wait_max, launch, workplace);
        match player.play(script).await {
            Ok(()) => Ok(player.transcript),
            Err(failure) => Err(PlayError(player.explain(&script.name, &failure))),
        }
    })
}

/// Why a script could not be played to its end, with what had been received until then.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct PlayError(String);

struct Player<'a> {
    wait_max: Duration,
    launch: &'a Launch,
    workplace: &'a Workplace,
    process: Option<Process>,
    transcript: Transcript,
    /// What was received and no step has taken yet.
    inbox: Vec<Value>,
    next_id: u64,
    /// By name: results of calls, params of messages.
    values: BTreeMap<String, Value>,
    /// By name: ids of calls sent without waiting, and of requests taken without an answer.
    ids: BTreeMap<String, Value>,
}

struct Process {
    child: Child,
    stdin: ChildStdin,
    lines: Lines,
}

type Lines = Split<BufReader<ChildStdout>>;

impl<'a> Player<'a> {
    fn new(wait_max: Duration, launch: &'a Launch, workplace: &'a Workplace) -> Self {
        let cwd = Value::from(launch.cwd.to_string_lossy());
        Self {
            wait_max,
            launch,
            workplace,
            process: None,
            transcript: Transcript::default(),
            inbox: Vec::new(),
            next_id: 1,
            values: BTreeMap::from([("CWD".to_owned(), cwd)]),
            ids: BTreeMap::new(),
        }
    }

    async fn play(&mut self, script: &Script) -> Result<(), String> {
        self.start()?;
        for step in &script.steps {
            let played = self.step(&step.action).await;
            played.map_err(|reason| format!("line {}: {}\n{reason}", step.line, step.source))?;
        }
        if self.process.is_some() {
            self.end(Ending::StdinClosed).await?;
        }
        Ok(())
    }

    async fn step(&mut self, action: &Action) -> Result<(), String> {
        match action {
            Action::Call(call) => {
                let id = self.call(call).await?;
                self.take_answer(&id, call.name.as_deref()).await
            }
            Action::Send(call) => {
                let id = self.call(call).await?;
                self.ids.extend(call.name.clone().map(|name| (name, id)));
                Ok(())
            }
            Action::Answered(Answered::Id(id)) => self.take_answer(id, None).await,
            Action::Answered(Answered::Call(name)) => {
                let id = self.id_of(name)?;
                self.take_answer(&id, Some(name)).await
            }
            Action::Notify { method, params } => {
                let message = self.message(json!({"method": method}), params.as_ref())?;
                self.send(&message).await
            }
            Action::Wait { method, params, count, name } => {
                self.wait(method, params.as_ref(), *count, name.as_deref()).await
            }
            Action::Answer { method, reply } => {
                let request = self.take(|message| message["method"] == **method && !message["id"].is_null()).await?;
                self.reply(&request["id"], reply).await
            }
            Action::Reply { name, reply } => {
                let id = self.id_of(name)?;
                self.reply(&id, reply).await
            }
            Action::Raw(bytes) => self.send_raw(bytes).await,
            Action::Restart(ending) => {
                self.end(*ending).await?;
                self.start()
            }
            Action::Exit => {
                let Process { child, stdin: _open, lines } = self.process.take().ok_or("the worker has ended")?;
                self.exited(child, lines).await
            }
        }
    }

    async fn call(&mut self, call: &Call) -> Result<Value, String> {
        let id = Value::from(self.next_id);
        self.next_id += 1;
        let message = self.message(json!({"id": id, "method": call.method}), call.params.as_ref())?;
        self.send(&message).await?;
        Ok(id)
    }

    fn message(&self, mut message: Value, params: Option<&Value>) -> Result<Value, String> {
        if let Some(params) = params {
            message["params"] = substitute(params, &self.values)?;
        }
        Ok(message)
    }

    async fn take_answer(&mut self, id: &Value, name: Option<&str>) -> Result<(), String> {
        let mut answer = self.take(|message| message["id"] == *id && message["method"].is_null()).await?;
        if let Some(name) = name {
            let outcome = if answer["error"].is_null() { "result" } else { "error" };
            self.values.insert(name.to_owned(), answer[outcome].take());
        }
        Ok(())
    }

    async fn wait(
        &mut self,
        method: &str,
        params: Option<&Value>,
        count: usize,
        name: Option<&str>,
    ) -> Result<(), String> {
        let wanted = params.map(|params| substitute(params, &self.values)).transpose()?.unwrap_or(json!({}));
        for _ in 0..count {
            let mut taken =
                self.take(|message| message["method"] == method && holds(&message["params"], &wanted)).await?;
            if let Some(name) = name {
                self.values.insert(name.to_owned(), taken["params"].take());
                self.ids.insert(name.to_owned(), taken["id"].take());
            }
        }
        Ok(())
    }

    async fn reply(&mut self, id: &Value, reply: &Reply) -> Result<(), String> {
        let message = match reply {
            Reply::Result(result) => json!({"id": id, "result": substitute(result, &self.values)?}),
            Reply::Error(error) => json!({"id": id, "error": substitute(error, &self.values)?}),
        };
        self.send(&message).await
    }

    fn id_of(&self, name: &str) -> Result<Value, String> {
        self.ids.get(name).cloned().ok_or_else(|| format!("nothing was sent or taken under the name `{name}`"))
    }

    /// The first message, waiting or still to come, that is `wanted`.
    async fn take(&mut self, wanted: impl Fn(&Value) -> bool) -> Result<Value, String> {
        loop {
            if let Some(index) = self.inbox.iter().position(&wanted) {
                return Ok(self.inbox.remove(index));
            }
            match timeout(self.wait_max, self.receive()).await {
                Ok(Ok(Received::Line)) => {}
                Ok(Ok(Received::End)) => return Err("the worker ended instead".to_owned()),
                Ok(Err(reason)) => return Err(reason),
                Err(_) => return Err(format!("nothing of the kind came within {:?}", self.wait_max)),
            }
        }
    }

    async fn receive(&mut self) -> Result<Received, String> {
        let process = self.process.as_mut().ok_or("the worker has ended")?;
        let line =
            process.lines.next_segment().await.map_err(|error| format!("cannot read from the worker: {error}"))?;
        let Some(line) = line else {
            return Ok(Received::End);
        };
        self.transcript.record(Direction::Received, &line);
        self.inbox.extend(self.transcript.entries.last().map(|entry| entry.message.clone()));
        Ok(Received::Line)
    }

    async fn send(&mut self, message: &Value) -> Result<(), String> {
        self.send_raw(format!("{message}\n").as_bytes()).await
    }

    async fn send_raw(&mut self, bytes: &[u8]) -> Result<(), String> {
        // What has already arrived stands before what is sent.
        while let Ok(Ok(Received::Line)) = timeout(Duration::ZERO, self.receive()).await {}
        self.transcript.record(Direction::Sent, bytes.strip_suffix(b"\n").unwrap_or(bytes));
        let process = self.process.as_mut().ok_or("the worker has ended")?;
        match timeout(self.wait_max, process.stdin.write_all(bytes)).await {
            Ok(written) => written.map_err(|error| format!("cannot write to the worker: {error}")),
            Err(_) => Err(format!("the worker did not read within {:?}", self.wait_max)),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the driver of the tests must not depend on what it tests")]
    fn start(&mut self) -> Result<(), String> {
        let (program, arguments) = self.launch.argv.split_first().ok_or("no program to start")?;
        let stderr = self.workplace.open_stderr().map_err(|error| format!("no file for stderr: {error}"))?;
        let mut child = Command::new(program)
            .args(arguments)
            .env_clear()
            .envs(self.launch.environment.iter().cloned())
            .current_dir(&self.launch.cwd)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        let stdin = child.stdin.take().ok_or("no stdin")?;
        let stdout = child.stdout.take().ok_or("no stdout")?;
        let lines = tokio::io::AsyncBufReadExt::split(BufReader::new(stdout), b'\n');
        self.process = Some(Process { child, stdin, lines });
        Ok(())
    }

    /// Ends the worker and records what it still said. A killed worker's last words are a matter of luck, so what
    /// arrives after the decision to kill is left out.
    async fn end(&mut self, ending: Ending) -> Result<(), String> {
        match ending {
            Ending::StdinClosed => {
                let Process { child, stdin, lines } = self.process.take().ok_or("the worker has ended")?;
                drop(stdin);
                self.exited(child, lines).await
            }
            Ending::Killed => {
                let mut process = self.process.take().ok_or("the worker has ended")?;
                process.child.kill().await.map_err(|error| format!("cannot kill the worker: {error}"))?;
                self.transcript.record(Direction::Exit, b"killed");
                self.inbox.clear();
                Ok(())
            }
        }
    }

    /// Waits for the end of the worker and records what it still says.
    async fn exited(&mut self, mut child: Child, mut lines: Lines) -> Result<(), String> {
        let wait_max = self.wait_max;
        let exited = timeout(wait_max, async {
            while let Ok(Some(line)) = lines.next_segment().await {
                self.transcript.record(Direction::Received, &line);
            }
            child.wait().await
        });
        let status = exited.await.map_err(|_| format!("the worker did not exit within {wait_max:?}"))?;
        let status = status.map_err(|error| format!("no exit status: {error}"))?;
        self.transcript.record(Direction::Exit, status.to_string().as_bytes());
        self.inbox.clear();
        Ok(())
    }

    fn explain(&self, script: &str, failure: &str) -> String {
        let mut text = format!("{script}, {failure}\n-- the last lines:\n");
        let entries = &self.transcript.entries;
        for entry in &entries[entries.len().saturating_sub(SHOWN_LINES_MAX)..] {
            let line: String = entry.message.to_string().chars().take(SHOWN_LINE_CHARS_MAX).collect();
            let _ = writeln!(text, "{:?} {line}", entry.direction);
        }
        let _ = write!(text, "-- stderr:\n{}", self.workplace.stderr_tail(SHOWN_LINES_MAX));
        text
    }
}

enum Received {
    Line,
    End,
}

/// Whether `value` has everything that `wanted` has.
fn holds(value: &Value, wanted: &Value) -> bool {
    match wanted {
        Value::Object(fields) => fields.iter().all(|(key, wanted)| holds(&value[key], wanted)),
        other => value == other,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use expect_test::{Expect, expect};

    use super::{Launch, play_within};
    use crate::HANG_TIMEOUT;
    use crate::script::Script;
    use crate::workplace::Workplace;

    /// Plays against a program of the system: `cat` says whatever it hears.
    fn check(program: &str, script: &str, expected: &Expect) {
        check_within(HANG_TIMEOUT, program, script, expected);
    }

    fn check_within(wait_max: Duration, program: &str, script: &str, expected: &Expect) {
        let workplace = Workplace::new().unwrap();
        let path = workplace.home().join("case.script");
        std::fs::write(&path, script).unwrap();
        let launch =
            Launch { argv: vec![program.into()], environment: workplace.environment(), cwd: workplace.project() };
        expected.assert_eq(&match play_within(wait_max, &Script::load(&path).unwrap(), &launch, &workplace) {
            Ok(transcript) => transcript.to_text(),
            Err(error) => error.to_string(),
        });
    }

    #[test]
    fn what_was_heard_can_be_said_again() {
        check(
            "cat",
            r#"
notify greeting {"to":{"name":"Ada"},"count":2}
wait greeting {"to":{}} as first
notify again {"text":"$first.to.name, $$5","count":"$first.count"}
wait again {"text":"Ada, $$5","count":2}
"#,
            &expect![[r#"
                {"dir":"sent","message":{"method":"greeting","params":{"count":2,"to":{"name":"Ada"}}}}
                {"dir":"received","message":{"method":"greeting","params":{"count":2,"to":{"name":"Ada"}}}}
                {"dir":"sent","message":{"method":"again","params":{"count":2,"text":"Ada, $5"}}}
                {"dir":"received","message":{"method":"again","params":{"count":2,"text":"Ada, $5"}}}
                {"dir":"exit","message":"exit status: 0"}
            "#]],
        );
    }

    #[test]
    fn a_restart_begins_anew() {
        check(
            "cat",
            "raw not json\\n\nkill\nnotify hello\nwait hello\nrestart\n",
            &expect![[r#"
                {"dir":"sent","message":"not json"}
                {"dir":"exit","message":"killed"}
                {"dir":"sent","message":{"method":"hello"}}
                {"dir":"received","message":{"method":"hello"}}
                {"dir":"exit","message":"exit status: 0"}
                {"dir":"exit","message":"exit status: 0"}
            "#]],
        );
    }

    #[test]
    fn a_worker_that_ends_is_an_error_that_shows_the_exchange() {
        check(
            "true",
            "wait hello\n",
            &expect![[r#"
            case, line 1: wait hello
            the worker ended instead
            -- the last lines:
            -- stderr:
        "#]],
        );
    }

    #[test]
    fn an_exit_is_the_workers_own() {
        check(
            "true",
            "exit\n",
            &expect![[r#"
            {"dir":"exit","message":"exit status: 0"}
        "#]],
        );
        check_within(
            Duration::from_millis(50),
            "cat",
            "exit\n",
            &expect![[r#"
            case, line 1: exit
            the worker did not exit within 50ms
            -- the last lines:
            -- stderr:
        "#]],
        );
    }

    #[test]
    fn a_name_without_a_value_is_an_error() {
        check(
            "cat",
            "notify hello {\"id\":\"$thread.id\"}\n",
            &expect![[r#"
                case, line 1: notify hello {"id":"$thread.id"}
                `$thread` has no value yet
                -- the last lines:
                -- stderr:
            "#]],
        );
    }
}
