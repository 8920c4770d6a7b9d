//! Everything that one process has started, however far it ran: found by descent, by process session, and by a mark in
//! its environment; stopped first so that it starts nothing more and no parent dies before its children were seen, then
//! killed. A tree that grows meanwhile is walked again, a bounded number of times.

use std::collections::{BTreeMap, BTreeSet};
use std::process;

use rustix::process::Signal;

use crate::environment::Mark;
use crate::identity::{Environment, Identity, Stat};
use crate::leaders::Census;

/// How often a tree is looked at before what was found is killed: a tree that grows faster than it can be stopped is
/// killed as far as it is known, and then looked at again.
const STOP_WALKS_MAX: usize = 8;

/// How often the whole is done again. Each time kills all that it finds, so only a tree that outgrows two hundred walks
/// in a row gets away, and where orphans are adopted not even that one.
const KILLS_MAX: usize = 32;

/// What belongs to one child, to one detached worker, or to one Switchboard that is gone.
pub(crate) struct Tree {
    /// The process that it grew from, where there is one.
    leader: Option<Identity>,
    mark: Mark,
    /// All that were ever seen to belong to it: a process whose parent is gone can no longer be found by descent.
    known: BTreeSet<Identity>,
    /// Processes without the mark, which are not read twice: a process does not get one later.
    unmarked: BTreeSet<Identity>,
}

impl Tree {
    pub(crate) fn new(leader: Option<Identity>, mark: Mark) -> Self {
        Self { leader, mark, known: leader.into_iter().collect(), unmarked: BTreeSet::new() }
    }

    /// Looks who belongs to it, and remembers them.
    pub(crate) fn survey(&mut self) {
        self.members(&Census::take());
    }

    /// Kills every member; how many there were. Best before the leader is reaped, while its group can be told.
    pub(crate) fn kill(&mut self) -> usize {
        let mut killed = BTreeSet::new();
        for _ in 0..KILLS_MAX {
            let found = self.stop(&killed);
            if found.is_empty() {
                break;
            }
            for member in &found {
                member.signal(Signal::KILL);
            }
            killed.extend(found);
        }
        killed.len()
    }

    /// Whether a member runs.
    pub(crate) fn is_alive(&mut self) -> bool {
        !self.members(&Census::take()).is_empty()
    }

    /// Stops all members but those that have already been killed.
    fn stop(&mut self, killed: &BTreeSet<Identity>) -> BTreeSet<Identity> {
        let mut stopped = BTreeSet::new();
        for _ in 0..STOP_WALKS_MAX {
            let mut new = self.members(&Census::take());
            new.retain(|member| !killed.contains(member) && !stopped.contains(member));
            if new.is_empty() {
                break;
            }
            for member in &new {
                member.signal(Signal::STOP);
            }
            stopped.extend(new);
        }
        stopped
    }

    /// All members that run.
    fn members(&mut self, census: &Census) -> BTreeSet<Identity> {
        // Only as long as the leader is at least a zombie is the number of its group nobody else's.
        let group = self.leader.filter(|leader| census.processes.iter().any(|stat| stat.identity == *leader));
        let mut roots: BTreeSet<Identity> =
            census.processes.iter().filter(|stat| self.is_root(stat, group)).map(|stat| stat.identity).collect();
        if self.leader.is_some() {
            roots.extend(census.adopted.iter().filter(|stat| is_forsaken(stat, census)).map(|stat| stat.identity));
        }
        let belonging = belonging(&census.processes, roots);
        self.known.extend(&belonging);
        let runs = |stat: &&Stat| !stat.is_zombie && belonging.contains(&stat.identity);
        census.processes.iter().filter(runs).map(|stat| stat.identity).collect()
    }

    fn is_root(&mut self, stat: &Stat, group: Option<Identity>) -> bool {
        let identity = stat.identity;
        self.known.contains(&identity)
            || group.is_some_and(|leader| stat.group == leader.pid)
            || self.is_marked(identity)
    }

    fn is_marked(&mut self, identity: Identity) -> bool {
        if self.unmarked.contains(&identity) {
            return false;
        }
        let Environment::Seen(seen) = identity.environment() else { return false };
        let is_marked = self.mark.is_in(&seen);
        // In the middle of an exec a process shows no variables at all.
        if !is_marked && !seen.is_empty() {
            self.unmarked.insert(identity);
        }
        is_marked
    }
}

/// Whether an adopted process is nobody's: its child has ended, or it has wiped its environment. What the latter belongs
/// to cannot be told any more, so it goes with the next child that ends.
fn is_forsaken(adopted: &Stat, census: &Census) -> bool {
    match adopted.identity.environment() {
        Environment::Seen(seen) => Mark::of_child(&seen).is_none_or(|mark| !census.is_living(mark)),
        Environment::Forbidden => true,
        Environment::Gone => false,
    }
}

/// The roots and all that descends from them: by parent, or by the process session that one of them leads, which only
/// its own descendants can be in. Never we, nor anything by way of us: we may ourselves have been started from the tree of
/// a Switchboard that is gone.
fn belonging(processes: &[Stat], mut found: BTreeSet<Identity>) -> BTreeSet<Identity> {
    let us = process::id();
    found.retain(|identity| identity.pid != us);
    let by_pid: BTreeMap<u32, Identity> = processes.iter().map(|stat| (stat.identity.pid, stat.identity)).collect();
    loop {
        let is_found = |pid: &u32| by_pid.get(pid).is_some_and(|identity| found.contains(identity));
        let more: Vec<Identity> = processes
            .iter()
            .filter(|stat| stat.identity.pid != us && !found.contains(&stat.identity))
            .filter(|stat| is_found(&stat.parent) || is_found(&stat.session))
            .map(|stat| stat.identity)
            .collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}
