//! One loaded thread: what is known of it, who listens, and the file that keeps it.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::clock::Now;
use crate::home::{Home, ThreadFile, Unopened};
use crate::outputs::ConnectionId;
use crate::play::Act;
use crate::record::{ReadState, Record, Settings, Stored, ThreadRecord};
use crate::shapes::{Status, Usage};
use crate::speech::{self, Event, Happening};
use crate::stage::{Call, Stage};
use crate::turn::Turn;

/// A loaded thread.
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) record: ThreadRecord,
    pub(crate) settings: Settings,
    pub(crate) kept: Kept,
    pub(crate) name: Option<String>,
    pub(crate) preview: String,
    /// The last thing a person said, in a turn or in injected items.
    pub(crate) last_said: String,
    /// The result of a tool that was injected after it.
    pub(crate) tool_output: Option<String>,
    pub(crate) updated_ms: u64,
    pub(crate) recency_ms: u64,
    pub(crate) status: Status,
    pub(crate) subscribers: Vec<ConnectionId>,
    /// How long it stays loaded when it is quiet and nobody listens; for ever with the workers of old.
    pub(crate) unload_delay: Option<Duration>,
    /// When somebody last stopped listening, or a turn ended.
    pub(crate) quiet_since: Option<Instant>,
    /// The subscriptions of v1, by id.
    pub(crate) listeners: Vec<(String, ConnectionId)>,
    pub(crate) turns_begun: u64,
    pub(crate) turn: Option<Turn>,
    pub(crate) usage: Usage,
    /// The turn that the usage was last counted in.
    pub(crate) usage_turn: Option<String>,
    /// The context window is full: the next turn begins by compacting it.
    pub(crate) is_full: bool,
    pub(crate) read_state: ReadState,
    /// Whether it tells what passes between the worker and its model, for as long as it is loaded.
    pub(crate) tells_raw: bool,
    /// What was accepted for as long as the thread is loaded.
    pub(crate) allowed: Allowed,
    /// The turn that was just interrupted. To interrupt it once more is not answered before the next turn ends: so the
    /// real worker does.
    pub(crate) interrupted_turn: Option<String>,
    pub(crate) late_interrupts: Vec<Call>,
}

/// Where a thread is kept.
#[derive(Debug)]
pub(crate) enum Kept {
    /// Nowhere, on request.
    Ephemeral,
    /// Nowhere yet: it has not run.
    NotYet,
    File(ThreadFile),
}

/// What needs no further approval.
#[derive(Debug, Default)]
pub(crate) struct Allowed {
    pub(crate) commands: Vec<String>,
    pub(crate) prefixes: Vec<Vec<String>>,
    pub(crate) files: Vec<String>,
}

impl Thread {
    pub(crate) fn new(record: ThreadRecord, settings: Settings, kept: Kept) -> Self {
        let created_ms = record.created_ms;
        Self {
            record,
            settings,
            kept,
            name: None,
            preview: String::new(),
            last_said: String::new(),
            tool_output: None,
            updated_ms: created_ms,
            recency_ms: created_ms,
            status: Status::Idle,
            subscribers: Vec::new(),
            unload_delay: None,
            quiet_since: None,
            listeners: Vec::new(),
            turns_begun: 0,
            turn: None,
            usage: Usage::default(),
            usage_turn: None,
            is_full: false,
            read_state: ReadState::default(),
            tells_raw: false,
            allowed: Allowed::default(),
            interrupted_turn: None,
            late_interrupts: Vec::new(),
        }
    }

    /// Takes items for the model's eyes: keeps them, and remembers what a person said last.
    pub(crate) fn inject(&mut self, items: Vec<Value>, stage: &mut Stage) {
        let mut said = items.iter().filter(|item| item["role"] == "user").filter_map(|item| {
            let parts = item["content"].as_array()?;
            Some(parts.iter().filter_map(|part| part["text"].as_str()).collect::<String>())
        });
        if let Some(last) = said.next_back() {
            self.last_said = last;
        }
        for item in &items {
            if item["type"].as_str().is_some_and(|kind| kind.ends_with("_call_output")) {
                self.tool_output = Some(item["output"].as_str().unwrap_or_default().to_owned());
            } else if item["role"] == "user" {
                self.tool_output = None;
            }
        }
        self.keep(&Record::Injected(items), stage);
    }

