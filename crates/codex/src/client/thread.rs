//! Threads: start, resume and list them, and start turns in them, whatever the worker's dialect.

use serde::Deserialize;
use serde_json::Value;
use std::future::poll_fn;

use tokio::time::{Instant, sleep_until, timeout_at};
use wire::{Json, Outcome};

use super::permissions::PermissionProfile;
use super::plan::v2::Turns;
use super::plan::{self, ThreadOptions, TurnOptions};
use super::turn::Turn;
use super::{Client, try_again};
use crate::abilities::{Ability, Dialect};
use crate::backoff::OVERLOADED;
use crate::dialect::Line;
use crate::error::CallError;
use crate::exchange::{Beginning, Naming};
use crate::protocol::calls::{
    ThreadCompactStart, ThreadFork, ThreadInjectItems, ThreadList, ThreadResume, ThreadStart, ThreadTurnsList,
    TurnStart,
};
use crate::protocol::{
    self, Call, SortDirection, ThreadCompactStartParams, ThreadInjectItemsParams, ThreadListParams,
    ThreadTurnsListParams, ThreadTurnsListResponse, TurnItemsView,
};
use crate::v1::calls::{
    AddConversationListener, ConversationParams, ListConversations, ListConversationsParams, NewConversation,
    ResumeConversation, SendUserTurn,
};

/// How many of a thread's turns are looked at for one.
const TURNS_LOOKED_AT: u32 = 20;

/// How many pages of conversations are looked through for one; more have not been seen in any home.
const PAGES_MAX: usize = 100;
/// How many threads are listed at once.
const PAGE_THREADS: u32 = 100;

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
    thread: Option<OpenedThread>,
    conversation_id: Option<Box<str>>,
    model: Option<Box<str>>,
    active_permission_profile: Option<ActiveProfile>,
}

#[derive(Deserialize)]
struct ActiveProfile {
    id: Box<str>,
}

#[derive(Deserialize)]
struct OpenedThread {
    id: Box<str>,
    #[serde(default)]
    status: Value,
}

