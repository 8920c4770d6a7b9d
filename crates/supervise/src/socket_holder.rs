//! Who listens at a Unix socket: a worker whose recorded process is gone may live on in another one, and keeps every new
//! worker from the socket.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::net::sockopt::socket_peercred;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::detached::Detached;
use crate::environment::Owner;
use crate::exit::Exit;
use crate::identity::{self, Environment, Identity};
use crate::ladder::Ladder;
use crate::ledger::DetachedEntry;
use crate::limits::Limits;

/// What `/proc/net/unix` says of a socket that listens.
const LISTENS: u32 = 0x1_0000;

/// A process that stands between a new worker and its socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketHolder {
    identity: Identity,
    /// How it was found.
    pub evidence: HolderEvidence,
}

/// Why a process is taken for the holder of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HolderEvidence {
    /// It has the listening socket.
    Listens,
    /// Its command line says that it listens there. Codex listens elsewhere and leaves a link, which may be gone.
    CommandLine,
}

impl SocketHolder {
    /// All holders of the socket, those that certainly listen first.
    #[must_use]
    pub fn find(socket: &Path) -> Vec<Self> {
        let inodes = listening_inodes(socket);
        // The socket names who listens, also if it was renamed or its process is another user's; the table of sockets knows
        // one that was removed.
        let mut listeners: BTreeSet<u32> = peer_of(socket).ok().into_iter().collect();
        if !inodes.is_empty() {
            listeners.extend(all_pids().filter(|pid| has_any(*pid, &inodes)));
        }
        let argument = format!("unix://{}", socket.display()).into_bytes();
        let named = all_pids().filter(|pid| !listeners.contains(pid) && has_argument(*pid, &argument));
        let named: Vec<u32> = named.filter(|pid| *pid != std::process::id()).collect();
        let holder = |pid: u32, evidence| Some(Self { identity: Identity::of(pid)?, evidence });
        let listening = listeners.iter().filter_map(|pid| holder(*pid, HolderEvidence::Listens));
        listening.chain(named.into_iter().filter_map(|pid| holder(pid, HolderEvidence::CommandLine))).collect()
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.identity.pid
    }

    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    /// The file that it runs, if it may be known.
    #[must_use]
    pub fn executable(&self) -> Option<PathBuf> {
        fs::read_link(format!("/proc/{}/exe", self.pid())).ok()
    }

    /// Whether it was started as this detached worker was, or by it.
    #[must_use]
    pub fn is_marked_as(&self, entry: &DetachedEntry) -> bool {
        self.is_marked(entry.owner)
    }

    pub(crate) fn is_marked(&self, owner: Owner) -> bool {
        matches!(self.identity.environment(), Environment::Seen(seen) if owner.mark().is_in(&seen))
    }

    /// Whether any Switchboard has started it.
    pub(crate) fn is_marked_by_any(&self) -> bool {
        matches!(self.identity.environment(), Environment::Seen(seen) if Owner::is_in(&seen))
    }

    /// The entry of a worker whose recorded process is gone, with this process in its place.
    #[must_use]
    pub fn take_place_of(&self, entry: &DetachedEntry) -> DetachedEntry {
        DetachedEntry { pid: self.identity.pid, start_time: self.identity.start_time, ..entry.clone() }
    }

    /// Climbs the ladder until it has ended, with all that descends from it; nothing if it is gone. Only for one that
    /// [is the worker's own](crate::SocketClaim::Own).
    pub async fn end(self, log: &Path, ladder: Ladder) -> Option<Exit> {
        // A mark that nobody has: others may share the mark of this one and are not to end.
        let detached = Detached::of_process("holder", self.identity, Owner::generate(), log, Limits::default())?;
        Some(detached.stop(ladder).await)
    }
}

fn all_pids() -> impl Iterator<Item = u32> {
    identity::all_pids().unwrap_or_default().into_iter()
}

/// The sockets that listen at the path, or where a link at the path leads.
fn listening_inodes(socket: &Path) -> BTreeSet<u64> {
    let target = fs::read_link(socket).ok().map(|target| socket.parent().unwrap_or(socket).join(target));
    let table = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let sockets = table.lines().skip(1).filter_map(parse_socket);
    sockets.filter(|(path, _)| *path == socket || Some(*path) == target.as_deref()).map(|(_, inode)| inode).collect()
}

/// The path and the inode in a line of `/proc/net/unix`, if the socket has a path and listens. The path is the rest of the
/// line and may hold spaces.
fn parse_socket(line: &str) -> Option<(&Path, u64)> {
    let fields: Vec<&str> = line.split_ascii_whitespace().take(7).collect();
    let flags = u32::from_str_radix(fields.get(3)?, 16).ok()?;
    let path = &line[line.find(" /")? + 1..];
    (flags & LISTENS != 0).then_some((Path::new(path), fields.get(6)?.parse().ok()?))
}

fn has_any(pid: u32, inodes: &BTreeSet<u64>) -> bool {
    let names: Vec<PathBuf> = inodes.iter().map(|inode| format!("socket:[{inode}]").into()).collect();
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    descriptors.filter_map(|descriptor| fs::read_link(descriptor.path()).ok()).any(|name| names.contains(&name))
}

fn has_argument(pid: u32, argument: &[u8]) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0).any(|word| word == argument)
}

/// Who listens at the socket. Does not wait for a listener that accepts nobody.
fn peer_of(socket: &Path) -> io::Result<u32> {
    let stream =
        net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)?;
    net::connect(&stream, &SocketAddrUnix::new(socket)?)?;
    Ok(socket_peercred(&stream)?.pid.as_raw_pid().cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sockets_that_listen_at_a_path_are_read() {
        let parse = |line: &'static str| parse_socket(line).map(|(path, inode)| (path.to_str().unwrap(), inode));
        let listening = "00000000ef15db7d: 00000002 00000000 00010000 0001 01 79440 /run/a b/main-0.sock";
        assert_eq!(parse(listening), Some(("/run/a b/main-0.sock", 79440)));
        assert_eq!(parse("00000000ef15db7d: 00000003 00000000 00000000 0001 03 79441 /run/main-0.sock"), None);
        assert_eq!(parse("00000000ef15db7d: 00000002 00000000 00010000 0001 01 79442 @abstract"), None);
        assert_eq!(parse("00000000ef15db7d: 00000002 00000000 00010000 0001 01 79443"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn a_listener_is_found_by_its_path_and_by_a_link_to_it() {
        let home = tempfile::TempDir::new().unwrap();
        let (socket, link) = (home.path().join("a.sock"), home.path().join("link.sock"));
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        std::os::unix::fs::symlink(&socket, &link).unwrap();
        for path in [&socket, &link] {
            let [holder] = &*SocketHolder::find(path) else { panic!("{path:?} has one holder") };
            assert_eq!((holder.pid(), holder.evidence), (std::process::id(), HolderEvidence::Listens));
        }
        assert_eq!(peer_of(&socket).unwrap(), std::process::id());
        assert_eq!(SocketHolder::find(&home.path().join("other.sock")), []);
    }
}
