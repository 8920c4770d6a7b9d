//! The quotas of all keys that have limits, and the permit of one request: while it lives, its turns count as running.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use axum::http::{HeaderName, HeaderValue};
use store::{ReadError, Store, UsageFilter};

use super::{Left, Moment, Quota, Reached};
use crate::error::{Code, Error};
use crate::keys::{Caller, Revocation};
use crate::lock::lock;
use crate::written::written;

/// Lets requests through by what their keys have used.
pub(crate) struct Quotas {
    store: Store,
    accounts: Arc<Accounts>,
}

/// What the keys have used, of those that are not free to use everything.
#[derive(Default)]
pub(crate) struct Accounts(Mutex<HashMap<Arc<str>, Arc<Account>>>);

/// What one key has used.
#[derive(Debug)]
struct Account {
    quota: Mutex<Quota>,
    revocation: Revocation,
}

/// That a request may go on. Dropped, its turns are over.
#[derive(Debug)]
pub(crate) struct Permit {
    /// `None` if the key has no limits.
    account: Option<Arc<Account>>,
    /// Those that are not over.
    turns: AtomicU32,
    left: Left,
    grounds: Grounds,
    revocation: Revocation,
}

/// Why a request was let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grounds {
    /// It is within the limits.
    Admitted,
    /// It goes on with a turn that was let through before.
    Resumed,
}

impl Quotas {
    pub(crate) fn new(store: Store, accounts: Arc<Accounts>) -> Self {
        Self { store, accounts }
    }

    /// Lets a request with so many turns through, or refuses it as a whole.
    pub(crate) async fn admit(&self, caller: &Caller, turns: u32) -> Result<Permit, Error> {
        let account = self.account(caller).await?;
        let left = account.as_ref().map(|account| account.admit(turns)).transpose()?.unwrap_or_default();
        let permit = Permit::new(account, turns, left, Grounds::Admitted, caller);
        // A body takes its time to arrive.
        if permit.is_revoked() {
            return Err(Error::new(Code::KeyInvalid, "this key was revoked a moment ago"));
        }
        Ok(permit)
    }

    /// The permit of a turn that was let through in an earlier life: it counts, but is not refused.
    pub(crate) async fn resume(&self, caller: &Caller) -> Result<Permit, Error> {
        let account = self.account(caller).await?;
        let left = account.as_ref().map(|account| account.quota().resume(1, Moment::now())).unwrap_or_default();
        Ok(Permit::new(account, 1, left, Grounds::Resumed, caller))
    }

    async fn account(&self, caller: &Caller) -> Result<Option<Arc<Account>>, ReadError> {
        if caller.limits.is_empty() {
            return Ok(None);
        }
        if let Some(account) = self.accounts.lock().get(&caller.key) {
            return Ok(Some(Arc::clone(account)));
        }
        let now = Moment::now();
        let tokens = match caller.limits.tokens_per_day {
            Some(_) => self.tokens_of_day(&caller.key, now).await?,
            None => 0,
        };
        let mut accounts = self.accounts.lock();
        accounts.retain(|_, account| !account.revocation.is_done());
        // Whoever came first meanwhile may have begun to spend.
        let account = accounts.entry(Arc::clone(&caller.key)).or_insert_with(|| {
            let quota = Mutex::new(Quota::new(caller.limits, tokens, now));
            Arc::new(Account { quota, revocation: caller.revocation.clone() })
        });
        Ok(Some(Arc::clone(account)))
    }

    /// What was written down before this process counted.
    async fn tokens_of_day(&self, key: &str, now: Moment) -> Result<u64, ReadError> {
        written(&self.store).await;
        let day = now.day().to_string();
        let filter =
            UsageFilter { key: Some(key.into()), from_day: Some(day.clone()), to_day: Some(day), thread: None };
        let rows = self.store.read(move |reader| reader.usage_of_days(&filter, 1)).await?;
        let tokens = rows.first().map_or(0, |row| row.input.saturating_add(row.output));
        Ok(u64::try_from(tokens).unwrap_or(0))
    }
}

