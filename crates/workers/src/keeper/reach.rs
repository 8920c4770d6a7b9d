//! How a worker is reached: started as our child, connected to, or found again where an earlier Switchboard left it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use codex::{Callbacks, Client, End, Endpoint, Launch, Options, Patience, StartError};
use rustix::process::geteuid;
use supervise::{Detached, DetachedEntry, EndReason, Ladder, OsUser, Owner};
use tokio::time::{Instant, sleep, timeout};

use super::{Ended, Keeper, reason_of_start};
use crate::git_guard;
use crate::plan::{Group, ToolsAccess, Transport};
use crate::shared::Shared;
use crate::tokens::WorkerToken;

/// Our name, as workers are told it.
const CLIENT_NAME: &str = "switchboard";
/// Approvals have their own deadlines, kept by their book; the client's is only a net below it.
const DECISION_TIMEOUT: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Requests that nobody but a hook can answer; without one they are refused.
const FOR_HOOKS: [&str; 2] = ["account/chatgptAuthTokens/refresh", "attestation/generate"];
/// How long the client waits beyond what a parked call may take.
const TOOL_CALL_SPARE: Duration = Duration::from_secs(60);
/// How often to try a socket that is not there yet.
const CONNECT_INTERVAL: Duration = Duration::from_millis(50);
/// How long a worker whose link has ended may take to end itself, before it is taken to be alive.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// The longest path of a unix socket: the system has room for 108 bytes, of which the last is zero.
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// A worker that can be spoken to.
pub(super) struct Reached {
    pub(super) client: Client,
    pub(super) found: Found,
    pub(super) detached: Option<Detached>,
}

/// Whether a worker may have turns already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It has just been started.
    Fresh,
    /// It was running before.
    Running,
}

impl Keeper {
    /// Reaches the worker, unless somebody wishes otherwise meanwhile.
    pub(super) async fn reach(&self) -> Result<Reached, Ended> {
        tokio::select! {
            reached = self.reach_now() => reached,
            wish = self.post.wished() => Err(wish.into()),
        }
    }

    async fn reach_now(&self) -> Result<Reached, Ended> {
        match &self.shared.group(&self.post).transport {
            Transport::Stdio => {
                let token = self.issue_token()?;
                let launch = self.launch(self.shared.ledger.owner(), token.as_ref())?;
                let client = Client::start(&launch, self.options()).await;
                Ok(Reached { client: client.map_err(|error| broke(&error))?, found: Found::Fresh, detached: None })
            }
            Transport::Ws(endpoint) => {
                let client = Client::connect(endpoint, self.options()).await.map_err(|error| broke(&error))?;
                Ok(Reached { client, found: Found::Running, detached: None })
            }
            Transport::Unix => match self.find_detached().await {
                Some(reached) => Ok(reached),
                None => self.start_detached().await,
            },
        }
    }

    /// The worker that an earlier Switchboard, or an earlier link, has left running.
    async fn find_detached(&self) -> Option<Reached> {
        let entries = self.shared.ledger.detached();
        let entry = entries.into_iter().find(|entry| *entry.name == *self.post.name)?;
        let found = match Detached::find(&entry, supervise::Limits::default()) {
            Some(found) => Some((entry.clone(), found)),
            None => self.adopt(&entry).await,
        };
        let Some((entry, mut detached)) = found else {
            self.end_remains(&entry).await;
            return None;
        };
        // A worker of an earlier version has a token that is not valid any more.
        let lacks_token = self.shared.group(&self.post).tools.is_some() && entry.token_hash.is_none();
        if *entry.fingerprint != *self.fingerprint() || lacks_token {
            tracing::warn!(worker = %self.post.name, "its configuration has changed: the running worker is replaced");
            self.end_detached(detached).await;
            return None;
        }
        let endpoint = self.endpoint(&entry.socket);
        match self.connect(&endpoint, &mut detached).await {
            Ok(client) => Some(Reached { client, found: Found::Running, detached: Some(detached) }),
            Err(ended) => {
                if let Ended::Broke { words, .. } = ended {
                    tracing::warn!(worker = %self.post.name, reason = &*words, "a worker cannot be reached: stopping it");
                }
                self.end_detached(detached).await;
                None
            }
        }
    }

