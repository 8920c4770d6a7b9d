//! One choice of an answer: its turn on the way to its beginning, then read to its end. What follows from an end is done here: the
//! place of the conversation is remembered, and the turn let go.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use codex::{TurnEvent, TurnStatus, Usage};
use futures_util::Stream as _;
use tokio::time::{Instant, Sleep, sleep, sleep_until, timeout};
use workers::{At, Turn};

use super::begin::{Opening, begin, begin_again};
use super::{Answering, Asked, add_usage};
use crate::error::Error;
use crate::openai::reading::{End, Piece, Reading};

/// How long a turn has to begin before a stream is opened without it.
const BEGIN_PATIENCE: Duration = Duration::from_millis(300);
/// How long a turn may take to end, and its worker to report what it used, after a text that ends the answer; the real worker
/// takes some milliseconds.
const STOP_PATIENCE: Duration = Duration::from_secs(1);
/// How long it may take to write down where a conversation stands.
const KEEP_TIMEOUT: Duration = Duration::from_secs(1);

type Kept = Pin<Box<dyn Future<Output = ()> + Send>>;
type Begun = Pin<Box<dyn Future<Output = Result<Opening, Error>> + Send>>;

/// One choice.
pub(crate) struct Choice {
    answering: Arc<Answering>,
    stage: Stage,
    reading: Reading,
    /// Runs while more calls are waited for.
    quiet: Option<Pin<Box<Sleep>>>,
    /// What was asked, until its turn shows that it has heard the results that it was given.
    again: Option<Arc<Asked>>,
    /// Where its turn is, once it has begun.
    at: Option<At>,
    /// The hash of the conversation with its answer, once it has ended well.
    history: Option<String>,
    /// What it took, once it is over.
    usage: Option<Usage>,
}

enum Stage {
    Beginning(Begun),
    Running(Box<Turn>),
    /// A text has ended the answer, and the turn is on its way to its end, for as long as that may take.
    Stopping(Box<Turn>, Pin<Box<Sleep>>),
    /// Where the conversation stands is being written down, for whoever finds the turn again after a restart.
    Keeping(Kept),
    Over,
}

/// What came of a choice.
pub(crate) enum Step {
    /// Something was told, or not; there may be more.
    On,
    /// It ended.
    Ended(End),
}

impl Choice {
    pub(crate) fn new(asked: &Arc<Asked>, answering: &Arc<Answering>) -> Self {
        let Asked { request, profile, plan, .. } = &**asked;
        Self {
            stage: Stage::Beginning(Box::pin(begin(Arc::clone(asked), Arc::clone(answering)))),
            reading: Reading::new(request, profile.shows_work, &plan.said),
            answering: Arc::clone(answering),
            quiet: None,
            again: None,
            at: None,
            history: None,
            usage: None,
        }
    }

