//! Turns in new threads by the bare client: the time to their first text, and the CPU time of each. What the server adds to them is
//! its own.

use std::time::{Duration, Instant};

use ::codex::{Client, Launch, Options, ThreadOptions, TurnEvent};
use anyhow::{Context as _, Result};
use futures_util::future::join_all;
use supervise::{Owner, Rlimits};
use tempfile::TempDir;

use super::load::Spread;
use crate::cpu;

/// A client with a worker of its own.
pub(super) struct BareClient {
    runtime: tokio::runtime::Runtime,
    client: Client,
    _place: TempDir,
}

impl BareClient {
    pub(super) fn start() -> Result<Self> {
        let place = tempfile::tempdir()?;
        let launch = Launch {
            program: std::env::current_exe()?.into(),
            args: ["demo-worker", "--writes", "lines"].map(Into::into).to_vec(),
            cwd: place.path().into(),
            env: vec![("CODEX_HOME".into(), place.path().into())],
            owner: Owner::generate(),
            rlimits: Rlimits::default(),
        };
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let options = Options { experimental_api: true, ..Options::new("bench", "0") };
        let client = runtime.block_on(Client::start(&launch, options))?;
        Ok(Self { runtime, client, _place: place })
    }

    /// So many turns, one after the other.
    pub(super) fn measure(&self, turns: usize, prompt: &str) -> Result<Spread> {
        self.runtime.block_on(async {
            let mut times = Vec::with_capacity(turns);
            for _ in 0..turns {
                times.push(self.run_turn(prompt).await?);
            }
            times.sort_unstable();
            let at = |hundredths: usize| times[(times.len() - 1) * hundredths / 100].as_secs_f64() * 1e3;
            Ok(Spread { p50_ms: at(50), p99_ms: at(99) })
        })
    }

    /// The CPU time of this process for each of so many turns, `at_once` at a time; in microseconds.
    pub(super) fn cpu_each(&self, at_once: usize, turns: usize, prompt: &str) -> Result<f64> {
        let each = turns.div_ceil(at_once);
        let before = cpu::of_process();
        self.runtime
            .block_on(join_all((0..at_once).map(async |_| {
                for _ in 0..each {
                    self.run_turn(prompt).await?;
                }
                anyhow::Ok(())
            })))
            .into_iter()
            .collect::<Result<()>>()?;
        let cpu = cpu::of_process().saturating_sub(before);
        Ok(cpu.as_secs_f64() * 1e6 / f64::from(u32::try_from(each * at_once)?))
    }

    /// Runs a turn in a new thread to its end; the time to its first text.
    async fn run_turn(&self, prompt: &str) -> Result<Duration> {
        let start = Instant::now();
        let thread = self.client.start_thread(ThreadOptions::default()).await?;
        let mut turn = thread.start_turn(prompt).await?;
        loop {
            let event = turn.next().await.context("a turn ended without a text")?;
            if let TurnEvent::Text { .. } = event {
                let passed = start.elapsed();
                while turn.next().await.is_some() {}
                return Ok(passed);
            }
        }
    }
}
