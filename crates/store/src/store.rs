//! The handle: opens the file, starts the writer, and passes each request to the writer's desk or to the readers.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use rusqlite::{Connection, OpenFlags};
use tokio::sync::watch;

use crate::backoff::Backoff;
use crate::change::Change;
use crate::clock::ClockReading;
use crate::create;
use crate::desk::{Counts, Desk, Work};
use crate::error::{OpenError, ReadError, WriteError};
use crate::health::Health;
use crate::inspect;
use crate::limits::Limits;
use crate::migrations;
use crate::reader::Reader;
use crate::readers::Readers;
use crate::sweep::{Keep, Retention, Shelf, Slice, Swept};
use crate::writer::Writer;

/// How much of the write-ahead log stays on the disk once its content is in the file: what a busy second makes.
const LOG_BYTES_KEPT: u32 = 16 << 20;

/// The store; clones are the same one. The last of them that is dropped closes it, though nobody then waits for the end.
#[derive(Clone)]
pub struct Store {
    open: Arc<Open>,
}

struct Open {
    desk: Arc<Desk>,
    readers: Arc<Readers>,
    health: watch::Receiver<Health>,
    limits: Limits,
}

impl Store {
    /// Opens the file, or makes it where there is none. Blocks while it is checked: about a second for each gigabyte.
    pub fn open(path: impl Into<PathBuf>, limits: Limits) -> Result<Self, OpenError> {
        let path: PathBuf = path.into();
        create::create_if_missing(&path)?;
        inspect::inspect(&path)?;
        let connection = connect(&path, &limits).map_err(|error| OpenError::of_sqlite(&path, &error))?;
        let desk = Arc::new(Desk::new(limits));
        let readers = Arc::new(Readers::new(&path, limits));
        let (sender, health) = watch::channel(Health::Well);
        let writer = Writer {
            desk: Arc::clone(&desk),
            connection,
            health: sender,
            backoff: Backoff::new(&limits),
            retry_at: None,
            path: path.clone(),
        };
        let writing = thread::Builder::new().name("store".into()).spawn(move || writer.run());
        writing.map_err(|error| OpenError::of_io(&path, &error))?;
        Ok(Self { open: Arc::new(Open { desk, readers, health, limits }) })
    }

    /// Writes all of the changes or none. When it returns `Ok` they are on the disk. If the future is dropped, they may
    /// or may not have been written.
    pub async fn commit(&self, changes: Vec<Change>) -> Result<(), WriteError> {
        let (bytes, bytes_max) = (changes.iter().map(Change::bytes).sum(), self.open.limits.commit_bytes_max);
        if bytes > bytes_max {
            return Err(WriteError::TooLarge { bytes, bytes_max });
        }
        self.open.desk.request(Work::Commit(changes)).await.map(drop)
    }

    /// Leaves a change to be written soon; a later change of the same row takes its place. Readers see it when it is
    /// written. What a bound or the end costs is counted in [`Store::counts`].
    pub fn note(&self, change: Change) {
        self.open.desk.note(change);
    }

    /// Writes all that was noted until now.
    pub async fn flush(&self) -> Result<(), WriteError> {
        let before = self.open.desk.next_number();
        while self.open.desk.request(Work::Flush { before }).await? > 0 {}
        Ok(())
    }

    /// Asks on a connection beside the writer; what is asked sees one state of the store.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn read<T, F>(&self, ask: F) -> Result<T, ReadError>
    where
        T: Send + 'static,
        F: FnOnce(&Reader) -> Result<T, ReadError> + Send + 'static,
    {
        self.open.readers.read(ask).await
    }

    /// The time that retention goes by, in unix milliseconds: the wall clock's, unless that has jumped ahead. It is remembered with the
    /// file, so that a start with a wrong clock is noticed too.
    pub async fn observe_clock(&self, reading: ClockReading) -> Result<i64, WriteError> {
        self.open.desk.request(Work::ObserveClock(reading)).await.map(u64::cast_signed)
    }

    /// Removes what is old or too many at the time `now`, in unix milliseconds, which [`Store::observe_clock`] tells.
    pub async fn sweep(&self, now: i64, retention: Retention) -> Result<Swept, WriteError> {
        Ok(Swept {
            approvals: self.sweep_shelf(Shelf::Approvals, retention.approvals, now).await?,
            audit: self.sweep_shelf(Shelf::Audit, retention.audit, now).await?,
            responses: {
                let shelf = Shelf::Responses { bytes_max: retention.responses_bytes_max };
                self.sweep_shelf(shelf, retention.responses, now).await?
            },
            parked_calls: self.sweep_shelf(Shelf::ParkedCalls, retention.parked_calls, now).await?,
            usage: self.sweep_shelf(Shelf::Usage, retention.usage, now).await?,
            tool_audit: self.sweep_shelf(Shelf::ToolAudit, retention.tool_audit, now).await?,
            // Last: what still needs a thread may just have gone.
            threads: self.sweep_shelf(Shelf::Threads, retention.threads, now).await?,
        })
    }

    async fn sweep_shelf(&self, shelf: Shelf, keep: Keep, now: i64) -> Result<u64, WriteError> {
        let rows_max = self.open.limits.sweep_rows_max;
        let mut swept = 0;
        loop {
            let removed = self.open.desk.request(Work::Sweep(Slice { shelf, keep, now, rows_max })).await?;
            swept += removed;
            if removed < rows_max as u64 {
                return Ok(swept);
            }
        }
    }

    /// Whether writes are done; ends when the store is closed.
    #[must_use]
    pub fn health(&self) -> watch::Receiver<Health> {
        self.open.health.clone()
    }

    /// The health at this moment; degraded too when there is nobody who writes any more.
    #[must_use]
    pub fn health_now(&self) -> Health {
        let health = &self.open.health;
        match health.has_changed() {
            Ok(_) => health.borrow().clone(),
            Err(_) => Health::Degraded { reason: WriteError::Closed.to_string().into() },
        }
    }

    /// What was done so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.open.desk.counts()
    }

    /// Writes what was noted, ends the reads and the writer, and closes the file. Afterwards every request fails.
    pub async fn close(&self) -> Result<(), WriteError> {
        let flushed = self.flush().await;
        // Before the writer: only the last connection moves the log into the file, and readers may not write.
        self.open.readers.close().await;
        self.open.desk.close();
        let mut health = self.health();
        while health.changed().await.is_ok() {}
        flushed
    }

    /// Bounds the file anew, for tests of a full disk; a bound below the present size is that size.
    #[doc(hidden)]
    pub async fn set_pages_max(&self, pages: u32) -> Result<u64, WriteError> {
        self.open.desk.request(Work::PagesMax(pages)).await
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.desk.close();
    }
}

fn connect(path: &Path, limits: &Limits) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(limits.busy_timeout)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "journal_size_limit", LOG_BYTES_KEPT)?;
    if let Some(pages) = limits.pages_max {
        connection.pragma_update(None, "max_page_count", pages)?;
    }
    migrations::migrate(&mut connection)?;
    Ok(connection)
}
