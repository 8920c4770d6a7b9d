//! The rows as plain structs. Times are unix milliseconds, ids are text, and what is JSON is kept as the text it came as.

use crate::words::{ApprovalState, ParkedCallState, ToolCallOutcome, TurnState};

/// A worker's request that waits, or waited, for a decision. Its worker is told only after the decision is committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    /// Ours, a UUIDv7.
    pub id: String,
    /// The worker group that it comes from.
    pub group: String,
    /// The worker within the group.
    pub worker: String,
    /// The thread.
    pub thread: String,
    /// The turn.
    pub turn: String,
    /// The item, where the request names one.
    pub item: Option<String>,
    /// The worker's own id of the request, as JSON.
    pub request: String,
    /// The request's method.
    pub method: String,
    /// What kind of thing is asked for.
    pub kind: String,
    /// The id of the key whose caller's turn asks.
    pub key: String,
    /// The request's parameters with what was shown beside them, as one JSON object.
    pub params: String,
    /// The hash of what people were shown.
    pub shown_hash: String,
    /// Where it is in its life.
    pub state: ApprovalState,
    /// The verdict, as JSON.
    pub verdict: Option<String>,
    /// Why it was decided so.
    pub reason: Option<String>,
    /// Who or what decided.
    pub decided_by: Option<String>,
    /// When it was recorded.
    pub created_at: i64,
    /// When it is declined by itself.
    pub deadline_at: Option<i64>,
    /// When it was decided.
    pub decided_at: Option<i64>,
}

/// One step in the life of an approval, never changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// The approval's id.
    pub approval: String,
    /// When it happened.
    pub at: i64,
    /// What happened.
    pub step: String,
    /// Who or what did it.
    pub by: String,
    /// What else is to be known.
    pub detail: String,
}

/// A call of a caller's tool for whose result a turn waits. Models choose the ids of calls, so `id` alone names none:
/// the key and the thread belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkedCall {
    /// The model's id of the call.
    pub id: String,
    /// The id of the key whose caller has the tool.
    pub key: String,
    /// The worker group.
    pub group: String,
    /// The worker within the group.
    pub worker: String,
    /// The thread.
    pub thread: String,
    /// The turn that waits.
    pub turn: String,
    /// The worker's own id of the request, as JSON.
    pub request: String,
    /// The tool's namespace, where it has one.
    pub namespace: Option<String>,
    /// The tool.
    pub tool: String,
    /// Its arguments, as JSON.
    pub arguments: String,
    /// Where it is in its life.
    pub state: ParkedCallState,
    /// When it was parked.
    pub created_at: i64,
    /// When it fails by itself.
    pub deadline_at: Option<i64>,
}

/// A thread that Switchboard knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// The worker's id of it.
    pub id: String,
    /// The Switchboard instance that it belongs to.
    pub owner: String,
    /// The worker group that it stays in.
    pub group: String,
    /// The worker that last had it, where one had.
    pub worker: Option<String>,
    /// Its directory.
    pub cwd: String,
    /// The id of the key whose caller began it.
    pub key: String,
    /// The profile that it began with.
    pub profile: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// Its last turn.
    pub last_turn: Option<String>,
    /// Whether that is over.
    pub last_turn_state: Option<TurnState>,
    /// The hash of its history, by which a later request finds it.
    pub history_hash: Option<String>,
    /// Reasons of denials that its next turn is to be told, as a JSON list.
    pub unsaid: String,
    /// When it began.
    pub created_at: i64,
    /// When it was last used.
    pub used_at: i64,
    /// Whether it was put away.
    pub archived: bool,
}

/// A response that a caller can ask for again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Ours.
    pub id: String,
    /// The id of the key whose caller it was made for.
    pub key: String,
    /// The thread.
    pub thread: String,
    /// The turn.
    pub turn: String,
    /// The response that it went on from.
    pub previous: Option<String>,
    /// How far it is.
    pub status: String,
    /// The whole of it, as JSON.
    pub body: String,
    /// When it was made.
    pub created_at: i64,
    /// When it may be forgotten.
    pub expires_at: Option<i64>,
}

