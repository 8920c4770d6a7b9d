//! What must be known after we were killed: by which mark our children are found, and which detached workers go on.
//! One small file in the state directory, replaced as a whole and flushed to the disk before it counts, under a lock
//! that admits one Switchboard.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{process, thread};

use serde::{Deserialize, Serialize};

use crate::environment::Owner;
use crate::groups::{self, GroupFile, RecordedGroup};
use crate::identity::{Identity, Stat};
use crate::leftovers::{Leftovers, Reaped, end_all};
use crate::socket_holder::SocketHolder;
use crate::state_file::{self, Durability};

const FILE: &str = "ledger.json";
const LOCK_FILE: &str = "lock";

/// How long the lock may outlive its holder, and how often to look: a child that it was just starting has it until its exec.
const LAST_CHILD_TIMEOUT: Duration = Duration::from_secs(5);
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// The layout of the file; another number is another Switchboard's.
const FORMAT: u32 = 1;

/// The open state directory. Clones are one and the same.
#[derive(Clone)]
pub struct Ledger {
    shared: Arc<Shared>,
}

struct Shared {
    state_dir: PathBuf,
    page: Mutex<Page>,
    groups: Arc<GroupFile>,
    /// Held as long as anyone has the ledger; the system lets go of it when we die, however that happens.
    lock: File,
}

impl Drop for Shared {
    /// Closing would not do: a child that is just being started has the file open too, until its exec.
    fn drop(&mut self) {
        self.lock.unlock().ok();
    }
}

/// A detached worker as the next Switchboard finds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DetachedEntry {
    /// What we call it.
    pub name: Box<str>,
    /// The mark that it alone has.
    pub owner: Owner,
    /// Its process id.
    pub pid: u32,
    /// When it was started, in clock ticks since the machine was.
    pub start_time: u64,
    /// Where it listens.
    pub socket: PathBuf,
    /// What it was started from, so that a changed configuration is noticed.
    pub fingerprint: Box<str>,
    /// Where its stderr goes.
    pub log: PathBuf,
    /// The hash of the token that it was given, if it was given one: its owner decides what that opens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_hash: Option<Box<str>>,
}

/// What the file holds.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Page {
    format: u32,
    /// Which run of the machine: after a restart of it nothing that is named here can still run.
    boot: Box<str>,
    owner: Owner,
    /// Switchboards before us whose children may not all be gone yet.
    gone: Vec<Owner>,
    /// The marks of detached workers that were about to be started.
    announced: BTreeMap<Box<str>, Owner>,
    detached: Vec<DetachedEntry>,
}

/// Whose a process is that holds the socket of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketClaim {
    /// The worker's, or what is left of it.
    Own,
    /// Another worker's.
    OtherWorker,
    /// Not ours.
    Stranger,
}

impl Ledger {
    /// Takes the state directory, which is made if there is none, and says what was left by whoever had it before. It is
    /// its owner's alone from then on: who can reach the socket of a worker can do all that the worker can.
    pub fn open(state_dir: &Path) -> Result<(Self, Leftovers), LedgerError> {
        let unusable = |error| LedgerError::Directory { path: state_dir.into(), error };
        state_file::prepare_directory(state_dir).map_err(unusable)?;
        let lock = lock(&state_dir.join(LOCK_FILE))?;
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").map_err(unusable)?;
        let page = Page::after(read(&state_dir.join(FILE))?, boot.trim());
        page.write(state_dir)?;
        let gone = page.gone.clone();
        let earlier: Vec<Owner> = gone.iter().copied().chain(page.detached.iter().map(|entry| entry.owner)).collect();
        let groups = GroupFile::open(state_dir, boot.trim(), page.owner, &earlier).map_err(unusable)?;
        let shared = Shared { state_dir: state_dir.into(), page: Mutex::new(page), groups, lock };
        let ledger = Self { shared: Arc::new(shared) };
        Ok((ledger.clone(), Leftovers::new(ledger, gone)))
    }

    /// The mark that every child of ours must be given, but the detached ones.
    #[must_use]
    pub fn owner(&self) -> Owner {
        self.read(|page| page.owner)
    }

    /// The detached workers, running or not.
    #[must_use]
    pub fn detached(&self) -> Vec<DetachedEntry> {
        self.read(|page| page.detached.clone())
    }

