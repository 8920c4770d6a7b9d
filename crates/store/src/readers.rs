//! The connections that read beside the writer: made when first needed, kept for the next read, bounded in number.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, OpenFlags};
use tokio::sync::Semaphore;

use crate::error::ReadError;
use crate::limits::Limits;
use crate::reader::Reader;

pub(crate) struct Readers {
    path: PathBuf,
    limits: Limits,
    idle: Mutex<Vec<Reader>>,
    places: Arc<Semaphore>,
}

impl Readers {
    pub(crate) fn new(path: &Path, limits: Limits) -> Self {
        let places = Arc::new(Semaphore::new(limits.readers_max));
        Self { path: path.into(), limits, idle: Mutex::default(), places }
    }

    /// Asks on the blocking pool, inside one read transaction.
    pub(crate) async fn read<T, F>(self: &Arc<Self>, ask: F) -> Result<T, ReadError>
    where
        T: Send + 'static,
        F: FnOnce(&Reader) -> Result<T, ReadError> + Send + 'static,
    {
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| ReadError::Closed)?;
        let readers = Arc::clone(self);
        let asked = tokio::task::spawn_blocking(move || {
            let answer = readers.ask(ask);
            drop(place);
            answer
        });
        asked.await.unwrap_or_else(|error| Err(ReadError::Failed(error.to_string().into())))
    }

    /// Waits for the reads under way, refuses more, and closes every connection.
    pub(crate) async fn close(&self) {
        let all = u32::try_from(self.limits.readers_max).unwrap_or(u32::MAX);
        let quiet = self.places.acquire_many(all).await;
        self.places.close();
        drop(quiet);
        self.lock().clear();
    }

    fn ask<T>(&self, ask: impl FnOnce(&Reader) -> Result<T, ReadError>) -> Result<T, ReadError> {
        let idle = self.lock().pop();
        let reader = idle.map_or_else(|| self.connect(), Ok)?;
        let answer = reader.ask(ask);
        // One that failed is not kept: the next read begins with a new connection.
        if !matches!(answer, Err(ReadError::Failed(_))) {
            self.lock().push(reader);
        }
        answer
    }

    fn connect(&self) -> Result<Reader, ReadError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        connection.busy_timeout(self.limits.busy_timeout)?;
        Ok(Reader::new(connection))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Reader>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
