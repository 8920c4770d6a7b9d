//! Keeps one worker: starts it, serves it while it lives, and starts it again as its policy says, until somebody stops it.

mod orphans;
mod reach;
mod reattach;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use codex::abilities::{Ability, Dialect};
use codex::{CallError, Client, ConnectionEvent, End, StartError};
use supervise::{EndReason, Restarts, Verdict};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout, timeout_at};

use crate::board::Standing;
use crate::desk::Desk;
use crate::plan::Transport;
use crate::post::{Link, Persistence, Post, Wish};
use crate::shared::Shared;
use crate::view::WorkerState;
pub(crate) use reach::end_strays;
use reach::{Found, Reached};

/// How long open requests may take to be written down as over, once their connection is.
const LAST_ENTRIES_TIMEOUT: Duration = Duration::from_secs(5);

/// How one life of a worker ended.
enum Ended {
    /// By itself.
    Broke { reason: EndReason, words: Box<str> },
    /// Somebody wants a new one.
    RestartWished(Box<str>),
    /// Somebody wants no more.
    StopWished,
}

impl From<Wish> for Ended {
    fn from(wish: Wish) -> Self {
        match wish {
            Wish::Restart(reason) => Self::RestartWished(reason),
            Wish::Keep | Wish::Stop => Self::StopWished,
        }
    }
}

/// When to start a worker again.
enum Again {
    Now,
    At(Instant),
    WhenWished,
}

/// Keeps the worker of one post.
pub(crate) struct Keeper {
    pub(crate) shared: Arc<Shared>,
    pub(crate) post: Arc<Post>,
}

impl Keeper {
    pub(crate) async fn keep(self) {
        let mut restarts = Restarts::new(self.shared.limits().restart);
        if let Transport::Stdio = self.shared.group(&self.post).transport {
            // Its worker is gone with the Switchboard that had it: nobody should decide what nobody will hear.
            self.orphan_what_is_not_asked(None).await;
        }
        loop {
            self.shared.set_state(&self.post, WorkerState::Starting, None);
            let started = Instant::now();
            let ended = match self.reach().await {
                Ok(reached) => self.live(reached).await,
                Err(ended) => ended,
            };
            self.post.set_status(|status| status.pid = None);
            if let Transport::Stdio = self.shared.group(&self.post).transport {
                self.shared.revoke_token(&self.post);
            }
            let again = match ended {
                Ended::StopWished => return self.stopped(),
                Ended::RestartWished(reason) => {
                    restarts.reset();
                    self.gone(WorkerState::Restarting, Standing::Away, reason);
                    Again::Now
                }
                Ended::Broke { reason, words } => self.after(&mut restarts, &reason, started.elapsed(), &words),
            };
            match self.wait(again).await {
                Wish::Keep => {}
                Wish::Restart(_) => restarts.reset(),
                Wish::Stop => return self.stopped(),
            }
            self.post.set_status(|status| status.restarts += 1);
        }
    }

    /// What follows from an end that nobody wished for: when to start again.
    fn after(&self, restarts: &mut Restarts, reason: &EndReason, uptime: Duration, words: &str) -> Again {
        match restarts.handle_end(reason, uptime, fastrand::f64(), Instant::now()) {
            Verdict::RestartAt(at) => {
                self.gone(WorkerState::Restarting, Standing::Away, words.into());
                Again::At(at)
            }
            Verdict::Fail { .. } if self.may_cure_itself(reason) => {
                restarts.reset();
                self.gone(WorkerState::Restarting, Standing::Away, words.into());
                Again::At(Instant::now() + self.shared.limits().restart.wait_max)
            }
            Verdict::Fail { why, retry_at } => {
                let why: Box<str> = format!("{why}: {words}").into();
                self.gone(WorkerState::Failed, Standing::Failed(why.clone()), why);
                retry_at.map_or(Again::WhenWished, Again::At)
            }
        }
    }

    /// Whether what keeps the worker away may pass: a lack of room does, and who runs it elsewhere starts it again.
    fn may_cure_itself(&self, reason: &EndReason) -> bool {
        *reason == EndReason::StartRefused || matches!(self.shared.group(&self.post).transport, Transport::Ws(_))
    }

    /// Waits until it is time to start again, or somebody wishes something.
    async fn wait(&self, again: Again) -> Wish {
        match again {
            Again::Now => Wish::Keep,
            Again::At(at) => {
                let wait = at.saturating_duration_since(Instant::now());
                self.post.set_status(|status| status.retry_at = Some(SystemTime::now() + wait));
                timeout_at(at.into(), self.post.wished()).await.unwrap_or(Wish::Keep)
            }
            Again::WhenWished => self.post.wished().await,
        }
    }

    /// One life of a worker that can be spoken to.
    async fn live(&self, reached: Reached) -> Ended {
        let Reached { client, found, detached } = reached;
        let requests = client.requests().expect("nobody else has this client yet");
        let persistence = match self.shared.group(&self.post).transport {
            Transport::Stdio => Persistence::WithLink,
            Transport::Unix | Transport::Ws(_) => Persistence::BeyondLink,
        };
        let link = Arc::new(Link::new(client.clone(), persistence));
        self.post.set_status(|status| status.pid = client.pid().or(detached.as_ref().map(supervise::Detached::pid)));
        self.post.set_link(Some(Arc::clone(&link)));
        let (shared, post) = (Arc::clone(&self.shared), Arc::clone(&self.post));
        let desk = Desk { shared, post, link: Arc::clone(&link) };
        let mut attending = JoinSet::new();
        attending.spawn(desk.attend(requests));
        let end = self.serve(&link, found).await;
        let ended = self.part(end, &client, detached).await;
        self.post.set_link(None);
        link.register().close();
        timeout(LAST_ENTRIES_TIMEOUT, attending.join_next()).await.ok();
        self.shared.wake_all();
        ended
    }

