//! The stream of a session that belongs to no request: what has changed, and what tool servers log. It needs no service behind
//! it. Of several streams the latest is told everything; the others stay open and silent.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, stream};
use rmcp::model::ServerJsonRpcMessage;
use rmcp::transport::streamable_http_server::session::ServerSseMessage;
use tokio::sync::{mpsc, watch};

use super::Session;
use crate::changes::Change;
use crate::post::lock;

/// What may wait for a stream to be read; more is left out after a while.
const WAITING_MAX: usize = 16;
/// How long a caller may take to read what it can do without.
const TELL_TIMEOUT: Duration = Duration::from_secs(1);
/// How much is kept for a caller that has no stream yet.
const UNHEARD_BYTES_MAX: usize = 2 << 10;
/// What the ids of events begin with; the number of the change follows that was told last.
const CHANGE: &str = "change-";

/// What is to be told on that stream, and was.
pub(super) struct Standalone {
    seen: Change,
    /// What was seen when the latest stream was opened.
    seen_before: Change,
    /// The number of the latest stream.
    latest: u64,
    telling: Option<mpsc::Sender<ServerSseMessage>>,
    unheard: VecDeque<ServerSseMessage>,
    unheard_bytes: usize,
}

impl Standalone {
    pub(super) fn new(seen: Change) -> Self {
        Self { seen, seen_before: seen, latest: 0, telling: None, unheard: VecDeque::new(), unheard_bytes: 0 }
    }
}

/// One such stream.
struct Listening {
    session: Arc<Session>,
    number: u64,
    changes: watch::Receiver<Change>,
    logged: mpsc::Receiver<ServerSseMessage>,
    waiting: VecDeque<ServerSseMessage>,
}

impl Session {
    /// Opens the stream again for a caller that has heard this event last.
    pub(super) fn listen_from(
        self: &Arc<Self>,
        last_event_id: &str,
        changes: watch::Receiver<Change>,
    ) -> impl Stream<Item = ServerSseMessage> + Send + Sync + use<> {
        {
            let mut standalone = lock(&self.standalone);
            let heard = last_event_id.strip_prefix(CHANGE).and_then(|number| number.parse().ok());
            // Without a change among its events it has heard none of that stream.
            standalone.seen = heard.unwrap_or(standalone.seen_before).min(standalone.seen);
        }
        self.listen(changes)
    }

    /// Opens the stream, which begins with what was not told yet.
    pub(super) fn listen(
        self: &Arc<Self>,
        changes: watch::Receiver<Change>,
    ) -> impl Stream<Item = ServerSseMessage> + Send + Sync + use<> {
        let (telling, logged) = mpsc::channel(WAITING_MAX);
        let mut standalone = lock(&self.standalone);
        standalone.latest += 1;
        standalone.seen_before = standalone.seen;
        standalone.telling = Some(telling);
        standalone.unheard_bytes = 0;
        let waiting = std::mem::take(&mut standalone.unheard);
        let (session, number) = (Arc::clone(self), standalone.latest);
        stream::unfold(Listening { session, number, changes, logged, waiting }, |mut listening| async move {
            listening.next().await.map(|message| (message, listening))
        })
    }

    /// Tells what can be done without: to the latest stream, or to the next one if it is short.
    pub(super) async fn tell(&self, message: ServerSseMessage) {
        let telling = lock(&self.standalone).telling.clone().filter(|telling| !telling.is_closed());
        if let Some(telling) = telling {
            // One that reads nothing must not hold up what belongs to requests.
            telling.send_timeout(message, TELL_TIMEOUT).await.ok();
            return;
        }
        let bytes = serde_json::to_string(&message.message).map_or(0, |text| text.len());
        let mut standalone = lock(&self.standalone);
        if standalone.unheard_bytes + bytes <= UNHEARD_BYTES_MAX && standalone.unheard.len() < WAITING_MAX {
            standalone.unheard_bytes += bytes;
            standalone.unheard.push_back(message);
        }
    }

    /// What the stream of this number is to tell of changes.
    fn unseen(&self, number: u64) -> Option<VecDeque<ServerSseMessage>> {
        let mut standalone = lock(&self.standalone);
        if standalone.latest != number {
            return None;
        }
        let (latest, told) = self.settings.subscriptions.unseen(standalone.seen);
        standalone.seen = latest;
        let messages = told.into_iter().map(ServerJsonRpcMessage::notification);
        let mut messages: VecDeque<_> = messages.map(ServerSseMessage::from_message).collect();
        // Whoever resumes in the midst of them is told all of them again.
        if let Some(last) = messages.back_mut() {
            last.event_id = Some(format!("{CHANGE}{latest}"));
        }
        Some(messages)
    }
}

impl Listening {
    async fn next(&mut self) -> Option<ServerSseMessage> {
        loop {
            if let Some(message) = self.waiting.pop_front() {
                return Some(message);
            }
            self.changes.borrow_and_update();
            match self.session.unseen(self.number) {
                Some(messages) if !messages.is_empty() => self.waiting = messages,
                is_latest => tokio::select! {
                    biased;
                    () = self.session.closed.cancelled() => return None,
                    () = pending(), if is_latest.is_none() => {}
                    changed = self.changes.changed(), if is_latest.is_some() => changed.ok()?,
                    Some(message) = self.logged.recv() => return Some(message),
                },
            }
        }
    }
}
