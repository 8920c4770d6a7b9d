//! A moment's patience with the store, for those who ask for what was noted just now.

use std::time::Duration;

use store::Store;
use tokio::time::timeout;

/// How long what was noted last may take to be readable.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Waits for what was noted a moment ago, but not for a disk that takes nothing.
pub(crate) async fn written(store: &Store) {
    _ = timeout(FLUSH_TIMEOUT, store.flush()).await;
}
