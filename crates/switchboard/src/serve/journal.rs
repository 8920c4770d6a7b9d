//! What happens, in the log: the same that the feed is told, by ids alone. What a worker or a person said is not among it
//! at the level `info`; the operator API has that, for those who may see it.

use std::sync::Arc;

use approvals::{DecidedView, Notice as Asked, View};
use front::Feed;
use serde::Serialize;
use tools::ServerState;
use tracing::{debug, info, warn};
use workers::{At, Notice, WorkerState};

/// The feed, with a line in the log for what it is told.
pub(super) fn of_workers(feed: &Feed) -> workers::Notify {
    let tell = feed.notify_workers();
    Arc::new(move |notice| {
        log_workers(&notice);
        tell(notice);
    })
}

/// The feed, with a line in the log for what it is told.
pub(super) fn of_approvals(feed: &Feed) -> approvals::Notify {
    let tell = feed.notify_approvals();
    Arc::new(move |notice| {
        log_approvals(&notice);
        tell(notice);
    })
}

/// The feed, with a line in the log for what it is told.
pub(super) fn of_tools(feed: &Feed) -> tools::Notify {
    let tell = feed.notify_tools();
    Arc::new(move |notice| {
        log_tools(&notice);
        tell(notice);
    })
}

fn log_workers(notice: &Notice) {
    match notice {
        Notice::WorkerState { worker, group, state, reason } => {
            let (worker, group, is) = (&**worker, &**group, word(state));
            match state {
                WorkerState::Failed => {
                    warn!(
                        worker,
                        group,
                        state = is,
                        "worker failed; `switchboard workers` says why, and when it is tried again"
                    );
                }
                WorkerState::Restarting | WorkerState::Retiring => warn!(worker, group, state = is, "worker"),
                WorkerState::Starting | WorkerState::Ready | WorkerState::Stopped => {
                    info!(worker, group, state = is, "worker")
                }
            }
            // It may quote what the worker wrote to stderr.
            if let Some(reason) = reason.as_deref() {
                debug!(worker, group, state = is, reason, "worker");
            }
        }
        Notice::ThreadOpened { thread, worker, key } => {
            debug!(thread = &**thread, worker = &**worker, caller = &**key, "thread opened");
        }
        Notice::TurnStarted { at } => {
            let At { thread, turn, worker, key } = at;
            info!(thread = &**thread, turn = &**turn, worker = &**worker, caller = &**key, "turn started");
        }
        Notice::TurnParked { at } => {
            let At { thread, turn, worker, key } = at;
            info!(thread = &**thread, turn = &**turn, worker = &**worker, caller = &**key, "turn parked");
        }
        Notice::TurnEnded { at, status, error } => {
            let At { thread, turn, worker, key } = at;
            let (thread, turn, worker, caller) = (&**thread, &**turn, &**worker, &**key);
            let kind = error.as_ref().and_then(|error| error.kind.as_deref());
            info!(thread, turn, worker, caller, status = word(status), kind, "turn ended");
            // It may quote what was said.
            if let Some(error) = error {
                debug!(thread, turn, worker, caller, message = &*error.message, "turn ended");
            }
        }
        Notice::TokensUsed { .. } | Notice::ItemStarted { .. } | Notice::ItemCompleted { .. } => {}
    }
}

fn log_approvals(notice: &Asked) {
    match notice {
        Asked::ApprovalWanted { approval } => {
            let View { id, kind, origin, key, .. } = &**approval;
            let kind = kind.name();
            info!(approval = id, kind, thread = origin.thread, turn = origin.turn, caller = key, "approval wanted");
        }
        Asked::ApprovalDecided { approval } => {
            let View { id, kind, origin, key, state, decided, .. } = &**approval;
            let (kind, state) = (kind.name(), state.as_str());
            let by = decided.as_ref().map(|DecidedView { by, .. }| by.to_string());
            info!(
                approval = id,
                kind,
                thread = origin.thread,
                turn = origin.turn,
                caller = key,
                state,
                by,
                "approval decided"
            );
        }
    }
}

/// What happens to tool servers, in the log alone.
pub(crate) fn log_tools(notice: &tools::Notice) {
    match notice {
        tools::Notice::ToolServerState { server, state, reason } => {
            let (server, is) = (&**server, state.name());
            match state {
                ServerState::Failed => {
                    warn!(server, state = is, "a tool server has failed; `switchboard tools check {server}` says why");
                }
                ServerState::Degraded | ServerState::Restarting => warn!(server, state = is, "tool server"),
                ServerState::Starting | ServerState::Ready | ServerState::Stopped => {
                    info!(server, state = is, "tool server");
                }
            }
            // It may quote what the server wrote to stderr.
            if let Some(reason) = reason.as_deref() {
                debug!(server, state = is, reason, "tool server");
            }
        }
        tools::Notice::ToolCalled { key, server, tool, outcome, took_ms, .. } => {
            info!(server = &**server, tool = &**tool, caller = &**key, outcome, took_ms, "tool called");
        }
        tools::Notice::ToolsChanged => debug!("what tool servers offer has changed"),
    }
}

/// A word as the operator API has it.
fn word(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().into()
}
