//! What is old is removed from the store, and threads that nobody uses are put away: at the start and then every hour.

use std::convert::Infallible;
use std::time::Duration;

use approvals::Stamp;
use store::{Retention, Store, Swept};
use tokio::time::sleep;
use workers::Pool;

const INTERVAL: Duration = Duration::from_hours(1);

/// Sweeps for ever. A sweep that fails is left to the next one: the store says by itself that it is not well.
pub(super) async fn sweep(store: &Store, retention: Retention, pool: &Pool, thread_idle_max: Duration) -> Infallible {
    loop {
        remove(store, retention).await;
        put_away(pool, thread_idle_max).await;
        sleep(INTERVAL).await;
    }
}

async fn remove(store: &Store, retention: Retention) {
    match store.sweep(Stamp::now().0, retention).await {
        Ok(swept) if swept == Swept::default() => {}
        Ok(Swept { approvals, audit, responses, parked_calls, usage, tool_audit }) => tracing::info!(
            approvals,
            audit,
            responses,
            parked_calls,
            usage,
            tool_audit,
            "removed what was old from the store"
        ),
        Err(error) => tracing::warn!(%error, "what is old was not removed from the store"),
    }
}

async fn put_away(pool: &Pool, thread_idle_max: Duration) {
    match pool.archive_idle(thread_idle_max).await {
        Ok(0) => {}
        Ok(threads) => tracing::info!(threads, "put threads away that nobody had used for long"),
        Err(error) => tracing::warn!(%error, "threads that nobody uses were not put away"),
    }
}
