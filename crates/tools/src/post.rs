//! The place of one tool server: what it is to be, what it is, and the connection to it while there is one. Written by its
//! keeper, read by everybody.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rmcp::model::LoggingLevel;
use serde_json::Value;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, SemaphorePermit, watch};
use tokio_util::sync::CancellationToken;

use crate::catalog::{Catalog, Lists};
use crate::connection::Connection;
use crate::evidence::{Ended, Evidence, Listed, Phase, Silence};
use crate::face::rank;
use crate::frame::{Frame, Ring, Verdict};
use crate::limits::Limits;
use crate::settings::Server;
use crate::validation::Judgements;
use crate::view::{Implementation, ServerState};

/// What a keeper is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    Keep,
    Restart,
    Stop,
}

pub(crate) struct Post {
    pub(crate) server: Arc<Server>,
    pub(crate) name: Arc<str>,
    /// One for each call that may be under way.
    calls: Semaphore,
    /// What each key may have of them: however much one asks, others find room.
    shares: Mutex<HashMap<Arc<str>, Arc<Semaphore>>>,
    share_max: usize,
    pub(crate) judgements: Judgements,
    status: Mutex<Status>,
    connection: watch::Sender<Option<Connection>>,
    wish: watch::Sender<Wish>,
    /// Woken when callers want to be told of other resources than before.
    pub(crate) resubscribe: Notify,
    /// Cancelled when its keeper is gone, and the server with it.
    pub(crate) over: CancellationToken,
}

/// What is known of a server.
#[derive(Default)]
pub(crate) struct Status {
    pub(crate) state: ServerState,
    pub(crate) reason: Option<Arc<str>>,
    /// How its last life ended, if nobody wished for that.
    pub(crate) last_end: Option<Arc<str>>,
    pub(crate) implementation: Option<Implementation>,
    pub(crate) era: Option<crate::handshake::Era>,
    pub(crate) protocol: Option<String>,
    pub(crate) pid: Option<u32>,
    pub(crate) restarts: u64,
    pub(crate) ready_after: Option<Duration>,
    pub(crate) lists: Lists,
    pub(crate) catalog: Arc<Catalog>,
    /// What the server that had these lists calls its version.
    pub(crate) listed_version: String,
    pub(crate) is_from_memory: bool,
    /// The lowest level that the present life of it was told to log.
    pub(crate) log_level: Option<LoggingLevel>,
    pub(crate) remains: Remains,
}

/// What one life of the server has left for a diagnosis.
#[derive(Default)]
pub(crate) struct Remains {
    pub(crate) ring: Option<Arc<Mutex<Ring>>>,
    pub(crate) phase: Phase,
    pub(crate) first_byte_at: Option<Duration>,
    pub(crate) ended: Option<Ended>,
    pub(crate) silent: Option<Silence>,
    pub(crate) stderr: String,
}

impl Post {
    pub(crate) fn new(server: Server, limits: &Limits) -> Self {
        let calls_max = limits.calls_max;
        Self {
            name: (&*server.name).into(),
            judgements: Judgements::new(limits, server.timeouts.call),
            server: Arc::new(server),
            calls: Semaphore::new(calls_max),
            shares: Mutex::default(),
            share_max: (calls_max - calls_max / 4).max(1),
            status: Mutex::default(),
            connection: watch::Sender::new(None),
            wish: watch::Sender::new(Wish::Keep),
            resubscribe: Notify::new(),
            over: CancellationToken::new(),
        }
    }

    /// Waits until one more call of this key may be under way; it may be for as long as this is kept.
    pub(crate) async fn place(&self, key: &Arc<str>) -> Option<(OwnedSemaphorePermit, SemaphorePermit<'_>)> {
        let share = {
            let mut shares = lock(&self.shares);
            // Whoever has or awaits a place holds on to its share.
            shares.retain(|_, share| Arc::strong_count(share) > 1);
            Arc::clone(shares.entry(Arc::clone(key)).or_insert_with(|| Arc::new(Semaphore::new(self.share_max))))
        };
        let of_the_key = share.acquire_owned().await.ok()?;
        Some((of_the_key, self.calls.acquire().await.ok()?))
    }

