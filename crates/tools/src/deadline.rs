//! Waits until a moment, if there is one.

use std::future::pending;
use std::time::Instant;

/// Waits until then; for ever, if that is never.
pub(crate) async fn reached(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => pending().await,
    }
}
