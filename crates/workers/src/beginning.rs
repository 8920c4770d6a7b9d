//! How a turn begins once it has its place: room is made, the thread is opened or found, and the turn is started. This
//! runs to its end even if whoever ordered the turn is gone: a thread that nobody knew of would stay loaded for ever.

use std::sync::Arc;
use std::time::Instant;

use codex::protocol::calls::ThreadInjectItems;
use codex::{Input, Thread};
use tokio::sync::oneshot;

use crate::admission::Admission;
use crate::board::Place;
use crate::meter::{Meter, history_tokens, input_tokens};
use crate::notice::Notice;
use crate::plan::{Order, ThreadChoice};
use crate::post::{Link, Loaded, Post};
use crate::refused::Refused;
use crate::running::{Held, Running};
use crate::shared::Shared;
use crate::tips::MovedOn;
use crate::turn::Turn;

/// An order that has its place.
pub(crate) struct Beginning {
    pub(crate) order: Arc<Order>,
    pub(crate) record: store::Thread,
    pub(crate) place: Place,
}

impl Shared {
    /// Begins a turn. Whoever gives up waiting for it drops it, and so interrupts it.
    pub(crate) async fn begin(self: &Arc<Self>, beginning: Beginning) -> Result<Turn, Refused> {
        let (begun, turn) = oneshot::channel();
        let held = Held::new(self, beginning.place.lease);
        let shared = Arc::clone(self);
        self.see_to(async move {
            let is_known = beginning.order.thread.id().is_some();
            // Nobody has ever heard of a new thread whose orderer is gone.
            if let Err(Ok(mut unheard)) = begun.send(beginning.begin(shared, held).await)
                && !is_known
            {
                unheard.leave_nothing();
            }
        });
        turn.await.unwrap_or(Err(Refused::WorkerGone))
    }
}

impl Beginning {
    /// If the worker died before it was asked, it takes no more orders, and another may take this one.
    async fn begin(self, shared: Arc<Shared>, held: Held) -> Result<Turn, Refused> {
        let post = Arc::clone(shared.post(self.place.slot));
        let Some(link) = post.link() else {
            shared.board().retire(held.lease);
            return Err(Refused::WorkerGone);
        };
        match self.begin_on(&shared, &post, &link).await {
            Ok((turn, record)) => {
                let meter = self.meter(&link, &record.id);
                let mut running = Running::new(turn, post, link, record, self.order.afterwards, meter, held);
                running.set_permit(self.order.permit.clone());
                Ok(Turn::new(running, shared))
            }
            Err(refused) if link.client.has_ended() => {
                shared.board().retire(held.lease);
                Err(if self.may_begin_again(&refused) { Refused::WorkerGone } else { refused })
            }
            Err(refused) => {
                if refused.is_silence() {
                    shared.doubt(&post, &link);
                }
                Err(refused)
            }
        }
    }

    /// What its model reads first: what the thread held, and what the order adds.
    fn meter(&self, link: &Link, thread: &str) -> Meter {
        let held = self.order.thread.source().unwrap_or(thread);
        let held = link.threads().get(held).map_or(0, |loaded| loaded.context_tokens);
        let said = history_tokens(&self.order.history).saturating_add(input_tokens(&self.order.turn.input));
        Meter::begun(held.saturating_add(said))
    }

    /// A thread that there was may hold the history of the order already: it would have it twice.
    fn may_begin_again(&self, refused: &Refused) -> bool {
        let is_told_twice = self.order.thread.id().is_some() && !self.order.history.is_empty();
        !refused.work_may_have_run() && !is_told_twice
    }

    async fn begin_on(
        &self,
        shared: &Shared,
        post: &Post,
        link: &Link,
    ) -> Result<(codex::Turn, store::Thread), Refused> {
        if !self.order.history.is_empty() && !self.begins_with_history(link) {
            link.client.need::<ThreadInjectItems>().map_err(Refused::History)?;
        }
        let taken = self.take_tip(shared)?;
        let begun = self.begin_turn(shared, post, link).await;
        if let (Err(refused), Some(thread)) = (&begun, taken) {
            // One that may have been told something stands nowhere that is known.
            if self.may_begin_again(refused) {
                shared.tips().restore(thread);
            } else {
                shared.tips().remove(thread);
            }
        }
        begun
    }

    /// Whether the history is where a new thread begins: older workers take none into a thread that there is.
    fn begins_with_history(&self, link: &Link) -> bool {
        let is_new = matches!(self.order.thread, ThreadChoice::New(_));
        is_new && !self.order.history.is_empty() && link.client.need::<ThreadInjectItems>().is_err()
    }