    pub(crate) fn status(&self) -> MutexGuard<'_, Status> {
        lock(&self.status)
    }

    pub(crate) fn connection(&self) -> Option<Connection> {
        self.connection.borrow().clone().filter(|connection| !connection.is_closed())
    }

    pub(crate) fn set_connection(&self, connection: Option<Connection>) {
        self.connection.send_replace(connection);
    }

    /// Waits until there is a connection, or the server is known to have none for longer than a restart takes.
    pub(crate) async fn connected(&self, within: Duration) -> Option<Connection> {
        let mut changes = self.connection.subscribe();
        let until = Instant::now() + within;
        loop {
            if let Some(connection) = self.connection() {
                return Some(connection);
            }
            if matches!(self.status().state, ServerState::Failed | ServerState::Stopped) {
                return None;
            }
            // The state may become `failed` without a connection ever being there.
            let look_again = (Instant::now() + Duration::from_millis(100)).min(until);
            if tokio::time::timeout_at(look_again.into(), changes.changed()).await.is_err() && Instant::now() >= until {
                return None;
            }
        }
    }

    pub(crate) fn wish(&self, wish: Wish) {
        // Nothing takes the wish to stop back.
        self.wish.send_if_modified(|present| *present != Wish::Stop && std::mem::replace(present, wish) != wish);
    }

    /// Waits for a wish other than that all stays as it is, and takes note of it.
    pub(crate) async fn wished(&self) -> Wish {
        let mut wishes = self.wish.subscribe();
        let wish = wishes.wait_for(|wish| *wish != Wish::Keep).await.map_or(Wish::Stop, |wish| *wish);
        self.wish.send_if_modified(|present| {
            let is_heard = *present == Wish::Restart;
            if is_heard {
                *present = Wish::Keep;
            }
            is_heard
        });
        wish
    }

    /// Whether the server is to be told that somebody wants this level: it was not told one that is as low before.
    pub(crate) fn wants_log(&self, level: LoggingLevel) -> bool {
        let mut status = self.status();
        let is_news = status.log_level.is_none_or(|told| rank(level) < rank(told));
        if is_news {
            status.log_level = Some(level);
        }
        is_news
    }

    /// What is known of the present life of the server, or of the last one.
    pub(crate) fn evidence(&self) -> Evidence {
        let status = self.status();
        let Remains { ring, phase, first_byte_at, ended, silent, stderr } = &status.remains;
        let frames: Vec<Frame> = ring.as_ref().map(|ring| lock(ring).frames().cloned().collect()).unwrap_or_default();
        let tools = if status.is_from_memory { Vec::new() } else { listed(&frames, &status.lists.tools) };
        Evidence {
            frames,
            phase: *phase,
            unshaken: Vec::new(),
            dialect: self.server.dialect,
            first_byte_at: *first_byte_at,
            tools,
            ended: ended.clone(),
            silent: *silent,
            stop: None,
            stderr: stderr.clone(),
        }
    }
}

/// Each tool with the frame that it came in. Pages hold the tools in the order of the frames.
pub(crate) fn listed(frames: &[Frame], tools: &[Value]) -> Vec<Listed> {
    let mut listed = Vec::with_capacity(tools.len());
    let mut rest = tools.iter();
    for frame in frames.iter().filter(|frame| has_tools(&frame.verdict)) {
        let count = serde_json::from_str::<Value>(&frame.text)
            .map_or(tools.len(), |message| message["result"]["tools"].as_array().map_or(0, Vec::len));
        let text: Arc<str> = frame.text.as_str().into();
        for (index, tool) in rest.by_ref().take(count).enumerate() {
            let path = format!("$.result.tools[{index}]");
            listed.push(Listed { frame: Arc::clone(&text), path, tool: tool.clone() });
        }
    }
    listed
}

fn has_tools(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Answer { method, is_error: false } if matches!(&**method, "tools/list" | "initialize"))
}

/// A panic elsewhere is no reason to lose what is behind a lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
