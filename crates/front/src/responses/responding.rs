//! One response on its way: its turn is read, its events are written, and at its end it is kept before anybody is told.

use std::convert::Infallible;
use std::pin::Pin;
use std::slice;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Bytes;
use codex::Usage;
use futures_util::{Stream, StreamExt as _};
use store::Change;
use tokio::time::timeout;
use workers::At;

use super::book::{Entry, Live};
use super::following::{Events, Log, not_in_background};
use super::keeping::{Keeping, Persistence, Place, commit, commit_when_well};
use super::limits::KEEP_TIMEOUT;
use super::talk::Talk;
use crate::ask::{Answering, Choice, Step, Vigil, Woken, begun_soon, revoked};
use crate::error::{Code, Error};
use crate::openai::chunks::HEARTBEAT;
use crate::openai::failure::incomplete_reason;
use crate::openai::reading::End;
use crate::openai::responses::object::{Head, Outcome, Status};
use crate::openai::responses::output::Output;

/// Who hears of a response, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Audience {
    /// Whoever reads the stream.
    Now,
    /// Whoever is at the other end of the connection, and may go on there from what is not stored.
    Connected,
    /// Whoever waits for the whole.
    AtTheEnd,
    /// Whoever comes back for it.
    Later,
}

/// What is to be made, and for whom.
pub(super) struct Commission {
    pub(super) head: Head,
    /// Absent if nothing is to be kept of it.
    pub(super) keeping: Option<Keeping>,
    /// The conversation that it is part of.
    pub(super) talk: Option<Talk>,
    pub(super) audience: Audience,
}

/// A response on its way. As a stream it is the bytes of its events.
pub(super) struct Responding {
    answering: Arc<Answering>,
    choice: Choice,
    head: Head,
    output: Output,
    vigil: Vigil,
    keeping: Option<Keeping>,
    /// The conversation that it is part of.
    talk: Option<Talk>,
    /// Present while it runs, for those who ask for it.
    entry: Option<Entry>,
    stage: Stage,
    audience: Audience,
}

enum Stage {
    /// No turn has begun.
    Waiting,
    /// A turn has begun in the background, and that is being written; then it is told.
    Begun(Pin<Box<dyn Future<Output = ()> + Send>>),
    Running,
    /// It is being stored; then its end is told.
    Keeping(Pin<Box<dyn Future<Output = Persistence> + Send>>, Ended),
    Over(Ended),
    Told(Ended),
    /// The end was taken.
    Done,
    /// Its turn goes on without us; nobody is told an end that is none.
    Left,
}

/// How it ended.
struct Ended {
    status: Status,
    object: String,
    failure: Option<Error>,
}

impl Ended {
    fn event(&self) -> &'static str {
        match self.status {
            Status::Completed => "response.completed",
            Status::Incomplete | Status::Cancelled => "response.incomplete",
            Status::Failed | Status::Queued | Status::InProgress => "response.failed",
        }
    }
}

impl Responding {
    pub(super) fn new(answering: Arc<Answering>, choice: Choice, commission: Commission) -> Self {
        let Commission { head, keeping, talk, audience } = commission;
        let mut output = match audience {
            Audience::AtTheEnd => Output::unheard(&head.name),
            Audience::Now | Audience::Connected | Audience::Later => Output::new(&head.name),
        };
        let status = if audience == Audience::Later { Status::Queued } else { Status::InProgress };
        output.tell("response.created", &head, &Outcome::begun(status));
        let begun = if audience == Audience::Later { "response.queued" } else { "response.in_progress" };
        output.tell(begun, &head, &Outcome::begun(status));
        let object = head.to_json(&Outcome::begun(status));
        let entry = keeping.as_ref().map(|keeping| {
            let book = &answering.desk.responses;
            let live = match audience {
                Audience::Later => Live::background(&keeping.key, object, Log::new(book.limits.events_bytes_max)),
                Audience::Now | Audience::AtTheEnd | Audience::Connected => Live::here(&keeping.key, object),
            };
            book.enter(&head.name.id(), live)
        });
        let vigil = Vigil::new(&answering);
        Self { answering, choice, head, output, vigil, keeping, talk, entry, stage: Stage::Waiting, audience }
    }

    /// Waits for a moment until its turn has begun.
    pub(super) async fn begun_soon(&mut self) -> Result<(), Error> {
        begun_soon(slice::from_mut(&mut self.choice)).await
    }