    /// Whether its turn has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.at.is_some()
    }

    /// Where its turn is, once it has begun.
    pub(crate) fn at(&self) -> Option<&At> {
        self.at.as_ref()
    }

    /// Gives its turn up, also if it waits for somebody.
    pub(crate) fn cancel(&mut self) {
        if let Stage::Running(turn) | Stage::Stopping(turn, _) = std::mem::replace(&mut self.stage, Stage::Over) {
            self.usage = self.used(&turn);
            turn.cancel();
        }
    }

    /// The thread of its turn is forgotten when that is over.
    pub(crate) fn leave_nothing(&mut self) {
        if let Stage::Running(turn) = &mut self.stage {
            turn.leave_nothing();
        }
    }

    /// The hash of the conversation as it was asked.
    pub(crate) fn question(&self) -> String {
        self.reading.question()
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// The hash of the conversation with its answer, once it has ended well.
    pub(crate) fn history(&self) -> Option<&str> {
        self.history.as_deref()
    }

    /// What it took, once it is over: always known of one that ended well.
    pub(crate) fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// What its turn took by now, with an estimate of what its worker has not reported.
    fn used(&self, turn: &Turn) -> Option<Usage> {
        let mut usage = self.reading.usage();
        add_usage(&mut usage, turn.estimated());
        usage
    }

    /// The next thing that happens; nothing after its end.
    pub(crate) fn poll_step(&mut self, context: &mut Context<'_>, mut say: impl FnMut(Piece<'_>)) -> Poll<Step> {
        if let Stage::Keeping(kept) = &mut self.stage {
            ready!(kept.as_mut().poll(context));
            self.stage = Stage::Over;
            return Poll::Ready(Step::Ended(End::ToolsWanted));
        }
        if matches!(self.stage, Stage::Stopping(..)) {
            return self.poll_stopping(context);
        }
        if let Err(error) = ready!(self.poll_begun(context)) {
            return Poll::Ready(self.ended(End::Failed(error)));
        }
        let Stage::Running(turn) = &mut self.stage else { return Poll::Pending };
        match Pin::new(&mut **turn).poll_next(context) {
            Poll::Ready(Some(event)) => {
                if self.begins_again(&event) {
                    return Poll::Ready(Step::On);
                }
                match &event {
                    TurnEvent::ApprovalWanted { .. } => self.answering.progress.begin_wait(),
                    TurnEvent::ApprovalResolved { .. } => self.answering.progress.end_wait(),
                    _ => {}
                }
                let calls = self.reading.calls();
                let end = self.reading.handle_event(&event, &mut say);
                if self.reading.calls() > calls {
                    self.quiet = None;
                }
                match end {
                    Some(End::Said) if !matches!(event, TurnEvent::TurnEnded { .. }) => {
                        self.stop();
                        Poll::Ready(Step::On)
                    }
                    Some(end) => Poll::Ready(self.ended(end)),
                    None => Poll::Ready(Step::On),
                }
            }
            Poll::Ready(None) => {
                let lost = crate::openai::failure::failure(codex::TurnStatus::Lost, None);
                Poll::Ready(self.ended(End::Failed(lost)))
            }
            Poll::Pending => self.poll_quiet(context, say),
        }
    }

    /// Everything is said, but the turn does not know: it is interrupted.
    fn stop(&mut self) {
        if let Stage::Running(mut turn) = std::mem::replace(&mut self.stage, Stage::Over) {
            turn.interrupt();
            self.stage = Stage::Stopping(turn, Box::pin(sleep(STOP_PATIENCE)));
        }
    }

    /// Waits for the end of a turn that is interrupted: by then its worker has reported what it used, if it does.
    fn poll_stopping(&mut self, context: &mut Context<'_>) -> Poll<Step> {
        let Stage::Stopping(turn, patience) = &mut self.stage else { return Poll::Pending };
        while let Poll::Ready(Some(event)) = Pin::new(&mut **turn).poll_next(context) {
            self.reading.count(&event);
            if matches!(event, TurnEvent::TurnEnded { .. }) {
                return Poll::Ready(self.ended(End::Said));
            }
        }
        ready!(patience.as_mut().poll(context));
        self.cancel();
        Poll::Ready(Step::Ended(End::Said))
    }

    /// Begins another turn in the place of one that is lost before it has heard the results that it was given.
    fn begins_again(&mut self, event: &TurnEvent) -> bool {
        let Some(asked) = self.again.take() else { return false };
        let is_lost = matches!(event, TurnEvent::TurnEnded { status: TurnStatus::Lost, .. });
        // Where only the link is gone, the worker goes on with the very results: a second turn would do everything twice.
        let pool = &self.answering.desk.pool;
        let is_over = self.at.as_ref().is_some_and(|at| !pool.outlives_us(&at.worker));
        if is_lost && is_over && !pool.is_draining() {
            self.stage = Stage::Beginning(Box::pin(begin_again(asked, Arc::clone(&self.answering))));
            return true;
        }
        if shows_no_progress(event) {
            self.again = Some(asked);
        }
        false
    }

    pub(crate) fn poll_begun(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if let Stage::Beginning(begun) = &mut self.stage {
            match ready!(begun.as_mut().poll(context)) {
                Ok(Opening { turn, again }) => {
                    self.again = again;
                    self.at = Some(turn.at().clone());
                    self.answering.progress.begin();
                    self.stage = Stage::Running(Box::new(turn));
                }
                Err(error) => {
                    self.stage = Stage::Over;
                    return Poll::Ready(Err(error));
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_quiet(&mut self, context: &mut Context<'_>, say: impl FnMut(Piece<'_>)) -> Poll<Step> {
        let Some(patience) = self.reading.patience() else { return Poll::Pending };
        let quiet = self.quiet.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + patience)));
        ready!(quiet.as_mut().poll(context));
        self.quiet = None;
        match self.reading.handle_quiet(say) {
            Some(end) => Poll::Ready(self.ended(end)),
            None => Poll::Pending,
        }
    }

    /// A turn that is let go before its end is interrupted, or parked if it waits for somebody.
    fn ended(&mut self, end: End) -> Step {
        let over = std::mem::replace(&mut self.stage, Stage::Over);
        if let Stage::Running(turn) | Stage::Stopping(turn, _) = over {
            self.usage = match end {
                // What the worker counts only after the tools have answered is part of the next answer.
                End::ToolsWanted => self.reading.usage(),
                End::Said | End::Failed(_) => self.used(&turn),
            };
            if matches!(end, End::Failed(_)) {
                return Step::Ended(end);
            }
            self.usage.get_or_insert_default();
            let Some(history) = self.reading.history() else { return Step::Ended(end) };
            self.answering.desk.pool.leave_tip(&turn.at().thread, &history);
            self.history = Some(history);
            if matches!(end, End::ToolsWanted) {
                let store = self.answering.desk.store.clone();
                self.stage = Stage::Keeping(Box::pin(async move {
                    timeout(KEEP_TIMEOUT, store.flush()).await.ok();
                }));
                return Step::On;
            }
        }
        Step::Ended(end)
    }
}

