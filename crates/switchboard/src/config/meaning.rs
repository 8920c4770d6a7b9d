//! What each key means: the one place that names them, with their defaults and their documentation.

use std::collections::BTreeMap;
use std::time::Duration;

use codex::{ApprovalPolicy, Sandbox};

use super::kind::{Kind, quoted};
use super::nearest::nearest;
use super::problem::Source;
use super::reading::{Reading, Table};
use super::{Action, Approvals, Config, Group, Limits, Log, LogFormat, Profile, Rule};

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

const SANDBOXES: &[(&str, Sandbox)] = &[
    ("read-only", Sandbox::ReadOnly),
    ("workspace-write", Sandbox::WorkspaceWrite),
    ("danger-full-access", Sandbox::FullAccess),
];
const POLICIES: &[(&str, ApprovalPolicy)] = &[
    ("untrusted", ApprovalPolicy::Untrusted),
    ("on-request", ApprovalPolicy::OnRequest),
    ("never", ApprovalPolicy::Never),
];
const ACTIONS: &[(&str, Action)] = &[("allow", Action::Allow), ("deny", Action::Deny), ("ask", Action::Ask)];
const FORMATS: &[(&str, LogFormat)] =
    &[("auto", LogFormat::Auto), ("json", LogFormat::Json), ("text", LogFormat::Text)];
/// The profile that there always is.
const BUILT_IN: &str = "codex";
/// What a rule may speak of.
const KINDS: &[(&str, &str)] =
    &[("command", "command"), ("file_change", "file_change"), ("permissions", "permissions")];

pub(super) fn config(reading: &mut Reading<'_>, variables: &BTreeMap<String, String>) -> Config {
    let mut top = reading.top(&["workers", "profiles", "approvals", "limits", "log", "tools"]);
    let listen = top.value(
        "listen",
        &Kind::parsed("an address such as \"127.0.0.1:4180\""),
        "127.0.0.1:4180",
        "Where callers connect. Port 0 lets the system choose.",
    );
    let hosts = top.value(
        "hosts",
        &Kind::words("[\"gateway.example.com\"]"),
        "",
        "Names that callers may use for the server (`Host`), beside `listen` and this machine's.",
    );
    let state_dir = top.value_or(
        "state_dir",
        &Kind::path(),
        state_dir(variables),
        "Where approvals, keys, threads and usage are kept.",
    );
    let key = top.secret("key", "The one key of a single-key installation. Else one is made at the first start.");
    let drain_grace = top.value(
        "drain_grace",
        &Kind::duration(Duration::ZERO..=DAY),
        "30s",
        "How long running turns may take to end when the server is asked to stop.",
    );
    top.finish();
    reading.refuse("tools", "[tools] is not supported yet: remove it; tool servers come with a later version");
    let groups = groups(reading, variables);
    let profiles = profiles(reading, &groups);
    Config {
        listen,
        hosts,
        state_dir,
        key,
        drain_grace,
        groups,
        profiles,
        approvals: approvals(reading),
        limits: limits(reading),
        log: log(reading),
    }
}

/// The place that the system has for such things.
fn state_dir(variables: &BTreeMap<String, String>) -> (String, Source) {
    const XDG: &str = "XDG_STATE_HOME";
    match variables.get(XDG).filter(|directory| directory.starts_with('/')) {
        Some(directory) => (format!("{directory}/switchboard"), Source::Variable(XDG.into())),
        None => ("~/.local/state/switchboard".into(), Source::Default),
    }
}

/// Where codex keeps its login and its threads, unless nobody knows.
fn codex_home(variables: &BTreeMap<String, String>) -> Option<(String, Source)> {
    const CODEX_HOME: &str = "CODEX_HOME";
    let set = |name: &str| variables.get(name).filter(|home| !home.is_empty());
    let named = set(CODEX_HOME).map(|home| (home.clone(), Source::Variable(CODEX_HOME.into())));
    named.or_else(|| set("HOME").map(|_| ("~/.codex".into(), Source::Default)))
}

fn groups<'a>(reading: &mut Reading<'a>, variables: &BTreeMap<String, String>) -> Vec<Group> {
    let mut tables = reading.list(reading.root(), "[[workers]]", "workers");
    if tables.is_empty() {
        tables.push(Table::ABSENT);
    }
    let mut groups: Vec<Group> = Vec::new();
    for table in tables {
        let others: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
        let group = group(reading, table, &others, variables);
        groups.push(group);
    }
    groups
}

