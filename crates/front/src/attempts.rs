//! How often an address has sent a wrong key: pure, bounded, told the time.
//! Each address may fail a few times at once and then once in a while. Beyond that it is refused unread, unless what it
//! sends is too long to be guessed: so guessing is slow, and a caller with a real key is never locked out by a neighbour.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// What an address may do.
#[derive(Clone, Debug)]
pub struct AttemptLimits {
    /// How many wrong keys in a row.
    pub failures_max: u32,
    /// How long until one of them is forgotten.
    pub forgive_after: Duration,
    /// How many addresses are remembered; beyond it the one that was quiet for longest is forgotten.
    pub addresses_max: usize,
}

impl Default for AttemptLimits {
    fn default() -> Self {
        Self { failures_max: 20, forgive_after: Duration::from_secs(3), addresses_max: 1024 }
    }
}

/// The failures of every address.
pub(crate) struct Attempts {
    limits: AttemptLimits,
    failures: HashMap<IpAddr, Failures>,
}

struct Failures {
    count: u32,
    since: Instant,
}

impl Attempts {
    pub(crate) fn new(limits: AttemptLimits) -> Self {
        Self { limits, failures: HashMap::new() }
    }

    /// How long this address has to wait before it may try again; nothing if it may now.
    pub(crate) fn wait(&mut self, address: IpAddr, now: Instant) -> Option<Duration> {
        let failures = self.failures.get_mut(&network(address))?;
        failures.forgive(&self.limits, now);
        let forgiven_at = failures.since + self.limits.forgive_after;
        (failures.count >= self.limits.failures_max).then(|| forgiven_at.saturating_duration_since(now))
    }

    /// Takes down a wrong key.
    pub(crate) fn handle_failure(&mut self, address: IpAddr, now: Instant) {
        let address = network(address);
        if !self.failures.contains_key(&address) && self.failures.len() >= self.limits.addresses_max {
            self.forget_quietest();
        }
        let failures = self.failures.entry(address).or_insert(Failures { count: 0, since: now });
        failures.forgive(&self.limits, now);
        failures.count = (failures.count + 1).min(self.limits.failures_max);
    }

    fn forget_quietest(&mut self) {
        if let Some(address) =
            self.failures.iter().min_by_key(|(_, failures)| failures.since).map(|(address, _)| *address)
        {
            self.failures.remove(&address);
        }
    }
}

impl Failures {
    fn forgive(&mut self, limits: &AttemptLimits, now: Instant) {
        let passed = now.saturating_duration_since(self.since).as_nanos() / limits.forgive_after.as_nanos().max(1);
        let forgiven = u32::try_from(passed).unwrap_or(u32::MAX).min(self.count);
        if forgiven == self.count {
            *self = Self { count: 0, since: now };
        } else {
            self.count -= forgiven;
            self.since += limits.forgive_after * forgiven;
        }
    }
}

/// One host of IPv6 has a whole /64 to itself.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::time::{Duration, Instant};

    use super::{AttemptLimits, Attempts};

    const LIMITS: AttemptLimits =
        AttemptLimits { failures_max: 3, forgive_after: Duration::from_secs(10), addresses_max: 2 };

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_that_fails_too_often_waits_and_no_other_does() {
        let (mut attempts, now) = (Attempts::new(LIMITS), Instant::now());
        for _ in 0..3 {
            assert_eq!(attempts.wait(address("10.0.0.1"), now), None);
            attempts.handle_failure(address("10.0.0.1"), now);
        }
        assert_eq!(attempts.wait(address("10.0.0.1"), now), Some(Duration::from_secs(10)));
        assert_eq!(attempts.wait(address("10.0.0.2"), now), None);
    }

    #[test]
    fn failures_are_forgiven_one_by_one() {
        let (mut attempts, now) = (Attempts::new(LIMITS), Instant::now());
        for _ in 0..9 {
            attempts.handle_failure(address("10.0.0.1"), now);
        }
        let later = now + Duration::from_secs(12);
        assert_eq!(attempts.wait(address("10.0.0.1"), later), None);
        attempts.handle_failure(address("10.0.0.1"), later);
        assert_eq!(attempts.wait(address("10.0.0.1"), later), Some(Duration::from_secs(8)));
        assert_eq!(attempts.wait(address("10.0.0.1"), later + Duration::from_secs(3600)), None);
    }

    #[test]
    fn the_addresses_of_one_ipv6_network_are_one_and_the_table_stays_small() {
        let (mut attempts, now) = (Attempts::new(LIMITS), Instant::now());
        for host in 0..1000_u32 {
            attempts.handle_failure(address(&format!("2001:db8::{host:x}")), now);
        }
        assert!(attempts.wait(address("2001:db8::ffff:1"), now).is_some());
        for host in 0..250 {
            attempts.handle_failure(address(&format!("10.0.0.{host}")), now + Duration::from_secs(host));
        }
        assert_eq!(attempts.failures.len(), 2);
    }
}