/// What may follow a call before its result is heard, and what becomes of open items when a worker is lost.
fn shows_no_progress(event: &TurnEvent) -> bool {
    match event {
        TurnEvent::ToolChosen { .. } | TurnEvent::ModelAnswered { .. } | TurnEvent::TokenUsage { .. } => true,
        TurnEvent::ItemCompleted { item } => item.status.as_deref() == Some("lost"),
        _ => false,
    }
}

/// Waits for a moment until the turns of all choices have begun: until then a refusal has a status of its own, and no stream is
/// opened.
pub(crate) async fn begun_soon(choices: &mut [Choice]) -> Result<(), Error> {
    let begun = poll_fn(|context| {
        let begun: Vec<_> = choices.iter_mut().map(|choice| choice.poll_begun(context)).collect();
        let are_all = begun.iter().all(Poll::is_ready);
        match begun.into_iter().find_map(refusal) {
            Some(error) => Poll::Ready(Err(refused(error, choices))),
            None if are_all => Poll::Ready(Ok(())),
            None => Poll::Pending,
        }
    });
    timeout(BEGIN_PATIENCE, begun).await.unwrap_or(Ok(()))
}

fn refusal(begun: Poll<Result<(), Error>>) -> Option<Error> {
    match begun {
        Poll::Ready(Err(error)) => Some(error),
        _ => None,
    }
}

/// Why an answer is refused of which one choice is: what one turn could be asked again, all of them cannot once one has begun.
pub(crate) fn refused(error: Error, choices: &[Choice]) -> Error {
    if choices.iter().any(Choice::has_begun) { error.after_work() } else { error }
}

impl Drop for Choice {
    /// A turn that waits for a person goes on waiting, and whoever asks the same again reads on.
    fn drop(&mut self) {
        if let Stage::Running(turn) = &self.stage
            && turn.is_waiting()
        {
            self.answering.desk.pool.leave_tip(&turn.at().thread, &self.reading.question());
        }
    }
}