fn group<'a>(
    reading: &mut Reading<'a>,
    table: Table<'a>,
    others: &[&str],
    variables: &BTreeMap<String, String>,
) -> Group {
    let path = format!("workers.{}", table.name().unwrap_or("main"));
    let mut section = reading.section("[[workers]]", "[[workers]]", &path, table);
    if others.is_empty() {
        section = section.reached_by_flags_as("workers.first");
    }
    let name =
        section.value("name", &Kind::name(), "main", "What profiles call the group. The first group is the default.");
    if others.contains(&name.as_str()) {
        section.complain("name", format!("two groups are called \"{name}\": give each a `name` of its own"));
    }
    let group = Group {
        command: section.value(
            "command",
            &Kind::worker(),
            "codex",
            "The worker: \"codex\" (found on PATH), the path of a codex binary, or \"demo\" (built in).",
        ),
        transport: section.value(
            "transport",
            &Kind::transport(),
            "stdio",
            "How workers are reached; with \"unix\" they outlive the server and are found again.",
        ),
        count: section.value("count", &Kind::count(1..=64), "1", "How many workers the group has."),
        codex_home: section.optional_or(
            "codex_home",
            &Kind::path(),
            codex_home(variables),
            "Where its workers keep login, configuration and threads: one home, one account.",
        ),
        cwd: section.value(
            "cwd",
            &Kind::path(),
            ".",
            "Where its workers start; threads have a directory of their own.",
        ),
        env: section.value(
            "env",
            &Kind::words("[\"OPENAI_API_KEY\"]"),
            "",
            "Variables of the server's environment that its workers may see.",
        ),
        turns_max: section.value("turns_max", &Kind::count(1..=100_000), "64", "Turns that one worker runs at once."),
        threads_loaded_max: section.value(
            "threads_loaded_max",
            &Kind::count(1..=100_000),
            "256",
            "Threads that one worker keeps loaded; idle ones beyond it are unloaded.",
        ),
        open_files_max: section.optional(
            "open_files_max",
            &Kind::count(16..=1_000_000),
            "Files that each worker may have open.",
        ),
        processes_max: section.optional(
            "processes_max",
            &Kind::count(1..=1_000_000),
            "Processes that the user of each worker may have.",
        ),
        memory_bytes_max: section.optional(
            "memory_bytes_max",
            &Kind::bytes(1 << 20..=1 << 50),
            "Address space of each process of a worker.",
        ),
        name,
    };
    section.finish();
    group
}

fn profiles(reading: &mut Reading<'_>, groups: &[Group]) -> Vec<Profile> {
    let mut tables = reading.named("profiles");
    if !tables.iter().any(|(name, _)| *name == BUILT_IN) {
        tables.insert(0, (BUILT_IN, Table::ABSENT));
    }
    tables.into_iter().map(|(name, table)| profile(reading, name, table, groups)).collect()
}

fn profile<'a>(reading: &mut Reading<'a>, name: &str, table: Table<'a>, groups: &[Group]) -> Profile {
    let path = format!("profiles.{name}");
    let mut section = reading.section("[profiles.NAME]", &format!("[profiles.{}]", bare_or_quoted(name)), &path, table);
    let group = section.optional("workers", &Kind::name(), "The group that runs it; the first one if left out.");
    if let Some(unknown) = group.as_ref().filter(|name| groups.iter().all(|group| group.name != **name)) {
        let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
        let hint = match nearest(unknown, names.iter().copied()) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!("there are {}", names.join(", ")),
        };
        section.complain("workers", format!("`workers`: no group is called \"{unknown}\": {hint}"));
    }
    let profile = Profile {
        name: name.into(),
        group,
        cwd: section.value("cwd", &Kind::path(), ".", "Where its threads work, if their caller does not say."),
        sandbox: section.value(
            "sandbox",
            &Kind::choice(SANDBOXES),
            "read-only",
            "What the commands of its threads may touch.",
        ),
        approval_policy: section.value(
            "approval_policy",
            &Kind::choice(POLICIES),
            "on-request",
            "When their commands need a decision.",
        ),
        model: section.optional("model", &Kind::text(), "Their model; the worker's own choice if left out."),
        effort: section.optional(
            "effort",
            &Kind::text(),
            "How hard the model thinks: \"minimal\", \"low\", \"medium\", \"high\".",
        ),
        decision_timeout: section.optional(
            "decision_timeout",
            &Kind::duration(SECOND..=30 * DAY),
            "How long a decision may take, if not `deadline` of [approvals].",
        ),
    };
    section.finish();
    profile
}

