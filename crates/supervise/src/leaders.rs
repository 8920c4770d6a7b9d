//! Every process that we started and have not yet reaped, so that what was adopted is never mistaken for one of them.
//!
//! Starting a process and taking the census exclude each other. Otherwise a census could see a process between its fork
//! and its registration, take it for an adopted orphan, and kill it or take its exit status from whoever waits for it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::process;
use std::sync::{Mutex, MutexGuard};

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

/// Starts a process of ours. It keeps its number until the handle has reaped it, so its identity can be read afterwards.
pub(crate) fn start(command: &mut Command, mark: Mark) -> io::Result<(Child, Identity)> {
    let mut leaders = leaders();
    let child = command.spawn()?;
    let pid = child.id().expect("it was not yet waited for");
    // Without `/proc` nothing is ever found in a census, and the group is all that can be killed.
    let identity = Identity::of(pid).unwrap_or(Identity { pid, start_time: 0 });
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
        let processes = identity::all_pids().into_iter().filter_map(|pid| Some((pid, Stat::of(pid)?))).collect();
        for child in children(&processes) {
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
    /// The marks of all children of ours that are not yet reaped.
    living: Vec<Mark>,
}

impl Census {
    pub(crate) fn take() -> Self {
        let mut census = Self { processes: BTreeMap::new(), adopted: Vec::new(), living: Vec::new() };
        census.renew();
        census
    }

    /// Looks who is new and who is gone, without asking again those who are still there; whether anybody was new, be it
    /// that they were gone again before they could be asked.
    pub(crate) fn renew(&mut self) -> bool {
        let mut leaders = leaders();
        let pids: BTreeSet<u32> = identity::all_pids().into_iter().collect();
        self.processes.retain(|pid, _| pids.contains(pid));
        let new: Vec<u32> = pids.into_iter().filter(|pid| !self.processes.contains_key(pid)).collect();
        self.processes.extend(new.iter().filter_map(|pid| Some((*pid, Stat::of(*pid)?))));
        let ours: Vec<Stat> = children(&self.processes).collect();
        leaders.living.retain(|leader, _| ours.iter().any(|stat| stat.identity == *leader));
        let is_adopted = |stat: &Stat| leaders.adopting && !leaders.living.contains_key(&stat.identity);
        self.adopted = ours.into_iter().filter(is_adopted).collect();
        self.living = leaders.living.values().copied().flatten().collect();
        !new.is_empty()
    }

    /// Whether the mark is that of a child which we have not yet reaped.
    pub(crate) fn is_living(&self, mark: Mark) -> bool {
        self.living.contains(&mark)
    }
}

fn children(processes: &BTreeMap<u32, Stat>) -> impl Iterator<Item = Stat> {
    let us = process::id();
    processes.values().copied().filter(move |stat| stat.parent == us)
}

fn leaders() -> MutexGuard<'static, Leaders> {
    LEADERS.lock().expect("nothing panics while it holds the leaders")
}
