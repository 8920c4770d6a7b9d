//! `[tools.NAME]`: MCP tool servers, how each is reached and what of it is offered. The defaults are those of the tool host.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use hyper::Uri;
use supervise::Rlimits;
use tools::{Confirm, Dialect, Reach, Restart, Server};

use super::super::kind::{Kind, is_name};
use super::super::problem::Source;
use super::super::reading::{Reading, SectionReader, Table};

/// The header of any tool server.
pub(in super::super) const PATTERN: &str = "[tools.NAME]";

const MILLISECOND: Duration = Duration::from_millis(1);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// It stands in the names of its tools, and there are models that take no name of more than 64 letters.
const NAME_LETTERS_MAX: usize = 32;

/// What only a process has, and what only an address.
const OF_COMMAND: [&str; 6] = ["env", "variables", "cwd", "open_files_max", "processes_max", "memory_bytes_max"];
const OF_URL: [&str; 1] = ["headers"];

const RESTARTS: &[(&str, Restart)] = &[("always", Restart::Always), ("never", Restart::Never)];
const CONFIRMS: &[(&str, Confirm)] =
    &[("marked", Confirm::Marked), ("always", Confirm::Always), ("never", Confirm::Never)];
const DIALECTS: &[(&str, Dialect)] = &[("mcp", Dialect::Mcp), ("localcowork", Dialect::LocalCowork)];

pub(super) fn servers(reading: &mut Reading<'_>, variables: &BTreeMap<String, String>) -> Vec<Server> {
    let tables = reading.named("tools");
    tables.into_iter().filter_map(|(name, table)| server(reading, name, table, variables)).collect()
}

fn server<'a>(
    reading: &mut Reading<'a>,
    name: &str,
    table: Table<'a>,
    variables: &BTreeMap<String, String>,
) -> Option<Server> {
    let mut section = reading.section(PATTERN, &format!("[tools.{name}]"), &format!("tools.{name}"), table);
    let is_well_named = is_name(name) && name.len() <= NAME_LETTERS_MAX;
    if !is_well_named {
        let expected = format!("small letters, digits and \"-\", at most {NAME_LETTERS_MAX}");
        section.complain_of_table(format!("no tool server can be called \"{name}\": expected {expected}"));
    }
    let reach = reach(&mut section, name, variables);
    let mut server = Server::new(if is_well_named { name } else { "" }, reach);
    set_offer(&mut section, &mut server);
    set_timeouts(&mut section, &mut server.timeouts);
    section.finish();
    is_well_named.then_some(server)
}

fn reach(section: &mut SectionReader<'_, '_>, name: &str, variables: &BTreeMap<String, String>) -> Reach {
    let (has_command, has_url) = (section.has("command"), section.has("url"));
    let (process, http) = (process(section, variables, has_url), http(section));
    let strangers: &[&str] = match (has_command, has_url) {
        (true, true) => {
            section.complain("url", "`command` and `url`: a tool server has one of the two, remove the other".into());
            &[]
        }
        (false, false) => {
            section
                .complain_of_table(format!("the tool server \"{name}\" has neither `command` nor `url`: give it one"));
            &[]
        }
        (true, false) => &OF_URL,
        (false, true) => &OF_COMMAND,
    };
    let other = if has_url { "command" } else { "url" };
    for name in strangers.iter().filter(|name| section.has(name)).copied().collect::<Vec<_>>() {
        section.complain(name, format!("`{name}` goes with `{other}`: remove it"));
    }
    if has_url { http } else { process }
}

fn process(section: &mut SectionReader<'_, '_>, variables: &BTreeMap<String, String>, has_url: bool) -> Reach {
    let default = |text: &str| (!has_url).then(|| (text.into(), Source::Default));
    let command: Vec<String> = section
        .optional(
            "command",
            &Kind::words("[\"npx\", \"-y\", \"@modelcontextprotocol/server-memory\"]"),
            "The program and its arguments; no shell sees them, and a relative path begins in `cwd`.",
        )
        .unwrap_or_default();
    if command.first().is_none_or(String::is_empty) && !section.source_of("command").is_default() {
        section.complain("command", "`command` names no program".into());
    }
    let names: Option<Vec<String>> = section.optional_or(
        "env",
        &Kind::words("[\"GITHUB_TOKEN\"]"),
        default(""),
        "Variables of the server's environment that it may see.",
    );
    let literal =
        section.hidden("variables", &Kind::variables(), "Variables with their values, which are shown nowhere.");
    let env = environment(section, &names.unwrap_or_default(), literal.unwrap_or_default(), variables);
    let cwd: Option<PathBuf> = section.optional_or(
        "cwd",
        &Kind::path(),
        default("."),
        "Where it starts; the default is where Switchboard itself was started.",
    );
    let wide = |number: Option<usize>| number.map(|number| number as u64);
    let rlimits = Rlimits {
        open_files: wide(section.optional(
            "open_files_max",
            &Kind::count(16..=1_000_000),
            "Files that each of its processes may have open.",
        )),
        processes: wide(section.optional(
            "processes_max",
            &Kind::count(1..=1_000_000),
            "Processes that its user may have.",
        )),
        address_space_bytes: wide(section.optional(
            "memory_bytes_max",
            &Kind::bytes(1 << 20..=1 << 50),
            "Address space of each of its processes.",
        )),
        ..Rlimits::default()
    };
    let command = command.into_iter().map(OsString::from).collect();
    Reach::Process { command, env, cwd: cwd.unwrap_or_default(), rlimits }
}

