//! The tokens with which workers call tools: random, one for each worker that is started, valid while it runs. Only the
//! worker has the text, in its environment. We keep hashes, those of detached workers in the ledger, where the next
//! Switchboard finds them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use store::{NoRandomness, SecretHash, random_hex};

/// The random part of a token.
const RANDOM_BYTES: usize = 32;

/// The tokens that are valid now. Clones are one and the same.
#[derive(Clone, Default)]
pub struct WorkerTokens {
    by_worker: Arc<RwLock<BTreeMap<Box<str>, IssuedToken>>>,
}

struct IssuedToken {
    group: Box<str>,
    hash: SecretHash,
}

/// The token of one worker. It is never part of a log.
pub struct WorkerToken {
    text: String,
    hash: SecretHash,
}

impl WorkerTokens {
    /// A token for a worker that is about to be started. The one that it had before is not valid any more.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn issue(&self, group: &str, worker: &str) -> Result<WorkerToken, NoRandomness> {
        let text = format!("sb_worker-{group}_{}", random_hex::<RANDOM_BYTES>()?);
        let hash = SecretHash::of(&text);
        self.restore(group, worker, hash);
        Ok(WorkerToken { text, hash })
    }

    /// The group of the worker that has this token.
    #[must_use]
    pub fn group_of(&self, text: &str) -> Option<Box<str>> {
        let hash = SecretHash::of(text);
        self.read().values().find(|issued| issued.hash == hash).map(|issued| issued.group.clone())
    }

    /// Makes the token of a worker valid that an earlier Switchboard has started.
    pub(crate) fn restore(&self, group: &str, worker: &str, hash: SecretHash) {
        self.write().insert(worker.into(), IssuedToken { group: group.into(), hash });
    }

    /// Makes the token of a worker that has ended invalid.
    pub(crate) fn revoke(&self, worker: &str) {
        self.write().remove(worker);
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<Box<str>, IssuedToken>> {
        self.by_worker.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<Box<str>, IssuedToken>> {
        self.by_worker.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WorkerToken {
    /// The token itself.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn hash(&self) -> SecretHash {
        self.hash
    }
}

impl fmt::Debug for WorkerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WorkerToken(…)")
    }
}

#[cfg(test)]
mod tests {
    use store::SecretHash;

    use super::WorkerTokens;

    #[test]
    fn each_start_of_a_worker_has_a_token_of_its_own() {
        let tokens = WorkerTokens::default();
        let (first, other) = (tokens.issue("main", "main-0").unwrap(), tokens.issue("main", "main-1").unwrap());
        assert_ne!(first.text(), other.text());
        assert_eq!(tokens.group_of(first.text()).as_deref(), Some("main"));
        let second = tokens.issue("main", "main-0").unwrap();
        assert_eq!(tokens.group_of(first.text()), None, "the earlier token is not valid any more");
        assert_eq!(tokens.group_of(second.text()).as_deref(), Some("main"));
        tokens.revoke("main-0");
        assert_eq!(tokens.group_of(second.text()), None);
        assert_eq!(tokens.group_of(other.text()).as_deref(), Some("main"));
        assert_eq!(tokens.group_of(""), None);
    }

    #[test]
    fn a_token_is_valid_again_by_its_hash_alone() {
        let token = WorkerTokens::default().issue("main", "main-0").unwrap();
        let kept = token.hash().to_hex();
        assert!(!token.text().contains(&kept));
        let next = WorkerTokens::default();
        next.restore("main", "main-0", SecretHash::from_hex(&kept).unwrap());
        assert_eq!(next.group_of(token.text()).as_deref(), Some("main"));
        assert_eq!(next.group_of(&kept), None, "the hash is no token");
    }

    #[test]
    fn no_debug_output_holds_a_token() {
        let token = WorkerTokens::default().issue("main", "main-0").unwrap();
        assert!(!format!("{token:?}").contains("sb_"));
    }
}
