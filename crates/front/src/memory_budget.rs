//! One budget for the memory that requests hold: bodies as they arrive, requests as they are parsed, what WebSockets receive
//! and remember, and what is read from the store for a request. Each of these has a limit of its own as well; the budget bounds
//! their sum, so that many callers within their limits cannot exhaust the machine. One key gets at most half of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;

use crate::error::{Code, Error};
use crate::lock::lock;

/// When to try again: requests give their memory back as soon as their turns begin.
const RETRY: Duration = Duration::from_secs(1);

/// One key may hold the budget divided by this.
const KEY_SHARE_DIVISOR: usize = 2;

/// One key may hold the budget divided by this even where others hold all of it: enough for a short request.
const KEY_RESERVE_DIVISOR: usize = 4096;

/// Counts what requests hold.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    bytes_max: usize,
    used: Mutex<UsedMemory>,
}

#[derive(Debug, Default)]
struct UsedMemory {
    bytes: usize,
    by_key: HashMap<Arc<str>, usize>,
}

impl UsedMemory {
    fn of_key(&self, key: &Arc<str>) -> usize {
        self.by_key.get(key).copied().unwrap_or_default()
    }
}

/// Memory that one request or WebSocket has taken from the budget. Dropped, it goes back.
#[derive(Debug)]
pub(crate) struct MemoryLease {
    budget: Arc<MemoryBudget>,
    key: Arc<str>,
    bytes: usize,
}

impl MemoryBudget {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, used: Mutex::default() }
    }

    /// A lease of nothing yet, for this key.
    pub(crate) fn lease(self: &Arc<Self>, key: &Arc<str>) -> MemoryLease {
        MemoryLease { budget: Arc::clone(self), key: Arc::clone(key), bytes: 0 }
    }

    /// How many bytes are leased.
    pub(crate) fn used(&self) -> usize {
        lock(&self.used).bytes
    }
}

impl MemoryLease {
    /// Makes it this large, or leaves it as it is if the budget does not allow that. A smaller lease is always allowed.
    pub(crate) fn resize(&mut self, bytes: usize) -> Result<(), Error> {
        let budget = Arc::clone(&self.budget);
        let mut used = lock(&budget.used);
        if bytes > self.bytes {
            let bytes_max = budget.bytes_max;
            self.check_can_fit(bytes)?;
            let of_key = (used.of_key(&self.key) - self.bytes).saturating_add(bytes);
            let of_all = (used.bytes - self.bytes).saturating_add(bytes);
            if of_all > bytes_max && of_key > bytes_max / KEY_RESERVE_DIVISOR {
                return Err(memory_exhausted().caused_by(format_args!("key {} asked for {bytes} bytes", self.key)));
            }
            if of_key > bytes_max / KEY_SHARE_DIVISOR {
                let why = "the requests of this key hold as much memory as they may; try again soon";
                let cause = format_args!("key {} holds {} bytes", self.key, of_key - bytes + self.bytes);
                return Err(Error::new(Code::MemoryExhausted, why).retry_after(RETRY).caused_by(cause));
            }
        }
        self.set(&mut used, bytes);
        Ok(())
    }

    fn set(&mut self, used: &mut UsedMemory, bytes: usize) {
        used.bytes = used.bytes - self.bytes + bytes;
        match used.of_key(&self.key) - self.bytes + bytes {
            0 => drop(used.by_key.remove(&self.key)),
            held => drop(used.by_key.insert(Arc::clone(&self.key), held)),
        }
        self.bytes = bytes;
    }

    /// Fails if one key can never hold so many bytes.
    pub(crate) fn check_can_fit(&self, bytes: usize) -> Result<(), Error> {
        let bytes_max = self.budget.bytes_max / KEY_SHARE_DIVISOR;
        if bytes <= bytes_max {
            return Ok(());
        }
        let kibibytes = |bytes: usize| bytes.div_ceil(1024);
        Err(Error::new(
            Code::BodyTooLarge,
            format!(
                "the request, with what it continues, needs at least {} KiB of memory, and the requests of one key may hold {} KiB \
                 ([limits] memory_bytes_max); send less",
                kibibytes(bytes),
                kibibytes(bytes_max),
            ),
        ))
    }

    /// Makes it at least this large.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> Result<(), Error> {
        self.resize(self.bytes.max(bytes))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The key that it belongs to.
    pub(crate) fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// Makes it larger by so many bytes.
    pub(crate) fn grow_by(&mut self, bytes: usize) -> Result<(), Error> {
        self.resize(self.bytes.saturating_add(bytes))
    }

