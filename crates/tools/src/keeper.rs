//! Keeps one tool server: starts it when it is its turn, shakes hands, reads its lists, carries its calls, and starts it again
//! as its policy says, until somebody stops it. One task does all of that.

mod attendance;

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use store::Change;
use supervise::{EndReason, Ladder, Restarts, Verdict};
use tokio::task::JoinSet;
use tokio::time::timeout_at;

use crate::catalog::{Catalog, Lists};
use crate::connection::{Broken, Driver};
use crate::evidence::{Ended as Exited, Phase, Silence};
use crate::far::{End, Far, OpenError};
use crate::handshake::{Agreement, Failure, Handshake, Opening};
use crate::host::Shared;
use crate::listing::{Problem, Read};
use crate::post::{Post, Remains, Status, Wish};
use crate::settings::{Dialect, Reach, Restart, Server};
use crate::strays;
use crate::view::{Implementation, ServerState};
use attendance::Attendance;

/// Tools that are read in a moment.
const SHORT_BYTES: usize = 64 << 10;

/// How one life of a server ended.
enum Ended {
    Broke { reason: EndReason, words: Arc<str>, opening: Opening },
    Wished(Wish),
}

pub(crate) struct Keeper {
    pub(crate) shared: Arc<Shared>,
    pub(crate) post: Arc<Post>,
    /// Servers of the same name that are being stopped: two of them at once could be in each other's way.
    pub(crate) before: Vec<Arc<Post>>,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.post.set_connection(None);
            self.set_state(
                ServerState::Failed,
                Some("what kept it has failed: start Switchboard anew, and tell us".into()),
            );
        }
        self.post.over.cancel();
    }
}

impl Keeper {
    pub(crate) async fn keep(self) {
        self.remember().await;
        for before in &self.before {
            before.over.cancelled().await;
        }
        let mut restarts = Restarts::new(self.post.server.restart.policy());
        let mut opening = match self.post.server.dialect {
            Dialect::Mcp => Opening::Discover,
            Dialect::LocalCowork => Opening::Initialize,
        };
        loop {
            let started = Instant::now();
            let ended = self.live(opening).await;
            self.post.set_connection(None);
            self.post.status().pid = None;
            let wish = match ended {
                Ended::Wished(wish) => wish,
                Ended::Broke { reason, words, opening: next } => {
                    if self.post.server.dialect == Dialect::Mcp {
                        opening = next;
                    }
                    self.after(&mut restarts, reason, started.elapsed(), &words).await
                }
            };
            match wish {
                Wish::Keep => {}
                Wish::Restart => restarts.reset(),
                Wish::Stop => return self.set_state(ServerState::Stopped, None),
            }
            self.post.status().restarts += 1;
        }
    }

    /// What follows from an end that nobody wished for: waits until it is time to start again, or somebody wishes something.
    async fn after(&self, restarts: &mut Restarts, reason: EndReason, uptime: Duration, words: &str) -> Wish {
        self.post.status().last_end = Some(words.into());
        match restarts.handle_end(&reason, uptime, fraction(), Instant::now()) {
            Verdict::RestartAt(at) => {
                self.set_state(ServerState::Restarting, Some(words.into()));
                timeout_at(at.into(), self.post.wished()).await.unwrap_or(Wish::Keep)
            }
            Verdict::Fail { .. } if self.may_cure_itself(reason) => {
                restarts.reset();
                self.set_state(ServerState::Restarting, Some(words.into()));
                let at = Instant::now() + self.post.server.restart.policy().wait_max;
                timeout_at(at.into(), self.post.wished()).await.unwrap_or(Wish::Keep)
            }
            Verdict::Fail { why, .. } => {
                self.set_state(ServerState::Failed, Some(format!("{why}: {words}").into()));
                self.post.wished().await
            }
        }
    }

