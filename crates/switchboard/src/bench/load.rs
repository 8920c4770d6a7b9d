//! The load itself: so many connections, each asking for whole answers one after the other, or reading streams.

use std::fmt;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::deltas::Deltas;
use super::figures::{Figures, Spread, Stream};
use super::link::{Answer, Link};
use super::tally::Tally;
use super::target::Target;

/// How many streams wait for their first text at the same time: a crowd would measure the queue of the listener.
const OPENING_MAX: usize = 128;
/// How long a whole answer, or the next piece of a stream, may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// What is asked of a server.
#[derive(Clone)]
pub(super) struct Load {
    pub(super) want: Want,
    pub(super) connections: usize,
    pub(super) prompt: String,
}

/// What each connection wants.
#[derive(Clone, Copy)]
pub(super) enum Want {
    Whole { each: usize },
    Streams { each: usize, hold: Option<Duration> },
}

impl Load {
    pub(super) async fn run(&self, target: &Target, tally: Tally) -> Result<Figures> {
        let caller = Arc::new(Caller {
            target: target.clone(),
            body: target.body(&self.prompt, matches!(self.want, Want::Streams { .. })),
            tally,
            opening: Semaphore::new(OPENING_MAX),
        });
        let started = Instant::now();
        let mut callers = JoinSet::new();
        for _ in 0..self.connections {
            let (caller, want) = (Arc::clone(&caller), self.want);
            callers.spawn(async move { caller.call(want).await });
        }
        let mut held = pin!(self.held(&caller.tally));
        loop {
            tokio::select! {
                () = &mut held => break,
                called = callers.join_next() => match called {
                    Some(called) => called??,
                    None => break,
                },
            }
        }
        let passed = started.elapsed();
        callers.shutdown().await;
        Ok(self.figures(target, &caller.tally, passed))
    }

    /// Done when all streams were open for long enough; never if they are read to their ends.
    async fn held(&self, tally: &Tally) {
        if let Want::Streams { hold, .. } = self.want {
            tally.all_open().await;
            if let Some(hold) = hold {
                tally.forget_gaps();
                sleep(hold).await;
                return tally.tell("held");
            }
        }
        pending().await
    }

    fn figures(&self, target: &Target, tally: &Tally, passed: Duration) -> Figures {
        let seen = tally.take();
        let per_second = |count: usize| count as f64 / passed.as_secs_f64();
        let requests = seen.answers.len().max(seen.first_tokens.len());
        let is_whole = matches!(self.want, Want::Whole { .. });
        Figures {
            server: target.to_string(),
            load: self.to_string(),
            requests,
            requests_per_second: per_second(requests),
            answer: is_whole.then(|| Spread::of(seen.answers)),
            stream: (!is_whole).then(|| Stream {
                deltas: seen.deltas,
                deltas_per_second: per_second(seen.deltas),
                first_token: Spread::of(seen.first_tokens),
                gap: Spread::of(seen.gaps),
            }),
        }
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.want, self.connections) {
            (Want::Whole { .. }, 1) => f.write_str("1 connection"),
            (Want::Whole { .. }, many) => write!(f, "{many} connections"),
            (Want::Streams { .. }, 1) => f.write_str("1 stream"),
            (Want::Streams { .. }, many) => write!(f, "{many} streams"),
        }
    }
}

/// What the connections of one load share.
struct Caller {
    target: Target,
    body: Vec<u8>,
    tally: Tally,
    opening: Semaphore,
}

impl Caller {
    /// All that one connection asks for.
    async fn call(&self, want: Want) -> Result<()> {
        match want {
            Want::Whole { each } => {
                let mut link = Link::open(&self.target).await?;
                for _ in 0..each {
                    timeout(PATIENCE, self.answer(&mut link)).await.context("an answer took too long")??;
                }
            }
            Want::Streams { each, .. } => {
                let mut link = None;
                for _ in 0..each {
                    self.stream(&mut link).await?;
                }
            }
        }
        Ok(())
    }

    async fn answer(&self, link: &mut Link) -> Result<()> {
        let started = Instant::now();
        let mut answer = link.post(&self.body).await?;
        let mut bytes = 0;
        while let Some(piece) = answer.next().await? {
            bytes += piece.len();
        }
        ensure!(bytes > 0, "an answer is empty");
        self.tally.answered(started.elapsed());
        Ok(())
    }

    async fn stream(&self, link: &mut Option<Link>) -> Result<()> {
        let turn = self.opening.acquire().await?;
        let link = match link {
            Some(link) => link,
            None => link.insert(Link::open(&self.target).await?),
        };
        let started = Instant::now();
        let mut reading = Reading { answer: link.post(&self.body).await?, deltas: Deltas::default() };
        let first = reading.next().await?.context("a stream ended without a text")?;
        let mut last = Instant::now();
        self.tally.opened(last - started, first);
        drop(turn);
        while let Some(more) = reading.next().await? {
            let now = Instant::now();
            self.tally.continued(now - last, more);
            last = now;
        }
        ensure!(reading.deltas.is_done(), "a stream ended before its end");
        Ok(())
    }
}

/// A stream that is read.
struct Reading {
    answer: Answer,
    deltas: Deltas,
}

impl Reading {
    /// How many texts came together next; none at the end.
    async fn next(&mut self) -> Result<Option<usize>> {
        loop {
            let piece = timeout(PATIENCE, self.answer.next()).await.context("a stream is silent for too long")??;
            let Some(piece) = piece else { return Ok(None) };
            let deltas = self.deltas.count(&piece)?;
            if deltas > 0 {
                return Ok(Some(deltas));
            }
        }
    }
}
