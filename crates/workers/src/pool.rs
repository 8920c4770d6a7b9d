//! The pool: turns for whoever orders them, on workers that are kept running.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use approvals::Approvals;
use codex::{Frame, ThreadOptions};
use store::Store;
use supervise::Ledger;
use tokio::runtime::Handle;
use tokio::sync::{Notify as Bell, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use crate::beginning::Beginning;
use crate::board::{self, Board, Place, Slot, SlotId, WaitId, Want};
use crate::keeper::{self, Keeper, dialect};
use crate::limits::Limits;
use crate::notice::Notify;
use crate::parked::{NoSuchCall, ToolResult};
use crate::plan::{Caller, Order, Plan, ThreadChoice, Transport};
use crate::post::{Post, Wish, lock};
use crate::provider::ProviderState;
use crate::record;
use crate::refused::Refused;
use crate::shared::Shared;
use crate::tips::{TIPS_MAX, Tips};
use crate::turn::Turn;
use crate::view::{GroupView, Load, TurnView, WorkerState, WorkerView, unix_ms};

/// How often an order is placed anew because its worker died before it had begun.
const ATTEMPTS_MAX: usize = 3;
/// How long what was last written may take to be readable.
pub(crate) const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// The pool of workers. Clones share it; when the last one is dropped, its workers are killed, but for detached ones.
#[derive(Clone)]
pub struct Pool {
    pub(crate) shared: Arc<Shared>,
    keepers: Arc<Keepers>,
}

/// The keepers, for as long as anybody has the pool.
struct Keepers {
    shared: Arc<Shared>,
    keeping: Mutex<JoinSet<()>>,
}

impl Drop for Keepers {
    fn drop(&mut self) {
        lock(&self.keeping).abort_all();
        self.shared.abandon();
    }
}

/// There is no worker of that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no worker named {0:?}")]
pub struct NoSuchWorker(pub Box<str>);

impl Pool {
    /// Starts all workers, and returns at once; [`Self::readiness`] tells how far they are.
    ///
    /// # Panics
    /// Outside a tokio runtime, or if the plan has no group.
    #[must_use]
    pub fn start(plan: Plan, store: Store, approvals: Approvals, ledger: Ledger, notify: Notify) -> Self {
        assert!(!plan.groups.is_empty(), "a pool has at least one group");
        let (mut slots, mut posts) = (Vec::new(), Vec::new());
        for (at, group) in plan.groups.iter().enumerate() {
            for number in 0..group.count {
                let name = format!("{}-{number}", group.name);
                posts.push(Arc::new(Post::new(SlotId(slots.len()), at, &name)));
                slots.push(Slot::new(at, group.turns_max, group.threads_loaded_max));
            }
        }
        for user in plan.groups.iter().filter_map(|group| group.user.as_ref()) {
            ledger.add_user(user.uid());
        }
        let board = Board::new(slots, plan.limits.queue_max);
        let providers = Mutex::new(vec![ProviderState::default(); plan.groups.len()]);
        let shared = Arc::new(Shared {
            plan,
            posts,
            board: Mutex::new(board),
            parked: Mutex::default(),
            words: Mutex::default(),
            tips_loaded: watch::Sender::new(false),
            tips: Mutex::new(Tips::new(TIPS_MAX)),
            providers,
            store,
            approvals,
            ledger,
            notify,
            freed: Bell::new(),
            runtime: Handle::current(),
            unread: Mutex::default(),
        });
        shared.restore_tokens();
        shared.see_to(Arc::clone(&shared).load_tips());
        shared.see_to(keeper::end_strays(Arc::clone(&shared)));
        let mut keeping = JoinSet::new();
        for post in &shared.posts {
            let keeper = Keeper { shared: Arc::clone(&shared), post: Arc::clone(post) };
            keeping.spawn(keeper.keep());
        }
        let keepers = Keepers { shared: Arc::clone(&shared), keeping: Mutex::new(keeping) };
        Self { shared, keepers: Arc::new(keepers) }
    }

    /// Starts a turn as soon as there is a place for it.
    ///
    /// # Errors
    /// [`Refused`]; its `work_may_have_run` says whether the order may be made again without harm.
    pub async fn start_turn(&self, order: Order) -> Result<Turn, Refused> {
        let deadline = Instant::now() + order.queue_timeout.unwrap_or(self.limits().queue_timeout);
        let record = self.record_of(&order).await?;
        let group = self.group_named(&record.group)?;
        let want = Want {
            key: order.caller.key.clone(),
            group,
            thread: order.thread.id().map(Into::into),
            beside: order.thread.source().map(Into::into),
            decision_timeout: order.decision_timeout,
        };
        let order = Arc::new(order);
        let mut attempts = 0;
        loop {
            attempts += 1;
            let place = self.place(want.clone(), deadline).await?;
            let beginning = Beginning { order: Arc::clone(&order), record: record.clone(), place };
            match self.shared.begin(beginning).await {
                Err(Refused::WorkerGone) if attempts < ATTEMPTS_MAX => {}
                outcome => return outcome,
            }
        }
    }

    /// A parked turn of the caller's, by its id: to be read again from here on.
    #[must_use]
    pub fn parked_turn(&self, turn: &str, caller: &Caller) -> Option<Turn> {
        let running = self.shared.claim(turn, caller)?;
        Some(Turn::new(running, Arc::clone(&self.shared)))
    }

    /// The parked turn of the caller's that waits for the result of this call. Claim it before you answer the call, and
    /// nothing that follows is missed.
    #[must_use]
    pub fn parked_by_call(&self, call: &str, caller: &Caller) -> Option<Turn> {
        let running = self.shared.claim_by_call(call, caller)?;
        Some(Turn::new(running, Arc::clone(&self.shared)))
    }

    /// Gives up every turn of a key that nobody reads, as when the key is revoked.
    pub fn cancel_unread(&self, key: &str) {
        self.shared.cancel_unread(key);
    }

    /// The calls of its caller's tools that a turn waits for, in the order in which its worker has asked for them.
    #[must_use]
    pub fn waiting_calls(&self, turn: &str) -> Vec<Box<str>> {
        self.shared.parked().of_turn(turn)
    }

    /// Gives a call of the caller's tool its result.
    ///
    /// # Errors
    /// [`NoSuchCall`].
    pub fn answer_call(&self, call: &str, caller: &Caller, result: ToolResult) -> Result<(), NoSuchCall> {
        self.shared.answer_call(call, caller, result)
    }

    /// All workers.
    #[must_use]
    pub fn workers(&self) -> Vec<WorkerView> {
        self.shared.posts.iter().map(|post| self.view(post)).collect()
    }

    /// All groups, and what they lack.
    #[must_use]
    pub fn readiness(&self) -> Vec<GroupView> {
        let workers = self.workers();
        let providers = lock(&self.shared.providers).clone();
        let groups = self.shared.plan.groups.iter().zip(providers).map(|(group, provider)| {
            let of_group = || workers.iter().filter(|worker| worker.group == group.name);
            let ready = of_group().filter(|worker| worker.state == WorkerState::Ready).count();
            let missing = of_group().filter(|worker| worker.state != WorkerState::Ready).map(WorkerView::lack);
            GroupView {
                name: group.name.clone(),
                is_ready: ready > 0 && !self.shared.board().is_draining(),
                ready,
                count: group.count,
                missing: missing.collect(),
                cannot_reach_provider: provider == ProviderState::Unreachable,
            }
        });
        groups.collect()
    }

    /// The turns that have a place.
    #[must_use]
    pub fn turns(&self) -> Vec<TurnView> {
        let board = self.shared.board();
        let views = board.leases().map(|lease| TurnView {
            turn: lease.turn.clone(),
            thread: lease.thread.clone(),
            worker: (&*self.shared.post(lease.slot).name).into(),
            key: lease.key.clone(),
            is_parked: lease.is_parked(),
            age_ms: u64::try_from(lease.since.elapsed().as_millis()).unwrap_or(u64::MAX),
        });
        views.collect()
    }

    /// Whether no more turns are begun.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.shared.board().is_draining()
    }

    /// How full the pool is.
    #[must_use]
    pub fn load(&self) -> Load {
        let board = self.shared.board();
        let (mut turns, mut parked) = (0, 0);
        for lease in board.leases() {
            turns += 1;
            parked += usize::from(lease.is_parked());
        }
        Load { turns, parked, waiting: board.waiting() }
    }

    /// Starts a worker anew, also one that has failed. The turns that it runs are lost.
    ///
    /// # Errors
    /// [`NoSuchWorker`].
    pub fn restart_worker(&self, name: &str) -> Result<(), NoSuchWorker> {
        self.post_named(name)?.wish(Wish::Restart("an operator asked for it".into()));
        Ok(())
    }

    /// The last frames of the connection to a worker; none if there is no connection.
    ///
    /// # Errors
    /// [`NoSuchWorker`].
    pub fn frames(&self, worker: &str) -> Result<Vec<Frame>, NoSuchWorker> {
        Ok(self.post_named(worker)?.link().map(|link| link.client.frames()).unwrap_or_default())
    }

    /// Takes no more turns, and waits until those that run are over, but not for parked ones, and not longer than `grace`.
    pub async fn drain(&self, grace: Duration) {
        self.shared.board().drain();
        timeout(grace, self.until_idle()).await.ok();
    }

    /// Stops all workers; detached ones are left running, to be found again. Turns that still run are lost.
    pub async fn stop(&self) {
        self.shared.board().drain();
        self.shared.posts.iter().for_each(|post| post.wish(Wish::Stop));
        let mut keeping = std::mem::take(&mut *lock(&self.keepers.keeping));
        while keeping.join_next().await.is_some() {}
        self.shared.abandon();
    }

    async fn until_idle(&self) {
        loop {
            let mut freed = std::pin::pin!(self.shared.freed.notified());
            freed.as_mut().enable();
            if self.shared.board().leases().all(board::Lease::is_parked) {
                return;
            }
            freed.await;
        }
    }

    /// What is known of the thread of an order: only its owner and operators may use it.
    async fn record_of(&self, order: &Order) -> Result<store::Thread, Refused> {
        let (id, options) = match &order.thread {
            ThreadChoice::New(options) => return Ok(self.new_record(order, "", options)),
            ThreadChoice::Existing(thread, options) => (thread, options),
            ThreadChoice::Fork { thread, options, .. } => {
                let source = self.known(order, thread, options).await?;
                return Ok(store::Thread { group: source.group, ..self.new_record(order, "", options) });
            }
        };
        self.known(order, id, options).await
    }

    async fn known(&self, order: &Order, id: &str, options: &ThreadOptions) -> Result<store::Thread, Refused> {
        let no_such_thread = || Refused::NoSuchThread { thread: id.into() };
        if let Some(record) = self.shared.record_of_loaded(id) {
            return if order.caller.reaches(&record.key) { Ok(record) } else { Err(no_such_thread()) };
        }
        // What was noted a moment ago may not be readable yet.
        timeout(FLUSH_TIMEOUT, self.shared.store.flush()).await.ok();
        let thread = id.to_owned();
        let known = self.shared.store.read(move |reader| reader.thread(&thread)).await;
        match known.map_err(|error| Refused::NotReady { reason: error.to_string().into() })? {
            Some(record) if order.caller.reaches(&record.key) => Ok(record),
            Some(_) => Err(no_such_thread()),
            // One that others have made: an operator may go on with it.
            None if order.caller.reaches("") => Ok(self.new_record(order, id, options)),
            None => Err(no_such_thread()),
        }
    }

    fn new_record(&self, order: &Order, id: &str, options: &ThreadOptions) -> store::Thread {
        let group = order.group.as_deref().unwrap_or(&self.shared.plan.groups[0].name);
        store::Thread {
            owner: self.shared.ledger.owner().to_string(),
            cwd: options.cwd.clone().unwrap_or_default(),
            profile: order.profile.as_deref().map(Into::into),
            model: options.model.clone(),
            ..record::fresh(id, group, &order.caller.key)
        }
    }

    pub(crate) fn group_named(&self, name: &str) -> Result<usize, Refused> {
        let groups = &self.shared.plan.groups;
        groups.iter().position(|group| *group.name == *name).ok_or_else(|| Refused::NoSuchGroup {
            group: name.into(),
            known: groups.iter().map(|group| group.name.clone()).collect(),
        })
    }

    pub(crate) async fn place(&self, want: Want, deadline: Instant) -> Result<Place, Refused> {
        let id = self.shared.board().order(want, Instant::now().into_std())?;
        let waiting = Waiting { shared: &self.shared, id };
        let placed = poll_fn(|context| self.shared.board().poll_place(waiting.id, context));
        match timeout_at(deadline, placed).await {
            Ok(placed) => placed,
            Err(_) => Err(Refused::Busy { retry_after: self.shared.board().retry_after() }),
        }
    }

    fn view(&self, post: &Post) -> WorkerView {
        let status = post.status();
        let group = self.shared.group(post);
        let link = post.link();
        let board = self.shared.board();
        let slot = board.slot(post.slot);
        WorkerView {
            name: (&*post.name).into(),
            group: group.name.clone(),
            state: status.state,
            reason: status.reason,
            since: unix_ms(status.since),
            retry_at: status.retry_at.map(unix_ms),
            pid: status.pid,
            user_agent: link.as_ref().map(|link| link.client.greeting().user_agent.clone()),
            dialect: link.as_ref().map(|link| dialect(&link.client)),
            transport: match group.transport {
                Transport::Stdio => "stdio",
                Transport::Unix => "unix",
                Transport::Ws(_) => "ws",
            },
            turns: slot.turns(),
            turns_parked: slot.parked(),
            turns_max: slot.turns_max,
            threads_loaded: slot.threads(),
            restarts: status.restarts,
        }
    }

    fn post_named(&self, name: &str) -> Result<&Arc<Post>, NoSuchWorker> {
        self.shared.posts.iter().find(|post| *post.name == *name).ok_or_else(|| NoSuchWorker(name.into()))
    }

    fn limits(&self) -> &Limits {
        self.shared.limits()
    }
}

/// An order that waits for its place; given up when it is dropped.
struct Waiting<'a> {
    shared: &'a Shared,
    id: WaitId,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.shared.board().cancel(self.id, Instant::now().into_std());
        // It may have had a place, which is free again.
        self.shared.freed.notify_waiters();
    }
}
