//! Real OpenAI clients against a running server: each client's script of `clients/` plays its scenarios with the demo worker and
//! with the real codex, and what it says becomes rows.
//!
//! `cargo xtask clients` installs the clients, names them, and makes a table of the rows.

use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::sync::Mutex;

use serde::Serialize;
use testkit::codex;

use crate::command::State;
use crate::real::Real;
use crate::served::Served;

/// Names the clients, one a line: the API, the name, the program and its script, with tabs between.
const CLIENTS: &str = "SWITCHBOARD_CLIENTS";
/// Names the file for the rows.
const ROWS: &str = "SWITCHBOARD_CLIENTS_ROWS";

/// What every client of chat completions tries, or says why it cannot.
const CHAT: &[&str] = &[
    "text",
    "stream",
    "usage",
    "tools",
    "tools_streamed",
    "parallel_tools",
    "structured",
    "image",
    "reasoning",
    "refused",
    "provider_error",
    "failed_once",
    "retry",
    "cancel",
];

/// The same of the Responses API.
const RESPONSES: &[&str] = &[
    "text",
    "stream",
    "usage",
    "tools",
    "tools_repeated",
    "tools_streamed",
    "parallel_tools",
    "structured",
    "image",
    "reasoning",
    "multi_turn",
    "retrieve",
    "input_items",
    "delete",
    "background",
    "resumed",
    "cancelled",
    "owned",
    "refused",
    "provider_error",
    "failed_once",
    "retry",
    "cancel",
];

/// Clients that are tried at the same time with one worker: they mostly wait.
const AT_ONCE: usize = 2;

struct Client {
    api: String,
    name: String,
    program: String,
    script: String,
}

/// What came of one scenario.
#[derive(Serialize)]
struct Row<'a> {
    api: &'a str,
    client: &'a str,
    worker: &'static str,
    scenario: &'static str,
    outcome: Outcome,
    why: String,
}

#[derive(Serialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Passed,
    Cannot,
    Failed,
}

#[test]
fn clients_get_what_they_ask_of_the_demo_worker() {
    try_all("demo", |client| tried(client, "demo", &["--worker", "demo"], &[]));
}

#[test]
fn clients_get_what_they_ask_of_the_real_codex() {
    try_all("codex", |client| {
        let real = Real::new();
        tried(client, "codex", &["--worker", &real.binary], &[("CODEX_HOME", &real.home)])
    });
}

fn try_all(worker: &str, try_one: impl Fn(&Client) -> Vec<Row<'_>> + Sync) {
    let clients = clients();
    let waiting = Mutex::new(clients.iter().collect::<VecDeque<_>>());
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(client) = { waiting.lock().unwrap().pop_front() } {
                    let rows = try_one(client);
                    leave(&rows);
                    let wrong = rows.iter().filter(|row| row.outcome == Outcome::Failed);
                    failed
                        .lock()
                        .unwrap()
                        .extend(wrong.map(|row| format!("{} {}, {}: {}", row.api, row.client, row.scenario, row.why)));
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "with {worker}:\n{}", failed.join("\n"));
}

fn clients() -> Vec<Client> {
    let lines = std::env::var(CLIENTS).unwrap_or_else(|_| panic!("{CLIENTS} is not set: run `cargo xtask clients`"));
    let client = |line: &str| match line.split('\t').collect::<Vec<_>>()[..] {
        [api, name, program, script] => {
            Client { api: api.into(), name: name.into(), program: program.into(), script: script.into() }
        }
        _ => panic!("{CLIENTS} has a line {line:?}"),
    };
    lines.lines().map(client).collect()
}

/// Plays a client's script against a server of its own.
fn tried<'a>(client: &'a Client, worker: &'static str, serve: &[&str], variables: &[(&str, &str)]) -> Vec<Row<'a>> {
    let state = State::new();
    let served = Served::start_with(&state, serve, variables);
    let narrow = served.json(&["keys", "add", "narrow", "--turns-max", "1"]);
    let codex = codex::binary().unwrap();
    let environment = [
        ("SWITCHBOARD_URL", served.url()),
        ("SWITCHBOARD_KEY", served.key()),
        ("SWITCHBOARD_NARROW_KEY", narrow["secret"].as_str().unwrap()),
        ("SWITCHBOARD_MODEL", "codex"),
        (codex::CODEX_VARIABLE, codex.to_str().unwrap()),
        ("PYTHONDONTWRITEBYTECODE", "1"),
    ];
    let played = state.run_program(&client.program, &[&client.script], &environment).end_beside_others();
    let ended = served.stop();
    let row = |scenario: &&'static str| Row::of(scenario, client, worker, &played.stdout, &played.stderr);
    let mut rows: Vec<_> = client.scenarios().iter().map(row).collect();
    if ended.code() != Some(0) {
        let why =
            format!("the server ended with {}: {}", ended.status, ended.stderr.lines().last().unwrap_or_default());
        rows.iter_mut().for_each(|row| (row.outcome, row.why) = (Outcome::Failed, why.clone()));
    }
    rows
}

impl Client {
    fn scenarios(&self) -> &'static [&'static str] {
        match self.api.as_str() {
            "chat" => CHAT,
            "responses" => RESPONSES,
            other => panic!("{CLIENTS} names an API {other:?}"),
        }
    }
}

impl<'a> Row<'a> {
    /// Scripts say `ok NAME`, `cannot NAME: WHY` or `FAILED NAME: WHY`.
    fn of(scenario: &'static str, client: &'a Client, worker: &'static str, said: &str, errors: &str) -> Self {
        let told = |word: &str| {
            let mut lines = said.lines().filter_map(|line| line.strip_prefix(word)?.strip_prefix(scenario));
            lines.find_map(|rest| if rest.is_empty() { Some("") } else { rest.strip_prefix(": ") })
        };
        let (outcome, why) = match (told("ok "), told("cannot "), told("FAILED ")) {
            (Some(_), None, None) => (Outcome::Passed, ""),
            (None, Some(why), None) => (Outcome::Cannot, why),
            (None, None, Some(why)) => (Outcome::Failed, why),
            _ => (Outcome::Failed, errors.lines().last().unwrap_or("the script said nothing of it, or too much")),
        };
        Self { api: &client.api, client: &client.name, worker, scenario, outcome, why: why.into() }
    }
}

fn leave(rows: &[Row<'_>]) {
    let Some(file) = std::env::var_os(ROWS) else { return };
    let lines: String = rows.iter().map(|row| serde_json::to_string(row).unwrap() + "\n").collect();
    OpenOptions::new().create(true).append(true).open(file).unwrap().write_all(lines.as_bytes()).unwrap();
}
