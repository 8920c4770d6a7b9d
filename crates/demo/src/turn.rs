//! The life of a turn: it begins, is steered, waits, is interrupted, and ends exactly once, with its notifications in the
//! real worker's order.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::clock::Now;
use crate::items::{Body, Item, ItemStatus, UserInput, text_of};
use crate::options::Dialect;
use crate::perform::{self, Flow};
use crate::play::{Act, Scene, Step, compose, last_marker};
use crate::record::Record;
use crate::shapes::{ItemsView, Status, Tokens, TurnError, TurnShape, TurnStatus};
use crate::speech::{Event, Happening, Model};
use crate::stage::{Call, Stage};
use crate::thread::Thread;

/// How long a cut turn waits for more to be said before it goes on, as the real worker does while it asks the model again.
const STEER_LATENCY: Duration = Duration::from_millis(20);

/// A running turn.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) id: String,
    pub(crate) started: Now,
    /// What is still to be played of the current response and those after it.
    pub(crate) acts: VecDeque<Act>,
    /// When the next act is due; absent while the turn waits for a client, or forever.
    pub(crate) due: Option<Instant>,
    pub(crate) open: Option<Item>,
    /// The plan that the open message proposes: it is complete when the message is.
    pub(crate) proposal: Option<Item>,
    pub(crate) parked: Vec<Parked>,
    /// What was said meanwhile, to be taken up after the current response.
    steers: VecDeque<Input>,
    pub(crate) last_message: Option<Item>,
    pub(crate) diff: Option<String>,
    /// Whether the model's answer, whose tools are at work, was told to be complete.
    has_told_answer: bool,
    /// What tools said, by their calls, until the model is told it.
    pub(crate) outputs: Vec<(String, Value)>,
    output_schema: Option<Value>,
}

impl Turn {
    /// Whether the next act makes as many deltas as it can.
    pub(crate) fn is_at_full_speed(&self) -> bool {
        matches!(self.acts.front(), Some(Act::Stream { pause, .. }) if pause.is_zero())
    }

    /// The turn as its end shows it: with its last message, if it came to one.
    fn ended(self, how: End, now: Now) -> TurnShape {
        let (status, error) = match how {
            End::Completed => (TurnStatus::Completed, None),
            End::Interrupted => (TurnStatus::Interrupted, None),
            End::Failed(error) => (TurnStatus::Failed, Some(error)),
        };
        let (items, items_view) = match self.last_message {
            Some(message) if status == TurnStatus::Completed => (vec![message], ItemsView::Summary),
            _ => (Vec::new(), ItemsView::NotLoaded),
        };
        TurnShape {
            items,
            items_view,
            status,
            error,
            started_at: Some(self.started.unix_seconds()),
            completed_at: Some(now.unix_seconds()),
            duration_ms: Some(now.unix_ms.saturating_sub(self.started.unix_ms)),
            ..TurnShape::new(&self.id)
        }
    }
}

/// A request that waits for its answer, and the item it is about.
#[derive(Debug)]
pub(crate) struct Parked {
    pub(crate) request: u64,
    /// Sent again to whoever resumes the thread.
    pub(crate) line: Vec<u8>,
    pub(crate) item: Item,
}

/// What a person said.
#[derive(Debug)]
pub(crate) struct Input {
    pub(crate) content: Vec<UserInput>,
    pub(crate) client_id: Option<String>,
}

/// How a turn ends.
#[derive(Debug)]
pub(crate) enum End {
    Completed,
    Interrupted,
    Failed(TurnError),
}

/// Begins a turn whose call has been answered.
pub(crate) fn begin(thread: &mut Thread, id: &str, input: Input, output_schema: Option<Value>, stage: &mut Stage) {
    let mut turn = Turn {
        id: id.to_owned(),
        started: stage.now,
        acts: VecDeque::new(),
        due: None,
        open: None,
        proposal: None,
        parked: Vec::new(),
        steers: VecDeque::new(),
        last_message: None,
        diff: None,
        has_told_answer: false,
        outputs: Vec::new(),
        output_schema,
    };
    let shape = TurnShape { started_at: Some(stage.now.unix_seconds()), ..TurnShape::new(id) };
    thread.turns_begun += 1;
    thread.recency_ms = stage.now.unix_ms;
    thread.keep(&Record::TurnStarted { turn: shape.clone(), unix_ms: stage.now.unix_ms }, stage);
    thread.set_status(Status::ACTIVE, stage);
    thread.say(Event::TurnStarted(&shape), stage);
    if thread.is_full {
        compact(thread, &turn, stage);
    }
    deliver(thread, &mut turn, input, stage);
    thread.turn = Some(turn);
    advance(thread, stage);
}

