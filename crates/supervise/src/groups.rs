//! Records the process groups and sessions that we started, and adopted orphans without a mark of ours, beside the ledger. The
//! next Switchboard uses the file to end processes whose marks it cannot read.
//!
//! A group is removed from the file when its leader is reaped, so the number of a recorded one was ours until we died. The file
//! is not flushed: after a restart of the machine nothing that it names can still run.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use crate::environment::Owner;
use crate::identity::{Identity, Stat};
use crate::state_file::{self, Durability};

const FILE: &str = "groups.json";

/// The files of all open ledgers of this process, so that every launch is recorded where its owner belongs.
static FILES: Mutex<Vec<Weak<GroupFile>>> = Mutex::new(Vec::new());

/// A process group that a process of ours leads, or led until it died; the whole session, if it leads that too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedGroup {
    /// The mark that its leader was started with.
    pub owner: Owner,
    /// The process id of its leader, which is the number of the group.
    pub leader: u32,
    /// When the leader was started, in clock ticks since the machine was.
    pub start_time: u64,
    /// The session of its members; equal to `leader` if the whole session is ours.
    pub session: u32,
    /// The users that its members may run as.
    pub users: BTreeSet<u32>,
}

impl RecordedGroup {
    /// Whether the process is in the group, or in the session if that is ours.
    #[must_use]
    pub fn contains(&self, pid: u32) -> bool {
        Stat::read(pid).is_ok_and(|stat| self.has_member(&stat, Stat::read(self.leader).ok().as_ref()))
    }

    /// The same, with what is known of the process that has the leader's number now. No number is given to another process
    /// while a group or session has it; once it is free, a stranger may lead a group of that number.
    pub(crate) fn has_member(&self, stat: &Stat, leader_now: Option<&Stat>) -> bool {
        let is_inside = stat.session == self.session && (stat.group == self.leader || self.session == self.leader);
        let leader = Identity { pid: self.leader, start_time: self.start_time };
        is_inside
            && stat.identity.start_time >= self.start_time
            && leader_now.is_none_or(|now| now.identity == leader)
            && user_of(stat.identity.pid).is_some_and(|user| self.users.contains(&user))
    }
}

/// The real user of a process. The owner of its `/proc` directory is another if the process may not be dumped.
pub(crate) fn user_of(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_ascii_whitespace().next()?.parse().ok()
}

/// Whether a started process leads a session or only a group.
#[derive(Clone, Copy)]
pub(crate) enum LeaderKind {
    Group,
    Session,
}

/// The file of one ledger.
pub(crate) struct GroupFile {
    path: PathBuf,
    page: Mutex<GroupRecords>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct GroupRecords {
    boot: Box<str>,
    groups: Vec<RecordedGroup>,
    /// Adopted processes without a mark.
    orphans: BTreeSet<Identity>,
    /// Orphans of the Switchboard before us.
    left_orphans: BTreeSet<Identity>,
    /// Whose marks belong here.
    #[serde(skip)]
    owners: BTreeSet<String>,
    #[serde(skip)]
    users: BTreeSet<u32>,
}

impl GroupFile {
    /// Takes over what an earlier Switchboard recorded during this run of the machine for `earlier` owners. An unreadable
    /// file counts as missing.
    pub(crate) fn open(state_dir: &Path, boot: &str, owner: Owner, earlier: &[Owner]) -> io::Result<Arc<Self>> {
        let path = state_dir.join(FILE);
        state_file::refuse_link(&path)?;
        let before: Option<GroupRecords> =
            state_file::read_state_file(&path).ok().and_then(|text| serde_json::from_slice(&text).ok());
        let GroupRecords { mut groups, orphans, mut left_orphans, .. } =
            before.filter(|page| *page.boot == *boot).unwrap_or_default();
        groups.retain(|group| earlier.contains(&group.owner));
        left_orphans.extend(orphans);
        let page = GroupRecords {
            boot: boot.into(),
            groups,
            orphans: BTreeSet::new(),
            left_orphans,
            owners: BTreeSet::from([owner.to_string()]),
            users: BTreeSet::from([geteuid().as_raw()]),
        };
        let file = Arc::new(Self { path, page: Mutex::new(page) });
        let mut files = files();
        files.retain(|file| file.strong_count() > 0);
        files.push(Arc::downgrade(&file));
        Ok(file)
    }

    /// What is started with this mark is recorded here.
    pub(crate) fn add_owner(&self, owner: Owner) {
        self.page().owners.insert(owner.to_string());
    }

    /// Adds a user that later children may run as.
    pub(crate) fn add_user(&self, user: u32) {
        self.page().users.insert(user);
    }

    /// The users that what we start may run as.
    pub(crate) fn users(&self) -> BTreeSet<u32> {
        self.page().users.clone()
    }

    pub(crate) fn groups(&self) -> Vec<RecordedGroup> {
        self.page().groups.clone()
    }

