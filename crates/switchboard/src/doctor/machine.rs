//! What the doctor looks at on this machine: the state directory, the port, the store, and a server that runs already.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use rustix::fs::{Access, access};
use serde::Deserialize;
use store::{Limits, Store};
use tokio::net::TcpListener;

use super::finding::Finding;
use crate::STORE_FILE;
use crate::server::Server;

pub(super) fn state_directory(state_dir: &Path) -> Finding {
    const CHECK: &str = "state directory";
    const ADVICE: &str = "allow it, or name another with state_dir";
    let existing = state_dir.ancestors().find(|directory| directory.exists()).unwrap_or(state_dir);
    let shown = state_dir.display();
    if !existing.is_dir() {
        return Finding::problem(CHECK, format!("{} is no directory", existing.display()), ADVICE);
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
    let finding = match server.look::<Readiness>("/readyz").await {
        Ok((_, Readiness { ready: true, .. })) => Finding::ok(CHECK, format!("runs at {server} and is ready")),
        Ok((_, Readiness { groups, .. })) => {
            let missing: Vec<String> = groups.into_iter().flat_map(|group| group.missing).collect();
            let what = format!("runs at {server} and is not ready: {}", missing.join("; "));
            Finding::warning(CHECK, what, "`switchboard workers` shows them, its log says more")
        }
        Err(error) => Finding::problem(CHECK, error.to_string(), "look at its log, or stop it and start it again"),
    };
    let store = match server.look::<Health>("/healthz").await {
        Ok((_, Health { mut reasons })) => {
            // Of tool servers more is told below.
            reasons.retain(|reason| !reason.starts_with("tool server "));
            let advice = "see to what it names; it recovers by itself";
            (!reasons.is_empty()).then(|| Finding::warning("store", reasons.join("; "), advice))
        }
        Err(_) => None,
    };
    Some([finding].into_iter().chain(store).collect())
}

#[derive(Deserialize)]
struct Readiness {
    ready: bool,
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    missing: Vec<String>,
}

#[derive(Deserialize)]
struct Health {
    reasons: Vec<String>,
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
