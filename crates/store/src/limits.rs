//! Every limit of the store, each with its reason.

use std::time::Duration;

/// What the store may hold, and how long it may keep anyone waiting.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How large the file may become, in pages of 4 KiB; `None` leaves it to the disk.
    pub pages_max: Option<u32>,
    /// Commits that may wait for the writer; the next one waits for a place. Enough for every turn of a full worker pool
    /// to ask at once, in one transaction.
    pub commits_waiting_max: usize,
    /// How large one commit may be: far above any request, far below what would stop all others.
    pub commit_bytes_max: usize,
    /// Rows that may wait to be written behind. At the bound the oldest that can best be missed is dropped and counted.
    pub notes_max: usize,
    /// Bytes that those rows may hold.
    pub notes_bytes_max: usize,
    /// Rows written behind in one transaction, so that a commit never waits long for them.
    pub notes_per_transaction_max: usize,
    /// How long a note may wait for others: what a crash can cost.
    pub note_delay: Duration,
    /// Reads at the same time. SQLite reads in parallel, and every connection costs its cache.
    pub readers_max: usize,
    /// How long to wait for another process that holds the file; there should be none.
    pub busy_timeout: Duration,
    /// How soon after a failed write it is tried again for the first time; doubled each time.
    pub retry_min: Duration,
    /// How late at most: the longest that the store stays degraded once there is room.
    pub retry_max: Duration,
    /// Rows of a table removed in one transaction by a sweep.
    pub sweep_rows_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            pages_max: None,
            commits_waiting_max: 1024,
            commit_bytes_max: 64 << 20,
            notes_max: 16_384,
            notes_bytes_max: 64 << 20,
            notes_per_transaction_max: 512,
            note_delay: Duration::from_millis(200),
            readers_max: 4,
            busy_timeout: Duration::from_secs(5),
            retry_min: Duration::from_millis(250),
            retry_max: Duration::from_secs(15),
            sweep_rows_max: 500,
        }
    }
}