/// Says something to a running turn. What the model was saying is cut; a tool that is waited for is not.
pub(crate) fn steer(thread: &mut Thread, input: Input, stage: &mut Stage) {
    let Some(turn) = &mut thread.turn else { return };
    let is_first = turn.steers.is_empty();
    turn.steers.push_back(input);
    if !turn.parked.is_empty() || matches!(turn.acts.front(), Some(Act::Finish(_))) {
        let response_ends = turn.acts.iter().position(|act| matches!(act, Act::Usage(_)));
        turn.acts.truncate(response_ends.map_or(0, |at| at + 1));
    } else if is_first {
        turn.acts.clear();
        turn.open = None;
        turn.proposal = None;
        let due = stage.now.instant + STEER_LATENCY;
        turn.due = Some(due);
        stage.wake(due, &thread.record.id);
        thread.say(Event::RateLimits, stage);
    }
}

/// Interrupts a running turn, whose id has been checked.
pub(crate) fn interrupt(thread: &mut Thread, call: Call, stage: &mut Stage) {
    thread.late_interrupts.push(call);
    abort(thread, stage);
}

/// Ends a running turn before its time.
pub(crate) fn abort(thread: &mut Thread, stage: &mut Stage) {
    let Some(mut turn) = thread.turn.take() else {
        return;
    };
    let parked = std::mem::take(&mut turn.parked);
    for Parked { item, .. } in &parked {
        if let Body::DynamicToolCall(call) = &item.body {
            let mut call = call.clone();
            call.status = ItemStatus::Failed;
            call.content_items = Some(Vec::new());
            call.success = Some(false);
            call.duration_ms = Some(stage.now.unix_ms.saturating_sub(item.started_at_ms));
            let item = Item { body: Body::DynamicToolCall(call), ..item.clone() };
            perform::complete(thread, &turn.id, item, stage);
        }
    }
    close_response(thread, &mut turn, stage);
    end(thread, turn, End::Interrupted, stage);
    for Parked { request, item, .. } in parked {
        stage.asked.remove(&request);
        if !matches!(item.body, Body::DynamicToolCall(_)) {
            thread.say(Event::Resolved { request }, stage);
        }
    }
}

/// A response that is cut is counted only if it had been complete, that is, if a tool was waited for.
pub(crate) fn close_response(thread: &mut Thread, turn: &mut Turn, stage: &mut Stage) {
    let in_tool = turn.acts.iter().position(|act| !matches!(act, Act::Pause(_) | Act::Finish(_)));
    turn.acts.drain(..in_tool.unwrap_or(turn.acts.len()));
    match turn.acts.pop_front() {
        Some(Act::Usage(tokens)) => count(thread, turn, tokens, stage),
        _ => thread.say(Event::RateLimits, stage),
    }
}

/// Plays on until something has to be waited for.
pub(crate) fn advance(thread: &mut Thread, stage: &mut Stage) {
    let Some(mut turn) = thread.turn.take() else {
        return;
    };
    turn.due = None;
    while turn.parked.is_empty() {
        let Some(act) = turn.acts.pop_front() else {
            if turn.steers.is_empty() {
                return end(thread, turn, End::Completed, stage);
            }
            for input in std::mem::take(&mut turn.steers) {
                deliver(thread, &mut turn, input, stage);
            }
            continue;
        };
        match perform::perform(thread, &mut turn, act, stage) {
            Flow::On => {}
            Flow::Due(due) => {
                turn.due = Some(due);
                stage.wake(due, thread.id());
                break;
            }
            Flow::Never => break,
            Flow::End(how) => return end(thread, turn, how, stage),
        }
    }
    thread.turn = Some(turn);
}

/// The model's answer is complete, and its tools are about to begin.
pub(crate) fn tell_answer(thread: &Thread, turn: &mut Turn, stage: &mut Stage) {
    if let Some(Act::Usage(tokens)) = turn.acts.front() {
        thread.say_in(&turn.id, Happening::Model(Model::Answered(*tokens)), stage);
        turn.has_told_answer = true;
    }
}

/// Ends a response of the model, whose tools are done.
pub(crate) fn close_answer(thread: &mut Thread, turn: &mut Turn, tokens: Tokens, stage: &mut Stage) {
    if !std::mem::take(&mut turn.has_told_answer) {
        thread.say_in(&turn.id, Happening::Model(Model::Answered(tokens)), stage);
    }
    for (call, output) in std::mem::take(&mut turn.outputs) {
        thread.say_in(&turn.id, Happening::Model(Model::Output { call: &call, output: &output }), stage);
    }
    count(thread, turn, tokens, stage);
}

/// Counts a response of the model.
pub(crate) fn count(thread: &mut Thread, turn: &Turn, tokens: Tokens, stage: &mut Stage) {
    thread.usage.total.add(tokens);
    thread.usage.last = tokens;
    thread.usage_turn = Some(turn.id.clone());
    thread.keep(&Record::Usage { turn_id: turn.id.clone(), usage: thread.usage }, stage);
    say_usage(thread, turn, stage);
}

fn say_usage(thread: &Thread, turn: &Turn, stage: &mut Stage) {
    thread.say_in(&turn.id, Happening::Usage, stage);
    thread.say(Event::RateLimits, stage);
    if let Some(diff) = &turn.diff {
        thread.say_in(&turn.id, Happening::Diff(diff), stage);
    }
}

