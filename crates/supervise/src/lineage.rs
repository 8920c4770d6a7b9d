//! Which processes may use the control socket: those of our user (or root) that descend from nothing we started.
//!
//! Tool servers, hooks and approved commands run as the same user as the operator, so the user id alone proves nothing.
//! A peer is refused if it, or any ancestor, is this process, is a detached worker, belongs to a recorded process group
//! or session, or carries the mark of any Switchboard. What cannot be determined is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::iter::successors;
use std::process;
use std::thread;

use rustix::process::{DumpableBehavior, geteuid, set_dumpable_behavior};

use crate::environment::{CHILD_VARIABLE, OWNER_VARIABLE, variables};
use crate::groups::user_of;
use crate::identity::{Environment, Identity, Stat};
use crate::ledger::Ledger;

/// The longest chain of ancestors that is followed; real ones have some ten.
const ANCESTORS_MAX: usize = 256;

/// How often the chain is read again because a process in it ended meanwhile: the shell that started a command in the
/// background usually does.
const WALKS_MAX: usize = 5;

/// Decides which peers may use the control socket.
pub struct ControlPeerPolicy {
    ledger: Ledger,
    server: Identity,
    /// The marks that we were started with ourselves, by a Switchboard around us: siblings of ours have them too.
    inherited: BTreeSet<MarkVariable>,
}

/// Why a peer may not use the control socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerRefusal {
    /// It runs as somebody else.
    #[error("the control socket is for the user of the server alone")]
    OtherUser,
    /// The server, or one before it, started it or one of its ancestors.
    #[error("the control socket is not for workers, tool servers, hooks and what they start")]
    Descendant,
    /// It is gone, or its ancestors cannot be read.
    #[error("the process behind this connection, or one of its ancestors, cannot be examined")]
    Unknown,
}

impl ControlPeerPolicy {
    /// For the server that this process is.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn new(ledger: Ledger) -> io::Result<Self> {
        let server = Stat::read(process::id())?.identity;
        let inherited = match server.environment() {
            Environment::Seen(seen) => marks(&seen).collect(),
            // Without knowing them, everything that is marked is refused.
            Environment::Coming | Environment::Forbidden | Environment::Gone => BTreeSet::new(),
        };
        Ok(Self { ledger, server, inherited })
    }

    /// Whether the process that has connected may use the control socket. Reads `/proc`, so it can block.
    ///
    /// # Errors
    /// [`PeerRefusal`], if it may not.
    pub fn check(&self, pid: Option<i32>, uid: u32) -> Result<(), PeerRefusal> {
        let us = geteuid();
        if uid != us.as_raw() && uid != 0 {
            return Err(PeerRefusal::OtherUser);
        }
        // A process outside our pid namespace has the number 0.
        let pid = pid.and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid > 0).ok_or(PeerRefusal::Unknown)?;
        let peer = Identity::of(pid).ok_or(PeerRefusal::Unknown)?;
        // The process that connected may be gone, and its number another user's.
        if user_of(pid) != Some(uid) {
            return Err(PeerRefusal::Unknown);
        }
        // Root's environment is closed to us, and root needs no permission of ours.
        let hidden_environment =
            if uid == 0 && !us.is_root() { HiddenEnvironment::Allowed } else { HiddenEnvironment::Refused };
        let started = StartedProcesses::read(self.server, &self.ledger);
        for _ in 0..WALKS_MAX {
            // Most descendants are known by their numbers alone. An environment is looked at last: a process can have its own
            // read from a file system that never answers.
            if ancestry(pid).any(|stat| started.contains(&stat)) {
                return Err(PeerRefusal::Descendant);
            }
            let chain = self.chain(peer)?;
            match judge(peer, &chain, &started, hidden_environment) {
                Err(PeerRefusal::Unknown) => thread::yield_now(),
                judged => {
                    // Its number may have been given to another process while we looked.
                    let is_same = Stat::read(pid).is_ok_and(|stat| stat.identity == peer && !stat.is_zombie);
                    return if is_same { judged } else { Err(PeerRefusal::Unknown) };
                }
            }
        }
        Err(PeerRefusal::Unknown)
    }

    /// The peer and its ancestors, as far as they can be read.
    fn chain(&self, peer: Identity) -> Result<BTreeMap<u32, Ancestor>, PeerRefusal> {
        let mut chain = BTreeMap::new();
        for stat in ancestry(peer.pid) {
            if stat.identity.pid == peer.pid && stat.identity != peer {
                return Err(PeerRefusal::Unknown);
            }
            let marks = match stat.identity.environment() {
                Environment::Seen(seen) if marks(&seen).any(|mark| !self.inherited.contains(&mark)) => {
                    MarkState::Marked
                }
                Environment::Seen(_) => MarkState::Unmarked,
                Environment::Forbidden => MarkState::Hidden,
                Environment::Coming | Environment::Gone => break,
            };
            chain.insert(stat.identity.pid, Ancestor { stat, marks });
        }
        Ok(chain)
    }
}