/// One that is not set is only warned of: the others can still be used, and so can commands that start no server.
fn environment(
    section: &mut SectionReader<'_, '_>,
    names: &[String],
    literal: Vec<(String, String)>,
    variables: &BTreeMap<String, String>,
) -> Vec<(OsString, OsString)> {
    let mut env = Vec::new();
    for name in names {
        if literal.iter().any(|(other, _)| other == name) {
            section.complain("env", format!("{name} is in `env` and in `variables`: remove one"));
        }
        match variables.get(name) {
            Some(value) => env.push((name.into(), value.into())),
            None => section.warn("env", &format!("{name}: there is no such variable to pass on")),
        }
    }
    env.extend(literal.into_iter().map(|(name, value)| (name.into(), value.into())));
    env
}

fn http(section: &mut SectionReader<'_, '_>) -> Reach {
    let url = section.address(
        "url",
        &Kind::url("https://example.com/mcp"),
        "Where it is, if it is no process of ours: an endpoint that speaks Streamable HTTP. What stands behind a `?` is shown nowhere.",
    );
    if let Some(why) = url.as_deref().and_then(refusal) {
        section.complain("url", format!("`url` {why}"));
    }
    let headers =
        section.hidden("headers", &Kind::headers(), "Sent to it with every request; their values are shown nowhere.");
    Reach::Http { url: url.unwrap_or_default(), headers: headers.unwrap_or_default() }
}

/// Why nothing may be sent there. It repeats no address, because one can carry a secret.
pub(crate) fn refusal(url: &str) -> Option<&'static str> {
    const NO_ADDRESS: &str = "is no address: write \"https://host/path\"";
    let Ok(uri) = url.parse::<Uri>() else { return Some(NO_ADDRESS) };
    let Some(host) = uri.host().filter(|host| !host.is_empty()) else { return Some(NO_ADDRESS) };
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Some("carries credentials: give them in `headers`");
    }
    let is_clear = uri.scheme_str() != Some("https") && !is_this_machine(host);
    is_clear.then_some("must be \"https://\", or \"http://\" to an address of this machine")
}

fn is_this_machine(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    address.map_or_else(|_| host.eq_ignore_ascii_case("localhost"), |address| address.to_canonical().is_loopback())
}

fn set_offer(section: &mut SectionReader<'_, '_>, server: &mut Server) {
    section.set(
        &mut server.enabled,
        "enabled_tools",
        &Kind::words("[\"read_file\"]"),
        "Its tools that are offered, by the names that it has for them; all of them if the list is empty.",
    );
    server.prefix = section
        .value(
            "prefix",
            &Kind::prefix(NAME_LETTERS_MAX),
            &server.prefix,
            "What stands before `__` in the names of its tools and prompts; nothing stands there if it is empty.",
        )
        .into();
    section.set(
        &mut server.confirm,
        "confirm",
        &Kind::choice(CONFIRMS),
        "Which of its tools wait for a decision: those that it marks as destructive, all, or none.",
    );
    section.set(
        &mut server.confirm_tools,
        "confirm_tools",
        &Kind::words("[\"write_file\"]"),
        "Tools that wait for a decision in any case, by the names that it has for them.",
    );
    section.set(
        &mut server.result_bytes_max,
        "result_bytes_max",
        &Kind::bytes(1024..=1 << 30),
        "How much of a result is passed on; what is cut off is said.",
    );
    section.set(
        &mut server.restart,
        "restart",
        &Kind::choice(RESTARTS),
        "Whether it is started again when it has ended.",
    );
    section.set(
        &mut server.dialect,
        "dialect",
        &Kind::choice(DIALECTS),
        "What it speaks: MCP of any version, or what LocalCowork's servers speak in its place.",
    );
}

fn set_timeouts(section: &mut SectionReader<'_, '_>, timeouts: &mut tools::Timeouts) {
    let moments = Kind::duration(MILLISECOND..=DAY);
    section.set(
        &mut timeouts.spawn,
        "spawn_timeout",
        &moments,
        "How long it may take until the process is started, or the connection stands.",
    );
    section.set(&mut timeouts.first_byte, "first_byte_timeout", &moments, "How long from there to its first byte.");
    section.set(
        &mut timeouts.discover,
        "discover_timeout",
        &moments,
        "How long it is waited for an answer to `server/discover`; then `initialize` is tried.",
    );
    section.set(
        &mut timeouts.initialize,
        "initialize_timeout",
        &moments,
        "How long it is waited for an answer to `initialize`.",
    );
    section.set(&mut timeouts.list, "list_timeout", &moments, "How long each page of its lists may take.");
    section.set(&mut timeouts.call, "call_timeout", &moments, "How long a call may be without a sign of progress.");
}