    /// The thread of the order stands nowhere from now on. Nobody else begins anything there: it is this order's alone.
    fn take_tip(&self, shared: &Shared) -> Result<Option<&str>, Refused> {
        let Some(thread) = self.order.thread.id() else { return Ok(None) };
        let taken = shared.tips().take(thread, self.order.after.as_deref());
        let had_tip = taken.map_err(|MovedOn| Refused::MovedOn { thread: thread.into() })?;
        Ok(had_tip.then_some(thread))
    }

    async fn begin_turn(
        &self,
        shared: &Shared,
        post: &Post,
        link: &Link,
    ) -> Result<(codex::Turn, store::Thread), Refused> {
        self.make_room(shared, link).await;
        let (thread, cwd) = self.open(shared, post, link).await?;
        shared.board().loaded(self.place.lease, thread.id());
        let record = store::Thread {
            id: thread.id().into(),
            cwd,
            worker: Some(post.name.to_string()),
            unsaid: "[]".into(),
            history_hash: None,
            archived: false,
            ..self.record.clone()
        };
        {
            let mut threads = link.threads();
            let context_tokens = threads.get(thread.id()).map_or(0, |loaded| loaded.context_tokens);
            let loaded = Loaded { thread: thread.clone(), record: record.clone(), context_tokens };
            threads.insert(thread.id().into(), loaded);
        }
        if !self.place.is_loaded {
            let (thread, worker) = (thread.id().into(), (&*post.name).into());
            (shared.notify)(Notice::ThreadOpened { thread, worker, key: record.key.as_str().into() });
        }
        if !self.order.history.is_empty() && !self.begins_with_history(link) {
            thread.inject(self.order.history.clone()).await.map_err(Refused::History)?;
        }
        let unsaid = shared.take_words(thread.id(), &self.record.unsaid);
        let mut options = self.order.turn.clone();
        options.input.splice(0..0, unsaid.iter().cloned().map(Input::Text));
        match thread.start_turn(options).await {
            Ok(turn) => Ok((turn, record)),
            Err(error) => {
                unsaid.iter().for_each(|word| shared.leave_word(thread.id(), word));
                Err(error.into())
            }
        }
    }

    /// Unloads the threads that the board has chosen.
    async fn make_room(&self, shared: &Shared, link: &Link) {
        for unused in &self.place.unload {
            let loaded = link.threads().remove(unused);
            if let Some(Loaded { thread, .. }) = loaded
                && let Err(error) = thread.unload().await
            {
                tracing::debug!(thread = %unused, %error, "a thread was not unloaded");
            }
            shared.board().unloaded(self.place.lease, unused, Instant::now());
        }
    }

    /// Gets a thread that was put away back; its worker may never have heard of that.
    async fn fetch(&self, link: &Link, thread: &str) {
        if self.record.archived
            && let Err(error) = link.client.thread(thread).unarchive().await
        {
            tracing::debug!(thread, %error, "a thread that was put away is not got back");
        }
    }

    /// The thread, and the real path of its directory.
    async fn open(&self, shared: &Shared, post: &Post, link: &Link) -> Result<(Thread, String), Refused> {
        let profile = self.order.profile.as_deref().or(self.record.profile.as_deref());
        let admission = Admission { post, link, profile, reach: self.order.caller.reach };
        if let Some(Loaded { thread, record, .. }) = self.loaded(link) {
            shared.admit_loaded(&admission, &record).await?;
            return Ok((thread, record.cwd));
        }
        let options = shared.admit(&admission, self.order.thread.options()).await?;
        let cwd = options.cwd.clone().unwrap_or_default();
        let thread = match &self.order.thread {
            ThreadChoice::New(_) if self.begins_with_history(link) => {
                let begun = link.client.start_thread_from(self.order.history.clone(), options);
                begun.await.map_err(Refused::History)?
            }
            ThreadChoice::New(_) => link.client.start_thread(options).await?,
            ThreadChoice::Fork { thread, last_turn, .. } => link.client.fork_thread(thread, last_turn, options).await?,
            ThreadChoice::Existing(id, _) => {
                self.fetch(link, id).await;
                link.client.resume_thread(id, options).await?
            }
        };
        Ok((thread, cwd))
    }

    /// The thread of the order, if the worker has it loaded.
    fn loaded(&self, link: &Link) -> Option<Loaded> {
        let id = self.order.thread.id().filter(|_| self.place.is_loaded)?;
        link.threads().get(id).cloned()
    }
}
