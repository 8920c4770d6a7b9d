//! What each key means: the one place that names them, with their defaults and their documentation.

mod approvals;
mod limits;
mod retention;
pub(super) mod tools;
mod workers;

use std::collections::BTreeMap;
use std::time::Duration;

use super::kind::Kind;
use super::problem::Source;
use super::reading::Reading;
use super::{Config, Log, LogFormat};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

const FORMATS: &[(&str, LogFormat)] =
    &[("auto", LogFormat::Auto), ("json", LogFormat::Json), ("text", LogFormat::Text)];

pub(super) fn config(reading: &mut Reading<'_>, variables: &BTreeMap<String, String>) -> Config {
    let mut top = reading.top(&["workers", "profiles", "approvals", "tools", "limits", "retention", "log"]);
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
    let cors_origins = top.value(
        "cors_origins",
        &Kind::origins(),
        "",
        "Web pages that may ask the server from a browser (CORS), by their exact origin; all others are refused.",
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
    let groups = workers::groups(reading, variables);
    let profiles = workers::profiles(reading, &groups);
    Config {
        listen,
        hosts,
        cors_origins,
        state_dir,
        key,
        drain_grace,
        groups,
        profiles,
        approvals: approvals::approvals(reading, listen),
        tools: tools::servers(reading, variables),
        limits: limits::limits(reading),
        retention: retention::retention(reading),
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