    /// Whether what keeps the server away may pass: a lack of room does, and who runs it elsewhere starts it again.
    fn may_cure_itself(&self, reason: EndReason) -> bool {
        let is_elsewhere = matches!(self.post.server.reach, Reach::Http { .. });
        let may_pass = reason == EndReason::StartRefused || (is_elsewhere && reason == EndReason::LinkLost);
        may_pass && self.post.server.restart == Restart::Always
    }

    /// One life of the server, from its start to its end.
    async fn live(&self, opening: Opening) -> Ended {
        self.set_state(ServerState::Starting, None);
        let turn = tokio::select! {
            turn = Turn::wait_for(&self.shared) => turn,
            wish = self.post.wished() => return Ended::Wished(wish),
        };
        let started = Instant::now();
        let server = &self.post.server;
        let far = match Far::open(server, self.shared.owner, &self.shared.limits).await {
            Ok(far) => far,
            Err(error) => return broke_early(&error, opening),
        };
        let (mut driver, half) = Driver::new(far, server.dialect, self.shared.limits.ring);
        {
            let mut status = self.post.status();
            status.pid = driver.pid();
            status.remains = Remains { ring: Some(Arc::clone(half.ring())), ..Remains::default() };
        }
        let handshake = Handshake::new(opening, server.timeouts, Instant::now());
        let shaken = tokio::select! {
            shaken = driver.shake_hands(handshake) => shaken,
            wish = self.post.wished() => {
                driver.stop(self.shared.ladder).await;
                return Ended::Wished(wish);
            }
        };
        self.post.status().remains.first_byte_at = driver.first_byte_at();
        let agreement = match shaken {
            Ok(agreement) => agreement,
            Err(broken) => return self.broke(driver, &broken, started).await,
        };
        let (connection, telling) = half.joined(agreement);
        self.introduce(connection.agreement());
        let over = {
            let mut attendance = Attendance::new(self, connection, telling, started);
            tokio::select! {
                () = driver.run() => None,
                wish = attendance.serve(turn) => Some(wish),
            }
        };
        self.post.set_connection(None);
        match over {
            None => self.part(driver, opening).await,
            Some(wish) => {
                if wish == Wish::Restart {
                    self.set_state(ServerState::Restarting, Some("somebody asked for it".into()));
                }
                driver.stop(self.shared.ladder).await;
                Ended::Wished(wish)
            }
        }
    }

    fn introduce(&self, agreement: &Agreement) {
        let is_another = {
            let mut status = self.post.status();
            status.era = Some(agreement.era);
            status.protocol = Some(agreement.version.clone());
            status.implementation = agreement.server.clone().map(|(name, version)| Implementation { name, version });
            status.remains.phase = Phase::List;
            status.log_level = None;
            status.ready_after = None;
            let version = version_of(&status);
            let is_another = std::mem::replace(&mut status.listed_version, version.clone()) != version;
            if is_another {
                // What another version offered says nothing of this one.
                (status.lists, status.catalog, status.is_from_memory) = Default::default();
            }
            is_another
        };
        if is_another {
            self.shared.offer_anew();
        }
    }

    /// Hands were not shaken.
    async fn broke(&self, driver: Driver, broken: &Broken, started: Instant) -> Ended {
        let (processor, stderr) = (driver.processor_time(), driver.stderr());
        let end = driver.stop(self.shared.ladder).await;
        let (reason, words, phase) = match broken {
            Broken::Ended(phase) => (reason_of(&end), words_of(&end, "it ended before it had answered"), *phase),
            Broken::Handshake(failure) => (
                match failure {
                    Failure::Silent { .. } => EndReason::HandshakeFailed,
                    Failure::Unreachable(_) => EndReason::LinkLost,
                    _ => EndReason::ProtocolMismatch,
                },
                failure.to_string(),
                Phase::Initialize,
            ),
        };
        let mut status = self.post.status();
        status.remains.phase = phase;
        status.remains.stderr = stderr;
        match broken {
            Broken::Handshake(Failure::Silent { .. }) => {
                status.remains.silent = Some(Silence { phase, lasted: started.elapsed(), processor });
            }
            Broken::Ended(_) => status.remains.ended = exited(&end),
            Broken::Handshake(_) => {}
        }
        Ended::Broke { reason, words: words.into(), opening: broken.next_opening() }
    }

