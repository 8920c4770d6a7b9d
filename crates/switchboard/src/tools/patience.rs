//! What is said on a terminal while something takes its time, and taken back when it is over.

use std::io::{self, IsTerminal};
use std::pin::pin;
use std::time::Duration;

use tokio::time::timeout;

/// What takes no longer needs no word.
const QUIET: Duration = Duration::from_secs(1);

/// Waits for the work; from the first second on stderr says what for, if somebody sees it.
pub(super) async fn wait<T>(what: &str, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    if let Ok(done) = timeout(QUIET, &mut work).await {
        return done;
    }
    if !io::stderr().is_terminal() {
        return work.await;
    }
    eprint!("{what} …");
    let done = work.await;
    eprint!("\r\x1b[K");
    done
}
