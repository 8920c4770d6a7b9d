//! The end of a key, for those who act in its name and must stop then: it can be asked for and waited for.

use tokio::sync::watch;

/// Where the end of a key is told.
#[derive(Clone, Debug)]
pub(super) struct Revoker(watch::Sender<bool>);

/// Tells whether the key is revoked.
#[derive(Clone, Debug)]
pub(crate) struct Revocation(watch::Receiver<bool>);

impl Revoker {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    pub(super) fn revoke(&self) {
        self.0.send_replace(true);
    }

    pub(super) fn revocation(&self) -> Revocation {
        Revocation(self.0.subscribe())
    }
}

impl Revocation {
    pub(crate) fn is_done(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until the key is revoked; for ever if it never is. Cancel-safe.
    pub(crate) async fn done(&mut self) {
        if self.0.wait_for(|is_revoked| *is_revoked).await.is_err() {
            std::future::pending().await
        }
    }
}
