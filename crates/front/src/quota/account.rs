//! The quotas of all keys that have limits, and the permit of one request, by which its turns run and are counted.
//! A request of a key counts for all its limited_keys, the key and those that it descends from, or for none of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use axum::http::{HeaderName, HeaderValue};
use store::{ReadError, Store, UsageFilter};
use workers::{At, LimitReached, PermitChange, TurnPermit};

use super::{Claim, Left, Moment, Quota, Reached};
use crate::error::{Code, Error};
use crate::keys::{Caller, Keys, LimitedKey, Revocation};
use crate::lock::lock;
use crate::written::written;

/// Lets requests through by what their keys have used.
pub(crate) struct Quotas {
    store: Store,
    keys: Arc<Keys>,
    accounts: Arc<Accounts>,
}

/// What the keys have used, of those that are not free to use everything.
#[derive(Default)]
pub(crate) struct Accounts {
    /// One lock for all: a request is checked against several of them before it takes anything of one.
    by_key: Mutex<HashMap<Arc<str>, Account>>,
    /// Which key descends from which; known once keys are.
    keys: OnceLock<Arc<Keys>>,
}

/// What one key has used, with all that descend from it.
struct Account {
    quota: Quota,
    revocation: Revocation,
}

/// That a request may go on, with what it may run its turns by.
pub(crate) struct Permit {
    accounts: Arc<Accounts>,
    /// Empty if the key has no limits.
    limited_keys: Arc<[LimitedKey]>,
    /// Of turns that have not begun.
    turns: Mutex<Vec<TurnPermit>>,
    /// What it says to each of them, in tokens.
    tokens: u64,
    left: Left,
    revocation: Revocation,
}

/// One turn, as it counts against the limits of its key. Dropped, it is over.
struct CountedTurn {
    accounts: Arc<Accounts>,
    limited_keys: Arc<[LimitedKey]>,
    tokens: u64,
    /// What each key has reserved for it, while it runs.
    reserved: Mutex<Option<Vec<u64>>>,
}

impl Quotas {
    pub(crate) fn new(store: Store, keys: Arc<Keys>, accounts: Arc<Accounts>) -> Self {
        accounts.keys.set(Arc::clone(&keys)).ok();
        Self { store, keys, accounts }
    }

    /// Lets a request through, or refuses it as a whole.
    pub(crate) async fn admit(&self, caller: &Caller, claim: Claim) -> Result<Permit, Error> {
        self.open_accounts(caller).await?;
        let (left, reserved) = self.accounts.admit(&caller.limited_keys, claim)?;
        let permit = self.permit(caller, claim.tokens, left);
        for _ in 0..claim.turns {
            lock(&permit.turns).push(permit.counted(reserved.clone()));
        }
        // A body takes its time to arrive.
        if permit.is_revoked() {
            return Err(Error::new(Code::KeyInvalid, "this key was revoked a moment ago"));
        }
        Ok(permit)
    }

    /// The permit of a turn that was let through in an earlier life: it counts, but is not refused.
    pub(crate) async fn resume(&self, caller: &Caller) -> Result<Permit, Error> {
        self.open_accounts(caller).await?;
        Ok(self.permit(caller, 0, Left::default()))
    }

    fn permit(&self, caller: &Caller, tokens: u64, left: Left) -> Permit {
        Permit {
            accounts: Arc::clone(&self.accounts),
            limited_keys: Arc::clone(&caller.limited_keys),
            turns: Mutex::default(),
            tokens,
            left,
            revocation: caller.revocation.clone(),
        }
    }

    async fn open_accounts(&self, caller: &Caller) -> Result<(), ReadError> {
        for limited_key in caller.limited_keys.iter() {
            if self.accounts.lock().contains_key(&limited_key.key) {
                continue;
            }
            let now = Moment::now();
            let tokens = match limited_key.limits.tokens_per_day {
                Some(_) => self.tokens_of_day(&limited_key.key, now).await?,
                None => 0,
            };
            let mut accounts = self.accounts.lock();
            accounts.retain(|_, account| !account.revocation.is_done());
            // Whoever came first meanwhile may have begun to spend.
            accounts.entry(Arc::clone(&limited_key.key)).or_insert_with(|| Account {
                quota: Quota::new(limited_key.limits, tokens, now),
                revocation: limited_key.revocation.clone(),
            });
        }
        Ok(())
    }