/// Makes what a person said an item, and chooses what is played for it.
fn deliver(thread: &mut Thread, turn: &mut Turn, input: Input, stage: &mut Stage) {
    let images = input.content.iter().filter(|piece| piece.is_image()).count();
    if !input.content.is_empty() {
        thread.last_said = text_of(&input.content);
        thread.tool_output = None;
        if thread.preview.is_empty() {
            thread.preview = thread.last_said.clone();
        }
        let id = stage.ids.uuid();
        let body = Body::UserMessage { id, client_id: input.client_id, content: input.content };
        let item = Item::started(body, stage.now.unix_ms);
        thread.say_in(&turn.id, Happening::Model(Model::Item(&item)), stage);
        thread.say_in(&turn.id, Happening::ItemStarted(&item), stage);
        perform::complete(thread, &turn.id, item, stage);
    }
    let steps = match thread.tool_output.take() {
        Some(output) => vec![step_after(&output).unwrap_or_else(Step::after_tool)],
        None => stage.script.steps_for(&thread.last_said),
    };
    turn.acts = acts_of(&steps, images, thread, turn, stage);
}

/// The result of a tool may say, as a prompt does, what comes after it; of several, the last to come.
pub(crate) fn follow(thread: &Thread, turn: &mut Turn, stage: &mut Stage) {
    let result = turn.outputs.last().and_then(|(_, output)| output.as_str());
    let Some(step) = result.and_then(step_after) else { return };
    let response_ends = turn.acts.iter().position(|act| matches!(act, Act::Usage(_)));
    turn.acts.truncate(response_ends.map_or(0, |at| at + 1));
    let acts = acts_of(&[step], 0, thread, turn, stage);
    turn.acts.extend(acts);
}

fn step_after(output: &str) -> Option<Step> {
    Step::parse(last_marker(output)?).ok()
}

fn acts_of(steps: &[Step], images: usize, thread: &Thread, turn: &Turn, stage: &mut Stage) -> VecDeque<Act> {
    let mut scene = Scene {
        ids: &mut stage.ids,
        asked: &thread.last_said,
        images,
        mode: thread.settings.collaboration.mode,
        output_schema: turn.output_schema.as_ref(),
    };
    compose(steps, &mut scene)
}

/// What the real worker does at the start of a turn when the window was full: it summarises, and counts thrice.
fn compact(thread: &mut Thread, turn: &Turn, stage: &mut Stage) {
    const SUMMARY: Tokens = Tokens::of(100, 10, 0);
    const KEPT: Tokens = Tokens { total_tokens: 6891, ..Tokens::NONE };
    thread.is_full = false;
    let item = Item::started(Body::ContextCompaction { id: stage.ids.uuid() }, stage.now.unix_ms);
    thread.say_in(&turn.id, Happening::ItemStarted(&item), stage);
    say_usage(thread, turn, stage);
    count(thread, turn, SUMMARY, stage);
    thread.usage.last = KEPT;
    say_usage(thread, turn, stage);
    perform::complete(thread, &turn.id, item, stage);
}

fn end(thread: &mut Thread, turn: Turn, how: End, stage: &mut Stage) {
    let shape = turn.ended(how, stage.now);
    thread.updated_ms = stage.now.unix_ms;
    thread.interrupted_turn = (shape.status == TurnStatus::Interrupted).then(|| shape.id.clone());
    keep_end(thread, &shape, stage);
    if let Some(error) = &shape.error {
        thread.set_status(Status::SystemError, stage);
        thread.say_in(&shape.id, Happening::Failed(error), stage);
    }
    if shape.status != TurnStatus::Interrupted {
        let unread = &mut thread.read_state.first_unread_turn;
        unread.get_or_insert_with(|| shape.id.clone());
        thread.read_state.revision = Some(stage.ids.uuid());
        thread.keep(&Record::Unread(thread.read_state.clone()), stage);
        thread.say(Event::Unread, stage);
    }
    if stage.dialect == Dialect::V2 {
        answer_interrupts(thread, &json!({}), stage);
    }
    if shape.error.is_none() {
        thread.set_status(Status::Idle, stage);
    }
    thread.say(Event::TurnEnded(&shape), stage);
    if stage.dialect == Dialect::V1 {
        answer_interrupts(thread, &json!({"abortReason": "interrupted"}), stage);
    }
}

/// The file has the items already.
fn keep_end(thread: &mut Thread, shape: &TurnShape, stage: &mut Stage) {
    let turn = TurnShape { items: Vec::new(), ..shape.clone() };
    let unix_ms = stage.now.unix_ms;
    thread.keep(&Record::TurnEnded { turn, unix_ms }, stage);
}

fn answer_interrupts(thread: &mut Thread, result: &Value, stage: &mut Stage) {
    for call in std::mem::take(&mut thread.late_interrupts) {
        stage.answer(&call, result);
    }
}
