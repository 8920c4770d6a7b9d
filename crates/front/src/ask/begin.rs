//! How the turn of a choice begins: on the thread that stands at the end of the conversation, if there is exactly one; where it
//! waits for the caller's tools, it goes on with their results; otherwise on a new thread that is told everything.

use std::sync::Arc;
use std::time::Duration;

use codex::{CallError, Json, Trap};
use tokio::time::{Instant, sleep};
use workers::{
    Afterwards, Caller as Orderer, NotConfinable, Order, Pool, Reach, Refused, ThreadChoice, TipClaim, Turn, TurnPermit,
};

use super::{Answering, Asked};
use crate::body::held_bytes;
use crate::error::Error;
use crate::metrics::Continuation;
use crate::openai::plan::{GoingOn, Whence, retold, said_besides};

/// How long a worker may take to be found again with the turns that wait there, and how often to look.
const FOUND_AGAIN_TIMEOUT: Duration = Duration::from_secs(30);
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// A turn that has begun, and how; `None` where it cannot in this way.
type Begun = Result<Option<(Turn, Continuation)>, Refused>;

/// A turn that has begun.
pub(super) struct Opening {
    pub(super) turn: Turn,
    /// What was asked, if the turn was given the results that it waited for: should they not have reached it, another takes its place.
    pub(super) again: Option<Arc<Asked>>,
}

/// Begins one turn.
pub(super) async fn begin(asked: Arc<Asked>, answering: Arc<Answering>) -> Result<Opening, Error> {
    let permit = answering.permit.turn();
    let (mut turn, how) = match (asked.rejoin().await, &asked.plan.going_on) {
        (Some(turn), _) => (turn, Continuation::Rejoined),
        (None, None) => (asked.begin_anew(&permit).await?, Continuation::Begun),
        (None, Some(going_on)) => asked.go_on(going_on, &permit).await?,
    };
    // One that waited runs by this request from now on.
    turn.set_permit(permit);
    asked.desk.feed.metrics().count_continuation(how);
    let again = (how == Continuation::Resumed).then_some(asked);
    Ok(Opening { turn, again })
}

/// Begins a turn in the place of one that was lost with its worker before it had heard anything.
pub(super) async fn begin_again(asked: Arc<Asked>, answering: Arc<Answering>) -> Result<Opening, Error> {
    let turn = asked.begin_anew(&answering.permit.turn()).await?;
    asked.desk.feed.metrics().count_continuation(Continuation::Retold);
    Ok(Opening { turn, again: None })
}

impl Asked {
    async fn go_on(&self, going_on: &GoingOn, permit: &TurnPermit) -> Result<(Turn, Continuation), Error> {
        let gone_on = match &going_on.from {
            Whence::History(history) => self.go_on_from(history, going_on, permit).await?,
            Whence::Turn { turn, .. } if !going_on.results.is_empty() => {
                self.resume(turn, going_on).await.map(|turn| (turn, Continuation::Resumed))
            }
            Whence::Turn { thread, turn } => match self.go_on_after(thread, turn, going_on, permit).await? {
                None => self.fork(thread.clone(), turn.clone(), going_on, permit).await?,
                gone_on => gone_on,
            },
        };
        if let Some(gone_on) = gone_on {
            return Ok(gone_on);
        }
        let retold = self.retold(permit).await?;
        self.let_go(going_on);
        Ok((self.desk.pool.start_turn(retold).await?, Continuation::Retold))
    }

    /// On the one thread that stands at the end of a history.
    async fn go_on_from(&self, history: &str, going_on: &GoingOn, permit: &TurnPermit) -> Begun {
        match self.desk.pool.claim_tip(history).await {
            TipClaim::Free(tip) if !going_on.results.is_empty() => {
                let resumed = self.resume(tip.last_turn(), going_on).await;
                Ok(resumed.map(|turn| (turn, Continuation::Resumed)))
            }
            TipClaim::Free(tip) => self.go_on_after(tip.thread(), tip.last_turn(), going_on, permit).await,
            TipClaim::Taken { thread, last_turn } if going_on.results.is_empty() => {
                self.fork(thread, last_turn, going_on, permit).await
            }
            TipClaim::Several | TipClaim::None | TipClaim::Taken { .. } => Ok(None),
        }
    }

    /// On a thread, if it still stands after that turn.
    async fn go_on_after(&self, thread: &str, turn: &str, going_on: &GoingOn, permit: &TurnPermit) -> Begun {
        let thread = ThreadChoice::Existing(thread.into(), self.plan.thread.clone());
        let order = Order { after: Some(turn.into()), ..self.order(thread, &going_on.history, permit) };
        self.try_on(order, Continuation::Continued).await
    }

    /// On a copy of a thread as it stood after that turn.
    async fn fork(&self, thread: Box<str>, last_turn: Box<str>, going_on: &GoingOn, permit: &TurnPermit) -> Begun {
        let fork = ThreadChoice::Fork { thread, last_turn, options: self.plan.thread.clone() };
        self.try_on(self.order(fork, &going_on.history, permit), Continuation::Forked).await
    }