    /// Reads it to its end; the whole object.
    pub(super) async fn finish(mut self) -> Result<String, Error> {
        while self.next().await.is_some() {}
        match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Told(Ended { status: Status::Failed, failure: Some(error), .. }) => Err(error),
            Stage::Told(Ended { object, .. }) => Ok(object),
            _ => Err(Error::new(Code::Internal, "the response did not come to its end").after_work()),
        }
    }

    /// Stores that it will be made, so that whoever is told of it finds it.
    pub(super) fn store_queued(&self) -> impl Future<Output = Persistence> + Send + use<> {
        let object = self.head.to_json(&Outcome::begun(Status::Queued));
        let asked = self.choice.question();
        let place = Place { history: Some(&asked), ..self.place() };
        let queued = self.keeping_on().map(|keeping| {
            let changes = keeping.changes(&self.head, Status::Queued, &object, place, None);
            commit(keeping.store.clone(), self.head.name.id(), changes)
        });
        async {
            match queued {
                Some(queued) => queued.await,
                // It was deleted meanwhile.
                None => Persistence::Stored,
            }
        }
    }

    /// Whether its turn has begun.
    pub(super) fn has_begun(&self) -> bool {
        self.choice.has_begun()
    }

    /// What came of it, once all is told and it ended well: the object, and where it stands.
    pub(super) fn outcome(&self) -> Option<(&str, Place<'_>)> {
        match &self.stage {
            Stage::Told(Ended { object, failure: None, .. }) => Some((object, self.place())),
            _ => None,
        }
    }

    /// Where its turn is, if nothing of it is kept.
    pub(super) fn unstored(&self) -> Option<&At> {
        self.choice.at().filter(|_| self.keeping.is_none())
    }

    /// As it is now, and all its events.
    pub(super) fn seen(&self, heartbeat: Duration) -> Result<(String, Events), Error> {
        let live = self.live().ok_or_else(not_in_background)?;
        Ok((live.object(), live.events_after(None, heartbeat)?))
    }

    pub(super) fn live(&self) -> Option<&Arc<Live>> {
        self.entry.as_ref().map(Entry::live)
    }

    /// Whether its end was told.
    pub(super) fn is_told(&self) -> bool {
        matches!(self.stage, Stage::Told(_) | Stage::Done)
    }

    /// Gives it up.
    pub(super) fn cancel(&mut self) {
        if self.is_running() {
            self.give_up();
            self.end(Status::Cancelled, None);
        }
    }

    pub(super) fn give_up(&mut self) {
        self.leave_nothing();
        self.choice.cancel();
    }

    /// Nothing is to be left of it, if nothing of it is kept: nobody goes on from there.
    pub(super) fn leave_nothing(&mut self) {
        if self.keeping.is_none() {
            self.choice.leave_nothing();
        }
    }

    /// Whether a person has to decide something in it.
    pub(super) fn is_waited_for(&self) -> bool {
        self.answering.progress.is_waiting()
    }

    fn is_running(&self) -> bool {
        matches!(self.stage, Stage::Waiting | Stage::Begun(_) | Stage::Running)
    }

    /// Goes on until there are events to be sent; `false` when there are no more.
    fn poll_events(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        loop {
            match &mut self.stage {
                Stage::Told(_) | Stage::Done | Stage::Left => return Poll::Ready(self.output.has_events()),
                Stage::Over(_) => {
                    let Stage::Over(ended) = std::mem::replace(&mut self.stage, Stage::Done) else { continue };
                    self.show(ended.status, &ended.object);
                    // Over a WebSocket an error of its own means that there is no response.
                    let is_told = ended.status == Status::Failed && self.audience != Audience::Connected;
                    if let Some(error) = ended.failure.as_ref().filter(|_| is_told) {
                        self.output.tell_error(error);
                    }
                    self.output.tell_object(ended.event(), &ended.object);
                    // Whoever hears the end finds the conversation free, and may ask for the next response.
                    self.talk = None;
                    self.stage = Stage::Told(ended);
                }
                Stage::Keeping(storing, _) => {
                    if self.output.has_events() {
                        return Poll::Ready(true);
                    }
                    let persistence = if self.entry.as_ref().is_some_and(Entry::is_listed) {
                        ready!(storing.as_mut().poll(context))
                    } else {
                        // One that was deleted meanwhile must not be written behind that.
                        Persistence::Stored
                    };
                    if let Stage::Keeping(_, ended) = std::mem::replace(&mut self.stage, Stage::Done) {
                        self.stage = Stage::Over(match persistence {
                            Persistence::Stored => ended,
                            Persistence::NotStored => self.end_unstored(ended),
                        });
                    }
                }
                Stage::Begun(written) => {
                    ready!(written.as_mut().poll(context));
                    self.stage = Stage::Running;
                    self.output.tell("response.in_progress", &self.head, &Outcome::begun(Status::InProgress));
                    self.show_progress();
                }
                Stage::Waiting | Stage::Running => {
                    if self.answering.permit.is_revoked() {
                        self.give_up();
                        self.fail(revoked());
                        continue;
                    }
                    if self.output.has_events() {
                        return Poll::Ready(true);
                    }
                    ready!(self.poll_choice(context));
                }
            }
        }
    }

    fn poll_choice(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if matches!(self.stage, Stage::Waiting) {
            match ready!(self.choice.poll_begun(context)) {
                Ok(()) => self.handle_begun(),
                Err(error) => self.fail(error),
            }
            return Poll::Ready(());
        }
        let Self { choice, output, .. } = self;
        match ready!(choice.poll_step(context, |piece| output.add(&piece))) {
            Step::On => {}
            Step::Ended(End::Failed(error)) => self.fail(error),
            Step::Ended(End::Said | End::ToolsWanted) => self.end(Status::Completed, None),
        }
        Poll::Ready(())
    }

    /// Whoever asks for a response in the background and is told that it runs can find its turn after a crash.
    fn handle_begun(&mut self) {
        self.stage = Stage::Running;
        if let (Some(entry), Some(at)) = (&self.entry, self.choice.at()) {
            entry.live().begin(&at.turn);
        }
        let Some(keeping) = self.keeping_on() else { return };
        let object = self.head.to_json(&Outcome::begun(Status::InProgress));
        // Until its end its thread holds what was asked, and whoever finds that end adds it.
        let asked = self.choice.question();
        keeping.note(&self.head, Status::InProgress, &object, Place { history: Some(&asked), ..self.place() });
        if self.audience == Audience::Later {
            let store = keeping.store.clone();
            self.stage = Stage::Begun(Box::pin(async move {
                timeout(KEEP_TIMEOUT, store.flush()).await.ok();
            }));
        }
    }

    fn fail(&mut self, error: Error) {
        self.answering.span.in_scope(|| error.log());
        let status = if incomplete_reason(&error).is_some() { Status::Incomplete } else { Status::Failed };
        self.end(status, Some(error));
    }

    fn end(&mut self, status: Status, failure: Option<Error>) {
        let goes_on = self.goes_on(failure.as_ref());
        if goes_on && self.audience == Audience::Later {
            self.stage = Stage::Left;
            return;
        }
        self.output.end(status);
        // What was refused before it began is nobody's; and of a turn that goes on the next start finds the end.
        let is_refused = !self.choice.has_begun() && self.audience != Audience::Later;
        if is_refused && self.keeping.is_some() {
            self.head = self.head.unstored();
        }
        let object = self.object(status, failure.as_ref());
        let ended = Ended { status, object, failure };
        let storing =
            self.keeping_on().filter(|_| !goes_on && !is_refused).map(|keeping| self.store_end(keeping, &ended));
        self.stage = match storing {
            Some(storing) => Stage::Keeping(storing, ended),
            None => Stage::Over(ended),
        };
    }

    /// As it ends.
    fn object(&self, status: Status, failure: Option<&Error>) -> String {
        let usage: Option<Usage> = self.choice.usage();
        let error = failure.filter(|_| status == Status::Failed);
        let reason = failure.filter(|_| status == Status::Incomplete).and_then(incomplete_reason);
        self.head.to_json(&Outcome { status, output: self.output.items(), usage: usage.as_ref(), error, reason })
    }

    /// Stores its end. Whoever follows one of the background can wait for that; whoever waits for any other hears that it is not stored.
    fn store_end(&self, keeping: &Keeping, ended: &Ended) -> Pin<Box<dyn Future<Output = Persistence> + Send>> {
        let Ended { status, object, .. } = ended;
        let changes = keeping.changes(&self.head, *status, object, self.place(), self.gone_on(*status));
        let (store, id) = (keeping.store.clone(), self.head.name.id());
        match self.audience {
            Audience::Later => Box::pin(commit_when_well(store, id, changes)),
            Audience::Now | Audience::Connected | Audience::AtTheEnd => Box::pin(commit(store, id, changes)),
        }
    }

    /// Its end where that cannot be stored. One of the background is stored already as begun, and has failed.
    fn end_unstored(&mut self, ended: Ended) -> Ended {
        let Some(keeping) = &self.keeping else { return ended };
        if self.audience == Audience::Later {
            let failure = Error::new(Code::StoreUnavailable, "the response cannot be stored").after_work();
            let outcome = Outcome { error: Some(&failure), ..Outcome::begun(Status::Failed) };
            let object = self.head.to_json(&outcome);
            keeping.note(&self.head, Status::Failed, &object, self.place());
            // The store may have written the end, and the conversation with it, after the timeout.
            self.talk.iter().for_each(|talk| keeping.store.note(talk.gone_back()));
            return Ended { status: Status::Failed, object, failure: Some(failure) };
        }
        keeping.forget(&self.head, self.talk.as_ref());
        self.head = self.head.unstored();
        Ended { object: self.object(ended.status, ended.failure.as_ref()), ..ended }
    }

    /// Whether only we leave its turn, at the end of the server, and not its worker.
    fn goes_on(&self, failure: Option<&Error>) -> bool {
        let pool = &self.answering.desk.pool;
        failure.is_some_and(|error| matches!(error.code(), Code::WorkerExited | Code::Draining))
            && pool.is_draining()
            && self.choice.at().is_some_and(|at| pool.outlives_us(&at.worker))
    }

    /// How it is kept, unless nothing is to be kept of it, or it was deleted.
    fn keeping_on(&self) -> Option<&Keeping> {
        self.keeping.as_ref().filter(|_| self.entry.as_ref().is_some_and(Entry::is_listed))
    }

    /// Its conversation with it, once it is complete.
    fn gone_on(&self, status: Status) -> Option<Change> {
        let talk = self.talk.as_ref().filter(|_| status == Status::Completed)?;
        Some(talk.gone_on(&self.head.name.id()))
    }

    /// Shows it to those who ask meanwhile.
    fn show(&self, status: Status, object: &str) {
        self.entry.iter().for_each(|entry| entry.live().change(object, status));
    }

    /// Shows what it has told so far.
    pub(super) fn show_progress(&self) {
        if matches!(self.stage, Stage::Running) {
            let items = self.output.items_so_far();
            let outcome = Outcome { output: &items, ..Outcome::begun(Status::InProgress) };
            self.show(Status::InProgress, &self.head.to_json(&outcome));
        }
    }

    fn place(&self) -> Place<'_> {
        let history = self.choice.history();
        self.choice.at().map_or_else(Place::default, |at| Place { thread: &at.thread, turn: &at.turn, history })
    }
}