impl OpenedThread {
    /// What it does, where the worker says so.
    fn status(&self) -> Option<&str> {
        self.status["type"].as_str()
    }
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
        let options = ThreadOptions { raw_events: options.raw_events && self.link.has_experimental_api, ..options };
        let abilities = self.abilities();
        let line = match abilities.dialect {
            Dialect::V2 => Line::of::<ThreadStart>(&plan::v2::start(&options, abilities)?),
            Dialect::V1 => Line::of::<NewConversation>(&plan::v1::start(&options, abilities)?),
        };
        self.open(line, options).await
    }

    /// Starts a thread that holds a history, items of the model's own kind such as earlier messages: the way where
    /// [`Thread::inject`] is not known. Such a thread has no tools of the caller's.
    ///
    /// # Errors
    /// [`CallError`]; the oldest workers cannot.
    pub async fn start_thread_from(&self, history: Vec<Json>, options: ThreadOptions) -> Result<Thread, CallError> {
        let abilities = self.abilities();
        abilities.need(Ability::Histories)?;
        if !options.tools.is_empty() {
            return Err(abilities.unable("threads with both a history and tools of the client").into());
        }
        let (history, options) = plan::with_instructions(history, options);
        let line = match abilities.dialect {
            Dialect::V2 => {
                self.need_experimental("thread/resume.history")?;
                let items = history.iter().map(Json::parse).collect::<Result<_, _>>();
                let items = items.map_err(|error| unwritable(ThreadResume::METHOD, &error))?;
                Line::of::<ThreadResume>(&plan::v2::told(items, &options))
            }
            Dialect::V1 => Line::of::<ResumeConversation>(&plan::v1::told(history, &options, abilities)?),
        };
        self.open(line, options).await
    }

    /// Loads a thread that an earlier worker has kept. With [`Thread::follow`] before it, nothing is missed of a turn
    /// that still runs there.
    ///
    /// # Errors
    /// [`CallError`]; see its `trap` for a thread that never ran, or that another worker has.
    pub async fn resume_thread(&self, thread: &str, options: ThreadOptions) -> Result<Thread, CallError> {
        let abilities = self.abilities();
        let line = match abilities.dialect {
            Dialect::V2 => {
                let turns = if self.need_turn_pages().is_ok() { Turns::LeftOut } else { Turns::Whole };
                Line::of::<ThreadResume>(&plan::v2::resume(thread, &options, turns))
            }
            Dialect::V1 => {
                self.link.shared.exchange().reader.forget(thread);
                let path = self.path_of(thread).await?;
                Line::of::<ResumeConversation>(&plan::v1::resume(thread, path, &options, abilities)?)
            }
        };
        self.open(line, options).await
    }

    /// A new thread that begins as another one was after that turn. The other may be in use. The tools of the other are
    /// the new one's too.
    ///
    /// # Errors
    /// [`CallError`]; older workers cannot.
    pub async fn fork_thread(
        &self,
        thread: &str,
        last_turn: &str,
        options: ThreadOptions,
    ) -> Result<Thread, CallError> {
        let method = self.v2_method(ThreadFork::METHOD)?;
        self.abilities().need(Ability::ForksAfterTurns)?;
        let line = Line::named::<ThreadFork>(method, &plan::v2::fork(thread, last_turn, &options));
        self.open(line, options).await
    }

    /// A thread that is loaded already, or is about to be; nothing is asked of the worker. Its turns are as the thread was
    /// started. With a worker of the v1 dialect they are as [`ThreadOptions::default`] says, and each must name its model.
    #[must_use]
    pub fn thread(&self, thread: &str) -> Thread {
        Thread { client: self.clone(), id: thread.into(), options: ThreadOptions::default(), model: None }
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
            Dialect::V2 => Line::of::<ThreadList>(&ThreadListParams {
                cursor: cursor.map(Into::into),
                limit: Some(PAGE_THREADS),
                ..ThreadListParams::default()
            }),
            Dialect::V1 => Line::of::<ListConversations>(&ListConversationsParams {
                cursor: cursor.map(Into::into),
                page_size: Some(PAGE_THREADS),
            }),
        };
        let method = line.method.clone();
        let page: Page = parsed(&method, &self.send(line).await?)?;
        // The oldest workers give a cursor at the end too.
        let next_cursor = page.next_cursor.filter(|_| !page.data.is_empty());
        Ok(ThreadPage { threads: page.data, next_cursor })
    }

    async fn open(&self, line: Line, options: ThreadOptions) -> Result<Thread, CallError> {
        if options.permissions.is_some() {
            self.abilities().need(Ability::PermissionProfiles)?;
        }
        let method = line.method.clone();
        let answer = self.send(line).await?;
        let opened: Opened = parsed(&method, &answer)?;
        let active = opened.active_permission_profile.map(|profile| profile.id);
        let status = opened.thread.as_ref().and_then(OpenedThread::status).map(str::to_owned);
        let id = opened.thread.map(|thread| thread.id).or(opened.conversation_id);
        let id = id.ok_or_else(|| CallError::unexpected(&method, &"it names no thread", &answer))?;
        match status.as_deref() {
            Some("active") => self.link.shared.exchange().handle_busy(&id),
            // A turn that is followed and has ended before anybody listened is over.
            Some(_) => self.link.shared.change(|exchange| exchange.handle_idle(&id, Instant::now().into_std())),
            None => {}
        }
        let is_confined = options.permissions.is_none() || active.as_deref() == Some(PermissionProfile::ID);
        let thread = Thread { client: self.clone(), id, options, model: opened.model };
        if is_confined {
            return Ok(thread);
        }
        // The thread never runs a turn; that it stays loaded is all that a failure here can cost.
        thread.unload().await.ok();
        Err(CallError::NotConfined { method, active })
    }

    /// Some versions list turns only to those who have asked for what is experimental.
    fn need_turn_pages(&self) -> Result<(), CallError> {
        if self.abilities().has(Ability::TurnPages) {
            return Ok(());
        }
        self.need_experimental(ThreadTurnsList::METHOD)
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
    /// more input to the first. The end of one that was dropped is waited for.
    ///
    /// # Errors
    /// [`CallError`], `Busy` among them.
    pub async fn start_turn(&self, options: impl Into<TurnOptions>) -> Result<Turn, CallError> {
        let turn = options.into();
        let (thread, abilities) = (&*self.id, self.client.abilities());
        self.begin(match abilities.dialect {
            Dialect::V2 => Beginning {
                naming: Naming::Answer,
                listen: None,
                start: Line::of::<TurnStart>(&plan::v2::turn(thread, &turn, abilities)?),
            },
            Dialect::V1 => {
                let params = plan::v1::turn(thread, &turn, &self.options, self.model.as_deref(), abilities)?;
                let listener = ConversationParams { conversation_id: thread.into() };
                Beginning {
                    naming: Naming::FirstEvent,
                    listen: Some(Line::of::<AddConversationListener>(&listener)),
                    start: Line::of::<SendUserTurn>(&params),
                }
            }
        })
        .await
    }

    /// Makes the thread's history shorter; that is a turn of its own.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn compact(&self) -> Result<Turn, CallError> {
        let method = self.client.v2_method(ThreadCompactStart::METHOD)?;
        let params = ThreadCompactStartParams { thread_id: self.id.to_string() };
        let start = Line::named::<ThreadCompactStart>(method, &params);
        self.begin(Beginning { naming: Naming::FirstEvent, listen: None, start }).await
    }

    /// Follows a turn that runs already: one that was started over another connection, or before ours was lost. Of one
    /// that does not run nothing is heard, until the worker says that the thread is idle: then it is over as lost.
    ///
    /// # Errors
    /// `Busy`, if another turn runs here.
    pub fn follow(&self, turn: &str) -> Result<Turn, CallError> {
        let key = self.client.link.shared.exchange().follow_turn(&self.id, turn)?;
        Ok(Turn { client: self.client.clone(), key, thread: self.id.clone(), id: turn.into() })
    }

    /// One page of its turns, from the cursor of an earlier page on.
    ///
    /// # Errors
    /// [`CallError`]; older workers cannot.
    pub async fn turns(&self, cursor: Option<&str>) -> Result<ThreadTurnsListResponse, CallError> {
        self.client.v2_method(ThreadTurnsList::METHOD)?;
        self.client.need_turn_pages()?;
        let params = ThreadTurnsListParams { cursor: cursor.map(Into::into), ..ThreadTurnsListParams::new(&*self.id) };
        self.client.call::<ThreadTurnsList>(params).await
    }

    /// One of its newest turns, with all its items; `None` if it is none of them.
    ///
    /// # Errors
    /// [`CallError`]; older workers cannot.
    pub async fn find_turn(&self, turn: &str) -> Result<Option<protocol::Turn>, CallError> {
        self.client.v2_method(ThreadTurnsList::METHOD)?;
        self.client.need_turn_pages()?;
        let params = ThreadTurnsListParams {
            items_view: Some(TurnItemsView::Full),
            sort_direction: Some(SortDirection::Desc),
            limit: Some(TURNS_LOOKED_AT),
            ..ThreadTurnsListParams::new(&*self.id)
        };
        let page = self.client.call::<ThreadTurnsList>(params).await?;
        Ok(page.data.into_iter().find(|found| *found.id == *turn))
    }

    /// Puts items of the model's own kind, such as earlier messages, into the thread's history. They show as no items.
    ///
    /// # Errors
    /// [`CallError`]; older workers cannot.
    pub async fn inject(&self, items: Vec<Json>) -> Result<(), CallError> {
        self.client.v2_method(ThreadInjectItems::METHOD)?;
        let params = ThreadInjectItemsParams { items, thread_id: self.id.to_string() };
        self.client.call::<ThreadInjectItems>(params).await.map(drop)
    }

    async fn begin(&self, beginning: Beginning) -> Result<Turn, CallError> {
        let method = beginning.start.method.clone();
        let deadline = self.client.deadline();
        let shared = &self.client.link.shared;
        let mut failures = 0;
        loop {
            // A turn of ours that was dropped is being stopped: that is worth waiting for.
            _ = timeout_at(deadline, poll_fn(|context| shared.exchange().poll_free(&self.id, context))).await;
            let begin = beginning.clone();
            let key = shared.change(|exchange| exchange.begin_turn(&self.id, begin, deadline.into_std()))?;
            // From here on a turn that is given up is interrupted, even before it has a name.
            let turn = Turn { client: self.client.clone(), key, thread: self.id.clone(), id: Box::default() };
            let outcome = match poll_fn(|context| shared.exchange().poll_started(key, context)).await {
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

fn unwritable(method: &str, error: &serde_json::Error) -> CallError {
    CallError::Unwritable { method: method.into(), reason: error.to_string().into() }
}

fn parsed<'a, T: Deserialize<'a>>(method: &str, result: &'a Json) -> Result<T, CallError> {
    result.parse().map_err(|error: serde_json::Error| CallError::unexpected(method, &error, result))
}
