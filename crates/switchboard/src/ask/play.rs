//! One turn, from the start of its thread to the end of its worker.

use std::future::pending;
use std::time::Duration;

use anyhow::{Result, anyhow};
use codex::event::{ConnectionEvent, TurnEvent, TurnStatus};
use codex::{CallError, Client, Decision, Events, Pending, Requests, ThreadOptions, Turn};
use tokio::time::{Instant, sleep_until};

use super::screen::Screen;
use crate::signals::Signals;

/// How long an interrupted turn may take to end before its worker is stopped.
const INTERRUPT_GRACE: Duration = Duration::from_secs(5);

pub(super) struct Play<'a> {
    client: Client,
    events: Events,
    requests: Option<Requests>,
    signals: &'a mut Signals,
    screen: &'a mut Screen,
}

/// How the one turn came to its end.
enum Ended {
    ByWorker(TurnStatus),
    /// Interrupted before there was a turn.
    BeforeTurn,
    /// By us, and why.
    Impatiently(&'static str),
}

impl<'a> Play<'a> {
    pub(super) fn new(client: Client, signals: &'a mut Signals, screen: &'a mut Screen) -> Self {
        let (events, requests) = (client.events(), client.requests());
        Self { client, events, requests, signals, screen }
    }

    pub(super) async fn run(
        mut self,
        options: ThreadOptions,
        thread: Option<&str>,
        prompt: &str,
    ) -> Result<TurnStatus> {
        let ended = self.turn(options, thread, prompt).await;
        let exit = tokio::select! {
            biased;
            // Whoever does not want to wait for the ladder has the worker killed: that is what dropping it does.
            () = self.signals.next() => "the worker was killed".to_owned(),
            exit = self.client.stop() => exit.to_string(),
        };
        match ended {
            Ok(Ended::ByWorker(status)) => Ok(status),
            Ok(Ended::BeforeTurn) => self.screen.end(TurnStatus::Interrupted),
            Ok(Ended::Impatiently(why)) => {
                // Perhaps nobody reads: then there is nobody to tell either.
                _ = self.screen.show(&TurnEvent::lost(why));
                Ok(TurnStatus::Interrupted)
            }
            Err(error) => match error.downcast_ref() {
                Some(CallError::Unanswered { .. } | CallError::Refused(_)) => Err(anyhow!("{error}. {exit}")),
                _ => Err(error),
            },
        }
    }

    async fn turn(&mut self, options: ThreadOptions, thread: Option<&str>, prompt: &str) -> Result<Ended> {
        let client = self.client.clone();
        let start = async {
            let thread = match thread {
                Some(thread) => client.resume_thread(thread, options).await?,
                None => client.start_thread(options).await?,
            };
            thread.start_turn(prompt).await
        };
        tokio::pin!(start);
        let turn = loop {
            tokio::select! {
                biased;
                () = self.signals.next() => return Ok(Ended::BeforeTurn),
                turn = &mut start => break turn?,
                Some(event) = self.events.next() => self.note(&event),
            }
        };
        self.follow(turn).await
    }

    async fn follow(&mut self, mut turn: Turn) -> Result<Ended> {
        let mut grace_ends: Option<Instant> = None;
        loop {
            tokio::select! {
                biased;
                () = self.signals.next() => {
                    if grace_ends.is_some() {
                        return Ok(Ended::Impatiently("interrupted twice: the worker was stopped in mid turn"));
                    }
                    self.screen.note("interrupting; once more stops the worker");
                    grace_ends = Some(Instant::now() + INTERRUPT_GRACE);
                    turn.interrupt();
                }
                () = until(grace_ends) => {
                    return Ok(Ended::Impatiently("interrupted: the worker did not end the turn in time and was stopped"));
                }
                Some(event) = self.events.next() => self.note(&event),
                Some(request) = next(&mut self.requests) => self.decline(&request),
                // Once interrupted, the turn's end is waited for even if nobody reads.
                Some(event) = turn.next(), if self.screen.has_room() || grace_ends.is_some() => {
                    self.show(&event)?;
                    if let TurnEvent::TurnEnded { status, .. } = event {
                        return Ok(Ended::ByWorker(status));
                    }
                }
                () = self.screen.room(), if !self.screen.has_room() => {}
            }
        }
    }

    /// Without room, which happens only after an interrupt, nothing but the end is worth a try.
    fn show(&mut self, event: &TurnEvent) -> Result<()> {
        if self.screen.has_room() {
            return self.screen.show(event);
        }
        if let TurnEvent::TurnEnded { .. } = event {
            _ = self.screen.show(event);
        }
        Ok(())
    }

    fn note(&mut self, event: &ConnectionEvent) {
        if let ConnectionEvent::PassedOver { report } = event {
            self.screen.note(&format!("passed over a line of the worker: {report}"));
        }
    }

    fn decline(&mut self, request: &Pending) {
        let reason = "nobody can decide this here: `switchboard ask` only asks";
        let what = request.asked.command().unwrap_or_else(|| request.asked.method.to_string());
        self.screen.note(&format!("declined {what}: {reason}"));
        // It may be over already: then nobody waits.
        _ = request.decide(&Decision::deny(reason));
    }
}

async fn next(requests: &mut Option<Requests>) -> Option<Pending> {
    requests.as_mut()?.next().await
}

pub(super) async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => pending().await,
    }
}