impl Drop for Responding {
    /// Nobody reads it any more. A turn that waits for a person goes on waiting; any other is interrupted. What is made in the
    /// background is only dropped when the server ends, and the next start finds what became of it; but what has its end keeps it.
    fn drop(&mut self) {
        let (status, object) = match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Keeping(_, Ended { status, object, .. }) => (status, object),
            Stage::Waiting | Stage::Begun(_) | Stage::Running
                if self.choice.has_begun() && self.audience != Audience::Later =>
            {
                self.output.end(Status::Cancelled);
                let outcome = Outcome { output: self.output.items(), ..Outcome::begun(Status::Cancelled) };
                (Status::Cancelled, self.head.to_json(&outcome))
            }
            _ => return,
        };
        if let Some(keeping) = self.keeping_on() {
            keeping.note(&self.head, status, &object, self.place());
            self.gone_on(status).into_iter().for_each(|change| keeping.store.note(change));
        }
    }
}

impl Stream for Responding {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        match this.poll_events(context) {
            Poll::Ready(false) => return Poll::Ready(None),
            Poll::Ready(true) => {}
            Poll::Pending => match ready!(this.vigil.poll(context)) {
                Woken::Quiet => return Poll::Ready(Some(Ok(Bytes::from_static(HEARTBEAT)))),
                Woken::Revoked => {
                    if this.is_running() {
                        this.give_up();
                        this.fail(revoked());
                    }
                    return self.poll_next(context);
                }
            },
        }
        this.vigil.handle_sent();
        Poll::Ready(Some(Ok(this.output.take_events().into())))
    }
}
