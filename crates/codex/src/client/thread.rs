//! Threads: start, resume and list them, and start turns in them, whatever the worker's dialect.

use serde::Deserialize;
use serde_json::json;
use tokio::time::sleep_until;
use wire::{Json, Outcome};

use super::plan::{ThreadOptions, TurnOptions, Turns};
use super::turn::Turn;
use super::{Client, poll, try_again};
use crate::abilities::{Ability, Dialect};
use crate::backoff::OVERLOADED;
use crate::dialect::Line;
use crate::error::CallError;
use crate::exchange::{Beginning, Naming};

/// How many pages of conversations are looked through for one; more have not been seen in any home.
const PAGES_MAX: usize = 100;
/// How many threads are listed at once.
const PAGE_THREADS: usize = 100;

/// A thread of a worker.
#[derive(Clone, Debug)]
pub struct Thread {
    client: Client,
    id: Box<str>,
    options: ThreadOptions,
    /// What the worker said it uses.
    model: Option<Box<str>>,
}

/// A part of the list of threads.
#[derive(Clone, Debug)]
pub struct ThreadPage {
    /// The threads, the newest first.
    pub threads: Vec<ThreadSummary>,
    /// Where the next part begins, if there may be one.
    pub next_cursor: Option<Box<str>>,
}

/// A thread in a list.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadSummary {
    /// Its id.
    #[serde(alias = "conversationId")]
    pub id: Box<str>,
    /// How it began.
    #[serde(default)]
    pub preview: Box<str>,
    /// Where it is kept, where the worker says so.
    #[serde(default)]
    pub path: Option<Box<str>>,
}

/// What the worker says of a thread that was started or resumed, in either dialect.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Opened {
    thread: Option<ThreadSummary>,
    conversation_id: Option<Box<str>>,
    model: Option<Box<str>>,
}

