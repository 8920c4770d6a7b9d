//! What is measured of a server from time to time, and what it must not become.

use std::fmt;
use std::fs;
use std::path::Path;
use std::time::Duration;

use testkit::processes;

/// How much more than in the first half the second may have at most: an allocator gives back late, and load comes in waves.
const MEMORY_GROWTH_PERCENT_MAX: u64 = 15;
const MEMORY_GROWTH_BYTES_MAX: u64 = 8 << 20;
const DESCRIPTORS_GROWTH_MAX: u64 = 32;
/// Those that wait for a disk or a process come and go with the load.
const THREADS_MAX: u64 = 64;
const CHILDREN_GROWTH_MAX: u64 = 2;
/// What a request may leave in the store, on average: it keeps what has ended for days.
const STORE_BYTES_PER_REQUEST_MAX: u64 = 32 << 10;
/// The log of the store is written back once it is so long.
const STORE_LOG_BYTES_MAX: u64 = 16 << 20;
/// The part of the time in which everything fills for the first time.
const WARM_UP: (usize, usize) = (1, 5);
/// How many rows are printed.
const ROWS: usize = 20;

/// What a server has at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Sample {
    at: Duration,
    finished: u64,
    memory: u64,
    descriptors: u64,
    threads: u64,
    children: u64,
    /// Children that have ended and were not waited for.
    zombies: Vec<u32>,
    store_bytes: u64,
}

/// All samples, in order.
#[derive(Default)]
pub(super) struct Series(Vec<Sample>);

impl Sample {
    pub(super) fn of(pid: u32, state: &Path, at: Duration, finished: u64) -> Self {
        let children = processes::children(pid);
        let zombies = children.iter().copied().filter(|child| processes::is_zombie(*child)).collect();
        let bytes = |name: &str| fs::metadata(state.join(name)).map_or(0, |file| file.len());
        Self {
            at,
            finished,
            memory: processes::memory(pid),
            descriptors: processes::descriptors(pid),
            threads: processes::threads(pid),
            children: children.len() as u64,
            zombies,
            store_bytes: bytes("switchboard.db") + bytes("switchboard.db-wal"),
        }
    }
}

impl Series {
    pub(super) fn add(&mut self, sample: Sample) {
        self.0.push(sample);
    }

    /// # Panics
    /// If something has grown.
    pub(super) fn check(&self) {
        let complaints = self.complaints();
        assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    }

    fn complaints(&self) -> Vec<String> {
        let steady = &self.0[self.0.len() * WARM_UP.0 / WARM_UP.1..];
        let (first, second) = steady.split_at(steady.len() / 2);
        let mut complaints = Vec::new();
        let mut hold = |what: &str, read: &dyn Fn(&Sample) -> u64, may_grow: &dyn Fn(u64) -> u64| {
            let most = |half: &[Sample]| half.iter().map(read).max().unwrap_or_default();
            let (before, after) = (most(first), most(second));
            let limit = before + may_grow(before);
            if after > limit {
                complaints
                    .push(format!("{what}: {before} at most in the first half, {after} in the second, over {limit}"));
            }
        };
        let memory_may_grow = |before: u64| (before * MEMORY_GROWTH_PERCENT_MAX / 100).max(MEMORY_GROWTH_BYTES_MAX);
        hold("memory", &|sample| sample.memory, &memory_may_grow);
        hold("descriptors", &|sample| sample.descriptors, &|_| DESCRIPTORS_GROWTH_MAX);
        hold("children", &|sample| sample.children, &|_| CHILDREN_GROWTH_MAX);
        if let (Some(begin), Some(end)) = (steady.first(), steady.last()) {
            let (grown, requests) = (end.store_bytes.saturating_sub(begin.store_bytes), end.finished - begin.finished);
            let limit = STORE_LOG_BYTES_MAX + requests * STORE_BYTES_PER_REQUEST_MAX;
            if grown > limit {
                complaints.push(format!("store: grown by {grown} bytes with {requests} requests, over {limit}"));
            }
        }
        if let Some(threads) = self.0.iter().map(|sample| sample.threads).max().filter(|threads| *threads > THREADS_MAX)
        {
            complaints.push(format!("threads: {threads}, over {THREADS_MAX}"));
        }
        for pair in self.0.windows(2) {
            let lasting = pair[0].zombies.iter().filter(|pid| pair[1].zombies.contains(pid));
            complaints.extend(lasting.map(|pid| format!("process {pid} has ended, and is not waited for")));
        }
        complaints
    }
}

impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| s | requests | memory, MiB | descriptors | threads | children | zombies | store, MiB |")?;
        writeln!(f, "|--:|--:|--:|--:|--:|--:|--:|--:|")?;
        let step = self.0.len().div_ceil(ROWS).max(1);
        for sample in self.0.iter().step_by(step).chain(self.0.last()) {
            let Sample { at, finished, memory, descriptors, threads, children, zombies, store_bytes } = sample;
            writeln!(
                f,
                "| {} | {finished} | {:.1} | {descriptors} | {threads} | {children} | {} | {:.1} |",
                at.as_secs(),
                mebibytes(*memory),
                zombies.len(),
                mebibytes(*store_bytes)
            )?;
        }
        Ok(())
    }
}

#[expect(clippy::cast_precision_loss, reason = "a tenth of a MiB is exact enough")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn series(sample: impl Fn(u64) -> Sample) -> Series {
    Series((0..100).map(sample).collect())
}

#[test]
fn what_stays_the_same_is_no_complaint() {
    let steady = series(|number| Sample {
        memory: (100 << 20) + number % 7,
        descriptors: 40,
        finished: number,
        ..Sample::default()
    });
    assert!(steady.complaints().is_empty());
}

#[test]
fn what_grows_is_told_with_its_limit() {
    let growing = series(|number| Sample {
        memory: (100 << 20) + (number << 20),
        descriptors: 40 + number,
        store_bytes: number << 20,
        finished: number,
        ..Sample::default()
    });
    let told = growing.complaints();
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told[0].starts_with("memory") && told[1].starts_with("descriptors") && told[2].starts_with("store"));
}

#[test]
fn only_a_zombie_that_stays_is_told() {
    let passing = series(|number| Sample { zombies: vec![u32::try_from(number).unwrap()], ..Sample::default() });
    assert!(passing.complaints().is_empty());
    let lasting =
        series(|number| Sample { zombies: if number > 97 { vec![7] } else { Vec::new() }, ..Sample::default() });
    assert_eq!(lasting.complaints(), ["process 7 has ended, and is not waited for"]);
}
