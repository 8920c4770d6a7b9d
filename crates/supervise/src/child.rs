//! A started process: its stdin, its stdout and the process itself, three parts that can be waited for at once, and
//! the stop that brings it to an end.

use std::convert::Infallible;
use std::future::pending;

use tokio::io::{copy, sink};
use tokio::process::ChildStdout;
use tokio::time::{Instant, timeout_at};

use crate::exit::{Ending, Exit};
use crate::ladder::{Climb, Ladder, Rung, Step};
use crate::launch::Started;
use crate::limits::Limits;
use crate::process::Process;
use crate::stdin::Stdin;

/// A started process with its pipes. Dropped without [`stop`](Self::stop), it is killed with all that it started.
pub struct Child {
    /// The process itself. The first to be dropped: a process that ends because its stdin was closed can no longer be asked
    /// what it started.
    pub process: Process,
    /// Where lines to the process go.
    pub stdin: Stdin,
    /// What the process says; whoever owns the child must read it, or the process blocks.
    pub stdout: ChildStdout,
}

impl Child {
    pub(crate) fn new(mut started: Started, limits: Limits) -> Self {
        let stdin = started.leader.stdin.take().expect("the launch pipes stdin");
        let stdout = started.leader.stdout.take().expect("the launch pipes stdout");
        Self { process: Process::new(started, limits), stdin: Stdin::new(stdin, limits), stdout }
    }

    /// Climbs the ladder until the process has ended, and says which rung ended it.
    ///
    /// What it still writes to stdout is thrown away. When this returns, all that it started has been killed;
    /// if the future is dropped, everything is killed at once.
    pub async fn stop(self, ladder: Ladder) -> Exit {
        let Self { stdin, mut stdout, mut process } = self;
        // A process that is blocked on a full stdout would never notice that it should end.
        let discard = async {
            copy(&mut stdout, &mut sink()).await.ok();
            pending::<Infallible>().await
        };
        tokio::select! {
            exit = climb(&mut process, &stdin, ladder) => exit,
            never = discard => match never {},
        }
    }
}

async fn climb(process: &mut Process, stdin: &Stdin, ladder: Ladder) -> Exit {
    let mut climb = Climb::new(ladder);
    while !process.has_exited() {
        match climb.next(Instant::now().into_std()) {
            Step::Take(rung) => {
                // What a dying process leaves to others can no longer be told to be its own.
                process.survey();
                match rung {
                    Rung::CloseStdin => stdin.close(),
                    Rung::Terminate | Rung::TerminateAgain => process.terminate(),
                    Rung::Kill => _ = process.kill(),
                }
            }
            Step::WaitUntil(until) => {
                timeout_at(until.into(), process.exited()).await.ok();
            }
            Step::GiveUp => return process.exit(Ending::StillRunning),
        }
    }
    Exit { rung: climb.rung(), ..process.wait().await }
}