    /// Takes over what another lease of the same key and budget holds.
    pub(crate) fn absorb(&mut self, mut other: Self) {
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// The text of an answer as bytes that hold the lease until they are sent. The lease becomes as large as they are, even
    /// beyond the budget: the answer is made, and a refusal would take it from its caller.
    pub(crate) fn hold_text(mut self, text: String) -> Bytes {
        let budget = Arc::clone(&self.budget);
        self.set(&mut lock(&budget.used), text.len());
        self.hold(text.into_bytes())
    }

    /// The buffer as bytes that hold the lease for as long as any part of them is kept.
    pub(crate) fn hold(self, buffer: Vec<u8>) -> Bytes {
        Bytes::from_owner(HeldBuffer { buffer, _memory: self })
    }

    /// Moves up to so many bytes of it into a lease of their own.
    pub(crate) fn split(&mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self { budget: Arc::clone(&self.budget), key: Arc::clone(&self.key), bytes }
    }
}

struct HeldBuffer {
    buffer: Vec<u8>,
    _memory: MemoryLease,
}

impl AsRef<[u8]> for HeldBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for MemoryLease {
    fn drop(&mut self) {
        self.resize(0).expect("a smaller lease is always allowed");
    }
}

pub(crate) fn memory_exhausted() -> Error {
    let why = "all requests together hold as much memory as they may; try again soon";
    Error::new(Code::MemoryExhausted, why).retry_after(RETRY)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(resized: Result<(), Error>) -> String {
        resized.map_or_else(|error| error.message().to_owned(), |()| "ok".to_owned())
    }

    #[test]
    fn leases_of_all_keys_stay_within_the_budget() {
        let budget = Arc::new(MemoryBudget::new(100));
        let mut leases: Vec<_> = ["a", "b", "c"].map(|key| budget.lease(&key.into())).into();
        assert_eq!(message(leases[0].resize(50)), "ok");
        assert_eq!(message(leases[1].resize(40)), "ok");
        assert_eq!(
            message(leases[2].resize(11)),
            "all requests together hold as much memory as they may; try again soon"
        );
        assert_eq!(budget.used(), 90, "a refused lease takes nothing");
        leases.remove(0);
        assert_eq!(message(leases[1].resize(11)), "ok");
        assert_eq!(budget.used(), 51);
    }

    #[test]
    fn one_key_gets_at_most_half() {
        let budget = Arc::new(MemoryBudget::new(100));
        let key = "a".into();
        let (mut first, mut second) = (budget.lease(&key), budget.lease(&key));
        assert_eq!(message(first.resize(30)), "ok");
        assert_eq!(
            message(second.resize(21)),
            "the requests of this key hold as much memory as they may; try again soon"
        );
        assert_eq!(message(second.resize(20)), "ok");
        assert_eq!(message(budget.lease(&"b".into()).resize(50)), "ok");
    }

    #[test]
    fn sent_text_gives_its_memory_back() {
        let budget = Arc::new(MemoryBudget::new(100));
        let mut lease = budget.lease(&"a".into());
        assert_eq!(message(lease.resize(50)), "ok");
        let bytes = lease.hold_text("12345".to_owned());
        assert_eq!((&bytes[..], budget.used()), (&b"12345"[..], 5));
        let rest = bytes.slice(3..);
        drop(bytes);
        assert_eq!(budget.used(), 5);
        drop(rest);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn an_answer_counts_even_beyond_the_budget() {
        let budget = Arc::new(MemoryBudget::new(10));
        let bytes = budget.lease(&"a".into()).hold_text("x".repeat(20));
        assert_eq!(budget.used(), 20);
        assert!(budget.lease(&"b".into()).resize(1).is_err());
        drop(bytes);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_key_has_room_for_a_short_request_when_others_hold_everything() {
        let budget = Arc::new(MemoryBudget::new(3 * KEY_RESERVE_DIVISOR));
        let mut leases = ["a", "b", "c"].map(|key| budget.lease(&key.into()));
        for lease in &mut leases[..2] {
            lease.resize(3 * KEY_RESERVE_DIVISOR / KEY_SHARE_DIVISOR).unwrap();
        }
        assert!(leases[2].resize(4).is_err());
        leases[2].resize(3).unwrap();
    }

    #[test]
    fn a_split_lease_goes_back_in_two_parts() {
        let budget = Arc::new(MemoryBudget::new(100));
        let mut whole = budget.lease(&"a".into());
        assert_eq!(message(whole.resize(30)), "ok");
        let part = whole.split(10);
        drop(whole);
        assert_eq!(budget.used(), 10);
        drop(part);
        assert_eq!(budget.used(), 0);
        assert!(lock(&budget.used).by_key.is_empty(), "a key that holds nothing is forgotten");
    }
}