    /// The mark for a detached worker that is about to be started. Recorded first: if we are killed before
    /// [`record`](Self::record), the worker is found by this mark, and reaped.
    pub fn announce(&self, name: &str) -> Result<Owner, LedgerError> {
        let owner = self.change(|page| *page.announced.entry(name.into()).or_insert_with(Owner::generate))?;
        self.shared.groups.add_owner(owner);
        Ok(owner)
    }

    /// Records a detached worker, in place of another of that name: it is to be found again, and not reaped.
    pub fn record(&self, entry: DetachedEntry) -> Result<(), LedgerError> {
        self.change(|page| {
            page.announced.remove(&entry.name);
            page.detached.retain(|other| other.name != entry.name);
            page.detached.push(entry);
        })
    }

    /// Forgets a detached worker that has ended.
    pub fn forget(&self, name: &str) -> Result<(), LedgerError> {
        self.change(|page| page.detached.retain(|entry| &*entry.name != name))
    }

    /// The detached workers that a Switchboard has recorded there, be it one that runs; none if there is no ledger. Changes
    /// nothing.
    pub fn look(state_dir: &Path) -> Result<Vec<DetachedEntry>, LedgerError> {
        Ok(read(&state_dir.join(FILE))?.map(|page| page.detached).unwrap_or_default())
    }

    /// The process groups and sessions of all that was started and has not been reaped.
    #[must_use]
    pub fn recorded_groups(&self) -> Vec<RecordedGroup> {
        self.shared.groups.groups()
    }

    /// What is started from now on may run as this user, too.
    pub fn add_user(&self, user: u32) {
        self.shared.groups.add_user(user);
    }

    /// Whose the holder of a worker's socket is. It is a process of that worker if it carries the worker's mark or that of an
    /// earlier Switchboard of this directory, if it is in their process groups, if it is an orphan that we adopted, or if it runs the
    /// worker's own program as a user of ours and carries the mark of some Switchboard.
    #[must_use]
    pub fn claim(&self, worker: &str, holder: &SocketHolder, program: &Path) -> SocketClaim {
        let (own, others): (Vec<Owner>, Vec<Owner>) = self.read(|page| {
            let recorded = page.detached.iter().map(|entry| (&*entry.name, entry.owner));
            let workers = recorded.chain(page.announced.iter().map(|(name, owner)| (&**name, *owner)));
            let is_own = |(name, _): &(&str, Owner)| *name == worker;
            let own = workers.clone().filter(is_own).map(|(_, owner)| owner).chain(page.gone.iter().copied());
            (own.collect(), workers.filter(|entry| !is_own(entry)).map(|(_, owner)| owner).collect())
        });
        let is_marked = |owners: &[Owner]| owners.iter().any(|owner| holder.is_marked(*owner));
        // A link at the socket's path can lead to any other worker.
        if is_marked(&others) {
            return SocketClaim::OtherWorker;
        }
        let is_in_group =
            || self.recorded_groups().iter().any(|group| own.contains(&group.owner) && group.contains(holder.pid()));
        let runs_program =
            || holder.executable().is_some_and(|file| program.canonicalize().is_ok_and(|own| own == file));
        let users = self.shared.groups.users();
        let is_of_user = || groups::user_of(holder.pid()).is_some_and(|user| users.contains(&user));
        let is_own = is_marked(&own)
            || is_in_group()
            || self.shared.groups.has_orphan(holder.identity())
            || (holder.is_marked_by_any() && is_of_user() && runs_program());
        if is_own { SocketClaim::Own } else { SocketClaim::Stranger }
    }

    /// Ends all that is left of a detached worker whose process is gone, and forgets it.
    pub async fn end_remains(&self, entry: &DetachedEntry) -> Result<Reaped, LedgerError> {
        let reaped = end_all(self, &[entry.owner]).await;
        // What does not end stays recorded, so that it is refused at the control socket and looked for again.
        if reaped.all_gone {
            self.shared.groups.forget(&[entry.owner]);
            self.change(|page| page.detached.retain(|other| other != entry))?;
        }
        Ok(reaped)
    }

    pub(crate) fn left_orphans(&self) -> BTreeSet<Identity> {
        self.shared.groups.left_orphans()
    }

    pub(crate) fn forget_gone(&self, gone: &[Owner]) -> Result<(), LedgerError> {
        self.shared.groups.forget(gone);
        self.shared.groups.forget_left_orphans();
        self.change(|page| page.gone.clear())
    }

    fn read<T>(&self, look: impl FnOnce(&Page) -> T) -> T {
        look(&self.shared.page.lock().expect("nothing panics while it holds the page"))
    }

