//! Everything that one process has started, however far it ran: found by descent, by process session, and by a mark in
//! its environment; stopped first, so that it starts nothing more and no parent dies before its children were seen, then
//! killed. A tree that grows meanwhile is walked again, a bounded number of times.

use std::collections::{BTreeMap, BTreeSet};
use std::{process, thread};

use rustix::process::Signal;

use crate::environment::Mark;
use crate::groups::RecordedGroup;
use crate::identity::{Environment, Identity, Stat};
use crate::leaders::Census;

/// How many looks may find no member before the rest is taken to be found. Two are enough if nobody on the whole machine was
/// new after them; where processes come and go all the time, one of them may be a member that was gone before it could be
/// asked.
const FRUITLESS_LOOKS_MAX: usize = 8;
/// So many looks without a new member are enough while nothing new starts on the machine.
const QUIET_LOOKS: usize = 2;

/// How many looks count for nothing in all: one in the middle of an exec could not be told, and one that was gone before it
/// was asked may have been a member that has started another.
const UNSURE_LOOKS_MAX: usize = 300;

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
    /// Groups and sessions of processes that are gone, whose members belong to it.
    groups: Vec<RecordedGroup>,
    /// All that were ever seen to belong to it: a process whose parent is gone can no longer be found by descent.
    known: BTreeSet<Identity>,
    /// Processes without the mark, which are not read twice: a process does not get one later.
    unmarked: BTreeSet<Identity>,
    /// Whether the last look found a process in the middle of an exec, which has no mark to be told by for that moment.
    met_exec: bool,
    /// Whether it found one that was gone before it could be asked for its mark.
    has_missed: bool,
}

impl Tree {
    pub(crate) fn new(leader: Option<Identity>, mark: Mark) -> Self {
        Self {
            leader,
            mark,
            groups: Vec::new(),
            known: leader.into_iter().collect(),
            unmarked: BTreeSet::new(),
            met_exec: false,
            has_missed: false,
        }
    }

    /// The same tree with the members of these groups.
    pub(crate) fn with_groups(self, groups: Vec<RecordedGroup>) -> Self {
        Self { groups, ..self }
    }

    /// The same tree with these processes.
    pub(crate) fn with_members(mut self, members: BTreeSet<Identity>) -> Self {
        self.known.extend(members);
        self
    }

    /// Looks who belongs to it, and remembers them.
    pub(crate) fn survey(&mut self) {
        self.members(&Census::take());
    }

    /// Kills every member; how many there were. Best before the leader is reaped, while its group can be told.
    pub(crate) fn kill(&mut self) -> usize {
        let mut census = Census::take();
        let mut killed = BTreeSet::new();
        let mut unsure_looks = 0;
        for _ in 0..LOOKS_MAX / LOOKS_PER_KILL_MAX {
            let stopped = self.stop(&mut census, &killed, &mut unsure_looks);
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
    fn stop(
        &mut self,
        census: &mut Census,
        killed: &BTreeSet<Identity>,
        unsure_looks: &mut usize,
    ) -> BTreeSet<Identity> {
        let mut stopped = BTreeSet::new();
        let (mut looks, mut fruitless_looks) = (0, 0);
        while looks < LOOKS_PER_KILL_MAX {
            let mut new = self.members(census);
            new.retain(|member| !killed.contains(member) && !stopped.contains(member));
            for member in &new {
                member.signal(Signal::STOP);
            }
            let is_fruitless = new.is_empty();
            stopped.extend(new);
            let is_unsure = self.met_exec || self.has_missed || census.has_missed;
            if is_unsure && *unsure_looks < UNSURE_LOOKS_MAX {
                *unsure_looks += 1;
                fruitless_looks = 0;
                // Not asleep: who flees would be further away by then.
                thread::yield_now();
                census.renew();
                continue;
            }
            looks += 1;
            fruitless_looks = if is_fruitless { fruitless_looks + 1 } else { 0 };
            let is_quiet = !census.renew();
            if fruitless_looks >= FRUITLESS_LOOKS_MAX || (is_quiet && fruitless_looks >= QUIET_LOOKS) {
                break;
            }
        }
        stopped
    }

    /// All members that run.
    fn members(&mut self, census: &Census) -> BTreeSet<Identity> {
        (self.met_exec, self.has_missed) = (false, false);
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
            let leader_of = |group: &RecordedGroup| census.processes.get(&group.leader);
            let is_recorded = self.groups.iter().any(|group| group.has_member(stat, leader_of(group)));
            let is_told = self.known.contains(&stat.identity) || group == Some(stat.group) || is_recorded;
            is_told || (!stat.is_zombie && self.is_marked(stat.identity))
        };
        census.processes.values().filter(is_root).map(|stat| stat.identity).collect()
    }

    fn is_marked(&mut self, identity: Identity) -> bool {
        if self.unmarked.contains(&identity) {
            return false;
        }
        let seen = match identity.environment() {
            Environment::Seen(seen) => seen,
            Environment::Coming => {
                self.met_exec = true;
                return false;
            }
            Environment::Gone => {
                self.has_missed = true;
                return false;
            }
            Environment::Forbidden => return false,
        };
        let is_marked = self.mark.is_in(&seen);
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
        Environment::Coming | Environment::Gone => false,
    }
}

/// The roots and all that descends from them: by parent, or by the process session that one of them leads, which only
/// its own descendants can be in. Nobody descends from a younger one: that one was given the number of a parent that is
/// gone. Never we, nor anything by way of us: we may ourselves have been started from the tree of a Switchboard that is
/// gone.
fn belonging(processes: &BTreeMap<u32, Stat>, mut found: BTreeSet<Identity>) -> BTreeSet<Identity> {
    let us = process::id();
    found.retain(|identity| identity.pid != us);
    loop {
        let descends = |stat: &Stat, from: u32| {
            let is_older = |ancestor: &Stat| ancestor.identity.start_time <= stat.identity.start_time;
            processes.get(&from).is_some_and(|ancestor| is_older(ancestor) && found.contains(&ancestor.identity))
        };
        let more: Vec<Identity> = processes
            .values()
            .filter(|stat| stat.identity.pid != us && !found.contains(&stat.identity))
            .filter(|stat| descends(stat, stat.parent) || descends(stat, stat.session))
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

    /// Processes as `pid parent session`, the oldest first, and who belongs to those that are marked with a star.
    fn check(processes: &str, expected: &[u32]) {
        let mut all = BTreeMap::new();
        let mut roots = BTreeSet::new();
        for (start_time, line) in (0..).zip(processes.lines()) {
            let fields: Vec<u32> = line.trim_end_matches(" *").split(' ').map(|field| field.parse().unwrap()).collect();
            let [pid, parent, session] = fields[..] else { panic!("{line}") };
            let identity = Identity { pid, start_time };
            all.insert(pid, Stat { identity, parent, group: pid, session, is_zombie: false, is_bare: false });
            if line.ends_with('*') {
                roots.insert(identity);
            }
        }
        let found: Vec<u32> = belonging(&all, roots).into_iter().map(|identity| identity.pid).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn descendants_belong_whatever_their_numbers() {
        check("1 0 1\n20 1 1 *\n30 20 1\n10 30 1\n40 1 1\n50 10 50", &[10, 20, 30, 50]);
    }

    #[test]
    fn nobody_descends_from_a_younger_one() {
        check("1 0 1\n30 20 1\n40 1 20\n20 1 20 *\n50 20 1", &[20, 50]);
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
