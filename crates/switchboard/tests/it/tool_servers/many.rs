//! Thirteen tool servers at once: all of them ready, used by every client, and gone with the server.

use std::collections::BTreeSet;
use std::thread::park_timeout;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::HANG_TIMEOUT;
use testkit::processes;

use super::{Place, table, told};
use crate::command::State;
use crate::served::Served;

const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// What there is beside the calls, with a resource and a prompt, in the scenarios of a client that talks to its user.
const OF_A_FULL_CLIENT: usize = 4;

#[test]
fn thirteen_servers_serve_every_client_and_leave_nothing() {
    let (place, state) = (Place::find(), State::new());
    let files = Files::new(&state);
    let servers = servers(&place, &files);
    assert_eq!(servers.len(), 13);
    let tables: Vec<String> = servers.iter().map(|(name, command, more)| table(name, command, more)).collect();
    state.configure(&tables.join("\n"));

    let started = Instant::now();
    let served = Served::start(&state);
    wait_until_ready(&served, servers.len());
    println!("thirteen tool servers were ready after {:.1} s", started.elapsed().as_secs_f64());

    let plan = plan(&served, &files);
    let calls = plan["calls"].as_array().unwrap().len();
    let plan_file = state.path().join("plan.json");
    std::fs::write(&plan_file, plan.to_string()).unwrap();
    let failed: Vec<String> = clients(&place)
        .iter()
        .flat_map(|client| client.play(&state, &served, plan_file.to_str().unwrap(), calls))
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));

    let family = family(served.run.pid());
    assert!(family.len() > servers.len(), "only {} processes", family.len());
    let ended = served.stop();
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    let left: Vec<_> = family.iter().filter(|pid| processes::is_running(**pid)).collect();
    assert!(left.is_empty(), "left running: {left:?}");
}

/// What some of them work on.
struct Files {
    directory: String,
    repository: String,
    memory: String,
}

impl Files {
    fn new(state: &State) -> Self {
        let path = |name: &str| state.path().join(name).to_str().unwrap().to_owned();
        let files = Self { directory: path("files"), repository: path("repository"), memory: path("memory.jsonl") };
        std::fs::create_dir(&files.directory).unwrap();
        std::fs::write(format!("{}/greeting.txt", files.directory), "Hello from a file.\n").unwrap();
        let run = |arguments: &[&str]| {
            let ended = state.run_program("git", arguments, &[]).end_beside_others();
            assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
        };
        run(&["init", "--quiet", &files.repository]);
        let author = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"];
        let commit = ["commit", "--quiet", "--allow-empty", "--message", "Begin the engine"];
        run(&[&["-C", &files.repository], &author[..], &commit[..]].concat());
        files
    }
}

/// Name, command, and what else stands in its table.
fn servers(place: &Place, files: &Files) -> Vec<(&'static str, Vec<String>, String)> {
    let for_node = |path: &str, more: &[&str]| {
        let script = place.in_node(&format!("node_modules/@modelcontextprotocol/{path}/dist/index.js"));
        [place.node(), script].into_iter().chain(more.iter().map(|word| (*word).to_owned())).collect::<Vec<_>>()
    };
    let for_python = |program: &str, more: &[&str]| {
        let words = more.iter().map(|word| (*word).to_owned());
        [place.in_python("servers", program)].into_iter().chain(words).collect::<Vec<_>>()
    };
    let rust = vec![place.example("template")];
    let python = for_python("python", &[&place.in_repository("examples/tool-servers/python/server.py")]);
    let typescript = vec![place.node(), place.in_node("server.ts")];
    let memory = format!("variables = {{ MEMORY_FILE_PATH = {:?} }}", files.memory);
    let plain = String::new;
    vec![
        ("everything", for_node("server-everything", &[]), plain()),
        ("filesystem", for_node("server-filesystem", &[&files.directory]), plain()),
        ("memory", for_node("server-memory", &[]), memory),
        ("fetch", for_python("mcp-server-fetch", &["--ignore-robots-txt", "--allow-private-ips"]), plain()),
        ("git", for_python("mcp-server-git", &["--repository", &files.repository]), plain()),
        ("time", for_python("mcp-server-time", &["--local-timezone", "UTC"]), plain()),
        ("rust", rust.clone(), plain()),
        ("rust-two", rust.clone(), plain()),
        ("rust-three", rust, plain()),
        ("python", python.clone(), plain()),
        ("python-two", python, plain()),
        ("typescript", typescript.clone(), plain()),
        ("typescript-two", typescript, plain()),
    ]
}

