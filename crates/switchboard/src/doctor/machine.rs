//! What the doctor looks at on this machine: the state directory, the port, the store, and a server that runs already.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use approvals::Stamp;
use front::Tls;
use rustix::fs::{Access, access};
use serde::Deserialize;
use serde_json::Value;
use store::{Limits, Store};
use supervise::check_state_directory;
use tokio::net::TcpListener;

use super::finding::Finding;
use crate::STORE_FILE;
use crate::config::Config;
use crate::server::Server;

pub(super) fn state_directory(state_dir: &Path) -> Finding {
    const CHECK: &str = "state directory";
    const ADVICE: &str = "allow it, or name another with state_dir";
    let existing = state_dir.ancestors().find(|directory| directory.exists()).unwrap_or(state_dir);
    let shown = state_dir.display();
    if !existing.is_dir() {
        return Finding::problem(CHECK, format!("{} is no directory", existing.display()), ADVICE);
    }
    if existing == state_dir
        && let Err(error) = check_state_directory(state_dir)
    {
        return Finding::problem(CHECK, format!("{shown} cannot be used: {error}"), ADVICE);
    }
    match access(existing, Access::WRITE_OK | Access::EXEC_OK) {
        Err(error) => Finding::problem(CHECK, format!("{} cannot be written: {error}", existing.display()), ADVICE),
        Ok(()) if existing == state_dir => Finding::ok(CHECK, format!("{shown} can be written")),
        Ok(()) => Finding::ok(CHECK, format!("{shown} will be made")),
    }
}

/// What the running server says of itself; none if none runs.
pub(super) async fn server(state_dir: &Path) -> Option<Vec<Finding>> {
    const CHECK: &str = "server";
    let server = Server::running(state_dir).ok()?;
    let health = server.look::<Health>("/healthz").await.map(|(_, health)| health).unwrap_or_default();
    let finding = match server.look::<Readiness>("/readyz").await {
        Ok((_, Readiness { ready: true })) => Finding::ok(CHECK, format!("runs at {server} and is ready")),
        Ok((_, Readiness { ready: false })) if health.status == "draining" => {
            let advice = "wait until it has ended: running turns have `drain_grace`";
            Finding::warning(CHECK, format!("runs at {server} and is stopping"), advice)
        }
        Ok((_, Readiness { ready: false })) => {
            Finding::warning(CHECK, format!("runs at {server} and is not ready"), "see below")
        }
        Err(error) => Finding::problem(CHECK, error.to_string(), "look at its log, or stop it and start it again"),
    };
    let workers = server.get::<Workers>("/api/workers").await.map(|answer| answer.workers).unwrap_or_default();
    let findings = [finding].into_iter().chain(workers.iter().filter_map(Worker::finding));
    Some(
        findings
            .chain(health.reasons.iter().filter_map(|reason| impairment(reason)))
            .chain(pending(&server).await)
            .collect(),
    )
}

/// What the server says that it lacks, but for workers and tool servers, of which more is told elsewhere.
fn impairment(reason: &str) -> Option<Finding> {
    let (what, words) = reason.split_once(": ")?;
    if what == "store" {
        return Some(Finding::problem("store", words, "remove the cause; it recovers by itself"));
    }
    let group = what.strip_prefix("group ").filter(|_| words.contains("model provider"))?;
    let advice = "check the network, and the address of the provider in the configuration of its codex_home";
    Some(Finding::warning(format!("{group}: model provider"), words, advice))
}

/// Tool servers of its file that wait for an operator.
async fn pending(server: &Server) -> Option<Finding> {
    let view: Value = server.get("/api/config").await.ok()?;
    let names: Vec<&str> = view["pending"].as_array()?.iter().filter_map(|server| server["server"].as_str()).collect();
    let what = format!("tool servers of its configuration file wait for acceptance: {}", names.join(", "));
    let advice = "`switchboard config` shows them, `switchboard config accept` starts them";
    (!names.is_empty()).then(|| Finding::warning("configuration", what, advice))
}

#[derive(Deserialize)]
struct Readiness {
    ready: bool,
}