    /// The server has ended by itself.
    async fn part(&self, driver: Driver, opening: Opening) -> Ended {
        let trouble = driver.last_trouble();
        let end = driver.stop(self.shared.ladder).await;
        let mut status = self.post.status();
        status.remains.ended = exited(&end);
        if let End::Process(exit) = &end {
            status.remains.stderr.clone_from(&exit.stderr.text);
        }
        let words = match (&end, trouble) {
            (End::Process(exit), Some(trouble)) => format!("{trouble}; {exit}"),
            (End::Link, Some(trouble)) => trouble.to_string(),
            _ => words_of(&end, "the connection was closed"),
        };
        Ended::Broke { reason: reason_of(&end), words: words.into(), opening }
    }

    /// Offers what the server offered last time, until it says what it offers now.
    async fn remember(&self) {
        if let Some(approvals) = &self.shared.approvals {
            // What an earlier run has asked, nobody waits for any more.
            approvals.orphan_unclaimed(strays::GROUP, &self.post.name).await;
        }
        let Some(store) = &self.shared.store else { return };
        let (name, hash) = (self.post.name.to_string(), self.post.server.hash());
        let kept = store.read(move |reader| reader.tool_list(&name)).await.ok().flatten();
        let Some(kept) = kept.filter(|kept| kept.hash == hash) else { return };
        let Ok(lists) = serde_json::from_str::<Lists>(&kept.body) else { return };
        let catalog = self.catalog(&lists).await;
        {
            let mut status = self.post.status();
            status.lists = lists;
            status.catalog = catalog;
            status.listed_version = kept.version;
            status.is_from_memory = true;
        }
        self.shared.offer_anew();
    }

    /// Takes over what was read.
    async fn learn(&self, read: Read, started: Instant) {
        let Read { mut lists, problems } = read;
        let is_whole = !problems.iter().any(|problem| matches!(problem, Problem::Unread { .. }));
        let is_from_memory = self.keep_unread(&mut lists, &problems);
        let catalog = self.catalog(&lists).await;
        let reasons: Vec<String> = catalog
            .quarantined
            .iter()
            .map(|one| format!("`{}` cannot be used: {} at {}", one.name, one.why, one.path))
            .chain(problems.iter().map(|problem| problem.what().to_owned()))
            .chain(unknown_names(&self.post.server, &lists))
            .collect();
        // What was read only in part must not replace what was read whole.
        if let Some(store) = self.shared.store.as_ref().filter(|_| is_whole) {
            let kept = store::ToolList {
                server: self.post.name.to_string(),
                hash: self.post.server.hash(),
                version: version_of(&self.post.status()),
                body: serde_json::to_string(&lists).unwrap_or_default(),
                at: crate::host::unix_ms(),
            };
            store.note(Change::ToolList(kept));
        }
        let has_changed = {
            let mut status = self.post.status();
            let has_changed = status.lists != lists;
            status.lists = lists;
            status.catalog = catalog;
            status.is_from_memory = is_from_memory;
            status.remains.phase = Phase::Ready;
            status.ready_after.get_or_insert(started.elapsed());
            has_changed
        };
        if has_changed {
            self.shared.offer_anew();
        }
        match reasons.is_empty() {
            true => self.set_state(ServerState::Ready, None),
            false => self.set_state(ServerState::Degraded, Some(reasons.join("; ").into())),
        }
    }

    /// What could not be read is as it was before, if there was anything: that is of the same version. Says whether the tools are.
    fn keep_unread(&self, lists: &mut Lists, problems: &[Problem]) -> bool {
        let mut status = self.post.status();
        let mut keeps_tools = false;
        for problem in problems {
            let Problem::Unread { field, .. } = problem else { continue };
            let before = status.lists.named(field);
            if !before.is_empty() {
                lists.named(field).clone_from(before);
                keeps_tools |= *field == "tools";
            }
        }
        keeps_tools
    }