fn plan(served: &Served<'_>, files: &Files) -> Value {
    let templates =
        ["rust", "rust-two", "rust-three", "python", "python-two", "typescript", "typescript-two"].map(|name| {
            let arguments = json!({"text": "one three two"});
            json!({"tool": format!("{name}__longest_word"), "arguments": arguments, "text": "three"})
        });
    let mut calls = vec![
        json!({"tool": "everything__echo", "arguments": {"message": "hi"}, "text": "Echo: hi"}),
        json!({
            "tool": "filesystem__read_text_file",
            "arguments": {"path": format!("{}/greeting.txt", files.directory)},
            "text": "Hello from a file.",
        }),
        json!({"tool": "memory__read_graph", "arguments": {}, "text": "entities"}),
        json!({"tool": "fetch__fetch", "arguments": {"url": format!("{}/healthz", served.url())}, "text": "version"}),
        json!({"tool": "git__git_log", "arguments": {"repo_path": files.repository}, "text": "Begin the engine"}),
        json!({
            "tool": "time__convert_time",
            "arguments": {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"},
            "text": "21:00",
        }),
        json!({
            "tool": "rust__convert_temperature",
            "arguments": {"degrees": 20, "unit": "Celsius"},
            "text": "Fahrenheit",
        }),
    ];
    calls.extend(templates);
    json!({
        "calls": calls,
        "resource": {"uri": "demo://resource/static/document/architecture.md", "text": "Everything Server"},
        "prompt": {"name": "everything__args-prompt", "arguments": {"city": "Ulm"}, "text": "Ulm"},
        "elicitation": {
            "tool": "everything__trigger-elicitation-request",
            "arguments": {},
            "content": {"name": "Ada", "check": true, "email": "ada@example.org"},
            "text": "Name: Ada",
        },
        "progress": {
            "tool": "everything__trigger-long-running-operation",
            "arguments": {"duration": 0.3, "steps": 3},
            "least": 2,
            "text": "completed",
        },
    })
}

fn wait_until_ready(served: &Served<'_>, count: usize) {
    let deadline = Instant::now() + HANG_TIMEOUT;
    loop {
        let servers = told(served);
        let open: Vec<&Value> = servers.iter().filter(|server| server["state"] != "ready").collect();
        if servers.len() == count && open.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "{} of {count} servers, not ready: {open:#?}", servers.len());
        park_timeout(LOOK_INTERVAL);
    }
}

/// A client's script.
struct Client {
    name: String,
    program: String,
    arguments: Vec<String>,
    is_full: bool,
}

fn clients(place: &Place) -> Vec<Client> {
    let for_node =
        |script: &str, era: &[&'static str]| (place.node(), place.in_node(script), script.to_owned(), era.to_vec());
    let for_python = |environment: &str, script: &str, era: &[&'static str]| {
        let path = place.in_repository(&format!("tool-servers/clients/{script}"));
        (place.in_python(environment, "python"), path, script.to_owned(), era.to_vec())
    };
    let all = [
        for_node("sdk.mjs", &["legacy"]),
        for_node("sdk.mjs", &["modern"]),
        for_node("legacy.mjs", &[]),
        for_node("inspector.mjs", &["legacy"]),
        for_node("inspector.mjs", &["modern"]),
        for_python("servers", "sdk.py", &["legacy"]),
        for_python("servers", "sdk.py", &["modern"]),
        for_python("legacy", "legacy.py", &[]),
    ];
    let client = |(program, path, script, era): (String, String, String, Vec<&'static str>)| Client {
        name: [&[script.as_str()], &era[..]].concat().join(" "),
        program,
        arguments: [path].into_iter().chain(era.iter().map(|era| (*era).to_owned())).collect(),
        is_full: !script.starts_with("inspector"),
    };
    all.into_iter().map(client).collect()
}

impl Client {
    /// What failed.
    fn play(&self, state: &State, served: &Served<'_>, plan: &str, calls: usize) -> Vec<String> {
        let url = format!("{}/mcp", served.url());
        let environment = [
            ("SWITCHBOARD_MCP_URL", url.as_str()),
            ("SWITCHBOARD_KEY", served.key()),
            ("SWITCHBOARD_PLAN", plan),
            ("PYTHONDONTWRITEBYTECODE", "1"),
        ];
        let started = Instant::now();
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        let ended = state.run_program(&self.program, &arguments, &environment).end_beside_others();
        let lines = ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")));
        let rows: Vec<Value> = lines.collect();
        println!("{}: {} scenarios in {:.1} s", self.name, rows.len(), started.elapsed().as_secs_f64());
        let mut failed: Vec<String> = rows
            .iter()
            .filter(|row| row["ok"] != true)
            .map(|row| format!("{}, {}: {}", self.name, row["name"], row["detail"].as_str().unwrap_or_default()))
            .collect();
        // The list of tools; a list and one of its things for resources and prompts.
        let expected = 1 + calls + 4 + if self.is_full { OF_A_FULL_CLIENT } else { 0 };
        if rows.len() != expected {
            failed.push(format!("{}: {} of {expected} scenarios: {}", self.name, rows.len(), ended.stderr));
        }
        failed
    }
}

/// A process and all that came of it.
fn family(pid: u32) -> BTreeSet<u32> {
    let mut found = BTreeSet::from([pid]);
    let mut open = vec![pid];
    while let Some(pid) = open.pop() {
        for entry in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let children = std::fs::read_to_string(entry.path().join("children")).unwrap_or_default();
            let children = children.split_whitespace().filter_map(|child| child.parse().ok());
            open.extend(children.filter(|child| found.insert(*child)));
        }
    }
    found
}
