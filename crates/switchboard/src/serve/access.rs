//! Which workers reach the tools of tool servers, where, and with which key. A group whose codex cannot have them as they are
//! meant to be had goes without, and the log says why.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use front::keys::{Keys, WorkerSecret};
use workers::{ToolsAccess, Transport};

use crate::config::{Config, Group};
use crate::worker::Worker;

/// What the keys of groups are made of, in the state directory: workers that outlive the server keep theirs.
const SECRET_FILE: &str = "workers.key";

/// How much longer than a decision a call may take.
const CALL_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// What each group is given, in their order. `address` is where we are really reached, whatever port was asked for.
pub(super) fn to_tools(config: &Config, address: SocketAddr, keys: &Keys) -> Result<Vec<Option<ToolsAccess>>> {
    if config.tools.is_empty() {
        return Ok(config.groups.iter().map(|_| None).collect());
    }
    let path = config.state_dir.join(SECRET_FILE);
    let secret = WorkerSecret::load_or_create(&path).with_context(|| format!("cannot use {}", path.display()))?;
    let url = format!("http://{}/mcp", reachable(address));
    let call_timeout = config.approvals.deadline.saturating_add(CALL_MAX);
    let access = |group: &Group| {
        if !group.tools || matches!(group.command, Worker::Demo) || matches!(group.transport, Transport::Ws(_)) {
            return None;
        }
        if let Some(why) = obstacle(group, config.listen) {
            tracing::warn!(group = group.name, "its workers have no tools of tool servers: {why}");
            return None;
        }
        let token = keys.add_worker(&group.name, &secret).reveal().to_owned();
        Some(ToolsAccess { url: url.clone(), token, call_timeout })
    };
    Ok(config.groups.iter().map(access).collect())
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

fn obstacle(group: &Group, listen: SocketAddr) -> Option<&'static str> {
    if matches!(group.transport, Transport::Unix) && listen.port() == 0 {
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
