//! What a Switchboard that was killed has left running: found by its mark, and by nothing but its mark, and ended.

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

    /// Kills every process that carries the mark of a Switchboard that is gone, with all that descends from it.
    ///
    /// Nobody else's: a mark is a whole variable with a value that no other process ever had, the processes were started
    /// during this run of the machine, and each is signalled by a handle that cannot become another's.
    pub async fn reap(self) -> Result<Reaped, LedgerError> {
        let mut trees: Vec<Tree> = self.gone.iter().map(|owner| Tree::new(None, owner.mark())).collect();
        let mut killed = 0;
        let deadline = Instant::now() + REAP_TIMEOUT;
        loop {
            killed += trees.iter_mut().map(Tree::kill).sum::<usize>();
            trees.retain_mut(Tree::is_alive);
            if trees.is_empty() {
                self.ledger.forget_gone()?;
                return Ok(Reaped { killed, all_gone: true });
            }
            if Instant::now() > deadline {
                return Ok(Reaped { killed, all_gone: false });
            }
            sleep(LOOK_INTERVAL).await;
        }
    }
}
