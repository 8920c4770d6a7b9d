//! What whoever keeps workers asks of one: whether it still answers, what passes on the wire, which threads it has loaded
//! and which models it offers; and that it unloads a thread, or puts it away.

use std::future::poll_fn;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use wire::Outcome;

use super::calling::Calling;
use super::{Client, Thread};
use crate::abilities::PROBE;
use crate::dialect::Line;
use crate::error::CallError;
use crate::protocol::calls::{ModelList, ThreadArchive, ThreadLoadedList, ThreadUnarchive, ThreadUnsubscribe};
use crate::protocol::{
    Call, Model, ModelListParams, ReasoningEffortOption, ThreadArchiveParams, ThreadLoadedListParams,
    ThreadUnarchiveParams, ThreadUnsubscribeParams,
};
use crate::tap::{Frame, Raw, Tap};
use crate::waits::bounded;

/// How many pages of loaded threads or of models are read; the real worker tells them all on the first.
const PAGES_MAX: usize = 100;

impl Client {
    /// The worker's process id; `None` for one that listens elsewhere.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.link.pid
    }

    /// The last lines both ways, the oldest first, as far as [`Options::frames_bytes_max`](crate::Options) reaches, with
    /// secrets hidden. They can be read after the connection's end too.
    #[must_use]
    pub fn frames(&self) -> Vec<Frame> {
        let raw = self.link.shared.exchange().tap.as_ref().map(Tap::frames).unwrap_or_default();
        raw.into_iter().map(Raw::readable).collect()
    }

    /// Makes the cheapest call there is, and says how long its answer took. Any answer is one: a worker that refuses, or is
    /// overloaded, is alive.
    ///
    /// # Errors
    /// [`CallError`]: there was no answer in time, or there is no connection.
    pub async fn ping(&self, timeout: Duration) -> Result<Duration, CallError> {
        let line = match self.v2_method(ThreadLoadedList::METHOD) {
            Ok(method) => {
                let one = ThreadLoadedListParams { limit: Some(1), ..ThreadLoadedListParams::default() };
                Line::named::<ThreadLoadedList>(method, &one)
            }
            // Every dialect refuses what nobody has.
            Err(_) => Line { method: PROBE.into(), params: None },
        };
        let start = Instant::now();
        match Calling::start(&self.link.shared, &line, start + bounded(timeout))?.await {
            Outcome::Answered(_) | Outcome::Failed(_) => Ok(start.elapsed()),
            other => Err(CallError::of(&line.method, other)),
        }
    }

    /// The threads that the worker has in memory, whoever loaded them.
    ///
    /// # Errors
    /// [`CallError`]; workers of the v1 dialect, and the oldest of v2, cannot tell.
    pub async fn loaded_threads(&self) -> Result<Vec<Box<str>>, CallError> {
        self.v2_method(ThreadLoadedList::METHOD)?;
        let (mut threads, mut cursor) = (Vec::new(), None);
        for _ in 0..PAGES_MAX {
            let params = ThreadLoadedListParams { cursor, ..ThreadLoadedListParams::default() };
            let page = self.call::<ThreadLoadedList>(params).await?;
            threads.extend(page.data.into_iter().map(Box::from));
            match page.next_cursor {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        Ok(threads)
    }
}

/// A model that a worker offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelSummary {
    /// Its id, by which a thread or a turn names it.
    pub id: Box<str>,
    /// Its name for people.
    pub display_name: Box<str>,
    /// How hard it can think, as far as the worker says.
    pub efforts: Vec<Box<str>>,
    /// Whether it is the worker's own choice.
    pub is_default: bool,
}

impl Client {
    /// The models that the worker offers, without those that it hides.
    ///
    /// # Errors
    /// [`CallError`]; workers of the v1 dialect cannot tell.
    pub async fn models(&self) -> Result<Vec<ModelSummary>, CallError> {
        self.v2_method(ModelList::METHOD)?;
        let (mut models, mut cursor) = (Vec::new(), None);
        for _ in 0..PAGES_MAX {
            let page = self.call::<ModelList>(ModelListParams { cursor, ..ModelListParams::default() }).await?;
            let shown = page.data.into_iter().filter(|model| matches!(model, Model { hidden: false, .. }));
            models.extend(shown.map(ModelSummary::from));
            match page.next_cursor {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        Ok(models)
    }
}

impl From<Model> for ModelSummary {
    fn from(model: Model) -> Self {
        let Model { id, display_name, supported_reasoning_efforts: efforts, is_default, .. } = model;
        let word = |ReasoningEffortOption { reasoning_effort: effort, .. }| effort.as_str().into();
        Self {
            id: id.into(),
            display_name: display_name.into(),
            efforts: efforts.into_iter().map(word).collect(),
            is_default,
        }
    }
}

impl Thread {
    /// Puts the thread away: it is listed no more, and must be unarchived before it can be used again.
    ///
    /// # Errors
    /// [`CallError`]; older workers cannot.
    pub async fn archive(&self) -> Result<(), CallError> {
        self.client().v2_method(ThreadArchive::METHOD)?;
        self.client().call::<ThreadArchive>(ThreadArchiveParams { thread_id: self.id().into() }).await.map(drop)
    }

    /// Gets it back after [`Self::archive`], to be resumed.
    ///
    /// # Errors
    /// [`CallError`]; older workers cannot.
    pub async fn unarchive(&self) -> Result<(), CallError> {
        self.client().v2_method(ThreadUnarchive::METHOD)?;
        self.client().call::<ThreadUnarchive>(ThreadUnarchiveParams { thread_id: self.id().into() }).await.map(drop)
    }

    /// Lets go of the thread: nothing more is heard of it, and [`Client::resume_thread`] must come before its next turn. The
    /// end of a turn that was dropped is waited for.
    ///
    /// The worker unloads a thread that nobody listens to at its own time, and tells by a status of `not_loaded`: older
    /// workers at once; later ones after half an hour; the newest when their setting `thread_unload_delay_secs` has passed,
    /// a minute unless the configuration ([`ThreadOptions::config`](crate::ThreadOptions) too) says otherwise.
    ///
    /// # Errors
    /// [`CallError`], `Busy` among them: some workers would end a turn that runs. Older workers cannot.
    pub async fn unload(&self) -> Result<(), CallError> {
        let (client, id) = (self.client(), self.id());
        client.v2_method(ThreadUnsubscribe::METHOD)?;
        let shared = &client.link.shared;
        _ = timeout_at(client.deadline(), poll_fn(|context| shared.exchange().poll_free(id, context))).await;
        shared.exchange().need_idle(id)?;
        client.call::<ThreadUnsubscribe>(ThreadUnsubscribeParams { thread_id: id.into() }).await.map(drop)
    }
}