    /// Reads lists. Long ones, and those with patterns, which are slow to compile, are read on a blocking thread; for others
    /// a thread would cost more than it saves.
    async fn catalog(&self, lists: &Lists) -> Arc<Catalog> {
        let mut bytes = 0;
        let is_slow = lists.tools.iter().map(ToString::to_string).any(|tool| {
            bytes += tool.len();
            bytes > SHORT_BYTES || tool.contains("\"pattern")
        });
        if !is_slow {
            return Arc::new(Catalog::read(lists, &self.post.server));
        }
        let (lists, server) = (lists.clone(), Arc::clone(&self.post.server));
        let read = tokio::task::spawn_blocking(move || Catalog::read(&lists, &server)).await;
        Arc::new(read.unwrap_or_else(|error| match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The runtime ends, and everything with it.
            Err(_) => Catalog::default(),
        }))
    }

    fn set_state(&self, state: ServerState, reason: Option<Arc<str>>) {
        self.shared.set_state(&self.post, state, reason);
    }
}

/// The turn of a server to start; it is given back with it, or when it was long enough.
struct Turn {
    _holding: JoinSet<()>,
}

impl Turn {
    async fn wait_for(shared: &Shared) -> Self {
        let permit = Arc::clone(&shared.starts).acquire_owned().await;
        let turn_max = shared.limits.start_turn_max;
        let mut holding = JoinSet::new();
        holding.spawn(async move {
            tokio::time::sleep(turn_max).await;
            drop(permit);
        });
        Self { _holding: holding }
    }
}

/// What the server calls its version; nothing if it names none.
fn version_of(status: &Status) -> String {
    status.implementation.as_ref().map(|one| one.version.clone()).unwrap_or_default()
}

/// Tools that the configuration names and the server does not have: one that should wait for a decision may be among them.
fn unknown_names(server: &Server, lists: &Lists) -> Vec<String> {
    let has = |name: &String| lists.tools.iter().any(|tool| tool["name"] == name.as_str());
    let named = [("enabled_tools", &server.enabled), ("confirm_tools", &server.confirm_tools)];
    let unknown =
        named.iter().flat_map(|(key, names)| names.iter().filter(|name| !has(name)).map(move |name| (key, name)));
    unknown.map(|(key, name)| format!("`{key}` names `{name}`, which it does not have")).collect()
}

fn broke_early(error: &OpenError, opening: Opening) -> Ended {
    let reason = match error {
        OpenError::Spawn(error) => error.reason(),
        OpenError::TooSlow(_) => EndReason::StartRefused,
        OpenError::NoCommand | OpenError::Http(_) => EndReason::CouldNotStart,
    };
    Ended::Broke { reason, words: error.to_string().into(), opening }
}

fn reason_of(end: &End) -> EndReason {
    match end {
        End::Process(exit) => exit.reason(),
        End::Link => EndReason::LinkLost,
    }
}

fn words_of(end: &End, otherwise: &str) -> String {
    match end {
        End::Process(exit) => exit.to_string(),
        End::Link => otherwise.into(),
    }
}

fn exited(end: &End) -> Option<Exited> {
    match end {
        End::Process(exit) => Some(Exited { how: exit.ending.to_string(), after: exit.lifetime }),
        End::Link => None,
    }
}

/// A number from 0 to 1 that differs from server to server: those that fell together need not rise together.
fn fraction() -> f64 {
    let random = uuid::Uuid::new_v4().as_u128();
    f64::from(u32::try_from(random & 0xffff).unwrap_or_default()) / f64::from(0xffff_u32)
}

/// How a tool server is stopped.
pub(crate) fn ladder() -> Ladder {
    Ladder::default()
}
