//! Everything that changes, in one stream: workers, threads, turns, items, approvals, tool servers, the store. Items come whole, not in
//! the pieces of their text.
//! What happens is told here once, and is counted and sent from here.

use std::sync::Arc;

use approvals::Stamp;
use serde::Serialize;
use workers::Notice;

use crate::log::Log;
use crate::metrics::Metrics;
use crate::quota::Accounts;
use crate::ring::RingLimits;

/// Where everything that happens is told.
#[derive(Clone)]
pub struct Feed {
    log: Arc<Log>,
    metrics: Arc<Metrics>,
    accounts: Arc<Accounts>,
}

impl Feed {
    /// Some hours of an ordinary day.
    pub const LIMITS: RingLimits =
        RingLimits { bytes_max: 4 * 1024 * 1024, events_max: 16_384, event_bytes_max: 64 * 1024 };

    /// A feed to which nothing has been told yet.
    #[must_use]
    pub fn new(limits: RingLimits) -> Self {
        Self { log: Arc::new(Log::new(limits)), metrics: Arc::new(Metrics::new()), accounts: Arc::default() }
    }

    /// What the pool tells of itself goes through here.
    #[must_use]
    pub fn notify_workers(&self) -> workers::Notify {
        let feed = self.clone();
        Arc::new(move |notice| {
            feed.metrics.count_workers(&notice);
            match &notice {
                Notice::TokensUsed { at, usage, .. } => {
                    feed.accounts.spend(at, usage.input_tokens.saturating_add(usage.output_tokens));
                }
                Notice::TurnEnded { at, .. } | Notice::TurnParked { at } => feed.accounts.end_answer(at),
                _ => {}
            }
            feed.tell(&notice);
        })
    }

    /// What the approvals tell of themselves goes through here.
    #[must_use]
    pub fn notify_approvals(&self) -> approvals::Notify {
        let feed = self.clone();
        Arc::new(move |notice| {
            feed.metrics.count_approvals(&notice);
            feed.tell(&notice);
        })
    }

    /// What the tool host tells of itself goes through here.
    #[must_use]
    pub fn notify_tools(&self) -> tools::Notify {
        let feed = self.clone();
        Arc::new(move |notice| {
            feed.metrics.count_tools(&notice);
            feed.tell(&notice);
        })
    }

    /// Adds an event with the time at which it happened. It never waits.
    pub fn tell(&self, event: &impl Serialize) {
        let Ok(json) = serde_json::to_string(event) else {
            tracing::error!("an event could not be written as JSON and is left out");
            return;
        };
        let at = Stamp::now();
        let fields = json.trim_start_matches('{');
        self.log.push(&format!(r#"{{"at":"{at}",{fields}"#));
    }

    pub(crate) fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// What keys have used, as it is told here.
    pub(crate) fn accounts(&self) -> &Arc<Accounts> {
        &self.accounts
    }

    pub(crate) fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }
}
