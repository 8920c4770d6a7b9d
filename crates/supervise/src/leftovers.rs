//! What a Switchboard that was killed has left running: found by its mark, or in a process group or session that it has
//! recorded, and ended.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::environment::Owner;
use crate::ledger::{Ledger, LedgerError};
use crate::tree::Tree;

/// How long what was killed may take to be gone: only a process that is stuck inside the kernel needs any of it.
const REAP_TIMEOUT: Duration = Duration::from_secs(8);

/// How often to look meanwhile.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// What earlier Switchboards with the same state directory may have left running. Detached workers are not among it:
/// each has a mark of its own.
#[must_use = "what was left goes on running until it is reaped"]
pub struct Leftovers {
    ledger: Ledger,
    gone: Vec<Owner>,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reaped {
    /// How many processes were killed.
    pub killed: usize,
    /// Whether all of them are gone; if not, the next start looks again.
    pub all_gone: bool,
}

impl Leftovers {
    pub(crate) fn new(ledger: Ledger, gone: Vec<Owner>) -> Self {
        Self { ledger, gone }
    }

    /// Kills every process that carries the mark of a Switchboard that is gone, or is in a group or session of its children,
    /// with all that descends from it.
    ///
    /// Nobody else's: a mark is a whole variable with a value that no other process ever had, a member of a group is no older
    /// than its leader, of the same user and session, and each is signalled by a handle that cannot become another's.
    pub async fn reap(self) -> Result<Reaped, LedgerError> {
        let marked = end_all(&self.ledger, &self.gone).await;
        let unmarked = end_orphans(&self.ledger).await;
        let reaped = Reaped { killed: marked.killed + unmarked.killed, all_gone: marked.all_gone && unmarked.all_gone };
        if reaped.all_gone {
            self.ledger.forget_gone(&self.gone)?;
        }
        Ok(reaped)
    }
}

/// Kills the recorded orphans without a mark. Number and start time name each of them, and no other process.
async fn end_orphans(ledger: &Ledger) -> Reaped {
    let orphans = ledger.left_orphans();
    // Every look reads the environment of every process, which takes its time where many come and go.
    if orphans.is_empty() {
        return Reaped { killed: 0, all_gone: true };
    }
    end_trees(vec![Tree::new(None, Owner::generate().mark()).with_members(orphans)]).await
}

/// Kills all that carries one of the marks, or is in a group or session that was started with it.
pub(crate) async fn end_all(ledger: &Ledger, owners: &[Owner]) -> Reaped {
    let groups = ledger.recorded_groups();
    let of = |owner: Owner| groups.iter().filter(|group| group.owner == owner).cloned().collect();
    let tree = |owner: &Owner| Tree::new(None, owner.mark()).with_groups(of(*owner));
    end_trees(owners.iter().map(tree).collect()).await
}

async fn end_trees(mut trees: Vec<Tree>) -> Reaped {
    let mut killed = 0;
    let deadline = Instant::now() + REAP_TIMEOUT;
    loop {
        killed += trees.iter_mut().map(Tree::kill).sum::<usize>();
        trees.retain_mut(Tree::is_alive);
        if trees.is_empty() || Instant::now() > deadline {
            return Reaped { killed, all_gone: trees.is_empty() };
        }
        sleep(LOOK_INTERVAL).await;
    }
}
