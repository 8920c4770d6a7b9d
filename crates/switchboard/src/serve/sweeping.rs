//! What is old is removed from the store, and threads that nobody uses are put away: at the start and then every hour. Both go by the
//! store's trusted time, so a clock that jumps ahead removes nothing.

use std::convert::Infallible;
use std::time::Duration;

use approvals::Stamp;
use store::{ClockReading, Retention, Store, Swept, WriteError};
use tokio::time::{Instant, sleep};
use workers::Pool;

const INTERVAL: Duration = Duration::from_hours(1);

/// Sweeps for ever. A sweep that fails is left to the next one: the store says by itself that it is not well.
pub(super) async fn sweep(store: &Store, retention: Retention, pool: &Pool, thread_idle_max: Duration) -> Infallible {
    let mut observed: Option<Instant> = None;
    loop {
        let (asked, wall) = (Instant::now(), Stamp::now());
        let watched = observed.map_or(Duration::ZERO, |observed| asked.duration_since(observed));
        match store.observe_clock(ClockReading { wall_ms: wall.0, watched }).await {
            Ok(trusted) => {
                observed = Some(asked);
                let jump = wall.since(Stamp(trusted));
                if jump > Duration::ZERO {
                    tracing::warn!(?jump, "clock jumped ahead: retention follows it slowly");
                }
                remove(store, trusted, retention).await;
                // The pool goes by the wall clock.
                put_away(pool, thread_idle_max.saturating_add(jump)).await;
            }
            Err(error) => report_failure(&error),
        }
        sleep(INTERVAL).await;
    }
}

fn report_failure(error: &WriteError) {
    tracing::warn!(%error, "what is old was not removed from the store");
}

async fn remove(store: &Store, now: i64, retention: Retention) {
    match store.sweep(now, retention).await {
        Ok(swept) if swept == Swept::default() => {}
        Ok(Swept { approvals, audit, responses, parked_calls, usage, tool_audit, threads }) => tracing::info!(
            approvals,
            audit,
            responses,
            parked_calls,
            usage,
            tool_audit,
            threads,
            "removed what was old from the store"
        ),
        Err(error) => report_failure(&error),
    }
}

async fn put_away(pool: &Pool, thread_idle_max: Duration) {
    match pool.archive_idle(thread_idle_max).await {
        Ok(0) => {}
        Ok(threads) => tracing::info!(threads, "put threads away that nobody had used for long"),
        Err(error) => tracing::warn!(%error, "threads that nobody uses were not put away"),
    }
}