/// A link that decides an approval. Only the hash of its token is stored, and the file refuses anything that is not a
/// SHA-256 in hex.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionLink {
    /// The approval's id.
    pub approval: String,
    /// The verdict that the link gives: `allow`, `deny` or `cancel`.
    pub verdict: String,
    /// The SHA-256 of the token: 64 hexadecimal digits, lowercase.
    pub hash: String,
    /// What the approval showed when the link was made.
    pub shown_hash: String,
    /// When the link stops working.
    pub expires_at: i64,
}

/// An API key. Only the hash of its secret is kept, and the file refuses anything that is not a SHA-256 in hex.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The public part of it.
    pub id: String,
    /// What its owner calls it.
    pub name: String,
    /// The SHA-256 of the secret: 64 hexadecimal digits, lowercase.
    pub hash: String,
    /// What it may do, as a JSON list.
    pub scopes: String,
    /// The profiles that it may use, as JSON.
    pub profiles: String,
    /// Its limits, as JSON.
    pub limits: String,
    /// When it was made.
    pub created_at: i64,
    /// When it was last used, roughly.
    pub last_used_at: Option<i64>,
    /// When it was revoked.
    pub revoked_at: Option<i64>,
}

/// Which key created a key. It never changes, also not when one of the two is revoked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyOrigin {
    /// The id of the key that was created.
    pub key: String,
    /// The id of the key that created it; none for the first key and those of the command line.
    pub parent: Option<String>,
    /// The id of the key as whose own requests its requests count.
    pub principal: String,
}

/// What turns used, for one key, thread and day. Written, it is added to what is there; read, it is the sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageAdded {
    /// The key's id.
    pub key: String,
    /// The thread.
    pub thread: String,
    /// The day in UTC, as `2026-01-31`.
    pub day: String,
    /// Tokens read.
    pub input: i64,
    /// How many of those came from a cache.
    pub cached: i64,
    /// Tokens written.
    pub output: i64,
    /// How many of those were reasoning.
    pub reasoning: i64,
    /// Turns.
    pub turns: i64,
    /// How many of the tokens read and written are estimated: the worker did not report them.
    pub estimated: i64,
}

/// What a tool server offered last: served while it is restarted, and only as long as its configuration is the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolList {
    /// The server's name.
    pub server: String,
    /// The hash of its configuration.
    pub hash: String,
    /// What the server calls its version; empty if it names none.
    pub version: String,
    /// The list, as JSON.
    pub body: String,
    /// When it was listed.
    pub at: i64,
}

/// One call of a tool server's tool, never changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// Ours, a UUIDv7.
    pub id: String,
    /// When it came.
    pub at: i64,
    /// The id of the caller's key.
    pub key: String,
    /// What the caller is called, such as `mcp` or the name of a worker.
    pub caller: String,
    /// The tool server.
    pub server: String,
    /// The tool, by the name that its server has for it.
    pub tool: String,
    /// How long it took, in milliseconds, the wait for a decision included.
    pub took_ms: i64,
    /// How long its arguments were.
    pub request_bytes: i64,
    /// How long its result was, before any of it was cut off.
    pub result_bytes: i64,
    /// What became of it.
    pub outcome: ToolCallOutcome,
    /// What else is to be known.
    pub detail: Option<String>,
    /// The id of the approval that it waited for, where there was one.
    pub approval: Option<String>,
}

impl UsageAdded {
    pub(crate) fn add(&mut self, other: &Self) {
        self.input = self.input.saturating_add(other.input);
        self.cached = self.cached.saturating_add(other.cached);
        self.output = self.output.saturating_add(other.output);
        self.reasoning = self.reasoning.saturating_add(other.reasoning);
        self.turns = self.turns.saturating_add(other.turns);
        self.estimated = self.estimated.saturating_add(other.estimated);
    }
}