    /// What the key and its descendants had written down before this process counted.
    async fn tokens_of_day(&self, key: &Arc<str>, now: Moment) -> Result<u64, ReadError> {
        written(&self.store).await;
        let day = now.day().to_string();
        let of_key = move |key: Arc<str>| UsageFilter {
            key: Some(key.to_string()),
            from_day: Some(day.clone()),
            to_day: Some(day.clone()),
            thread: None,
        };
        let keys = std::iter::once(Arc::clone(key)).chain(self.keys.descendants(key));
        let filters: Vec<_> = keys.map(of_key).collect();
        let read = move |reader: &store::Reader| {
            filters.iter().map(|filter| reader.usage_of_days(filter, 1)).collect::<Result<Vec<_>, _>>()
        };
        let rows = self.store.read(read).await?;
        let tokens = rows.iter().flatten().map(|row| row.input.saturating_add(row.output)).fold(0, i64::saturating_add);
        Ok(u64::try_from(tokens).unwrap_or(0))
    }
}

impl Accounts {
    /// Takes tokens, read and written ones, from the day of a key and of those that it descends from. Those of a key that was
    /// not seen yet are read from the store.
    pub(crate) fn spend(&self, at: &At, tokens: u64) {
        self.each_of(&at.key, |quota| quota.spend(&at.turn, tokens, Moment::now()));
    }

    /// A turn is over, or waits: what it uses from here on is another answer.
    pub(crate) fn end_answer(&self, at: &At) {
        self.each_of(&at.key, |quota| quota.end_answer(&at.turn));
    }

    fn each_of(&self, key: &str, mut act: impl FnMut(&mut Quota)) {
        let keys = self.keys.get().map(|keys| keys.with_ancestors(key)).unwrap_or_default();
        let mut accounts = self.lock();
        for key in keys {
            if let Some(account) = accounts.get_mut(&key) {
                act(&mut account.quota);
            }
        }
    }

    /// Takes what a request needs of every limited key, or of none; what is left, and what each has reserved for one turn.
    fn admit(&self, limited_keys: &[LimitedKey], claim: Claim) -> Result<(Left, Vec<u64>), Error> {
        let (mut accounts, now) = (self.lock(), Moment::now());
        let refused =
            each(&mut accounts, limited_keys, |quota| quota.check(claim, now).err()).into_iter().flatten().next();
        let reserved = match refused {
            None => each(&mut accounts, limited_keys, |quota| quota.take(claim, now)),
            Some(_) => Vec::new(),
        };
        let left = each(&mut accounts, limited_keys, |quota| quota.left(now));
        let left = left.into_iter().fold(Left::default(), Left::within);
        refused.map_or(Ok((left, reserved)), |reached| Err(Error::from(reached).beside(left.headers())))
    }

    fn resume(&self, limited_keys: &[LimitedKey], tokens: u64) -> Vec<u64> {
        each(&mut self.lock(), limited_keys, |quota| quota.resume(tokens))
    }

    fn free(&self, limited_keys: &[LimitedKey], reserved: Vec<u64>) {
        let mut reserved = reserved.into_iter();
        each(&mut self.lock(), limited_keys, |quota| quota.free(reserved.next().unwrap_or(0)));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Account>> {
        lock(&self.by_key)
    }
}

/// What comes of each; those of revoked keys are gone, and give the default.
fn each<T: Default>(
    accounts: &mut HashMap<Arc<str>, Account>,
    limited_keys: &[LimitedKey],
    mut act: impl FnMut(&mut Quota) -> T,
) -> Vec<T> {
    let of = |limited_key: &LimitedKey| accounts.get_mut(&limited_key.key).map(|account| act(&mut account.quota));
    limited_keys.iter().map(of).map(Option::unwrap_or_default).collect()
}

impl Permit {
    /// What its next turn runs by. One beyond those that were let through takes the place of one that was lost: it counts, but is
    /// not refused.
    pub(crate) fn turn(&self) -> TurnPermit {
        let admitted = lock(&self.turns).pop();
        admitted.unwrap_or_else(|| self.counted(self.accounts.resume(&self.limited_keys, self.tokens)))
    }

    fn counted(&self, reserved: Vec<u64>) -> TurnPermit {
        if self.limited_keys.is_empty() {
            return TurnPermit::default();
        }
        let turn = self.counted_turn(reserved);
        TurnPermit::new(move |change| turn.change(change))
    }