#[derive(Deserialize)]
struct Workers {
    workers: Vec<Worker>,
}

/// A worker as operators see it.
#[derive(Deserialize)]
struct Worker {
    name: String,
    state: String,
    reason: Option<String>,
    retry_at: Option<i64>,
}

impl Worker {
    /// Why it takes no turns, and what to do about it; none if it does.
    fn finding(&self) -> Option<Finding> {
        let Self { name, state, reason, retry_at } = self;
        let reason = reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let retry = retry_at.map(|at| format!("; next attempt at {}", Stamp(at))).unwrap_or_default();
        let advice = format!("remove the cause; `switchboard workers restart {name}` starts it at once");
        let (check, what) = (format!("worker {name}"), format!("{state}{reason}{retry}"));
        match state.as_str() {
            "ready" => None,
            "failed" => Some(Finding::problem(check, what, advice)),
            _ => Some(Finding::warning(check, what, advice)),
        }
    }
}

#[derive(Default, Deserialize)]
struct Health {
    status: String,
    reasons: Vec<String>,
}

/// How callers of other machines are protected; none if there are none.
pub(super) fn network(config: &Config) -> Option<Finding> {
    const CHECK: &str = "network";
    const ADVICE: &str = "name a certificate and its key in [tls], or let a proxy or a tunnel before it encrypt";
    match config.tls.clone().map(Tls::load) {
        Some(Ok(_)) => Some(Finding::ok(CHECK, "the certificate and its key can be used")),
        Some(Err(error)) => {
            Some(Finding::problem(CHECK, error.to_string(), "correct the paths in [tls], or the files"))
        }
        None => config.clear_text().map(|warning| Finding::warning(CHECK, warning, ADVICE)),
    }
}

pub(super) async fn port(listen: SocketAddr) -> Finding {
    const CHECK: &str = "port";
    match TcpListener::bind(listen).await {
        Ok(_) => Finding::ok(CHECK, format!("{listen} is free")),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Finding::problem(
            CHECK,
            format!("another program listens at {listen}"),
            "stop it, or choose another address with listen",
        ),
        Err(error) => Finding::problem(
            CHECK,
            format!("{listen} cannot be listened at: {error}"),
            "choose another address with listen",
        ),
    }
}

pub(super) async fn store(state_dir: &Path) -> Finding {
    const CHECK: &str = "store";
    let path = state_dir.join(STORE_FILE);
    if !path.exists() {
        return Finding::ok(CHECK, format!("{} will be made", path.display()));
    }
    match Store::open(&path, Limits::default()) {
        Ok(store) => {
            // At most an older layout was brought up to date, and that is durable already.
            _ = store.close().await;
            Finding::ok(CHECK, format!("{} is whole", path.display()))
        }
        Err(error) => Finding::problem(CHECK, error.to_string(), "do what it says, or name another state_dir"),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::finding::to_text;
    use super::*;

    #[test]
    fn a_worker_that_has_failed_is_named_with_its_next_attempt_and_the_command_that_restarts_it() {
        let failed = Worker {
            name: "main-0".into(),
            state: "failed".into(),
            reason: Some("it ended 3 times".into()),
            retry_at: Some(1_700_000_000_000),
        };
        let ready = Worker { name: "main-1".into(), state: "ready".into(), reason: None, retry_at: None };
        let workers = [failed, ready];
        let reasons = [
            "store: the disk is full",
            "tool server files: failed",
            "worker main-0: failed",
            "group main: no worker is ready",
            "group main: the model provider cannot be reached",
        ];
        let findings = workers.iter().filter_map(Worker::finding).chain(reasons.into_iter().filter_map(impairment));
        expect![[r#"
            problem  worker main-0         failed: it ended 3 times; next attempt at 2023-11-14T22:13:20.000Z
                                           → remove the cause; `switchboard workers restart main-0` starts it at once
            problem  store                 the disk is full
                                           → remove the cause; it recovers by itself
            warning  main: model provider  the model provider cannot be reached
                                           → check the network, and the address of the provider in the configuration of its codex_home
        "#]].assert_eq(&to_text(&findings.collect::<Vec<_>>()));
    }
}