impl Accounts {
    /// Takes tokens, read and written ones, from a key's day. Those of a key that was not seen yet are read from the store.
    pub(crate) fn spend(&self, key: &str, tokens: u64) {
        if let Some(account) = self.lock().get(key) {
            account.quota().spend(tokens, Moment::now());
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<Account>>> {
        lock(&self.0)
    }
}

impl Account {
    fn admit(&self, turns: u32) -> Result<Left, Error> {
        let (mut quota, now) = (self.quota(), Moment::now());
        quota.admit(turns, now).map_err(|reached| Error::from(reached).beside(quota.left(now).headers()))
    }

    fn quota(&self) -> MutexGuard<'_, Quota> {
        lock(&self.quota)
    }
}

impl Permit {
    fn new(account: Option<Arc<Account>>, turns: u32, left: Left, grounds: Grounds, caller: &Caller) -> Self {
        Self { account, turns: turns.into(), left, grounds, revocation: caller.revocation.clone() }
    }

    /// Another turn begins than the one that was to go on: then the limits count as for any other.
    pub(crate) fn begin_anew(&self) -> Result<(), Error> {
        match (&self.account, self.grounds) {
            // Its turn counts already.
            (Some(account), Grounds::Resumed) => account.admit(0).map(drop),
            _ => Ok(()),
        }
    }

    /// What is left of the key's limits, as headers of the response.
    pub(crate) fn headers(&self) -> impl Iterator<Item = (HeaderName, HeaderValue)> + use<> {
        self.left.headers()
    }

    /// Its turns are over: to be called before their end is told, as whoever hears it may ask for the next at once.
    pub(crate) fn end(&self) {
        if let Some(account) = &self.account {
            account.quota().free(self.turns.swap(0, Ordering::Relaxed));
        }
    }

    /// Whether the key was revoked since.
    pub(crate) fn is_revoked(&self) -> bool {
        self.revocation.is_done()
    }

    /// Done once the key is revoked.
    pub(crate) fn revoked(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut revocation = self.revocation.clone();
        async move { revocation.done().await }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.end();
    }
}

impl From<Reached> for Error {
    fn from(reached: Reached) -> Self {
        let (code, message, wait) = match reached {
            Reached::Requests(wait) => {
                (Code::RateLimited, "this key has sent as many requests as it may in a minute; wait, then go on", wait)
            }
            Reached::Turns(wait) => (
                Code::ConcurrencyExceeded,
                "as many turns of this key run as may at the same time; wait until one has ended",
                wait,
            ),
            Reached::Tokens(wait) => (
                Code::InsufficientQuota,
                "this key has used its tokens of the day; it has new ones after midnight UTC",
                wait,
            ),
        };
        Self::new(code, message).retry_after(wait)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use store::Limits;

    use super::*;
    use crate::keys::{Grant, KeyLimits, Keys, Scopes};

    #[tokio::test]
    async fn the_turns_of_a_permit_are_over_when_it_is_ended_and_once() {
        let directory = tempfile::TempDir::new().unwrap();
        let store = Store::open(directory.path().join("store.db"), Limits::default()).unwrap();
        let (keys, _) = Keys::open(&store, None).await.unwrap();
        let limits = KeyLimits { turns_max: NonZeroU32::new(1), ..KeyLimits::default() };
        let key = keys.create(&store, "a caller", Grant { limits, ..Grant::of(Scopes::ALL) }).await.unwrap();
        let caller = keys.owner(&key.row.id).unwrap();
        let quotas = Quotas::new(store, Arc::default());
        let first = quotas.admit(&caller, 1).await.unwrap();
        let refused = quotas.admit(&caller, 1).await.unwrap_err();
        assert_eq!(refused.code(), Code::ConcurrencyExceeded);
        first.end();
        let _second = quotas.admit(&caller, 1).await.unwrap();
        drop(first);
        let refused = quotas.admit(&caller, 1).await.unwrap_err();
        assert_eq!(refused.code(), Code::ConcurrencyExceeded, "it does not end the other's turn");
    }
}