    /// `None` if it is the thread that does not do.
    async fn try_on(&self, order: Order, how: Continuation) -> Begun {
        match self.desk.pool.start_turn(order).await {
            Ok(turn) => Ok(Some((turn, how))),
            Err(refused) if !is_the_threads(&refused) => Err(refused),
            Err(refused) => {
                tracing::debug!(%refused, "a thread does not go on; another takes its place");
                Ok(None)
            }
        }
    }

    /// The turn that waits for a person's decision on this very question, whose caller has gone.
    async fn rejoin(&self) -> Option<Turn> {
        match self.desk.pool.claim_tip(&self.plan.said.to_hash()).await {
            TipClaim::Free(tip) if tip.is_parked() => self.parked(tip.last_turn(), |_| true).await,
            _ => None,
        }
    }

    /// A turn that waits for results which are told elsewhere now waits in vain.
    fn let_go(&self, going_on: &GoingOn) {
        let own = Orderer { reach: Reach::Own, ..self.caller.clone() };
        for (call, _) in &going_on.results {
            self.desk.pool.parked_by_call(call, &own).into_iter().for_each(Turn::cancel);
        }
    }

    /// A parked turn, once it is there as a whole; right after the start of the server its worker may not have been
    /// found again yet, or not have asked again what it had asked.
    async fn parked(&self, turn: &str, is_whole: impl Fn(&Pool) -> bool) -> Option<Turn> {
        let (pool, deadline) = (&self.desk.pool, Instant::now() + FOUND_AGAIN_TIMEOUT);
        loop {
            let is_last_look = !pool.is_finding(self.profile.group.as_deref()) || Instant::now() > deadline;
            if is_last_look || is_whole(pool) {
                let turn = pool.parked_turn(turn, &self.caller);
                if turn.is_some() || is_last_look {
                    return turn;
                }
            }
            sleep(LOOK_INTERVAL).await;
        }
    }

    /// The turn that waits for these results, set going again; `None` if it does not wait any more.
    async fn resume(&self, turn: &str, going_on: &GoingOn) -> Option<Turn> {
        let waiting = || self.desk.pool.waiting_calls(turn);
        let parked = self.parked(turn, |_| !waiting().is_empty()).await?;
        let (waiting, mut turn) = (waiting(), parked);
        if self.request.afterwards == Afterwards::Goes {
            turn.leave_nothing();
        }
        let besides = said_besides(&self.request.messages);
        if !besides.is_empty()
            && let Err(error) = turn.steer(&besides).await
        {
            tracing::debug!(%error, "a turn that waits cannot be told more; a new one takes its place");
            return None;
        }
        let mut is_answered = false;
        for (index, (call, result)) in going_on.results.iter().enumerate() {
            // Calls of the older form have no ids of the model's.
            let call = if self.request.tools.are_functions { waiting.get(index)? } else { call };
            is_answered |= turn.answer_call(call, result.clone()).is_ok();
        }
        is_answered.then_some(turn)
    }

    async fn begin_anew(&self, permit: &TurnPermit) -> Result<Turn, Error> {
        Ok(self.desk.pool.start_turn(self.retold(permit).await?).await?)
    }

    /// An order for a new thread that is told everything.
    async fn retold(&self, permit: &TurnPermit) -> Result<Order, Error> {
        let thread = ThreadChoice::New(self.plan.thread.clone());
        let Some(retelling) = &self.retelling else {
            return Ok(self.order(thread, &self.plan.history, permit));
        };
        let mut memory = self.desk.bodies.memory().lease(&Arc::from(&*self.caller.key));
        let said = retelling.said(&self.desk, &mut memory).await?;
        memory.resize(held_bytes(&said))?;
        let order = self.order(thread, &retold(&self.request, said, retelling.told), permit);
        Ok(Order { memory: Some(Arc::new((Arc::clone(&self.memory), memory))), ..order })
    }

    fn order(&self, thread: ThreadChoice, history: &[Json], permit: &TurnPermit) -> Order {
        Order {
            caller: self.caller.clone(),
            group: self.profile.group.clone(),
            profile: Some(self.profile.name.clone()),
            thread,
            history: history.to_vec(),
            after: None,
            turn: self.plan.turn.clone(),
            afterwards: self.request.afterwards,
            queue_timeout: None,
            decision_timeout: self.profile.decision_timeout,
            permit: permit.clone(),
            memory: Some(Arc::clone(&self.memory) as _),
        }
    }
}

/// Whether it is the thread that does not do, so that a new one may; no turn has begun then.
fn is_the_threads(refused: &Refused) -> bool {
    match refused {
        Refused::NoSuchThread { .. } | Refused::MovedOn { .. } | Refused::History(_) => true,
        Refused::NotConfinable(
            NotConfinable::Gone { .. } | NotConfinable::Outside(_) | NotConfinable::OtherGroup(_),
        ) => true,
        Refused::Worker(CallError::NotConfined { .. }) => true,
        Refused::Worker(CallError::Unable(_)) => true,
        Refused::Worker(error) if matches!(error.trap(), Some(Trap::NeverRan | Trap::NotLoaded)) => true,
        Refused::Worker(CallError::Failed { method, .. }) => {
            method.starts_with("thread/") || &**method == "resumeConversation"
        }
        _ => false,
    }
}