fn approvals(reading: &mut Reading<'_>) -> Approvals {
    let table = reading.table("approvals");
    let mut section = reading.section("[approvals]", "[approvals]", "approvals", table);
    section.has_table("rules");
    let approvals = Approvals {
        deadline: section.value(
            "deadline",
            &Kind::duration(SECOND..=30 * DAY),
            "10m",
            "How long a decision may take; then the answer is no.",
        ),
        hook: section.value(
            "hook",
            &Kind::words("[\"/usr/local/bin/decide\"]"),
            "",
            "A command that is given each request as JSON on stdin and may decide it.",
        ),
        hook_timeout: section.value(
            "hook_timeout",
            &Kind::duration(SECOND..=DAY),
            "30s",
            "How long the hook or the webhook may take; then people are asked.",
        ),
        webhook: section.optional(
            "webhook",
            &Kind::url(),
            "An address that is told of each request, with links that decide it.",
        ),
        webhook_secret: section.secret("webhook_secret", "Signs what the webhook is told."),
        public_url: section.optional(
            "public_url",
            &Kind::url(),
            "Where the links of the webhook lead: this server, as its reader reaches it.",
        ),
        rules: Vec::new(),
    };
    section.finish();
    let tables = reading.list(table, "[[approvals.rules]]", "rules");
    let rules = tables.into_iter().filter_map(|table| rule(reading, table)).collect();
    Approvals { rules, ..approvals }
}

fn rule<'a>(reading: &mut Reading<'a>, table: Table<'a>) -> Option<Rule> {
    let header = "[[approvals.rules]]";
    let mut section = reading.section(header, header, "", table).only_in_file();
    let kind = section.optional("kind", &Kind::choice(KINDS), "What is asked for; anything if left out.");
    let command = section.value(
        "command",
        &Kind::words("[\"git\", \"status\"]"),
        "",
        "The first words of the command, as the worker is about to run it.",
    );
    let cwd = section.optional("cwd", &Kind::path(), "The directory that it runs in, or one above it.");
    let thread = section.optional("thread", &Kind::text(), "The id of the thread.");
    let key = section.optional("key", &Kind::text(), "The id of the caller's key.");
    let action =
        section.needed("action", &Kind::choice(ACTIONS), "What is decided; \"ask\" leaves it to hooks and people.");
    let reason = section.optional("reason", &Kind::text(), "What the agent is told when the answer is no.");
    section.finish();
    Some(Rule { kind: kind.map(str::to_owned), command, cwd, thread, key, action: action?, reason })
}

fn limits(reading: &mut Reading<'_>) -> Limits {
    let table = reading.table("limits");
    let mut section = reading.section("[limits]", "[limits]", "limits", table);
    let limits = Limits {
        connections_max: section.value(
            "connections_max",
            &Kind::count(1..=100_000),
            "1024",
            "Connections of callers that may be open at once.",
        ),
        header_timeout: section.value(
            "header_timeout",
            &Kind::duration(SECOND..=600 * SECOND),
            "10s",
            "How long a caller may take to send the head of its request.",
        ),
        body_bytes_max: section.value(
            "body_bytes_max",
            &Kind::bytes(1024..=1 << 30),
            "16MiB",
            "The longest request body.",
        ),
        queue_max: section.value(
            "queue_max",
            &Kind::count(0..=100_000),
            "256",
            "Turns that may wait for a worker; beyond it callers are told to come back.",
        ),
        queue_timeout: section.value(
            "queue_timeout",
            &Kind::duration(Duration::ZERO..=DAY),
            "60s",
            "How long a turn waits for its place.",
        ),
        stall_timeout: section.value(
            "stall_timeout",
            &Kind::duration(SECOND..=DAY),
            "10m",
            "How long a running turn that waits for nobody may be silent before it is ended.",
        ),
        tool_call_timeout: section.value(
            "tool_call_timeout",
            &Kind::duration(SECOND..=30 * DAY),
            "1h",
            "How long a turn waits for the result of a caller's tool.",
        ),
        frames_bytes_max: section.value(
            "frames_bytes_max",
            &Kind::bytes(0..=1 << 30),
            "256KiB",
            "How much of each worker's last frames is kept for an operator.",
        ),
    };
    section.finish();
    limits
}

fn log(reading: &mut Reading<'_>) -> Log {
    let table = reading.table("log");
    let mut section = reading.section("[log]", "[log]", "log", table);
    let log = Log {
        level: section.value("level", &Kind::levels(), "info", "What is logged, to stderr."),
        format: section.value(
            "format",
            &Kind::choice(FORMATS),
            "auto",
            "\"auto\" is text on a terminal and JSON elsewhere.",
        ),
    };
    section.finish();
    log
}

/// A table's name as TOML writes it.
fn bare_or_quoted(name: &str) -> String {
    let is_bare = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    if !name.is_empty() && name.chars().all(is_bare) { name.into() } else { quoted(name) }
}