/// Closes this process to the other processes of its user, except root's: what we start could otherwise read a key from our
/// environment, or act as the server by `ptrace`. Our own `/proc/self/environ` is closed to us too, and a crash leaves no core.
///
/// # Errors
/// The kernel refuses it.
pub fn forbid_inspection() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// The process and its ancestors, as far as they can be read.
fn ancestry(pid: u32) -> impl Iterator<Item = Stat> {
    let parent = |stat: &Stat| Some(stat.parent).filter(|pid| *pid != 0).and_then(|pid| Stat::read(pid).ok());
    successors(Stat::read(pid).ok(), parent).take(ANCESTORS_MAX)
}

/// One of our variables with its value.
type MarkVariable = (Box<[u8]>, Box<[u8]>);

fn marks(environment: &[u8]) -> impl Iterator<Item = MarkVariable> {
    let is_mark = |name: &[u8]| [OWNER_VARIABLE, CHILD_VARIABLE].iter().any(|mark| name == mark.as_bytes());
    variables(environment).filter(move |(name, _)| is_mark(name)).map(|(name, value)| (name.into(), value.into()))
}

/// What a peer must not descend from, besides what is marked.
#[derive(Default)]
struct StartedProcesses {
    /// This process, which is also the parent of orphans, every detached worker, and what an earlier run left.
    processes: BTreeSet<Identity>,
    /// The numbers of process groups and sessions that belong to what was started.
    groups: BTreeSet<u32>,
}

impl StartedProcesses {
    fn read(server: Identity, ledger: &Ledger) -> Self {
        let detached = ledger.detached();
        let detached = detached.iter().map(|entry| Identity { pid: entry.pid, start_time: entry.start_time });
        let recorded = ledger.recorded_groups();
        let recorded = recorded.iter().map(|group| Identity { pid: group.leader, start_time: group.start_time });
        // What we start leads a group with its own number. The number stays theirs while the group has members, but once
        // another process has it as its own, the group is gone.
        let is_still_its_group = |leader: &Identity| Identity::of(leader.pid).is_none_or(|now| now == *leader);
        let groups = detached.clone().chain(recorded).filter(is_still_its_group).map(|leader| leader.pid).collect();
        let orphans = ledger.left_orphans();
        Self { processes: detached.chain(orphans).chain([server]).collect(), groups }
    }

    fn contains(&self, stat: &Stat) -> bool {
        self.processes.contains(&stat.identity)
            || self.groups.contains(&stat.group)
            || self.groups.contains(&stat.session)
    }
}

/// A peer or one of its ancestors.
struct Ancestor {
    stat: Stat,
    marks: MarkState,
}

/// Whether a process was started with the mark of a Switchboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MarkState {
    Unmarked,
    Marked,
    /// Its environment is closed to us: `sshd` and other programs that hold secrets close theirs.
    Hidden,
}

/// What is expected of the peer's own environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HiddenEnvironment {
    Refused,
    Allowed,
}

/// Follows the peer to the root of its chain. An ancestor with a hidden environment proves no more than one with an empty
/// environment: its own ancestors decide.
fn judge(
    peer: Identity,
    chain: &BTreeMap<u32, Ancestor>,
    started: &StartedProcesses,
    hidden_environment: HiddenEnvironment,
) -> Result<(), PeerRefusal> {
    let mut process = chain.get(&peer.pid).ok_or(PeerRefusal::Unknown)?;
    if process.marks == MarkState::Hidden && hidden_environment == HiddenEnvironment::Refused {
        return Err(PeerRefusal::Unknown);
    }
    for _ in 0..ANCESTORS_MAX {
        if process.marks == MarkState::Marked || started.contains(&process.stat) {
            return Err(PeerRefusal::Descendant);
        }
        // The root of the machine or of a pid namespace, or a process that was put into ours from outside.
        if process.stat.parent == 0 {
            return Ok(());
        }
        let parent = chain.get(&process.stat.parent).ok_or(PeerRefusal::Unknown)?;
        // A parent is never younger: this one was given the number of a parent that is gone.
        if parent.stat.identity.start_time > process.stat.identity.start_time {
            return Err(PeerRefusal::Unknown);
        }
        process = parent;
    }
    Err(PeerRefusal::Unknown)
}

