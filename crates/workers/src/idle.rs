//! Threads that nobody has used for long are put away, at their workers and in the store.

use std::time::{Duration, SystemTime};

use codex::CallError;
use store::{Change, ReadError, ThreadFilter};
use tokio::time::Instant;

use crate::board::Want;
use crate::pool::Pool;
use crate::running::Held;
use crate::view::unix_ms;

/// How many threads are put away in one go: the rest waits for the next.
const THREADS_MAX: u32 = 1_000;
/// How long the worker of such a thread may have no place for it.
const PLACE_TIMEOUT: Duration = Duration::from_secs(5);

impl Pool {
    /// Puts away the threads that nobody has used for so long, at their workers and in the store, and says how many these were. One that cannot be put away
    /// now is left to the next time.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn archive_idle(&self, idle: Duration) -> Result<usize, ReadError> {
        let now = unix_ms(SystemTime::now());
        let before = now.saturating_sub(u64::try_from(idle.as_millis()).unwrap_or(u64::MAX));
        let unused = ThreadFilter {
            archived: Some(false),
            used_before: Some(before.cast_signed()),
            rows_max: Some(THREADS_MAX),
            ..ThreadFilter::default()
        };
        let threads = self.shared.store.read(move |reader| reader.threads(&unused)).await?;
        let mut archived = 0;
        for thread in threads {
            let id = thread.id.clone();
            match self.archive(thread, before.cast_signed()).await {
                Some(()) => archived += 1,
                None => tracing::debug!(thread = id, "an idle thread is not put away yet"),
            }
        }
        Ok(archived)
    }

    /// It has the place of a turn meanwhile, so that no turn begins there.
    async fn archive(&self, thread: store::Thread, before: i64) -> Option<()> {
        if self.shared.board().lease_of(&thread.id).is_some() {
            return None;
        }
        let want = Want {
            key: thread.key.as_str().into(),
            group: self.group_named(&thread.group).ok()?,
            thread: Some(thread.id.as_str().into()),
            beside: None,
            decision_timeout: None,
        };
        let place = self.place(want, Instant::now() + PLACE_TIMEOUT).await.ok()?;
        let held = Held::new(&self.shared, place.lease);
        let link = self.shared.post(place.slot).link()?;
        // It may have been used since the list was made.
        self.shared.store.flush().await.ok()?;
        let id = thread.id.clone();
        let now = self.shared.store.read(move |reader| reader.thread(&id)).await.ok()??;
        if now.used_at > before {
            return None;
        }
        match link.client.thread(&thread.id).archive().await {
            // One that it does not know, or cannot put away, is put away here alone.
            Ok(()) | Err(CallError::Failed { .. } | CallError::Unable(_)) => {}
            Err(_) => return None,
        }
        link.threads().remove(thread.id.as_str());
        self.shared.tips().remove(&thread.id);
        let id = thread.id.clone();
        self.shared.store.note(Change::Thread(store::Thread { archived: true, history_hash: None, ..thread }));
        drop(held);
        self.shared.board().evicted(&id, std::time::Instant::now());
        Some(())
    }
}
