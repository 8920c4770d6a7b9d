//! The worker by text in and text out: what no recording of a real worker shows.
//!
//! Every message of v2 has to be valid against upstream's schema; v1 has none. What is no JSON, as some faults want it,
//! is shown raw.

mod connections;
mod faults;
mod friendly;
mod persistence;
mod scripts;
mod sockets;
mod v1;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use expect_test::Expect;
use serde_json::Value;
use tempfile::TempDir;
use testkit::schema::Schema;

use crate::clock::Now;
use crate::home::Home;
use crate::options::Dialect;
use crate::outputs::{ConnectionId, Output};
use crate::script::Script;
use crate::worker::Worker;

const START_MS: u64 = 1_800_000_000_000;

/// A worker with a clock that moves only when told to, and what it wanted done, in short.
struct Theatre {
    worker: Worker,
    home: PathBuf,
    dialect: Dialect,
    now: Now,
    /// What was answered last to each id, for later calls to refer to.
    results: BTreeMap<String, Value>,
    names: BTreeMap<String, String>,
    /// The methods that were called last, by the connection's letter and the id.
    calls: BTreeMap<(char, String), String>,
    /// What the schema is to find wrong, as a fault wants it; nothing else may be.
    wrong_on_purpose: Option<&'static str>,
    log: String,
}

impl Theatre {
    fn new(dialect: Dialect, home: &TempDir, script: &str) -> Self {
        let now = Now { instant: Instant::now(), unix_ms: START_MS };
        let mut theatre = Self {
            worker: worker(dialect, home.path().to_owned(), script, now),
            home: home.path().to_owned(),
            dialect,
            now,
            results: BTreeMap::new(),
            names: BTreeMap::new(),
            calls: BTreeMap::new(),
            wrong_on_purpose: None,
            log: String::new(),
        };
        theatre.drain();
        theatre
    }

    /// Plays the lines of a script and returns what they caused.
    ///
    /// `A< LINE` is received from connection A (letters without a `connect` first are connected on the way), where
    /// `$ID.path` stands for part of an earlier answer; `A connects`, `A leaves`, `25 ms pass`, `worker restarts`.
    fn play(&mut self, script: &str) -> &str {
        for step in script.lines().map(str::trim).filter(|step| !step.is_empty()) {
            match step.split_once(' ') {
                Some(("worker", "restarts")) => {
                    let seed = format!("seed = {}", self.names.len() + 100);
                    // The old worker lets go of its files before the new one wants them.
                    self.worker = worker(self.dialect, PathBuf::new(), "", self.now);
                    self.worker = worker(self.dialect, self.home.clone(), &seed, self.now);
                }
                Some((time, "ms pass")) => {
                    self.pass(time.parse().expect("a number of milliseconds"));
                }
                Some((who, "connects")) => self.worker.handle_opened(connection(who)),
                Some((who, "leaves")) => self.worker.handle_closed(connection(who)),
                Some((who, line)) => {
                    let line = self.resolve(line);
                    let connection = connection(who.trim_end_matches('<'));
                    self.note_call(letter(connection), &line);
                    self.worker.handle_line(connection, line.as_bytes(), self.now);
                }
                None => panic!("no step: {step}"),
            }
            self.drain();
        }
        &self.log
    }

    fn pass(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now.instant += Duration::from_millis(1);
            self.now.unix_ms += 1;
            self.drain();
            while self.worker.poll_timeout().is_some_and(|due| due <= self.now.instant) {
                self.worker.handle_timeout(self.now);
                self.drain();
            }
        }
    }

    fn drain(&mut self) {
        while let Some(output) = self.worker.poll_output(self.now.instant) {
            let line = match output {
                Output::Bytes { connection, bytes } => {
                    let who = letter(connection);
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    for line in text.split_inclusive('\n') {
                        self.validate(who, line);
                        let short = self.shorten(line);
                        self.log.push_str(&format!("{who} {short}\n"));
                    }
                    continue;
                }
                Output::LongLine { connection, head, filler_bytes, tail } => {
                    let bytes = head.len() as u64 + filler_bytes + tail.len() as u64;
                    format!("{} a line of {bytes} bytes", letter(connection))
                }
                other => format!("{other:?}"),
            };
            self.log.push_str(&line);
            self.log.push('\n');
        }
    }

    fn note_call(&mut self, who: char, line: &str) {
        let message: Value = serde_json::from_str(line).unwrap_or_default();
        let method = message["method"].as_str();
        self.calls.extend(method.map(|method| ((who, message["id"].to_string()), method.to_owned())));
    }

    fn validate(&self, who: char, line: &str) {
        if let (Dialect::V2, Ok(message)) = (self.dialect, serde_json::from_str::<Value>(line)) {
            let call = self.calls.get(&(who, message["id"].to_string())).map(String::as_str);
            if let Some(fault) = Schema::committed().fault(&message, call) {
                assert!(self.wrong_on_purpose.is_some_and(|wrong| fault.starts_with(wrong)), "{fault}\n{line}");
            }
        }
    }

    /// A message without what is always the same, null or a time; the ids are numbered.
    fn shorten(&mut self, line: &str) -> String {
        let Ok(mut message) = serde_json::from_str::<Value>(line) else {
            let cut: String = line.chars().take(60).collect();
            return format!("raw {:?}", self.rename(&cut));
        };
        if let (Some(id), Some(result)) = (message.get("id"), message.get("result")) {
            self.results.insert(id.to_string(), result.clone());
        }
        prune(&mut message);
        self.rename(&message.to_string())
    }

    fn rename(&mut self, text: &str) -> String {
        let text = text.replace(&*self.home.to_string_lossy(), "$HOME").replace(crate::v2::version(), "VERSION");
        let mut renamed = String::new();
        let mut rest = text.as_str();
        while let Some(at) = rest.find("-7") {
            let is_uuid = at >= 13 && rest[at - 5..].len() >= 28 && rest.as_bytes().get(at - 5) == Some(&b'-');
            if !is_uuid {
                renamed.push_str(&rest[..at + 2]);
                rest = &rest[at + 2..];
                continue;
            }
            let (start, end) = (at - 13, at + 23);
            renamed.push_str(&rest[..start]);
            let count = self.names.len() + 1;
            renamed.push_str(self.names.entry(rest[start..end].to_owned()).or_insert(format!("#{count}")));
            rest = &rest[end..];
        }
        renamed + rest
    }

    /// Puts parts of earlier answers in place of `$ID.path.to.value`.
    fn resolve(&self, line: &str) -> String {
        let mut resolved = String::new();
        let mut rest = line;
        while let Some(at) = rest.find('$') {
            resolved.push_str(&rest[..at]);
            let name = &rest[at + 1..];
            let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '.').unwrap_or(name.len());
            let (id, path) = name[..end].split_once('.').expect("an id and a path");
            let value = self.results[id].pointer(&format!("/{}", path.replace('.', "/")));
            resolved.push_str(value.and_then(Value::as_str).expect("a string in an earlier answer"));
            rest = &name[end..];
        }
        resolved + rest
    }
}

