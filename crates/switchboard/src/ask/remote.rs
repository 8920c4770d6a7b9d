//! One turn of a running server: started, followed and, if its user has had enough, interrupted.

use std::time::Duration;

use anyhow::Result;
use codex::event::{TurnEvent, TurnStatus};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::play::until;
use super::screen::Screen;
use super::told::Told;
use crate::server::{Events, Server};
use crate::signals::Signals;

/// How long an interrupted turn may take to end before it is left to the server.
const INTERRUPT_GRACE: Duration = Duration::from_secs(5);

pub(super) struct Remote<'a> {
    pub(super) server: Server,
    pub(super) signals: &'a mut Signals,
    pub(super) screen: &'a mut Screen,
}

/// What the server is asked to do.
#[derive(Serialize)]
pub(super) struct Order<'a> {
    pub(super) prompt: &'a str,
    pub(super) cwd: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thread: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<&'a str>,
}

#[derive(Deserialize)]
struct Started {
    turn: String,
    events: String,
}

impl Remote<'_> {
    pub(super) async fn run(mut self, order: &Order<'_>) -> Result<TurnStatus> {
        let started: Started = tokio::select! {
            biased;
            // A request that is dropped is an order that is given up.
            () = self.signals.next() => return self.screen.end(TurnStatus::Interrupted),
            started = self.server.post("/api/turns", order) => started?,
        };
        let events = self.server.events(&started.events).await?;
        self.follow(&started.turn, events).await
    }

    async fn follow(&mut self, turn: &str, mut events: Events) -> Result<TurnStatus> {
        let mut grace_ends: Option<Instant> = None;
        loop {
            tokio::select! {
                biased;
                () = self.signals.next() => {
                    if grace_ends.is_some() {
                        return self.leave(TurnStatus::Interrupted, "interrupted twice: the turn was left to the server");
                    }
                    self.screen.note("interrupting; once more leaves the turn to the server");
                    grace_ends = Some(Instant::now() + INTERRUPT_GRACE);
                    // A turn that is over already tells so among its events.
                    _ = self.server.post::<Value>(&format!("/api/turns/{turn}/interrupt"), &json!({})).await;
                }
                () = until(grace_ends) => return self.leave(TurnStatus::Interrupted, "interrupted: the turn did not end in time"),
                event = events.next(), if self.screen.has_room() || grace_ends.is_some() => {
                    let Some(event) = event? else {
                        return self.leave(TurnStatus::Lost, "the server ended before the turn did");
                    };
                    if let Some(status) = self.show(&event)? {
                        return Ok(status);
                    }
                }
                () = self.screen.room(), if !self.screen.has_room() => {}
            }
        }
    }

    /// Shows an event, and says how the turn ended if it was the last.
    fn show(&mut self, event: &str) -> Result<Option<TurnStatus>> {
        let told: Told = serde_json::from_str(event)?;
        let status = match told {
            Told::TurnEnded { status, .. } => Some(status),
            _ => None,
        };
        self.screen.show_line(event, &told)?;
        Ok(status)
    }

    fn leave(&mut self, status: TurnStatus, why: &str) -> Result<TurnStatus> {
        // Perhaps nobody reads: then there is nobody to tell either.
        _ = self.screen.show(&TurnEvent::lost(why));
        Ok(status)
    }
}
