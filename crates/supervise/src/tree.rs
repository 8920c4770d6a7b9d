//! Everything that one process has started, however far it ran: found by descent, by process session, and by a mark in
//! its environment; stopped first, so that it starts nothing more and no parent dies before its children were seen, then
//! killed. A tree that grows meanwhile is walked again, a bounded number of times.

use std::collections::{BTreeMap, BTreeSet};
use std::process;

use rustix::process::Signal;

use crate::environment::Mark;
use crate::identity::{Environment, Identity, Stat};
use crate::leaders::Census;

/// How many looks may find no member before the rest is taken to be found. Two are enough if nobody on the whole machine was
/// new after them (two, for the sake of a member in the middle of an exec); where processes come and go all the time, one
/// of them may be a member that was gone before it could be asked.
const FRUITLESS_LOOKS_MAX: usize = 8;
/// So many looks without a new member are enough while nothing new starts on the machine. One that is in the middle of an
/// exec cannot be told for that moment.
const QUIET_LOOKS: usize = 2;

/// How many looks in all: only a tree that outruns so many, a fraction of a millisecond apart, gets away; and where orphans
/// are adopted not even that one.
const LOOKS_MAX: usize = 1_000;

/// How many looks may find another member before those that were found are killed.
const LOOKS_PER_KILL_MAX: usize = 32;

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
        let mut census = Census::take();
        let mut killed = BTreeSet::new();
        for _ in 0..LOOKS_MAX / LOOKS_PER_KILL_MAX {
            let stopped = self.stop(&mut census, &killed);
            if stopped.is_empty() {
                break;
            }
            for member in &stopped {
                member.signal(Signal::KILL);
            }
            killed.extend(stopped);
            census.renew();
        }
        killed.len()
    }

    /// Whether a member runs.
    pub(crate) fn is_alive(&mut self) -> bool {
        !self.members(&Census::take()).is_empty()
    }

    /// Stops all members but those that have already been killed.
    fn stop(&mut self, census: &mut Census, killed: &BTreeSet<Identity>) -> BTreeSet<Identity> {
        let mut stopped = BTreeSet::new();
        let mut fruitless_looks = 0;
        for _ in 0..LOOKS_PER_KILL_MAX {
            let mut new = self.members(census);
            new.retain(|member| !killed.contains(member) && !stopped.contains(member));
            for member in &new {
                member.signal(Signal::STOP);
            }
            fruitless_looks = if new.is_empty() { fruitless_looks + 1 } else { 0 };
            stopped.extend(new);
            let is_quiet = !census.renew();
            if fruitless_looks == FRUITLESS_LOOKS_MAX || (is_quiet && fruitless_looks >= QUIET_LOOKS) {
                break;
            }
        }
        stopped
    }

    /// All members that run.
    fn members(&mut self, census: &Census) -> BTreeSet<Identity> {
        let mut roots = self.roots(census);
        if self.leader.is_some() {
            roots.extend(census.adopted.iter().filter(|stat| is_forsaken(stat, census)).map(|stat| stat.identity));
        }
        let belonging = belonging(&census.processes, roots);
        self.known.extend(&belonging);
        let runs = |stat: &&Stat| !stat.is_zombie && belonging.contains(&stat.identity);
        census.processes.values().filter(runs).map(|stat| stat.identity).collect()
    }

    /// Those that are told to be members by what they are, and not by whom they come from.
    fn roots(&mut self, census: &Census) -> BTreeSet<Identity> {
        // Only as long as the leader is at least a zombie is the number of its group nobody else's.
        let is_held =
            |leader: &Identity| census.processes.get(&leader.pid).is_some_and(|stat| stat.identity == *leader);
        let group = self.leader.filter(is_held).map(|leader| leader.pid);
        let is_root = |stat: &&Stat| {
            self.known.contains(&stat.identity) || group == Some(stat.group) || self.is_marked(stat.identity)
        };
        census.processes.values().filter(is_root).map(|stat| stat.identity).collect()
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
fn belonging(processes: &BTreeMap<u32, Stat>, mut found: BTreeSet<Identity>) -> BTreeSet<Identity> {
    let us = process::id();
    found.retain(|identity| identity.pid != us);
    loop {
        let is_found = |pid: u32| processes.get(&pid).is_some_and(|stat| found.contains(&stat.identity));
        let more: Vec<Identity> = processes
            .values()
            .filter(|stat| stat.identity.pid != us && !found.contains(&stat.identity))
            .filter(|stat| is_found(stat.parent) || is_found(stat.session))
            .map(|stat| stat.identity)
            .collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Processes as `pid parent session`, and who belongs to those that are marked with a star.
    fn check(processes: &str, expected: &[u32]) {
        let mut all = BTreeMap::new();
        let mut roots = BTreeSet::new();
        for line in processes.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let fields: Vec<u32> = line.trim_end_matches(" *").split(' ').map(|field| field.parse().unwrap()).collect();
            let [pid, parent, session] = fields[..] else { panic!("{line}") };
            let identity = Identity { pid, start_time: u64::from(pid) };
            all.insert(pid, Stat { identity, parent, group: pid, session, is_zombie: false });
            if line.ends_with('*') {
                roots.insert(identity);
            }
        }
        let found: Vec<u32> = belonging(&all, roots).into_iter().map(|identity| identity.pid).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn descendants_belong_in_whatever_order_they_are_seen() {
        check("1 0 1\n10 30 1\n20 1 1 *\n30 20 1\n40 1 1\n50 10 50", &[10, 20, 30, 50]);
    }

    #[test]
    fn an_orphan_belongs_to_whom_its_session_belongs() {
        check("1 0 1\n20 1 1 *\n30 20 30\n40 1 30\n50 1 1", &[20, 30, 40]);
    }

    #[test]
    fn the_session_that_a_root_is_merely_in_is_not_its_own() {
        check("1 0 1\n5 1 5\n20 5 5 *\n30 5 5", &[20]);
    }

    #[test]
    fn we_never_belong_nor_does_anything_by_way_of_us() {
        let us = process::id();
        check(&format!("1 0 1\n2 1 2 *\n3 {us} 3\n4 2 4\n{us} 2 2 *"), &[2, 4]);
    }
}
