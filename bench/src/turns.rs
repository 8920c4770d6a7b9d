//! What the pool adds to a turn: the same prompts, as many at once, through the pool and through the bare client, each on
//! a demo worker of its own. CPU time is that of this process, so the workers' does not count; latencies are reported,
//! CPU time and memory are judged.

mod way;

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::task::JoinSet;

use crate::{cpu, process};
use way::{Place, Way};

const ROUNDS: usize = 5;
const CALLERS: usize = 32;
const TURNS_PER_CALLER: usize = 100;
const OPEN_TURNS: [usize; 2] = [1_000, 10_000];
/// How many turns are opened at the same time.
const OPENED_AT_ONCE: usize = 64;
const CPU_OVER_CLIENT: f64 = 1.5;
const KILOBYTES_PER_OPEN_TURN: f64 = 20.0;

/// The two threads that a turn can be of.
#[derive(Clone, Copy)]
enum Thread {
    New,
    Known,
}

pub(crate) fn run() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        // First: what another measurement has freed would be used again, and not be seen.
        let memory = memory(&Way::pool(Place::new()?).await?).await?;
        let of_new = compare("turns of new threads", Thread::New).await?;
        let of_known = compare("turns of known threads", Thread::Known).await?;
        ensure!(of_new.max(of_known) <= CPU_OVER_CLIENT, "CPU time is above the bar of {CPU_OVER_CLIENT}×");
        ensure!(memory < KILOBYTES_PER_OPEN_TURN, "memory is above the bar of {KILOBYTES_PER_OPEN_TURN} kB");
        Ok(())
    })
}

/// How much more CPU time a turn of the pool takes than one of the bare client.
async fn compare(what: &str, thread: Thread) -> Result<f64> {
    let start = Instant::now();
    let pool = Way::pool(Place::new()?).await?;
    let ready = start.elapsed();
    let mut contenders =
        [("pool", pool, Best::default()), ("client", Way::client(&Place::new()?).await?, Best::default())];
    for _ in 0..ROUNDS {
        for (_, way, best) in &mut contenders {
            best.take(&round(way, thread).await?);
        }
    }
    println!(
        "{what}: {CALLERS} callers of {TURNS_PER_CALLER} turns each, best of {ROUNDS} rounds; ready in {ready:.0?}"
    );
    for (name, way, best) in &contenders {
        println!(
            "  {name:<8}{:>7.0} turns/s {:>7.1} µs CPU/turn    p50 {:.2?}  p99 {:.2?}",
            best.turns_per_second,
            best.cpu_each.as_secs_f64() * 1e6,
            best.p50,
            best.p99,
        );
        way.stop().await;
    }
    let [(_, _, pool), (_, _, client)] = &contenders;
    let ratio = pool.cpu_each.as_secs_f64() / client.cpu_each.as_secs_f64();
    let added = |pool: Duration, client: Duration| (pool.as_secs_f64() - client.as_secs_f64()) * 1e3;
    let (p50, p99) = (added(pool.p50, client.p50), added(pool.p99, client.p99));
    println!("  {ratio:.2}× the CPU time (bar {CPU_OVER_CLIENT}×), {p50:+.2} ms at p50, {p99:+.2} ms at p99");
    Ok(ratio)
}

/// The best of the rounds, each figure for itself.
struct Best {
    turns_per_second: f64,
    cpu_each: Duration,
    p50: Duration,
    p99: Duration,
}

impl Default for Best {
    fn default() -> Self {
        Self { turns_per_second: 0.0, cpu_each: Duration::MAX, p50: Duration::MAX, p99: Duration::MAX }
    }
}

impl Best {
    fn take(&mut self, other: &Self) {
        self.turns_per_second = self.turns_per_second.max(other.turns_per_second);
        self.cpu_each = self.cpu_each.min(other.cpu_each);
        self.p50 = self.p50.min(other.p50);
        self.p99 = self.p99.min(other.p99);
    }
}

async fn round(way: &Way, thread: Thread) -> Result<Best> {
    let mut callers = Vec::new();
    for _ in 0..CALLERS {
        let known = match thread {
            Thread::New => None,
            Thread::Known => Some(way.turn(None).await?),
        };
        callers.push(call(way.clone(), known));
    }
    let (start, cpu) = (Instant::now(), cpu::of_process());
    let callers: JoinSet<_> = callers.into_iter().collect();
    let mut latencies = Vec::new();
    for called in callers.join_all().await {
        latencies.extend(called?);
    }
    let (wall, cpu) = (start.elapsed(), cpu::of_process().saturating_sub(cpu));
    latencies.sort();
    let count = u32::try_from(latencies.len())?;
    Ok(Best {
        turns_per_second: f64::from(count) / wall.as_secs_f64(),
        cpu_each: cpu / count,
        p50: latencies[latencies.len() / 2],
        p99: latencies[latencies.len() * 99 / 100],
    })
}

/// One caller after whose turn comes the next.
async fn call(way: Way, thread: Option<String>) -> Result<Vec<Duration>> {
    let mut latencies = Vec::with_capacity(TURNS_PER_CALLER);
    for _ in 0..TURNS_PER_CALLER {
        let start = Instant::now();
        way.turn(thread.as_deref()).await?;
        latencies.push(start.elapsed());
    }
    Ok(latencies)
}

/// What this process needs for each open turn with its thread and its reader, in kilobytes: the most of all counts.
async fn memory(way: &Way) -> Result<f64> {
    way.turn(None).await?;
    let before = process::resident_kilobytes(std::process::id())?;
    let mut open = JoinSet::new();
    let mut most = 0.0_f64;
    for turns in OPEN_TURNS {
        while open.len() < turns {
            let more = OPENED_AT_ONCE.min(turns - open.len());
            for begun in at_once((0..more).map(|_| way.clone().open())).await {
                open.spawn(begun?);
            }
        }
        let each = (process::resident_kilobytes(std::process::id())? - before) / f64::from(u32::try_from(turns)?);
        println!("{turns} open turns: {each:.1} kB each (bar {KILOBYTES_PER_OPEN_TURN} kB)");
        most = most.max(each);
    }
    ensure!(open.try_join_next().is_none(), "a turn has ended that was to stay open");
    way.stop().await;
    Ok(most)
}

async fn at_once<T: Send + 'static>(all: impl Iterator<Item: Future<Output = T> + Send + 'static>) -> Vec<T> {
    all.collect::<JoinSet<_>>().join_all().await
}
