//! How often wrong keys came, by network and in all: pure, bounded, told the time.
//! Each network may fail a few times at once and then once in a while, and so may all of them together, because whoever has
//! many addresses has many networks. Beyond that a key is refused unread, unless it is too long to be guessed: so guessing is
//! slow, and a caller with a real key is never locked out by a neighbour.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

/// How many wrong keys may come.
#[derive(Clone, Debug)]
pub struct AttemptLimits {
    /// How many wrong keys in a row of one network.
    pub failures_max: u32,
    /// How long until one of them is forgotten.
    pub forgive_after: Duration,
    /// How many wrong keys in a row of all networks together.
    pub failures_in_all_max: u32,
    /// How long until one of them is forgotten.
    pub forgive_in_all_after: Duration,
    /// How many networks are remembered; beyond it the one that was quiet for longest is forgotten.
    pub networks_max: usize,
}

impl Default for AttemptLimits {
    fn default() -> Self {
        Self {
            failures_max: 20,
            forgive_after: Duration::from_secs(3),
            failures_in_all_max: 200,
            forgive_in_all_after: Duration::from_millis(300),
            networks_max: 1024,
        }
    }
}

/// The failures of every network.
pub(crate) struct Attempts {
    limits: AttemptLimits,
    of_networks: HashMap<IpAddr, Failures>,
    in_all: Failures,
}

#[derive(Clone, Copy)]
struct Failures {
    count: u32,
    since: Instant,
}

/// How many failures are borne, and how fast they are forgotten.
#[derive(Clone, Copy)]
struct FailureLimit {
    max: u32,
    forgive_after: Duration,
}

impl Attempts {
    pub(crate) fn new(limits: AttemptLimits, now: Instant) -> Self {
        Self { limits, of_networks: HashMap::new(), in_all: Failures { count: 0, since: now } }
    }

    /// How long this address has to wait before it may try again; nothing if it may now.
    pub(crate) fn wait(&mut self, address: IpAddr, now: Instant) -> Option<Duration> {
        let (of_network, in_all) = (self.limits.of_network(), self.limits.in_all());
        let own = self.of_networks.get_mut(&network(address)).and_then(|failures| failures.wait(of_network, now));
        own.max(self.in_all.wait(in_all, now))
    }

    /// Takes down a wrong key.
    pub(crate) fn handle_failure(&mut self, address: IpAddr, now: Instant) {
        let network = network(address);
        if !self.of_networks.contains_key(&network) && self.of_networks.len() >= self.limits.networks_max {
            self.forget_quietest();
        }
        let own = self.of_networks.entry(network).or_insert(Failures { count: 0, since: now });
        own.add(self.limits.of_network(), now);
        self.in_all.add(self.limits.in_all(), now);
    }

    fn forget_quietest(&mut self) {
        let quietest = self.of_networks.iter().min_by_key(|(_, failures)| failures.since);
        if let Some(network) = quietest.map(|(network, _)| *network) {
            self.of_networks.remove(&network);
        }
    }
}

impl AttemptLimits {
    fn of_network(&self) -> FailureLimit {
        FailureLimit { max: self.failures_max, forgive_after: self.forgive_after }
    }

    fn in_all(&self) -> FailureLimit {
        FailureLimit { max: self.failures_in_all_max, forgive_after: self.forgive_in_all_after }
    }
}

impl Failures {
    fn add(&mut self, bound: FailureLimit, now: Instant) {
        self.forgive(bound, now);
        self.count = (self.count + 1).min(bound.max);
    }

    fn wait(&mut self, bound: FailureLimit, now: Instant) -> Option<Duration> {
        self.forgive(bound, now);
        let forgiven_at = self.since + bound.forgive_after;
        (self.count >= bound.max).then(|| forgiven_at.saturating_duration_since(now))
    }

    fn forgive(&mut self, bound: FailureLimit, now: Instant) {
        let passed = now.saturating_duration_since(self.since).as_nanos() / bound.forgive_after.as_nanos().max(1);
        let forgiven = u32::try_from(passed).unwrap_or(u32::MAX).min(self.count);
        if forgiven == self.count {
            *self = Self { count: 0, since: now };
        } else {
            self.count -= forgiven;
            self.since += bound.forgive_after * forgiven;
        }
    }
}

/// The network of an address: all of loopback, a /24 of IPv4, a /64 of IPv6, which one host has to itself.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        address if address.is_loopback() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() & 0xffff_ff00).into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::time::{Duration, Instant};

    use super::{AttemptLimits, Attempts};

    const LIMITS: AttemptLimits = AttemptLimits {
        failures_max: 3,
        forgive_after: Duration::from_secs(10),
        failures_in_all_max: 2000,
        forgive_in_all_after: Duration::from_secs(1),
        networks_max: 2,
    };

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_network_that_fails_too_often_waits_and_no_other_does() {
        let now = Instant::now();
        let mut attempts = Attempts::new(LIMITS, now);
        for host in 1..=3 {
            assert_eq!(attempts.wait(address("10.0.0.1"), now), None);
            attempts.handle_failure(address(&format!("10.0.0.{host}")), now);
        }
        assert_eq!(attempts.wait(address("10.0.0.255"), now), Some(Duration::from_secs(10)));
        assert_eq!(attempts.wait(address("10.0.1.1"), now), None);
    }

    #[test]
    fn failures_are_forgiven_one_by_one() {
        let now = Instant::now();
        let mut attempts = Attempts::new(LIMITS, now);
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
    fn the_addresses_of_one_network_are_one_and_the_table_stays_small() {
        let now = Instant::now();
        let mut attempts = Attempts::new(LIMITS, now);
        for host in 0..1000_u32 {
            attempts.handle_failure(address(&format!("2001:db8::{host:x}")), now);
        }
        assert!(attempts.wait(address("2001:db8::ffff:1"), now).is_some());
        for host in 0..250 {
            attempts.handle_failure(address(&format!("10.0.{host}.1")), now + Duration::from_secs(host));
        }
        assert_eq!(attempts.of_networks.len(), 2);
    }

    mod adversary {
        use super::*;

        #[test]
        fn all_of_loopback_is_one_network() {
            let now = Instant::now();
            let mut attempts = Attempts::new(LIMITS, now);
            for one in ["127.0.0.1", "127.200.3.4", "::ffff:127.9.9.9"] {
                attempts.handle_failure(address(one), now);
            }
            for other in ["127.77.0.5", "::1", "::ffff:127.0.0.1"] {
                assert!(attempts.wait(address(other), now).is_some(), "{other}");
            }
        }

        #[test]
        fn many_networks_together_are_bounded() {
            let now = Instant::now();
            let mut attempts = Attempts::new(AttemptLimits::default(), now);
            let tries = (0..65_536_u32).filter(|number| {
                let guesser = address(&format!("198.{}.{}.1", number >> 8, number & 255));
                let may_try = attempts.wait(guesser, now).is_none();
                if may_try {
                    attempts.handle_failure(guesser, now);
                }
                may_try
            });
            assert_eq!(tries.count(), 200);
            assert_eq!(attempts.wait(address("203.0.113.1"), now), Some(Duration::from_millis(300)));
        }
    }
}