    /// Changes the file, or, if it cannot be written, nothing.
    fn change<T>(&self, change: impl FnOnce(&mut Page) -> T) -> Result<T, LedgerError> {
        let mut page = self.shared.page.lock().expect("nothing panics while it holds the page");
        let mut changed = page.clone();
        let answer = change(&mut changed);
        changed.write(&self.shared.state_dir)?;
        *page = changed;
        Ok(answer)
    }
}

impl Page {
    /// Ours, after that of whoever had the directory before.
    fn after(before: Option<Self>, boot: &str) -> Self {
        let ours = Self {
            format: FORMAT,
            boot: boot.into(),
            owner: Owner::generate(),
            gone: Vec::new(),
            announced: BTreeMap::new(),
            detached: Vec::new(),
        };
        match before {
            Some(before) if *before.boot == *boot => {
                let gone =
                    before.gone.into_iter().chain([before.owner]).chain(before.announced.into_values()).collect();
                Self { gone, detached: before.detached, ..ours }
            }
            _ => ours,
        }
    }

    /// A reader sees the old file or the new one, and after a power cut too.
    fn write(&self, state_dir: &Path) -> Result<(), LedgerError> {
        let write = || {
            let text = serde_json::to_vec_pretty(self)?;
            state_file::replace_state_file(&state_dir.join(FILE), &text, 0o600, Durability::Flushed)
        };
        write().map_err(|error| LedgerError::Write { path: state_dir.join(FILE), error })
    }
}

fn lock(path: &Path) -> Result<File, LedgerError> {
    let unusable = |error| LedgerError::Directory { path: path.into(), error };
    let mut options = OpenOptions::new();
    options.create(true).read(true).write(true).truncate(false);
    let mut file = state_file::open(path, &mut options).map_err(unusable)?;
    let deadline = Instant::now() + LAST_CHILD_TIMEOUT;
    while let Err(error) = file.try_lock() {
        let TryLockError::WouldBlock = error else { return Err(unusable(error.into())) };
        let pid = String::from_utf8(state_file::read_state_file(path).unwrap_or_default()).unwrap_or_default();
        if Instant::now() > deadline || is_alive(pid.trim()) {
            return Err(LedgerError::Held { state_dir: path.parent().unwrap_or(path).into(), pid: pid.trim().into() });
        }
        #[expect(clippy::disallowed_methods, reason = "nobody tells the end of an exec, and this is a start")]
        thread::sleep(LOOK_INTERVAL);
    }
    file.set_len(0).and_then(|()| writeln!(file, "{}", process::id())).map_err(unusable)?;
    Ok(file)
}

fn is_alive(pid: &str) -> bool {
    pid.parse().is_ok_and(|pid| Stat::read(pid).is_ok_and(|stat| !stat.is_zombie))
}

fn read(path: &Path) -> Result<Option<Page>, LedgerError> {
    let text = match state_file::read_state_file(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(LedgerError::Directory { path: path.into(), error }),
    };
    let damaged = |error: serde_json::Error| LedgerError::Damaged { path: path.into(), reason: error.to_string() };
    match serde_json::from_slice::<Layout>(&text).map_err(damaged)?.format {
        FORMAT => serde_json::from_slice(&text).map(Some).map_err(damaged),
        format => Err(LedgerError::OtherFormat { path: path.into(), format }),
    }
}

/// What every format has.
#[derive(Deserialize)]
struct Layout {
    format: u32,
}

/// Why the state directory cannot be had. Whatever lies there is left as it is.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The directory or a file in it is closed to us.
    #[error("`{}` cannot be used: {error}; name a state directory that this user may write", path.display())]
    Directory {
        /// The directory or file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Another Switchboard has it.
    #[error("state directory `{}` belongs to the running Switchboard with pid {pid}: stop that one or name another", state_dir.display())]
    Held {
        /// The directory.
        state_dir: PathBuf,
        /// What the other wrote into its lock.
        pid: Box<str>,
    },
    /// The file is torn, or something else.
    #[error("`{}` is no ledger: {reason}; it was left untouched. Move it away to start without it, and end by hand what an earlier Switchboard may have left running (`grep -l SWITCHBOARD_OWNER /proc/*/environ`)", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The file is a newer Switchboard's.
    #[error("`{}` has format {format}, this Switchboard writes {FORMAT}: start the one that wrote it; it was left untouched", path.display())]
    OtherFormat {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: u32,
    },
    /// The file could not be replaced; the old one stands.
    #[error("`{}` cannot be written: {error}; make room or allow it", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}
