//! Which workers reach the tools of tool servers, and where. A group whose codex cannot have them as they are
//! meant to be had goes without, and the log says why.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::net::TcpListener;
use workers::{ToolsAccess, Transport, WorkerTokens};

use crate::config::{Config, Group};
use crate::worker::Worker;

/// How much longer than a decision a call may take.
const CALL_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// What each group is given, in their order. `address` is where we are really reached, whatever port was asked for; `tokens`
/// are what the workers are admitted by.
pub(super) fn to_tools(config: &Config, address: SocketAddr, tokens: &WorkerTokens) -> Vec<Option<ToolsAccess>> {
    if config.tools.is_empty() {
        return config.groups.iter().map(|_| None).collect();
    }
    let url = format!("http://{}/mcp", reachable(address));
    let call_timeout = config.approvals.deadline.saturating_add(CALL_MAX);
    let access = |group: &Group| {
        if !group.tools || matches!(group.command, Worker::Demo) || matches!(group.transport, Transport::Ws(_)) {
            return None;
        }
        if let Some(why) = obstacle(group, config) {
            tracing::warn!(group = group.name, "its workers have no tools of tool servers: {why}");
            return None;
        }
        Some(ToolsAccess { url: url.clone(), tokens: tokens.clone(), call_timeout })
    };
    config.groups.iter().map(access).collect()
}

/// Where workers reach the tools if callers are encrypted: no codex can be told to trust our certificate.
pub(super) async fn listen(config: &Config) -> Result<Option<TcpListener>> {
    if config.tls.is_none() || config.tools.is_empty() {
        return Ok(None);
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
    listener.map(Some).context("cannot listen on loopback for the tool calls of workers")
}

/// Where a process of this machine reaches what listens there.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

fn obstacle(group: &Group, config: &Config) -> Option<&'static str> {
    if matches!(group.transport, Transport::Unix) && config.tls.is_some() {
        return Some(
            "they outlive this server, and with [tls] the next one lets workers connect at another port: use `transport = \"stdio\"`",
        );
    }
    if matches!(group.transport, Transport::Unix) && config.listen.port() == 0 {
        return Some("they outlive this server, and the next one would listen at another port: choose one in `listen`");
    }
    if group.codex_home.as_deref().is_some_and(has_own) {
        return Some("their own configuration has an MCP server `switchboard`: remove it to have these");
    }
    None
}

/// Whether the codex of this home knows another server by our name; the two would become one that it refuses.
fn has_own(codex_home: &Path) -> bool {
    let text = fs::read_to_string(codex_home.join("config.toml")).unwrap_or_default();
    // What is no TOML is for codex to complain of.
    let table = text.parse::<toml::Table>().unwrap_or_default();
    table.get("mcp_servers").is_some_and(|servers| servers.get(ToolsAccess::NAME).is_some())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{has_own, reachable};

    #[test]
    fn what_listens_everywhere_is_reached_on_this_machine() {
        for (listens, reached) in [
            ("0.0.0.0:4180", "127.0.0.1:4180"),
            ("[::]:4180", "[::1]:4180"),
            ("192.0.2.1:80", "192.0.2.1:80"),
            ("127.0.0.1:1", "127.0.0.1:1"),
        ] {
            assert_eq!(reachable(listens.parse().unwrap()).to_string(), reached);
        }
    }

    #[test]
    fn a_server_of_the_users_own_is_left_as_it_is() {
        let home = tempfile::tempdir().unwrap();
        assert!(!has_own(home.path()));
        for (text, is_own) in [
            ("[mcp_servers.switchboard]\ncommand = \"switchboard\"", true),
            ("mcp_servers = { switchboard = { command = \"switchboard\" } }", true),
            ("[mcp_servers.other]\ncommand = \"other\"", false),
            ("no TOML", false),
        ] {
            fs::write(home.path().join("config.toml"), text).unwrap();
            assert_eq!(has_own(home.path()), is_own, "{text}");
        }
    }
}
