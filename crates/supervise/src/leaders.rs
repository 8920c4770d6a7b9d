//! Every process that we started and have not yet reaped, so that what was adopted is never mistaken for one of them.
//!
//! Starting a process and taking the census exclude each other. Otherwise a census could see a process between its fork
//! and its registration, take it for an adopted orphan, and kill it or take its exit status from whoever waits for it.

use std::collections::BTreeMap;
use std::io;
use std::process;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::process::{Child, Command};

use crate::environment::Mark;
use crate::identity::{self, Identity, Stat};

static LEADERS: Mutex<Leaders> = Mutex::new(Leaders { living: BTreeMap::new(), adopting: false });

struct Leaders {
    /// With the mark, unless it was our child before we adopted anyone and is none of our business. Nobody takes a process
    /// out when it has been reaped: the next census does, which no longer sees it.
    living: BTreeMap<Identity, Option<Mark>>,
    adopting: bool,
}

/// Starts a process of ours. It keeps its number until the handle has reaped it, so its identity can be read afterwards;
/// one that cannot be identified for lack of a descriptor is killed.
pub(crate) fn start(command: &mut Command, mark: Mark) -> io::Result<(Child, Identity)> {
    let mut leaders = leaders();
    let mut child = command.spawn()?;
    let pid = child.id().expect("it was not yet waited for");
    let identity = Stat::read(pid).inspect_err(|_| drop(child.start_kill()))?.identity;
    leaders.living.insert(identity, Some(mark));
    Ok((child, identity))
}

/// From now on the children of this process that it did not start are its to end; whether that is news. Those that are
/// there already are not: a shell may have started them before it became us.
pub(crate) fn start_adopting() -> bool {
    let mut leaders = leaders();
    let is_new = !leaders.adopting;
    if is_new {
        leaders.adopting = true;
        for child in children(&known(identity::all_pids().unwrap_or_default())) {
            leaders.living.entry(child.identity).or_insert(None);
        }
    }
    is_new
}

pub(crate) fn stop_adopting() {
    leaders().adopting = false;
}

/// All processes of the machine, and those among them that we adopted.
pub(crate) struct Census {
    /// By number. What is told of a process is what was true when it was first seen.
    pub(crate) processes: BTreeMap<u32, Stat>,
    pub(crate) adopted: Vec<Stat>,
    /// Whether somebody was new at the last look who was gone before they could be asked.
    pub(crate) has_missed: bool,
    /// The marks of all children of ours that are not yet reaped.
    living: Vec<Mark>,
}

impl Census {
    pub(crate) fn take() -> Self {
        let mut census =
            Self { processes: BTreeMap::new(), adopted: Vec::new(), has_missed: false, living: Vec::new() };
        census.renew();
        census
    }

    /// Looks who is new and who is gone, without asking again those who are still there; whether anybody was new, be it
    /// that they were gone again before they could be asked.
    pub(crate) fn renew(&mut self) -> bool {
        let mut leaders = leaders();
        // Without a descriptor to look with, nobody is gone and nobody is new.
        let Ok(pids) = identity::all_pids() else { return false };
        leaders.living.retain(|leader, _| pids.contains(&leader.pid));
        self.processes.retain(|pid, _| pids.contains(pid));
        let new: Vec<u32> = pids.into_iter().filter(|pid| !self.processes.contains_key(pid)).collect();
        let count = new.len();
        let mut new = known(new);
        self.has_missed = new.len() < count || new.values().any(|stat| stat.is_zombie);
        // The number that a newcomer's parent or session has may have been given again since it was first seen.
        let named = new.values().flat_map(|stat| [stat.parent, stat.session]);
        let mut named = known(named.filter(|pid| self.processes.contains_key(pid)));
        self.processes.append(&mut named);
        self.processes.append(&mut new);
        let is_adopted = |stat: &Stat| leaders.adopting && !leaders.living.contains_key(&stat.identity);
        self.adopted = children(&self.processes).filter(is_adopted).collect();
        self.living = leaders.living.values().copied().flatten().collect();
        count > 0
    }

    /// Whether the mark is that of a child which we have not yet reaped.
    pub(crate) fn is_living(&self, mark: Mark) -> bool {
        self.living.contains(&mark)
    }
}

/// What can be told of them.
fn known(pids: impl IntoIterator<Item = u32>) -> BTreeMap<u32, Stat> {
    pids.into_iter().filter_map(|pid| Some((pid, Stat::read(pid).ok()?))).collect()
}

fn children(processes: &BTreeMap<u32, Stat>) -> impl Iterator<Item = Stat> {
    let us = process::id();
    processes.values().copied().filter(move |stat| stat.parent == us)
}

fn leaders() -> MutexGuard<'static, Leaders> {
    // A spawn outside a runtime panics while it holds them, and has then changed nothing.
    LEADERS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_was_given_again_is_not_taken_for_whom_it_belonged_to() {
        let us = Stat::read(process::id()).unwrap();
        let earlier = Identity { start_time: us.identity.start_time - 1, ..us.identity };
        let mut census = Census::take();
        census.processes.insert(us.identity.pid, Stat { identity: earlier, ..us });
        #[expect(clippy::disallowed_methods, reason = "a child that is not registered")]
        let mut command = process::Command::new("cat");
        let mut child = command.stdin(process::Stdio::piped()).spawn().unwrap();
        census.renew();
        assert_eq!(census.processes[&child.id()].parent, us.identity.pid);
        assert_eq!(census.processes[&us.identity.pid].identity, us.identity);
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