    /// Makes the worker known and waits for its end, or for a wish.
    async fn serve(&self, link: &Arc<Link>, found: Found) -> Ended {
        if let Some(ended) = self.catch_up(link, found).await {
            return ended;
        }
        let mut settle = std::pin::pin!(sleep(self.shared.limits().settle_timeout));
        let mut is_settled = found == Found::Fresh;
        self.shared.set_state(&self.post, WorkerState::Ready, None);
        if !link.client.abilities().has(Ability::PermissionProfiles) {
            let version = link.client.greeting().version.as_deref();
            tracing::warn!(worker = %self.post.name, version, advice = "update Codex to 0.145 or newer; until then it serves operators, and profiles with `allow_unconfined`", "worker cannot confine agents");
        }
        self.shared.board().ready(self.post.slot, Instant::now());
        let mut events = link.client.events();
        loop {
            tokio::select! {
                () = &mut settle, if !is_settled => {
                    is_settled = true;
                    self.orphan_what_is_not_asked(Some(link)).await;
                }
                wish = self.post.wished() => return wish.into(),
                event = events.next() => match event {
                    Some(event) => self.see(link, &event),
                    None => return Ended::Broke { reason: EndReason::LinkLost, words: "".into() },
                },
            }
        }
    }

    /// Sees to what was there before this link. Somebody may wish otherwise meanwhile, and a link may end.
    async fn catch_up(&self, link: &Arc<Link>, found: Found) -> Option<Ended> {
        if found == Found::Fresh {
            self.orphan_what_is_not_asked(Some(link)).await;
            return None;
        }
        tokio::select! {
            () = self.reattach(link) => None,
            wish = self.post.wished() => Some(wish.into()),
            _ = link.client.ended() => Some(Ended::Broke { reason: EndReason::LinkLost, words: "".into() }),
        }
    }

    /// Parts from the worker, and finds out how it ended if it did so by itself.
    async fn part(&self, ended: Ended, client: &Client, detached: Option<supervise::Detached>) -> Ended {
        // A worker that is to be found again is left running.
        let is_left = matches!(ended, Ended::StopWished) && detached.is_some();
        let end = match &ended {
            Ended::Broke { .. } => client.ended().await,
            _ => client.clone().stop().await,
        };
        match (detached, &ended) {
            (Some(detached), Ended::Broke { .. }) => self.part_from_detached(detached, &end).await,
            (Some(detached), _) if !is_left => {
                self.end_detached(detached).await;
                ended
            }
            (None, Ended::Broke { .. }) => Ended::Broke { reason: reason_of(&end), words: end.to_string().into() },
            _ => ended,
        }
    }

    fn see(&self, link: &Link, event: &ConnectionEvent) {
        match event {
            ConnectionEvent::ThreadStatus { thread, status, .. } if &**status == "not_loaded" => {
                link.threads().remove(thread);
                self.shared.board().evicted(thread, Instant::now());
            }
            ConnectionEvent::PassedOver { report } => {
                tracing::warn!(worker = %self.post.name, report = &**report, "a line of the worker was passed over");
            }
            ConnectionEvent::Cut { events, .. } => {
                tracing::warn!(worker = %self.post.name, events, "events of the worker were left out");
            }
            _ => {}
        }
    }

    fn gone(&self, state: WorkerState, standing: Standing, reason: Box<str>) {
        self.shared.board().gone(self.post.slot, standing, Instant::now());
        self.shared.freed.notify_waiters();
        self.shared.set_state(&self.post, state, Some(reason));
    }

    fn stopped(&self) {
        let standing = Standing::Failed("the pool has stopped".into());
        self.shared.board().gone(self.post.slot, standing, Instant::now());
        self.shared.freed.notify_waiters();
        self.shared.set_state(&self.post, WorkerState::Stopped, None);
    }
}

fn reason_of(end: &End) -> EndReason {
    match end {
        End::Child(exit) => exit.reason(),
        End::Socket(_) | End::Dropped => EndReason::LinkLost,
    }
}

/// Why there is no worker: whether that can be cured by trying again.
fn reason_of_start(error: &StartError) -> EndReason {
    match error {
        StartError::Spawn(error) => error.reason(),
        StartError::NoCommand | StartError::NoDirectory(_) => EndReason::CouldNotStart,
        StartError::Connect(_) => EndReason::LinkLost,
        StartError::Handshake { cause: CallError::Unable(_), .. } => EndReason::ProtocolMismatch,
        StartError::Handshake { end, .. } => match reason_of(end) {
            EndReason::Clean | EndReason::LinkLost => EndReason::HandshakeFailed,
            reason => reason,
        },
    }
}

pub(crate) fn dialect(client: &Client) -> &'static str {
    match client.abilities().dialect {
        Dialect::V1 => "v1",
        Dialect::V2 => "v2",
    }
}
