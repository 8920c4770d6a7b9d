//! Ids that never repeat in a run: UUIDs of version 7 and numbers, both from one counter over a seed.
//!
//! Clock and process id give only the seed, once. It scatters the ids of two workers, or of two runs on one home, so far
//! that they share one only by a chance of less than one in a billion. A script that names its seed gets the same ids
//! every time.

use crate::clock::Now;

/// The milliseconds that seeded ids count from.
const SEEDED_BASE_MS: u64 = 1_000_000_000_000;

/// The counter.
#[derive(Debug)]
pub(crate) struct Ids {
    base_ms: u64,
    seed: u64,
    numbers_from: u64,
    count: u64,
}

impl Ids {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self { base_ms: SEEDED_BASE_MS, seed, numbers_from: 0, count: 0 }
    }

    pub(crate) fn fresh(now: Now) -> Self {
        // A time has 42 bits until the year 2109, a process id 22.
        let seed = mixed(now.unix_ms ^ (u64::from(std::process::id()) << 42));
        Self { base_ms: now.unix_ms, seed, numbers_from: mixed(seed) >> 1, count: 0 }
    }

    /// A UUID of version 7; later ones sort after earlier ones.
    pub(crate) fn uuid(&mut self) -> String {
        self.count += 1;
        let ms = self.base_ms + self.count;
        let noise = mixed(self.seed ^ self.count);
        format!(
            "{:08x}-{:04x}-7{:03x}-{:04x}-{:012x}",
            (ms >> 16) & 0xffff_ffff,
            ms & 0xffff,
            self.count & 0xfff,
            0x8000 | (noise >> 50),
            noise & 0xffff_ffff_ffff,
        )
    }

    /// A number that item ids are made of; in a seeded run they count from 1.
    pub(crate) fn number(&mut self) -> u64 {
        self.count += 1;
        self.numbers_from + self.count
    }
}

/// One step of splitmix64.
fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Instant;

    use super::Ids;
    use crate::clock::Now;

    #[test]
    fn uuids_are_of_version_7_and_sort_by_age() {
        let mut ids = Ids::seeded(1);
        let made: Vec<String> = (0..5000).map(|_| ids.uuid()).collect();
        assert!(made.is_sorted());
        assert!(
            made.iter()
                .all(|id| id.len() == 36 && id.as_bytes()[14] == b'7' && matches!(id.as_bytes()[19], b'8'..=b'b'))
        );
    }

    #[test]
    fn runs_that_begin_a_millisecond_apart_share_no_id() {
        let ids = |unix_ms| {
            let mut ids = Ids::fresh(Now { instant: Instant::now(), unix_ms });
            (0..5000).flat_map(|_| [ids.uuid(), ids.number().to_string()]).collect::<BTreeSet<_>>()
        };
        let (first, second) = (ids(1_800_000_000_000), ids(1_800_000_000_001));
        assert_eq!((first.len(), first.intersection(&second).count()), (10_000, 0));
    }

    #[test]
    fn one_seed_gives_the_same_ids() {
        assert_eq!(Ids::seeded(7).uuid(), Ids::seeded(7).uuid());
        assert_ne!(Ids::seeded(7).uuid(), Ids::seeded(8).uuid());
    }
}