#[cfg(test)]
mod adversary {
    use super::*;

    /// Judges the peer 50. Processes are `pid parent group session` with the oldest first; `+` is marked, `?` hidden. The
    /// server is 10, a detached worker 20 with the group and session of its number.
    fn check(processes: &str, expected: Result<(), PeerRefusal>) {
        check_as(HiddenEnvironment::Refused, processes, expected);
    }

    fn check_as(hidden_environment: HiddenEnvironment, processes: &str, expected: Result<(), PeerRefusal>) {
        let (mut chain, mut started) = (BTreeMap::new(), StartedProcesses::default());
        started.groups.insert(20);
        let mut peer = Identity { pid: 50, start_time: 0 };
        for (start_time, line) in (0..).zip(processes.lines()) {
            let marks = match line.chars().last() {
                Some('+') => MarkState::Marked,
                Some('?') => MarkState::Hidden,
                _ => MarkState::Unmarked,
            };
            let fields: Vec<u32> = line.split(' ').filter_map(|field| field.parse().ok()).collect();
            let [pid, parent, group, session] = fields[..] else { panic!("{line}") };
            let identity = Identity { pid, start_time };
            if [10, 20].contains(&pid) {
                started.processes.insert(identity);
            }
            if pid == 50 {
                peer = identity;
            }
            let stat = Stat { identity, parent, group, session, is_zombie: false, is_bare: false };
            chain.insert(pid, Ancestor { stat, marks });
        }
        assert_eq!(judge(peer, &chain, &started, hidden_environment), expected, "{processes}");
    }

    #[test]
    fn a_command_in_a_terminal_is_admitted() {
        check("1 0 1 1\n30 1 30 30\n50 30 50 30", Ok(()));
    }

    #[test]
    fn a_command_below_a_login_that_hides_its_environment_is_admitted() {
        check("1 0 1 1 ?\n30 1 30 30 ?\n40 30 40 40\n50 40 50 40", Ok(()));
    }

    #[test]
    fn a_process_put_into_the_namespace_from_outside_is_admitted() {
        check("50 0 50 50", Ok(()));
    }

    #[test]
    fn a_descendant_of_the_server_is_refused() {
        check("1 0 1 1\n10 1 10 10\n50 10 50 50", Err(PeerRefusal::Descendant));
        check("1 0 1 1\n10 1 10 10\n30 10 30 30\n40 30 40 40\n50 40 40 40", Err(PeerRefusal::Descendant));
    }

    #[test]
    fn a_descendant_of_a_detached_worker_is_refused() {
        check("1 0 1 1\n20 1 20 20\n30 20 30 30\n50 30 50 30", Err(PeerRefusal::Descendant));
    }

    #[test]
    fn an_orphan_in_the_group_or_session_of_a_detached_worker_is_refused() {
        check("1 0 1 1\n50 1 20 1", Err(PeerRefusal::Descendant));
        check("1 0 1 1\n50 1 50 20", Err(PeerRefusal::Descendant));
        check("1 0 1 1\n30 1 30 20\n50 30 50 50", Err(PeerRefusal::Descendant));
    }

    #[test]
    fn a_mark_on_the_peer_or_an_ancestor_is_refused() {
        check("1 0 1 1\n50 1 50 50 +", Err(PeerRefusal::Descendant));
        check("1 0 1 1\n30 1 30 30 +\n50 30 50 30", Err(PeerRefusal::Descendant));
    }

    #[test]
    fn a_peer_that_hides_its_environment_is_refused_unless_it_is_roots() {
        check("1 0 1 1\n50 1 50 50 ?", Err(PeerRefusal::Unknown));
        check_as(HiddenEnvironment::Allowed, "1 0 1 1\n50 1 50 50 ?", Ok(()));
        check_as(HiddenEnvironment::Allowed, "1 0 1 1\n10 1 10 10\n50 10 50 50 ?", Err(PeerRefusal::Descendant));
    }

    #[test]
    fn a_chain_that_breaks_off_is_refused() {
        check("1 0 1 1\n50 30 50 50", Err(PeerRefusal::Unknown));
        check("1 0 1 1", Err(PeerRefusal::Unknown));
    }

    #[test]
    fn a_parent_that_is_younger_than_its_child_is_refused() {
        check("1 0 1 1\n50 30 50 50\n30 1 30 30", Err(PeerRefusal::Unknown));
    }

    #[test]
    fn a_chain_without_an_end_is_refused() {
        check("50 50 50 50", Err(PeerRefusal::Unknown));
    }
}