impl Client {
    /// Starts a thread.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn start_thread(&self, options: ThreadOptions) -> Result<Thread, CallError> {
        if !options.tools.is_empty() {
            self.need_experimental("thread/start.dynamicTools")?;
        }
        let line = options.start(self.abilities())?;
        self.open(line, options).await
    }

    /// Loads a thread that an earlier worker has kept. With [`Thread::follow`] before it, nothing is missed of a turn
    /// that still runs there.
    ///
    /// # Errors
    /// [`CallError`]; see its `trap` for a thread that never ran, or that another worker has.
    pub async fn resume_thread(&self, thread: &str, options: ThreadOptions) -> Result<Thread, CallError> {
        let line = match self.abilities().dialect {
            Dialect::V2 => {
                let turns = if self.need_turn_pages().is_ok() { Turns::LeftOut } else { Turns::Whole };
                options.resume(thread, turns)
            }
            Dialect::V1 => {
                self.link.shared.exchange().reader.forget(thread);
                ThreadOptions::resume_conversation(thread, self.path_of(thread).await?.as_deref())
            }
        };
        self.open(line, options).await
    }

    /// A thread that is loaded already, or is about to be; nothing is asked of the worker.
    #[must_use]
    pub fn thread(&self, thread: &str, options: ThreadOptions) -> Thread {
        Thread { client: self.clone(), id: thread.into(), options, model: None }
    }

    /// The threads that the worker keeps, from the cursor of an earlier page on.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn list_threads(&self, cursor: Option<&str>) -> Result<ThreadPage, CallError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Page {
            #[serde(alias = "items")]
            data: Vec<ThreadSummary>,
            next_cursor: Option<Box<str>>,
        }
        let line = match self.abilities().dialect {
            Dialect::V2 => Line::new("thread/list", &json!({"cursor": cursor, "limit": PAGE_THREADS})),
            Dialect::V1 => Line::new("listConversations", &json!({"cursor": cursor, "pageSize": PAGE_THREADS})),
        };
        let method = line.method.clone();
        let page: Page = parsed(&method, &self.send(line).await?)?;
        // The oldest workers give a cursor at the end too.
        let next_cursor = page.next_cursor.filter(|_| !page.data.is_empty());
        Ok(ThreadPage { threads: page.data, next_cursor })
    }

    async fn open(&self, line: Line, options: ThreadOptions) -> Result<Thread, CallError> {
        let method = line.method.clone();
        let opened: Opened = parsed(&method, &self.send(line).await?)?;
        let id = opened.thread.map(|thread| thread.id).or(opened.conversation_id);
        let id = id.ok_or_else(|| CallError::Unexpected { method, reason: "it names no thread".into() })?;
        Ok(Thread { client: self.clone(), id, options, model: opened.model })
    }

    /// Some versions list turns only to those who have asked for what is experimental.
    fn need_turn_pages(&self) -> Result<(), CallError> {
        match self.abilities().has(Ability::TurnPages) {
            true => Ok(()),
            false => self.need_experimental("thread/turns/list"),
        }
    }

    /// The oldest workers resume a conversation only by its file.
    async fn path_of(&self, thread: &str) -> Result<Option<Box<str>>, CallError> {
        if !self.abilities().resumes_by_path() {
            return Ok(None);
        }
        let mut cursor: Option<Box<str>> = None;
        for _ in 0..PAGES_MAX {
            let page = self.list_threads(cursor.as_deref()).await?;
            if let Some(found) = page.threads.into_iter().find(|listed| *listed.id == *thread) {
                return Ok(found.path);
            }
            match page.next_cursor {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        Ok(None)
    }
}

impl Thread {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its client.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Starts a turn. A thread has one at a time: a second one is refused here, since the worker would take it for
    /// more input to the first.
    ///
    /// # Errors
    /// [`CallError`], `Busy` among them.
    pub async fn start_turn(&self, options: impl Into<TurnOptions>) -> Result<Turn, CallError> {
        let options = options.into();
        let abilities = self.client.abilities();
        let beginning = options.beginning(&self.id, &self.options, self.model.as_deref(), abilities)?;
        self.begin(beginning).await
    }

    /// Makes the thread's history shorter; that is a turn of its own.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn compact(&self) -> Result<Turn, CallError> {
        let method = self.client.v2_method("thread/compact/start")?;
        let start = Line::new(method, &json!({"threadId": self.id}));
        self.begin(Beginning { naming: Naming::FirstEvent, listen: None, start }).await
    }

    /// Follows a turn that runs already: one that was started over another connection, or before ours was lost.
    ///
    /// # Errors
    /// `Busy`, if another turn runs here.
    pub fn follow(&self, turn: &str) -> Result<Turn, CallError> {
        let key = self.client.link.shared.exchange().follow_turn(&self.id, turn)?;
        Ok(Turn { client: self.client.clone(), key, thread: self.id.clone(), id: turn.into() })
    }

    /// One page of its turns, as the worker tells them; `null` for the first.
    ///
    /// # Errors
    /// [`CallError`]; older workers cannot.
    pub async fn turns(&self, cursor: Option<&str>) -> Result<Json, CallError> {
        let method = self.client.v2_method("thread/turns/list")?;
        self.client.need_turn_pages()?;
        self.client.send(Line::new(method, &json!({"threadId": self.id, "cursor": cursor}))).await
    }

    async fn begin(&self, beginning: Beginning) -> Result<Turn, CallError> {
        let method = beginning.start.method.clone();
        let deadline = self.client.deadline();
        let shared = &self.client.link.shared;
        let mut failures = 0;
        loop {
            let begin = beginning.clone();
            let key = shared.change(|exchange| exchange.begin_turn(&self.id, begin, deadline.into_std()))?;
            // From here on a turn that is given up is interrupted, even before it has a name.
            let turn = Turn { client: self.client.clone(), key, thread: self.id.clone(), id: Box::default() };
            let started = poll(shared, |exchange, context| exchange.poll_started(key, context));
            let outcome = match started.await {
                Ok(id) => return Ok(turn.named(id)),
                Err(outcome) => outcome,
            };
            drop(turn);
            if !matches!(&outcome, Outcome::Failed(error) if error.code == OVERLOADED) {
                return Err(CallError::of(&method, outcome));
            }
            failures += 1;
            match try_again(failures, deadline) {
                Some(again) => sleep_until(again).await,
                None => return Err(CallError::of(&method, outcome)),
            }
        }
    }
}

fn parsed<'a, T: Deserialize<'a>>(method: &str, result: &'a Json) -> Result<T, CallError> {
    result.parse().map_err(|error: serde_json::Error| CallError::Unexpected {
        method: method.into(),
        reason: error.to_string().into(),
    })
}