    pub(crate) fn left_orphans(&self) -> BTreeSet<Identity> {
        self.page().left_orphans.clone()
    }

    /// Whether it is an adopted process without a mark, of ours or of the Switchboard before us.
    pub(crate) fn has_orphan(&self, process: Identity) -> bool {
        let page = self.page();
        page.orphans.contains(&process) || page.left_orphans.contains(&process)
    }

    /// Forgets the groups of these owners.
    pub(crate) fn forget(&self, owners: &[Owner]) {
        self.change(|page| page.groups.retain(|group| !owners.contains(&group.owner)));
    }

    pub(crate) fn forget_left_orphans(&self) {
        self.change(|page| page.left_orphans.clear());
    }

    fn change(&self, change: impl FnOnce(&mut GroupRecords)) {
        let mut page = self.page();
        change(&mut page);
        // A process is not refused because it cannot be recorded: its marks remain.
        if let Ok(text) = serde_json::to_vec_pretty(&*page) {
            state_file::replace_state_file(&self.path, &text, 0o600, Durability::Unflushed).ok();
        }
    }

    fn page(&self) -> MutexGuard<'_, GroupRecords> {
        self.page.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Records what a process that was just started leads.
pub(crate) fn record(owner: Owner, leader: Identity, leads: LeaderKind) {
    let Some(file) = file_with(|page| page.owners.contains(&owner.to_string())) else { return };
    let session = match leads {
        LeaderKind::Session => leader.pid,
        // Not `getsid`: in a container our session can be that of a process outside, which has the number 0 here.
        LeaderKind::Group => Stat::read(process::id()).map_or(0, |own| own.session),
    };
    file.change(|page| {
        let users = page.users.clone();
        page.groups.push(RecordedGroup { owner, leader: leader.pid, start_time: leader.start_time, session, users });
    });
}

/// Records which adopted processes have no mark. Number and start time name each of them for as long as the machine runs.
pub(crate) fn record_orphans(orphans: &BTreeSet<Identity>) {
    if let Some(file) = file_with(|page| page.orphans != *orphans) {
        file.change(|page| page.orphans.clone_from(orphans));
    }
}

/// Removes the group of a leader that has ended with its descendants.
pub(crate) fn forget(leader: Identity) {
    let is_its = |group: &RecordedGroup| (group.leader, group.start_time) == (leader.pid, leader.start_time);
    if let Some(file) = file_with(|page| page.groups.iter().any(is_its)) {
        file.change(|page| page.groups.retain(|group| !is_its(group)));
    }
}

fn file_with(is_meant: impl Fn(&GroupRecords) -> bool) -> Option<Arc<GroupFile>> {
    let open: Vec<_> = files().iter().filter_map(Weak::upgrade).collect();
    open.into_iter().find(|file| is_meant(&file.page()))
}

fn files() -> MutexGuard<'static, Vec<Weak<GroupFile>>> {
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(pid: u32, group: u32, session: u32, start_time: u64) -> Stat {
        let identity = Identity { pid, start_time };
        Stat { identity, parent: 1, group, session, is_zombie: false, is_bare: false }
    }

    fn recorded(leader: u32, session: u32) -> RecordedGroup {
        let users = BTreeSet::from([geteuid().as_raw()]);
        RecordedGroup { owner: Owner::generate(), leader, start_time: 50, session, users }
    }

    #[test]
    fn only_who_is_in_the_group_and_session_and_not_older_is_a_member() {
        // A process that runs as this user.
        let us = std::process::id();
        let group = recorded(40, 7);
        assert!(group.has_member(&stat(us, 40, 7, 60), None));
        assert!(group.has_member(&stat(us, 40, 7, 50), None));
        assert!(!group.has_member(&stat(us, 40, 7, 49), None), "older than the leader");
        assert!(!group.has_member(&stat(us, 41, 7, 60), None), "another group of the session");
        assert!(!group.has_member(&stat(us, 40, 8, 60), None), "a group of that number in another session");
        let whole_session = recorded(40, 40);
        assert!(whole_session.has_member(&stat(us, 41, 40, 60), None));
        assert!(!whole_session.has_member(&stat(us, 41, 41, 60), None), "it has left the session");
    }

    #[test]
    fn a_number_that_a_stranger_was_given_names_no_group_of_ours() {
        let us = std::process::id();
        let group = recorded(40, 40);
        let member = stat(us, 40, 40, 90);
        assert!(group.has_member(&member, Some(&stat(40, 40, 40, 50))));
        assert!(!group.has_member(&member, Some(&stat(40, 40, 40, 80))));
    }

    #[test]
    fn a_process_of_another_user_is_no_member() {
        let mut group = recorded(40, 40);
        group.users = BTreeSet::from([geteuid().as_raw() + 1]);
        assert!(!group.has_member(&stat(std::process::id(), 40, 40, 60), None));
    }
}
