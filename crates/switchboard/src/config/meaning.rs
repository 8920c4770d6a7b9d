//! What each key means: the one place that names them, with their defaults and their documentation.

mod approvals;
mod limits;
mod retention;
pub(super) mod tools;
mod workers;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use front::TlsFiles;
use front::keys::CHOSEN_CHARS_MIN;

use super::kind::Kind;
use super::problem::{Problem, Source};
use super::reading::Reading;
use super::{Config, Log, LogFormat};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

const FORMATS: &[(&str, LogFormat)] =
    &[("auto", LogFormat::Auto), ("json", LogFormat::Json), ("text", LogFormat::Text)];

pub(super) fn config(reading: &mut Reading<'_>, variables: &BTreeMap<String, String>) -> Config {
    let mut top = reading.top(&["tls", "workers", "profiles", "approvals", "tools", "limits", "retention", "log"]);
    let listen: SocketAddr = top.value(
        "listen",
        &Kind::parsed("an address such as \"127.0.0.1:4180\""),
        "127.0.0.1:4180",
        "Where callers connect. Port 0 lets the system choose.",
    );
    let allow_clear_text = top.value(
        "allow_clear_text",
        &Kind::flag(),
        "false",
        "Whether other machines may connect without TLS; only behind a proxy or a tunnel that encrypts.",
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
    let key = top.secret(
        "key",
        "The one key of a single-key installation, of 32 characters or more. Else one is made at the first start.",
    );
    let drain_grace = top.value(
        "drain_grace",
        &Kind::duration(Duration::ZERO..=DAY),
        "30s",
        "How long running turns may take to end when the server is asked to stop.",
    );
    let (listen_source, key_source) = (top.source_of("listen"), top.source_of("key"));
    top.finish();
    let tls = tls(reading);
    if !listen.ip().to_canonical().is_loopback() && tls.is_none() && !allow_clear_text {
        reading.obstacles.push(Problem { source: listen_source, what: clear_text(listen) });
    }
    if key.as_ref().is_some_and(|key| key.reveal().chars().count() < CHOSEN_CHARS_MIN) {
        reading.obstacles.push(Problem { source: key_source, what: guessable_key() });
    }
    let groups = workers::groups(reading, variables);
    let profiles = workers::profiles(reading, &groups);
    Config {
        listen,
        allow_clear_text,
        hosts,
        cors_origins,
        tls: tls.clone(),
        state_dir,
        key,
        drain_grace,
        groups,
        profiles,
        approvals: approvals::approvals(reading, &url(tls.is_some(), listen)),
        tools: tools::servers(reading, variables),
        limits: limits::limits(reading),
        retention: retention::retention(reading),
        log: log(reading),
    }
}

/// Where this server is reached at an address.
pub(super) fn url(is_tls: bool, address: SocketAddr) -> String {
    format!("{}://{address}", if is_tls { "https" } else { "http" })
}

fn guessable_key() -> String {
    format!(
        "`key` has fewer than {CHOSEN_CHARS_MIN} characters and could be guessed: choose a random one, such as `openssl rand -hex 32` prints"
    )
}

fn clear_text(listen: SocketAddr) -> String {
    format!(
        "`listen` = \"{listen}\" lets other machines connect, and keys would travel in clear text: name a certificate and its key in [tls], or set allow_clear_text = true if a proxy or a tunnel before it encrypts"
    )
}

fn tls(reading: &mut Reading<'_>) -> Option<TlsFiles> {
    let table = reading.table("tls");
    let mut section = reading.section("[tls]", "[tls]", "tls", table);
    let certificate = section.optional(
        "certificate",
        &Kind::path(),
        "A PEM file with the certificate of this server, and those that it is signed by. With it, callers connect over HTTPS.",
    );
    let key = section.optional(
        "key",
        &Kind::path(),
        "A PEM file with its private key, which only its owner and its group may read.",
    );
    if certificate.is_some() != key.is_some() {
        section.complain_of_table("[tls] needs both `certificate` and `key`".into());
    }
    section.finish();
    Some(TlsFiles { certificate: certificate?, key: key? })
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
