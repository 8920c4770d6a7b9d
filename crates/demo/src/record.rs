//! What a thread file says: one JSON record a line, appended as things happen, so that a killed worker loses only what
//! the real one loses.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::items::{Body, Item, ItemStatus, text_of};
use crate::shapes::{ApprovalPolicy, ItemsView, TurnShape, TurnStatus, Usage};

/// One line of a thread file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum Record {
    Thread(ThreadRecord),
    Settings(Settings),
    Named(String),
    /// Items that a client put into the history; they are kept for the model, not shown as turns.
    Injected(Vec<Value>),
    TurnStarted {
        turn: TurnShape,
        unix_ms: u64,
    },
    Item {
        turn_id: String,
        item: Item,
    },
    Usage {
        turn_id: String,
        usage: Usage,
    },
    Unread(ReadState),
    TurnEnded {
        turn: TurnShape,
        unix_ms: u64,
    },
}

impl Record {
    /// Whether it belongs to what was said, which a fork shares, rather than to the thread itself.
    pub(crate) fn tells_of_turns(&self) -> bool {
        match self {
            Self::Thread(_) | Self::Settings(_) | Self::Named(_) | Self::Unread(_) => false,
            Self::Injected(_)
            | Self::TurnStarted { .. }
            | Self::Item { .. }
            | Self::Usage { .. }
            | Self::TurnEnded { .. } => true,
        }
    }

    /// Whether it is the end of that turn.
    pub(crate) fn ends(&self, turn: &str) -> bool {
        matches!(self, Self::TurnEnded { turn: ended, .. } if ended.id == turn)
    }
}

/// What never changes about a thread.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ThreadRecord {
    pub(crate) id: String,
    pub(crate) forked_from: Option<String>,
    pub(crate) created_ms: u64,
    pub(crate) originator: String,
    pub(crate) tools: Vec<Tool>,
}

/// A client's tool, as far as the worker needs to know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tool {
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
}

/// What a turn may change about its thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Settings {
    pub(crate) cwd: String,
    pub(crate) model: String,
    pub(crate) model_provider: String,
    pub(crate) approval_policy: ApprovalPolicy,
    pub(crate) sandbox: Value,
    #[serde(default)]
    pub(crate) permission_profile: Option<String>,
    pub(crate) effort: Option<String>,
    pub(crate) summary: Option<String>,
    #[serde(default)]
    pub(crate) collaboration: Collaboration,
}

/// How worker and caller go about it together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Collaboration {
    pub(crate) mode: Mode,
    pub(crate) developer_instructions: Option<String>,
}

/// In which mode they do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Mode {
    #[default]
    Default,
    /// A plan that the model proposes is an item.
    Plan,
}

/// What nobody has read yet.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReadState {
    pub(crate) first_unread_turn: Option<String>,
    pub(crate) revision: Option<String>,
}

/// A thread as its file tells it.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) thread: ThreadRecord,
    pub(crate) settings: Settings,
    pub(crate) name: Option<String>,
    pub(crate) turns: Vec<TurnShape>,
    pub(crate) usage: Option<(String, Usage)>,
    pub(crate) read_state: ReadState,
    pub(crate) updated_ms: u64,
    pub(crate) recency_ms: u64,
}

impl Stored {
    /// Reads a file's records; `None` if it does not begin as a thread file does. A line that is none, such as one cut
    /// short by a kill, is left out.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut records = text.lines().filter_map(|line| serde_json::from_str::<Record>(line).ok());
        let Some(Record::Thread(thread)) = records.next() else {
            return None;
        };
        let Some(Record::Settings(settings)) = records.next() else {
            return None;
        };
        let created_ms = thread.created_ms;
        let mut stored = Self {
            thread,
            settings,
            name: None,
            turns: Vec::new(),
            usage: None,
            read_state: ReadState::default(),
            updated_ms: created_ms,
            recency_ms: created_ms,
        };
        records.for_each(|record| stored.apply(record));
        stored.turns.iter_mut().for_each(end_if_cut);
        Some(stored)
    }

    /// The first thing a person said.
    pub(crate) fn preview(&self) -> String {
        preview(&self.turns)
    }

    fn apply(&mut self, record: Record) {
        match record {
            Record::Thread(_) | Record::Injected(_) => {}
            Record::Settings(settings) => self.settings = settings,
            Record::Named(name) => self.name = Some(name),
            Record::TurnStarted { turn, unix_ms } => {
                self.recency_ms = unix_ms;
                self.updated_ms = unix_ms;
                self.turns.push(TurnShape { items_view: ItemsView::Full, ..turn });
            }
            Record::Item { turn_id, item } => self.put(&turn_id, item),
            Record::Unread(read_state) => self.read_state = read_state,
            Record::Usage { turn_id, usage } => self.usage = Some((turn_id, usage)),
            Record::TurnEnded { turn, unix_ms } => {
                self.updated_ms = unix_ms;
                if let Some(known) = self.turns.iter_mut().rfind(|known| known.id == turn.id) {
                    let items = std::mem::take(&mut known.items);
                    *known = TurnShape { items, items_view: ItemsView::Full, ..turn };
                }
            }
        }
    }

    /// Adds an item, or replaces what was known of it.
    fn put(&mut self, turn_id: &str, item: Item) {
        let Some(turn) = self.turns.iter_mut().rfind(|turn| turn.id == turn_id) else {
            return;
        };
        match turn.items.iter_mut().find(|known| known.id() == item.id()) {
            Some(known) => *known = item,
            None => turn.items.push(item),
        }
    }
}

pub(crate) fn preview(turns: &[TurnShape]) -> String {
    let said = turns.iter().flat_map(|turn| &turn.items).find_map(|item| match &item.body {
        Body::UserMessage { content, .. } => Some(text_of(content)),
        _ => None,
    });
    said.unwrap_or_default()
}

/// A turn that was running when the worker died was interrupted, and the tools it waited for failed.
fn end_if_cut(turn: &mut TurnShape) {
    if turn.status != TurnStatus::InProgress {
        return;
    }
    turn.status = TurnStatus::Interrupted;
    for item in &mut turn.items {
        if let Body::DynamicToolCall(call) = &mut item.body
            && call.status == ItemStatus::InProgress
        {
            call.status = ItemStatus::Failed;
        }
    }
}
