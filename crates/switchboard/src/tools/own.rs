//! A tool host of this command's own, for as long as it runs: what is done without a running server.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use supervise::{Adoption, Owner};
use tools::{Caller, Host, Limits, Notice, Plan, Server};

use crate::serve::log_tools;

/// A host with its servers. Nothing is written down of its calls, and nobody is here to confirm one.
pub(super) struct Own {
    pub(super) host: Host,
    _adoption: Adoption,
}

impl Own {
    /// Begins to start the servers.
    pub(super) fn start(servers: Vec<Server>, limits: Limits) -> Result<Self> {
        let adoption = supervise::adopt_orphans().context("cannot become the parent of orphans")?;
        let (owner, notify) = (Owner::generate(), Arc::new(|notice: Notice| log_tools(&notice)));
        let host = Host::start(Plan { servers, limits, owner, store: None, approvals: None, notify });
        Ok(Self { host, _adoption: adoption })
    }
}

/// How long servers with these waits may be starting, one after the other's turn or not.
pub(super) fn start_timeout(servers: &[Server]) -> Duration {
    let of_one = |server: &Server| {
        let phases = server.timeouts;
        // Beginning anew, for a server that ends when it is asked something new to it, takes as long again.
        2 * (phases.spawn + phases.first_byte + phases.discover + phases.initialize + phases.list)
    };
    servers.iter().map(of_one).max().unwrap_or_default()
}

/// Who calls where no key does.
pub(super) fn caller() -> Caller {
    Caller::new("local", "command line")
}
