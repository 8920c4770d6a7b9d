//! `turn/start`, `turn/steer` and `turn/interrupt`, with the real worker's habits.

use serde::Deserialize;
use serde_json::{Value, json};

use super::open::absolute;
use super::shapes::{TurnAlone, settings_shape};
use super::threads::checked_id;
use crate::config;
use crate::items::{ImageReference, UserInput};
use crate::lines::Refusal;
use crate::record::{Collaboration, Mode, Record, Settings};
use crate::shapes::{ApprovalPolicy, TurnShape};
use crate::speech::Event;
use crate::stage::{Call, Need};
use crate::turn::{self, Input};
use crate::worker::Worker;

const INPUT_CHARS_MAX: usize = 1_048_576;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TurnStartParams {
    thread_id: String,
    input: Vec<UserInput>,
    client_user_message_id: Option<String>,
    cwd: Option<String>,
    model: Option<String>,
    effort: Option<String>,
    summary: Option<String>,
    approval_policy: Option<ApprovalPolicy>,
    sandbox_policy: Option<Value>,
    output_schema: Option<Value>,
    collaboration_mode: Option<CollaborationMode>,
}

/// A mode, and settings that go before those beside it.
#[derive(Debug, Deserialize)]
struct CollaborationMode {
    mode: Mode,
    settings: ModeSettings,
}

#[derive(Debug, Deserialize)]
struct ModeSettings {
    model: String,
    reasoning_effort: Option<String>,
    developer_instructions: Option<String>,
}

/// Starts a turn. On a thread that has one, it says the input to that turn and answers with the same id.
pub(super) fn start(worker: &mut Worker, call: &Call, params: TurnStartParams) -> Result<(), Refusal> {
    let id = checked_id(&params.thread_id, "thread")?;
    let (stage, thread) = worker.loaded(id)?;
    check_input(&params.input)?;
    let settings = params.settings(&thread.settings);
    let input = Input { content: params.input, client_id: params.client_user_message_id };
    if let Some(turn) = &thread.turn {
        let shape = TurnShape::new(&turn.id);
        stage.answer(call, &TurnAlone { turn: &shape });
        turn::steer(thread, input, stage);
        return Ok(());
    }
    if settings != thread.settings {
        thread.settings = settings;
        thread.keep(&Record::Settings(thread.settings.clone()), stage);
        let params = json!({"threadId": id, "threadSettings": settings_shape(&thread.settings)});
        stage.tell_those(&thread.subscribers, Need::ExperimentalApi, "thread/settings/updated", &params);
    }
    if !config::is_known(&thread.settings.model) {
        let warning = format!(
            "Model metadata for `{}` not found. Defaulting to fallback metadata; this can degrade performance and cause issues.",
            thread.settings.model
        );
        thread.say(Event::Warning(&warning), stage);
    }
    let turn_id = stage.ids.uuid();
    stage.answer(call, &TurnAlone { turn: &TurnShape::new(&turn_id) });
    turn::begin(thread, &turn_id, input, params.output_schema, stage);
    Ok(())
}

impl TurnStartParams {
    /// The thread's settings from this turn on.
    fn settings(&self, before: &Settings) -> Settings {
        let mut settings = before.clone();
        if let Some(cwd) = &self.cwd {
            settings.cwd = absolute(cwd);
        }
        if let Some(model) = &self.model {
            settings.model.clone_from(model);
        }
        if let Some(policy) = &self.approval_policy {
            settings.approval_policy = policy.clone();
        }
        if let Some(sandbox) = &self.sandbox_policy {
            settings.sandbox = sandbox.clone();
        }
        settings.effort = self.effort.clone().or(settings.effort);
        settings.summary = self.summary.clone().or(settings.summary);
        if let Some(CollaborationMode { mode, settings: of_mode }) = &self.collaboration_mode {
            settings.model.clone_from(&of_mode.model);
            settings.effort.clone_from(&of_mode.reasoning_effort);
            let developer_instructions = of_mode.developer_instructions.clone();
            settings.collaboration = Collaboration { mode: *mode, developer_instructions };
        }
        settings
    }
}

fn check_input(input: &[UserInput]) -> Result<(), Refusal> {
    let chars: usize = input
        .iter()
        .map(|piece| match piece {
            UserInput::Text { text, .. } => text.chars().count(),
            _ => 0,
        })
        .sum();
    if chars > INPUT_CHARS_MAX {
        let message = format!("Input exceeds the maximum length of {INPUT_CHARS_MAX} characters.");
        let data = json!({"input_error_code": "input_too_large", "max_chars": INPUT_CHARS_MAX, "actual_chars": chars});
        return Err(Refusal::of(Refusal::INVALID_PARAMS, message).with_data(data));
    }
    let is_remote = |piece: &UserInput| match piece {
        UserInput::Image { reference: ImageReference::Url { url }, .. } => !url.starts_with("data:"),
        _ => false,
    };
    if input.iter().any(is_remote) {
        return Err(Refusal::invalid("remote image URLs are not supported; use an inline data URL instead"));
    }
    Ok(())
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TurnSteerParams {
    thread_id: String,
    expected_turn_id: String,
    input: Vec<UserInput>,
    client_user_message_id: Option<String>,
}

pub(super) fn steer(worker: &mut Worker, call: &Call, params: TurnSteerParams) -> Result<(), Refusal> {
    let id = checked_id(&params.thread_id, "thread")?;
    let (stage, thread) = worker.loaded(id)?;
    let expected = &params.expected_turn_id;
    if expected.is_empty() {
        return Err(Refusal::invalid("expectedTurnId must not be empty"));
    }
    if params.input.is_empty() {
        return Err(Refusal::invalid("input must not be empty"));
    }
    check_input(&params.input)?;
    match &thread.turn {
        None => return Err(Refusal::invalid("no active turn to steer")),
        Some(turn) if turn.id != *expected => {
            let message = format!("expected active turn id `{expected}` but found `{}`", turn.id);
            return Err(Refusal::invalid(message));
        }
        Some(_) => stage.answer(call, &json!({"turnId": expected})),
    }
    let input = Input { content: params.input, client_id: params.client_user_message_id };
    turn::steer(thread, input, stage);
    Ok(())
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TurnInterruptParams {
    thread_id: String,
    turn_id: String,
}

/// Interrupts a turn. The answer comes just before the turn's end; for one that was interrupted before, it comes with the
/// end of the next turn.
pub(super) fn interrupt(worker: &mut Worker, call: &Call, params: &TurnInterruptParams) -> Result<(), Refusal> {
    let id = checked_id(&params.thread_id, "thread")?;
    let (stage, thread) = worker.loaded(id)?;
    let wanted = &params.turn_id;
    let current = thread.turn.as_ref().map(|turn| turn.id.clone());
    match current.as_ref().or(thread.interrupted_turn.as_ref()) {
        None => Err(Refusal::invalid("no active turn to interrupt")),
        Some(found) if found != wanted => {
            Err(Refusal::invalid(format!("expected active turn id {wanted} but found {found}")))
        }
        Some(_) if current.is_none() => {
            thread.late_interrupts.push(call.clone());
            Ok(())
        }
        Some(_) => {
            turn::interrupt(thread, call.clone(), stage);
            Ok(())
        }
    }
}