fn worker(dialect: Dialect, home: PathBuf, script: &str, now: Now) -> Worker {
    let home = Home::open((!home.as_os_str().is_empty()).then_some(home)).expect("the home exists");
    let script = if script.contains("seed") { script.to_owned() } else { format!("seed = 1\n{script}") };
    Worker::new(dialect, home, Script::parse(&script).expect("the script is right"), now)
}

fn connection(who: &str) -> ConnectionId {
    ConnectionId(u64::from(who.as_bytes()[0] - b'A'))
}

fn letter(connection: ConnectionId) -> char {
    char::from(b'A' + u8::try_from(connection.0).expect("few connections"))
}

fn prune(value: &mut Value) {
    const ALWAYS_THE_SAME: &[&str] = &[
        "emittedAtMs",
        "startedAtMs",
        "completedAtMs",
        "startedAt",
        "completedAt",
        "durationMs",
        "createdAt",
        "updatedAt",
        "recencyAt",
        "environments",
        "cliVersion",
        "cwd",
        "conversationId",
        "thread_id",
        "rootTurnId",
        "sessionId",
        "runtimeWorkspaceRoots",
        "threadId",
        "turnId",
        "turn_id",
    ];
    match value {
        Value::Object(map) => {
            map.retain(|key, value| {
                prune(value);
                !value.is_null() && !ALWAYS_THE_SAME.contains(&key.as_str())
            });
        }
        Value::Array(values) => values.iter_mut().for_each(prune),
        _ => {}
    }
}

/// The part of a log that a test is about: from the first line with `first` to the last with `last`.
fn part<'a>(log: &'a str, first: &str, last: &str) -> &'a str {
    let begin = log.find(first).map_or(0, |at| log[..at].rfind('\n').map_or(0, |end| end + 1));
    let end = log.rfind(last).map_or(log.len(), |at| log[at..].find('\n').map_or(log.len(), |length| at + length + 1));
    &log[begin..end]
}

/// The lines of a log that hold one of `words`.
fn lines_with(log: &str, words: &[&str]) -> String {
    let wanted = |line: &&str| words.iter().any(|word| line.contains(word));
    log.lines().filter(wanted).fold(String::new(), |all, line| all + line + "\n")
}

/// Plays a script with connection A initialised and a thread `$2.thread.id` started, and shows what followed.
#[expect(clippy::needless_pass_by_value, reason = "reads better at the call")]
fn check_v2(script: &str, play: &str, expected: Expect) {
    let home = TempDir::new().expect("a temporary directory");
    let mut theatre = Theatre::new(Dialect::V2, &home, script);
    theatre.play(V2_OPENING);
    theatre.log.clear();
    expected.assert_eq(theatre.play(play));
}

const V2_OPENING: &str = r#"
    A connects
    A< {"id":1,"method":"initialize","params":{"clientInfo":{"name":"test","version":"0"}}}
    A< {"id":2,"method":"thread/start","params":{"cwd":"/home/dev"}}
"#;

/// The line that starts a turn in the opened thread.
fn turn(id: u64, prompt: &str) -> String {
    let prompt = Value::from(prompt);
    format!(
        r#"A< {{"id":{id},"method":"turn/start","params":{{"threadId":"$2.thread.id","input":[{{"type":"text","text":{prompt}}}]}}}}"#
    )
}
