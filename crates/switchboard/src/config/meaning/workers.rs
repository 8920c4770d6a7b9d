//! `[[workers]]` and `[profiles.NAME]`: who runs turns, and how.

use std::collections::BTreeMap;
use std::time::Duration;

use codex::{ApprovalPolicy, Sandbox};
use workers::Profile;

use super::super::Group;
use super::super::kind::{Kind, quoted};
use super::super::nearest::nearest;
use super::super::problem::Source;
use super::super::reading::{Reading, SectionReader, Table};

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// The profiles that there always are; the first is taken for whoever names none.
const BUILT_IN: [&str; 2] = ["codex", PLAIN];
const PLAIN: &str = "codex-plain";

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

/// Where codex keeps its login and its threads, unless nobody knows.
fn codex_home(variables: &BTreeMap<String, String>) -> Option<(String, Source)> {
    const CODEX_HOME: &str = "CODEX_HOME";
    let set = |name: &str| variables.get(name).filter(|home| !home.is_empty());
    let named = set(CODEX_HOME).map(|home| (home.clone(), Source::Variable(CODEX_HOME.into())));
    named.or_else(|| set("HOME").map(|_| ("~/.codex".into(), Source::Default)))
}

pub(super) fn groups<'a>(reading: &mut Reading<'a>, variables: &BTreeMap<String, String>) -> Vec<Group> {
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
        user: section.optional(
            "user",
            &Kind::text(),
            "The operating system user that its workers run as; needs root, and a codex_home and cwd that are open to it.",
        ),
        env: section.value(
            "env",
            &Kind::words("[\"OPENAI_API_KEY\"]"),
            "",
            "Variables of the server's environment that its workers may see.",
        ),
        tools: section.value(
            "tools",
            &Kind::flag(),
            "true",
            "Whether its workers have the tools of [tools.NAME], but for plain profiles; a codex older than 0.98 has none.",
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

pub(super) fn profiles(reading: &mut Reading<'_>, groups: &[Group]) -> Vec<Profile> {
    let mut tables = reading.named("profiles");
    for (place, name) in BUILT_IN.into_iter().enumerate() {
        let table = tables.iter().position(|(typed, _)| *typed == name).map(|at| tables.remove(at));
        tables.insert(place, table.unwrap_or((name, Table::ABSENT)));
    }
    tables.into_iter().map(|(name, table)| profile(reading, name, table, groups)).collect()
}

fn profile<'a>(reading: &mut Reading<'a>, name: &str, table: Table<'a>, groups: &[Group]) -> Profile {
    let path = format!("profiles.{name}");
    let mut section = reading.section("[profiles.NAME]", &format!("[profiles.{}]", bare_or_quoted(name)), &path, table);
    let group = group_of_profile(&mut section, groups);
    let cwd = section.value("cwd", &Kind::path(), ".", "Where its threads work, if their caller does not say.");
    let profile = Profile {
        name: name.into(),
        group: group.map(Into::into),
        cwd: Some(cwd.to_string_lossy().into()),
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
            &Kind::duration(SECOND..=7 * DAY),
            "How long a decision may take, if not `deadline` of [approvals].",
        ),
        is_plain: section.value(
            "plain",
            &Kind::flag(),
            if name == PLAIN { "true" } else { "false" },
            "Whether it is a plain model, without the tools of an agent, as `codex-plain` is; then `sandbox` does not matter.",
        ),
        shows_work: section.value(
            "show_work",
            &Kind::flag(),
            "true",
            "Whether chat callers are told what the agent does, as reasoning.",
        ),
        readable: section.value(
            "readable",
            &Kind::paths("[\"~/reference\"]"),
            "",
            "If not empty, agents see only their workspace, the system's programs and these paths; list `cwd` alone to hide all else.",
        ),
        trusted_projects: section.value(
            "trusted_projects",
            &Kind::paths("[\"~/project\"]"),
            "",
            "Git repositories whose own Codex configuration (`.codex/config.toml`, MCP servers, hooks, skills) may be loaded, in their top directory.",
        ),
        network: section.value("network", &Kind::flag(), "false", "Whether its commands may use the network."),
        allow_unconfined: section.value(
            "allow_unconfined",
            &Kind::flag(),
            "false",
            "Accept agents that Codex cannot confine: full access, or a Codex older than 0.145 for callers other than operators.",
        ),
    };
    if profile.sandbox == Sandbox::FullAccess && !profile.readable.is_empty() {
        section.complain(
            "readable",
            "`readable`: agents with full access see everything; choose another `sandbox`".into(),
        );
    }
    section.finish();
    profile
}

/// The group that a profile names, which must be there.
fn group_of_profile(section: &mut SectionReader<'_, '_>, groups: &[Group]) -> Option<String> {
    let group = section.optional("workers", &Kind::name(), "The group that runs it; the first one if left out.");
    if let Some(unknown) = group.as_ref().filter(|name| groups.iter().all(|group| group.name != **name)) {
        let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
        let hint = match nearest(unknown, names.iter().copied()) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!("there are {}", names.join(", ")),
        };
        section.complain("workers", format!("`workers`: no group is called \"{unknown}\": {hint}"));
    }
    group
}

/// A table's name as TOML writes it.
fn bare_or_quoted(name: &str) -> String {
    let is_bare = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    if !name.is_empty() && name.chars().all(is_bare) { name.into() } else { quoted(name) }
}
