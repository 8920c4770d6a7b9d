//! CPU time of work, the best of several rounds in which the contenders take turns.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

const ROUNDS: usize = 7;

/// One way to do the work that is measured.
pub(crate) struct Contender<'a> {
    pub(crate) name: &'static str,
    work: Box<dyn FnMut() + 'a>,
    best: Duration,
}

impl<'a> Contender<'a> {
    pub(crate) fn new(name: &'static str, work: impl FnMut() + 'a) -> Self {
        Self { name, work: Box::new(work), best: Duration::MAX }
    }

    /// The least CPU time that the work took, in nanoseconds for each of `count` things.
    pub(crate) fn nanos_each(&self, count: u32) -> f64 {
        self.best.as_secs_f64() * 1e9 / f64::from(count)
    }
}

/// Lets the contenders work in turns: what disturbs the machine disturbs all of them alike.
pub(crate) fn race(contenders: &mut [Contender<'_>]) {
    for _ in 0..ROUNDS {
        for contender in &mut *contenders {
            let start = cpu_time();
            (contender.work)();
            contender.best = contender.best.min(cpu_time().saturating_sub(start));
        }
    }
}

/// The CPU time of all threads of this process.
pub(crate) fn of_process() -> Duration {
    read(ClockId::ProcessCPUTime)
}

fn cpu_time() -> Duration {
    read(ClockId::ThreadCPUTime)
}

fn read(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    Duration::new(now.tv_sec.try_into().unwrap_or_default(), now.tv_nsec.try_into().unwrap_or_default())
}
