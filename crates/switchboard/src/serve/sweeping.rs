//! What is old is removed from the store, at the start and then every hour.

use std::convert::Infallible;
use std::time::Duration;

use approvals::Stamp;
use store::{Retention, Store, Swept};
use tokio::time::sleep;

const INTERVAL: Duration = Duration::from_hours(1);

/// Sweeps for ever. A sweep that fails is left to the next one: the store says by itself that it is not well.
pub(super) async fn sweep(store: &Store, retention: Retention) -> Infallible {
    loop {
        match store.sweep(Stamp::now().0, retention).await {
            Ok(swept) if swept == Swept::default() => {}
            Ok(Swept { approvals, audit, responses, parked_calls, usage }) => {
                tracing::info!(approvals, audit, responses, parked_calls, usage, "removed what was old from the store");
            }
            Err(error) => tracing::warn!(%error, "what is old was not removed from the store"),
        }
        sleep(INTERVAL).await;
    }
}