    async fn start_detached(&self) -> Result<Reached, Ended> {
        // The disk may be full, and will not always be.
        let unkept = |error: supervise::LedgerError| Ended::Broke {
            reason: EndReason::StartRefused,
            words: error.to_string().into(),
        };
        let socket = self.socket()?;
        let owner = self.shared.ledger.announce(&self.post.name).map_err(unkept)?;
        self.clear_socket(&socket).await?;
        let token = self.issue_token()?;
        let mut launch = self.launch(owner, token.as_ref())?;
        launch.args.extend(["--listen".into(), format!("unix://{}", socket.display()).into()]);
        let log = self.state_file("log");
        let spawned = launch.spawn_detached(&log, supervise::Limits::default());
        let mut detached = spawned.map_err(|error| broke(&StartError::Spawn(error)))?;
        let entry = DetachedEntry {
            token_hash: token.map(|token| token.hash().to_hex().into()),
            ..detached.entry(&self.post.name, socket.clone(), &self.fingerprint())
        };
        if let Err(error) = self.shared.ledger.record(entry) {
            detached.stop(Ladder::default()).await;
            return Err(unkept(error));
        }
        match self.connect(&self.endpoint(&socket), &mut detached).await {
            Ok(client) => Ok(Reached { client, found: Found::Fresh, detached: Some(detached) }),
            Err(ended) => {
                self.end_detached(detached).await;
                Err(ended)
            }
        }
    }

    /// Connects as soon as the worker listens; gives up when it ends instead, or takes too long.
    async fn connect(&self, endpoint: &Endpoint, detached: &mut Detached) -> Result<Client, Ended> {
        let deadline = Instant::now() + self.shared.limits().listen_timeout;
        loop {
            let error = match Client::connect(endpoint, self.options()).await {
                Ok(client) => return Ok(client),
                Err(error) => error,
            };
            if !detached.is_alive() {
                let exit = detached.ended().await;
                return Err(Ended::Broke { reason: exit.reason(), words: exit.to_string().into() });
            }
            if !matches!(error, StartError::Connect(_)) || Instant::now() >= deadline {
                return Err(broke(&error));
            }
            sleep(CONNECT_INTERVAL).await;
        }
    }

    /// The link to a detached worker ended by itself: either the worker has, or it can be reached again.
    pub(super) async fn part_from_detached(&self, mut detached: Detached, end: &End) -> Ended {
        match timeout(EXIT_TIMEOUT, detached.ended()).await {
            Ok(exit) => {
                self.forget_detached();
                Ended::Broke { reason: exit.reason(), words: exit.to_string().into() }
            }
            Err(_) => Ended::Broke { reason: EndReason::LinkLost, words: end.to_string().into() },
        }
    }

    pub(super) async fn end_detached(&self, detached: Detached) {
        let exit = detached.stop(Ladder::default()).await;
        tracing::info!(worker = %self.post.name, %exit, "a detached worker was stopped");
        self.forget_detached();
    }

    fn forget_detached(&self) {
        self.shared.revoke_token(&self.post);
        if let Err(error) = self.shared.ledger.forget(&self.post.name) {
            tracing::warn!(worker = %self.post.name, %error, "the state file cannot be written");
        }
    }

    /// What its worker is started from. Values of variables may be secrets, and are left out.
    pub(super) fn fingerprint(&self) -> String {
        let group = self.shared.group(&self.post);
        let (args, Group { program, codex_home, env, cwd, rlimits, user, .. }) = (group.command_line(), group);
        let names: Vec<_> = env.iter().map(|(name, _)| name).collect();
        let user = user.as_ref().map(OsUser::name);
        format!("{program:?} {args:?} {codex_home:?} {names:?} {cwd:?} {rlimits:?} {user:?}")
    }

    /// The token of a worker that is about to be started, if it is to have tools.
    fn issue_token(&self) -> Result<Option<WorkerToken>, Ended> {
        let group = self.shared.group(&self.post);
        let issue = |tools: &ToolsAccess| tools.tokens.issue(&group.name, &self.post.name);
        let refused = |error: store::NoRandomness| Ended::Broke {
            reason: EndReason::StartRefused,
            words: error.to_string().into(),
        };
        group.tools.as_ref().map(issue).transpose().map_err(refused)
    }

