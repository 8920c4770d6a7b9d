//! The words of closed lists, as labels and views write them: the same that serde writes.

use codex::TurnStatus;
use workers::WorkerState;

pub(crate) fn turn_status(status: TurnStatus) -> &'static str {
    match status {
        TurnStatus::Completed => "completed",
        TurnStatus::Interrupted => "interrupted",
        TurnStatus::Failed => "failed",
        TurnStatus::Lost => "lost",
    }
}

pub(crate) fn worker_state(state: WorkerState) -> &'static str {
    match state {
        WorkerState::Starting => "starting",
        WorkerState::Ready => "ready",
        WorkerState::Retiring => "retiring",
        WorkerState::Restarting => "restarting",
        WorkerState::Failed => "failed",
        WorkerState::Stopped => "stopped",
    }
}