    fn counted_turn(&self, reserved: Vec<u64>) -> CountedTurn {
        CountedTurn {
            accounts: Arc::clone(&self.accounts),
            limited_keys: Arc::clone(&self.limited_keys),
            tokens: self.tokens,
            reserved: Mutex::new(Some(reserved)),
        }
    }

    /// What is left of the key's limits, as headers of the response.
    pub(crate) fn headers(&self) -> impl Iterator<Item = (HeaderName, HeaderValue)> + use<> {
        self.left.headers()
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

impl CountedTurn {
    fn change(&self, change: PermitChange) -> Result<(), LimitReached> {
        let mut reserved = lock(&self.reserved);
        match change {
            PermitChange::Suspend => {
                if let Some(reserved) = reserved.take() {
                    self.accounts.free(&self.limited_keys, reserved);
                }
            }
            PermitChange::Resume | PermitChange::ResumeWithinLimits if reserved.is_some() => {}
            PermitChange::Resume => *reserved = Some(self.accounts.resume(&self.limited_keys, self.tokens)),
            PermitChange::ResumeWithinLimits => {
                let claim = Claim { requests: 0, turns: 1, tokens: self.tokens };
                let admitted = self.accounts.admit(&self.limited_keys, claim);
                *reserved = Some(admitted.map_err(|_| LimitReached)?.1);
            }
        }
        Ok(())
    }
}

impl Drop for CountedTurn {
    fn drop(&mut self) {
        self.change(PermitChange::Suspend).expect("a permit can always be suspended");
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
            Reached::Reserved(wait) => (
                Code::ConcurrencyExceeded,
                "the turns of this key that run may use what is left of its tokens of the day; wait until one has ended",
                wait,
            ),
            Reached::TokensForChoices(wait) => (
                Code::InsufficientQuota,
                "`n` answers may use more than is left of this key's tokens of the day; ask for fewer",
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

    const ONE: Claim = Claim { requests: 1, turns: 1, tokens: 0 };

    async fn open() -> (tempfile::TempDir, Arc<Keys>, Quotas) {
        let directory = tempfile::TempDir::new().unwrap();
        let store = Store::open(directory.path().join("store.db"), Limits::default()).unwrap();
        let (keys, _) = Keys::open(&store, None).await.unwrap();
        let keys = Arc::new(keys);
        let quotas = Quotas::new(store, Arc::clone(&keys), Arc::default());
        (directory, keys, quotas)
    }

    #[tokio::test]
    async fn a_turn_counts_until_its_permit_is_gone_whoever_has_it() {
        let (_directory, keys, quotas) = open().await;
        let limits = KeyLimits { turns_max: NonZeroU32::new(1), ..KeyLimits::default() };
        let key = keys.create(&quotas.store, "a caller", Grant { limits, ..Grant::of(Scopes::ALL) }).await.unwrap();
        let caller = keys.owner(&key.row.id).unwrap();
        let first = quotas.admit(&caller, ONE).await.unwrap();
        let refused = quotas.admit(&caller, ONE).await.err().unwrap();
        assert_eq!(refused.code(), Code::ConcurrencyExceeded);
        let turn = first.turn();
        drop(first);
        let refused = quotas.admit(&caller, ONE).await.err().unwrap();
        assert_eq!(refused.code(), Code::ConcurrencyExceeded, "the turn outlives its request");
        drop(turn);
        let second = quotas.admit(&caller, ONE).await.unwrap();
        let turns = [second.turn(), second.turn()];
        drop(second);
        for turn in turns {
            let refused = quotas.admit(&caller, ONE).await.err().unwrap();
            assert_eq!(refused.code(), Code::ConcurrencyExceeded, "one that takes the place of another counts too");
            drop(turn);
        }
        quotas.admit(&caller, ONE).await.unwrap();
    }

    #[tokio::test]
    async fn a_suspended_turn_goes_on_by_itself_only_within_the_limits() {
        let (_directory, keys, quotas) = open().await;
        let limits = KeyLimits { turns_max: NonZeroU32::new(1), ..KeyLimits::default() };
        let key = keys.create(&quotas.store, "a caller", Grant { limits, ..Grant::of(Scopes::ALL) }).await.unwrap();
        let caller = keys.owner(&key.row.id).unwrap();
        let permit = quotas.resume(&caller).await.unwrap();
        let waiting = permit.counted_turn(quotas.accounts.resume(&permit.limited_keys, 0));
        waiting.change(PermitChange::Suspend).unwrap();
        let other = quotas.admit(&caller, ONE).await.unwrap();
        assert_eq!(waiting.change(PermitChange::ResumeWithinLimits), Err(LimitReached));
        drop(other);
        for _ in 0..2 {
            assert_eq!(waiting.change(PermitChange::ResumeWithinLimits), Ok(()), "once it has its place, it keeps it");
        }
        assert_eq!(quotas.admit(&caller, ONE).await.err().unwrap().code(), Code::ConcurrencyExceeded);
        waiting.change(PermitChange::Suspend).unwrap();
        let _other = quotas.admit(&caller, ONE).await.unwrap();
        assert_eq!(waiting.change(PermitChange::Resume), Ok(()), "somebody allowed what it asked");
    }

    mod adversary {
        use std::num::NonZeroU64;

        use super::*;

        /// Two keys that one key has created, the second over the first.
        async fn line(keys: &Keys, quotas: &Quotas, limits: KeyLimits) -> [Caller; 3] {
            let grant = || Grant { limits, ..Grant::of(Scopes::ALL) };
            let root = keys.create(&quotas.store, "root", grant()).await.unwrap();
            let root = keys.owner(&root.row.id).unwrap();
            let child = keys.create_for(&quotas.store, "child", grant(), &root).await.unwrap();
            let child = keys.owner(&child.row.id).unwrap();
            let grandchild = keys.create_for(&quotas.store, "grandchild", grant(), &child).await.unwrap();
            let grandchild = keys.owner(&grandchild.row.id).unwrap();
            [root, child, grandchild]
        }

        #[tokio::test]
        async fn created_keys_share_the_limits_of_the_key_that_created_them() {
            let (_directory, keys, quotas) = open().await;
            let limits = KeyLimits { requests_per_minute: NonZeroU32::new(3), ..KeyLimits::default() };
            let line = line(&keys, &quotas, limits).await;
            for caller in &line {
                quotas.admit(caller, ONE).await.unwrap();
            }
            for caller in &line {
                // The grandchild has two of its own left, but its ancestors have none.
                assert_eq!(quotas.admit(caller, ONE).await.err().unwrap().code(), Code::RateLimited);
            }
        }

        #[tokio::test]
        async fn a_request_that_an_ancestor_cannot_pay_takes_nothing_of_the_others() {
            let (_directory, keys, quotas) = open().await;
            let limits = KeyLimits { turns_max: NonZeroU32::new(2), ..KeyLimits::default() };
            let [root, child, grandchild] = line(&keys, &quotas, limits).await;
            let of_root = quotas.admit(&root, ONE).await.unwrap();
            let of_child = quotas.admit(&child, ONE).await.unwrap();
            for _ in 0..3 {
                let refused = quotas.admit(&grandchild, ONE).await.err().unwrap();
                assert_eq!(refused.code(), Code::ConcurrencyExceeded);
            }
            drop((of_root, of_child));
            let _both = [quotas.admit(&grandchild, ONE).await.unwrap(), quotas.admit(&grandchild, ONE).await.unwrap()];
        }

        #[tokio::test]
        async fn tokens_of_a_created_key_are_spent_by_its_ancestors_also_before_they_were_seen() {
            let (_directory, keys, quotas) = open().await;
            let limits = KeyLimits { tokens_per_day: NonZeroU64::new(100), ..KeyLimits::default() };
            let [root, child, grandchild] = line(&keys, &quotas, limits).await;
            let day = Moment::now().day().to_string();
            let used = store::UsageAdded {
                key: grandchild.key.to_string(),
                thread: "t".into(),
                day,
                input: 30,
                cached: 0,
                output: 30,
                reasoning: 0,
                turns: 1,
                estimated: 0,
            };
            quotas.store.commit(vec![store::Change::Usage(used)]).await.unwrap();
            drop(quotas.admit(&root, ONE).await.unwrap());
            let at =
                At { thread: "t".into(), turn: "1".into(), worker: "main-0".into(), key: Arc::clone(&grandchild.key) };
            quotas.accounts.spend(&at, 40);
            assert_eq!(quotas.admit(&root, ONE).await.err().unwrap().code(), Code::InsufficientQuota);
            assert_eq!(quotas.admit(&child, ONE).await.err().unwrap().code(), Code::InsufficientQuota);
        }
    }
}