    fn launch(&self, owner: Owner, token: Option<&WorkerToken>) -> Result<Launch, Ended> {
        let group = self.shared.group(&self.post);
        let mut env = group.variables(token);
        let guard = self.shared.plan.state_dir.join("guard").join(&*self.post.name);
        git_guard::install(&guard, Path::new(&group.program), &mut env).map_err(|error| Ended::Broke {
            reason: EndReason::StartRefused,
            words: format!("{} cannot be written: {error}", guard.display()).into(),
        })?;
        let launch = Launch {
            program: group.program.clone(),
            args: group.command_line(),
            cwd: group.cwd.clone(),
            env,
            owner,
            rlimits: group.rlimits,
        };
        Ok(match &group.user {
            Some(user) => user.wrap(launch),
            None => launch,
        })
    }

    fn options(&self) -> Options {
        let limits = self.shared.limits();
        let patience = Patience {
            decision_timeout: DECISION_TIMEOUT,
            tool_call_timeout: limits.tool_call_timeout + TOOL_CALL_SPARE,
        };
        Options {
            experimental_api: true,
            callbacks: Callbacks::new().with_patience(patience).deferring(&FOR_HOOKS),
            call_timeout: limits.call_timeout,
            frames_bytes_max: limits.frames_bytes_max,
            ..Options::new(CLIENT_NAME, &self.shared.plan.client_version)
        }
    }

    /// Where the worker is to listen, if the system can have a socket there.
    fn socket(&self) -> Result<PathBuf, Ended> {
        let socket = match &self.shared.group(&self.post).user {
            None => self.state_file("sock"),
            Some(user) => {
                let directory = user.socket_directory(&self.shared.plan.state_dir, &self.post.name);
                let unusable =
                    |error| could_not_start(&format!("no directory for the socket of {}: {error}", user.name()));
                directory.map_err(unusable)?.join("worker.sock")
            }
        };
        let bytes = socket.as_os_str().len();
        if bytes <= SOCKET_PATH_BYTES_MAX {
            return Ok(socket);
        }
        let path = socket.display();
        Err(could_not_start(&format!(
            "the socket path {path} has {bytes} bytes, more than the {SOCKET_PATH_BYTES_MAX} that a socket can have: \
             choose a shorter state directory"
        )))
    }

    /// A worker with a user of its own can put a link to any other socket in place of its own.
    fn endpoint(&self, socket: &Path) -> Endpoint {
        let user = self.shared.group(&self.post).user.as_ref();
        Endpoint::unix(socket).of_user(user.map_or_else(|| geteuid().as_raw(), OsUser::uid))
    }

    pub(super) fn state_file(&self, ending: &str) -> PathBuf {
        self.shared.plan.state_dir.join(format!("{}.{ending}", self.post.name))
    }
}

/// Ends the detached workers that no group has any more.
pub(crate) async fn end_strays(shared: Arc<Shared>) {
    let is_ours = |name: &str| {
        let post = shared.posts.iter().find(|post| *post.name == *name);
        post.is_some_and(|post| matches!(shared.group(post).transport, Transport::Unix))
    };
    for entry in shared.ledger.detached().into_iter().filter(|entry| !is_ours(&entry.name)) {
        if let Some(stray) = Detached::find(&entry, supervise::Limits::default()) {
            let exit = stray.stop(Ladder::default()).await;
            tracing::warn!(worker = %entry.name, %exit, "a detached worker that is in no group any more was stopped");
        }
        if let Err(error) = shared.ledger.forget(&entry.name) {
            tracing::warn!(worker = %entry.name, %error, "the state file cannot be written");
        }
    }
}

fn broke(error: &StartError) -> Ended {
    Ended::Broke { reason: reason_of_start(error), words: error.to_string().into() }
}

fn could_not_start(words: &str) -> Ended {
    Ended::Broke { reason: EndReason::CouldNotStart, words: words.into() }
}
