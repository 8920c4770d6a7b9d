//! What is said before a connection stands: the handshake, and what a check hears and asks beside it.

use std::time::{Duration, Instant};

use rmcp::model::{ErrorCode, ErrorData};
use serde_json::{Value, json};
use tokio::time::timeout_at;

use super::super::half::Broken;
use super::{ANYWAY, Driver};
use crate::exchange::{Heard, Number};
use crate::far::Arrived;
use crate::handshake::{Agreement, Era, Failure, Handshake, Step};

impl Driver {
    /// Hears for so long what the server says unasked.
    pub(crate) async fn listen(&mut self, lasting: Duration) {
        let until = tokio::time::Instant::now() + lasting;
        // One that speaks without a pause leaves no time to run out.
        while tokio::time::Instant::now() < until
            && let Ok(arrived) = timeout_at(until, self.far.arrived()).await
        {
            match arrived {
                Arrived::Ended => return,
                Arrived::Lines => {
                    self.first_byte_at.get_or_insert(self.started.elapsed());
                    self.read();
                    self.see_all();
                    // What it asks and nobody takes is refused.
                    self.catch_up();
                }
                Arrived::Room | Arrived::Undelivered { .. } | Arrived::Forgotten { .. } => {}
            }
        }
    }

    /// Asks a server for a list whether or not hands were shaken.
    pub(crate) async fn ask_anyway(&mut self, method: &str, timeout: Duration) -> Option<Value> {
        let line = self.exchange.request(ANYWAY, method, json!({}), self.started.elapsed());
        self.far.send(line);
        let until = tokio::time::Instant::now() + timeout;
        while tokio::time::Instant::now() < until
            && let Ok(arrived) = timeout_at(until, self.far.arrived()).await
        {
            match arrived {
                Arrived::Ended => return None,
                Arrived::Lines => self.read(),
                Arrived::Room | Arrived::Undelivered { .. } | Arrived::Forgotten { .. } => {}
            }
            for heard in std::mem::take(&mut self.inbox) {
                match heard {
                    Heard::Answer { number: ANYWAY, outcome } => return outcome.ok(),
                    Heard::Unreadable { number: ANYWAY, .. } => return None,
                    other => self.see(other),
                }
            }
        }
        None
    }

    /// Finds out how the server is to be spoken to.
    pub(crate) async fn shake_hands(&mut self, mut handshake: Handshake) -> Result<Agreement, Broken> {
        let mut step = handshake.poll(Instant::now());
        loop {
            let wait_until = match step {
                Step::Ask { method, params } => {
                    self.ask_early(method, params);
                    step = handshake.poll(Instant::now());
                    continue;
                }
                Step::Agreed(agreement) => {
                    if agreement.era == Era::Legacy {
                        self.tell_initialized();
                    }
                    self.era = Some(agreement.era);
                    return Ok(*agreement);
                }
                Step::Failed(failure) => return Err(Broken::Handshake(failure)),
                Step::WaitUntil(at) => at,
            };
            step = tokio::select! {
                biased;
                arrived = self.far.arrived() => self.heard_early(arrived, &mut handshake)?,
                () = tokio::time::sleep_until(wait_until.into()) => handshake.poll(Instant::now()),
            };
        }
    }

    /// Sends a request of the handshake; what was asked before is late from now on.
    fn ask_early(&mut self, method: &'static str, params: Value) {
        if let Some((asked, _)) = self.asked.last() {
            self.exchange.mark_overdue(*asked);
        }
        let number = Number::try_from(self.asked.len()).unwrap_or_default() + 1;
        self.asked.push((number, method));
        let line = self.exchange.request(number, method, params, self.started.elapsed());
        self.far.send(line);
    }

    fn heard_early(&mut self, arrived: Arrived, handshake: &mut Handshake) -> Result<Step, Broken> {
        match arrived {
            Arrived::Ended => return Err(Broken::Ended(handshake.phase())),
            Arrived::Room => {}
            Arrived::Undelivered { number, why, .. } | Arrived::Forgotten { number, why } => {
                let is_probe = |asked: &(Number, &str)| Some(asked.0) == number && asked.1 == "server/discover";
                if !self.asked.iter().any(is_probe) {
                    return Err(Broken::Handshake(Failure::Unreachable(why)));
                }
                self.far.reopen();
                let refused = ErrorData::new(ErrorCode::INTERNAL_ERROR, why, None);
                return Ok(handshake.handle_discovered(Err(refused), Instant::now()));
            }
            Arrived::Lines => {
                if self.first_byte_at.is_none() {
                    self.first_byte_at = Some(self.started.elapsed());
                    handshake.handle_first_byte(Instant::now());
                }
                self.read();
            }
        }
        let mut inbox = std::mem::take(&mut self.inbox).into_iter();
        while let Some(heard) = inbox.next() {
            let (number, outcome) = match heard {
                Heard::Answer { number, outcome } => (number, outcome),
                Heard::Unreadable { number, why } => (number, Err(ErrorData::internal_error(why, None))),
                other => {
                    self.see(other);
                    continue;
                }
            };
            let asked = self.asked.iter().find(|(asked, _)| *asked == number).map(|(_, method)| *method);
            let step = match asked {
                Some("initialize") => handshake.handle_initialized(outcome),
                _ => handshake.handle_discovered(outcome, Instant::now()),
            };
            if !matches!(step, Step::WaitUntil(_)) {
                // What came in the same read is not lost: a server may go on in one breath.
                self.inbox = inbox.collect();
                return Ok(step);
            }
        }
        Ok(handshake.poll(Instant::now()))
    }
}
