//! What became of a response that was being made when the server ended: its turn may still run on a worker that outlives it, or have come
//! to its end there; otherwise it has failed.

use serde_json::Value;
use serde_json::value::to_raw_value;
use store::{Change, ParkedCallFilter, ParkedCallState};
use workers::Recorded;

use crate::Desk;
use crate::openai::history::History;
use crate::openai::message::ToolCall;
use crate::openai::responses::object::{Name, Status};
use crate::openai::responses::record::{Record, answered_calls};
use crate::openai::responses::recorded::{Fate, settle};

/// The row as it is now, if its response was being made when an earlier run of the server ended.
pub(super) async fn recover(desk: &Desk, row: store::Response) -> store::Response {
    let is_open = Status::of(&row.status).is_some_and(|status| !status.is_over());
    let is_of_this_run = Name::of(&row.id).is_none_or(|name| name.given_at_ms() >= desk.started_ms);
    if !is_open || is_of_this_run || desk.responses.is_running(&row.id, &row.key) {
        return row;
    }
    let fate = match waiting_calls(desk, &row).await {
        calls if !calls.is_empty() => Fate::CallsWanted(calls),
        _ if desk.pool.has_turn(&row.turn) => return row,
        _ => Fate::Over,
    };
    // It may yet be found again with its worker.
    let Some(turn) = recorded(desk, &row).await else { return row };
    let is_in_progress = turn.as_ref().is_some_and(|turn| turn["status"] == "inProgress");
    if is_in_progress && matches!(fate, Fate::Over) {
        return row;
    }
    let Some((ended, _)) = settled(&row, turn.as_ref(), &fate) else { return row };
    leave_tip(desk, &ended);
    desk.store.note(Change::ResponseIfStill { status: row.status, row: ended.clone() });
    ended
}

/// What is on record of the turn of a response; `None` if nobody is there to be asked.
pub(super) async fn recorded(desk: &Desk, row: &store::Response) -> Option<Option<Value>> {
    if row.turn.is_empty() {
        return Some(None);
    }
    match desk.pool.recorded_turn(&row.thread, &row.turn).await {
        Recorded::Turn(turn) => Some(serde_json::to_value(turn).ok()),
        Recorded::Unknown => Some(None),
        Recorded::NobodySays => None,
    }
}

/// The calls of the caller's functions that its turn waits for.
pub(super) async fn waiting_calls(desk: &Desk, row: &store::Response) -> Vec<ToolCall> {
    let waiting = desk.pool.waiting_calls(&row.turn);
    if waiting.is_empty() {
        return Vec::new();
    }
    let filter = ParkedCallFilter {
        thread: Some(row.thread.clone()),
        state: Some(ParkedCallState::Waiting),
        ..ParkedCallFilter::default()
    };
    let kept = desk.store.read(move |reader| reader.parked_calls(&filter)).await.unwrap_or_default();
    let call_of = |id: &str| kept.iter().find(|call| call.turn == row.turn && call.id == id);
    let calls = waiting.iter().filter_map(|id| call_of(id)).map(|call| ToolCall {
        id: call.id.as_str().into(),
        name: call.tool.as_str().into(),
        arguments: call.arguments.as_str().into(),
    });
    calls.collect()
}

/// A response with its end, and how it ended.
pub(super) fn settled(row: &store::Response, turn: Option<&Value>, fate: &Fate) -> Option<(store::Response, Status)> {
    let mut record = Record::read(&row.body)?;
    let mut response: Value = serde_json::from_str(record.response.get()).ok()?;
    let status = settle(&Name::of(&row.id)?, &mut response, &answered_calls(&record.input()), turn, fate);
    record.response = to_raw_value(&response).ok()?;
    let asked = record.history.take().filter(|_| status == Status::Completed);
    record.history = asked.and_then(|asked| History::resume(&asked)).map(|mut said| {
        record.answered().iter().for_each(|message| said.add(message));
        said.to_hash().into()
    });
    Some((store::Response { status: status.word().into(), body: record.to_json(), ..row.clone() }, status))
}

/// Whoever repeats the conversation finds the thread that stands at its end.
pub(super) fn leave_tip(desk: &Desk, row: &store::Response) {
    if let Some(history) = Record::read(&row.body).and_then(|record| record.history) {
        desk.pool.leave_tip(&row.thread, &history);
    }
}