    /// A thread that goes on where its file ends.
    pub(crate) fn resumed(stored: &Stored, file: ThreadFile) -> Self {
        let (usage_turn, usage) =
            stored.usage.clone().map_or((None, Usage::default()), |(turn, usage)| (Some(turn), usage));
        Self {
            name: stored.name.clone(),
            preview: stored.preview(),
            updated_ms: stored.updated_ms,
            recency_ms: stored.recency_ms,
            usage,
            usage_turn,
            read_state: stored.read_state.clone(),
            ..Self::new(stored.thread.clone(), stored.settings.clone(), Kept::File(file))
        }
    }

    pub(crate) fn id(&self) -> &str {
        &self.record.id
    }

    /// What has been used, and in which turn last. A response that ends with a tool counts as soon as it is there, though
    /// its usage is told only after the tool.
    pub(crate) fn usage_so_far(&self) -> Option<(&str, Usage)> {
        let mut usage = self.usage;
        let waiting = self.turn.as_ref().filter(|turn| !turn.parked.is_empty());
        if let Some(turn) = waiting
            && let Some(Act::Usage(tokens)) = turn.acts.front()
        {
            usage.total.add(*tokens);
            usage.last = *tokens;
            return Some((&turn.id, usage));
        }
        Some((self.usage_turn.as_deref()?, usage))
    }

    pub(crate) fn is_ephemeral(&self) -> bool {
        matches!(self.kept, Kept::Ephemeral)
    }

    pub(crate) fn subscribe(&mut self, connection: ConnectionId) {
        if !self.subscribers.contains(&connection) {
            self.subscribers.push(connection);
        }
    }

    /// Takes a connection's listeners with it. Says whether it was subscribed.
    pub(crate) fn unsubscribe(&mut self, connection: ConnectionId, now: Now) -> bool {
        self.quiet_since = Some(now.instant);
        let before = self.subscribers.len();
        self.subscribers.retain(|subscriber| *subscriber != connection);
        self.listeners.retain(|(_, listener)| *listener != connection);
        self.subscribers.len() < before
    }

    /// When it is to be unloaded, if nothing happens until then.
    pub(crate) fn unload_due(&self) -> Option<Instant> {
        let is_quiet = self.subscribers.is_empty() && self.turn.is_none();
        Some(self.quiet_since.filter(|_| is_quiet)? + self.unload_delay?)
    }

    pub(crate) fn set_status(&mut self, status: Status, stage: &mut Stage) {
        self.status = status;
        self.quiet_since = Some(stage.now.instant);
        if let Some(delay) = self.unload_delay {
            stage.wake(stage.now.instant + delay, self.id());
        }
        self.say(Event::Status(status), stage);
    }

    pub(crate) fn say(&self, event: Event<'_>, stage: &mut Stage) {
        speech::say(self, event, stage);
    }

    pub(crate) fn say_in(&self, turn: &str, what: Happening<'_>, stage: &mut Stage) {
        speech::say_in(self, turn, what, stage);
    }

    /// Appends to the thread's file, which the first record creates.
    pub(crate) fn keep(&mut self, record: &Record, stage: &mut Stage) {
        if let Err(problem) = self.try_keep(record, stage) {
            stage.log(format!("ERROR cannot keep thread {}: {problem}", self.id()));
        }
    }

    fn try_keep(&mut self, record: &Record, stage: &Stage) -> Result<(), String> {
        if matches!(self.kept, Kept::NotYet) {
            self.kept = Kept::File(self.create_file(stage)?);
        }
        match &mut self.kept {
            Kept::File(file) => file.append(record).map_err(|error| error.to_string()),
            Kept::Ephemeral | Kept::NotYet => Ok(()),
        }
    }

    pub(crate) fn create_file(&self, stage: &Stage) -> Result<ThreadFile, String> {
        let mut file = Home::open_thread(stage.home.thread_path(&self.record)).map_err(|unopened| match unopened {
            Unopened::HasWriter => "another worker writes it".to_owned(),
            Unopened::Io(error) => error.to_string(),
        })?;
        for record in [Record::Thread(self.record.clone()), Record::Settings(self.settings.clone())] {
            file.append(&record).map_err(|error| error.to_string())?;
        }
        Ok(file)
    }
}
