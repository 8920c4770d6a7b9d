//! A plan in the words of the v1 dialect. What it has no words for is refused, not left out.

use wire::Json;

use super::{ApprovalPolicy, Input, Sandbox, ThreadOptions, TurnOptions};
use crate::abilities::{Abilities, Ability, Unable};
use crate::v1::calls::{NewConversationParams, ResumeConversationParams, SendUserTurnParams};
use crate::v1::input::InputItem;
use crate::v1::policy::{self, Effort, SandboxMode, Summary};

pub(in crate::client) fn start(
    options: &ThreadOptions,
    abilities: &Abilities,
) -> Result<NewConversationParams, Unable> {
    if !options.tools.is_empty() {
        abilities.need(Ability::DynamicTools)?;
    }
    if options.ephemeral {
        return Err(abilities.unable("threads that are not kept"));
    }
    if options.is_plain {
        abilities.need(Ability::PlainModels)?;
    }
    if options.developer_instructions.is_some() {
        abilities.need(Ability::Instructions)?;
    }
    Ok(NewConversationParams {
        model: options.model.as_deref().map(Into::into),
        cwd: options.cwd.as_deref().map(Into::into),
        approval_policy: Some(options.approval_policy.into()),
        sandbox: Some(options.sandbox.into()),
        config: (!options.config.is_empty()).then(|| options.config.clone().into_iter().collect()),
        base_instructions: options.base_instructions.as_deref().map(Into::into),
        developer_instructions: options.developer_instructions.as_deref().map(Into::into),
        ..NewConversationParams::default()
    })
}

/// A history of the caller's, as if it had been stored.
pub(in crate::client) fn told(
    history: Vec<Json>,
    options: &ThreadOptions,
    abilities: &Abilities,
) -> Result<ResumeConversationParams, Unable> {
    let overrides = Some(start(options, abilities)?);
    Ok(ResumeConversationParams { history: Some(history), overrides, ..ResumeConversationParams::default() })
}

/// By its file, where the worker knows no other way.
pub(in crate::client) fn resume(
    thread: &str,
    path: Option<Box<str>>,
    options: &ThreadOptions,
    abilities: &Abilities,
) -> Result<ResumeConversationParams, Unable> {
    let conversation_id = path.is_none().then(|| thread.into());
    let overrides = Some(start(options, abilities)?);
    Ok(ResumeConversationParams { path, conversation_id, overrides, ..ResumeConversationParams::default() })
}

/// A turn here repeats all that its thread is, since nothing of it can be left out; `model` is what the worker has said
/// of the thread.
pub(in crate::client) fn turn(
    thread: &str,
    turn: &TurnOptions,
    options: &ThreadOptions,
    model: Option<&str>,
    abilities: &Abilities,
) -> Result<SendUserTurnParams, Unable> {
    super::need_for(turn, abilities)?;
    let model = turn.model.as_deref().or(options.model.as_deref()).or(model);
    Ok(SendUserTurnParams {
        conversation_id: thread.into(),
        items: turn.input.iter().map(item).collect(),
        cwd: options.cwd.as_deref().unwrap_or(".").into(),
        approval_policy: options.approval_policy.into(),
        sandbox_policy: SandboxMode::from(options.sandbox).into(),
        model: model.ok_or_else(|| abilities.unable("turns without a model: name one, or resume the thread"))?.into(),
        effort: turn.effort.as_deref().map(|word| effort(word, abilities)).transpose()?,
        summary: turn.summary.as_deref().map(|word| summary(word, abilities)).transpose()?.unwrap_or_default(),
        tools: None,
    })
}

fn item(input: &Input) -> InputItem {
    match input {
        Input::Text(text) => InputItem::text(text),
        Input::Image { url } => InputItem::Image { image_url: url.as_str().into() },
        Input::LocalImage { path } => InputItem::LocalImage { path: path.as_str().into() },
    }
}

fn effort(word: &str, abilities: &Abilities) -> Result<Effort, Unable> {
    match word {
        "minimal" => Ok(Effort::Minimal),
        "low" => Ok(Effort::Low),
        "medium" => Ok(Effort::Medium),
        "high" => Ok(Effort::High),
        other => Err(abilities.unable(&format!("the effort {other}"))),
    }
}

fn summary(word: &str, abilities: &Abilities) -> Result<Summary, Unable> {
    match word {
        "auto" => Ok(Summary::Auto),
        "concise" => Ok(Summary::Concise),
        "detailed" => Ok(Summary::Detailed),
        "none" => Ok(Summary::None),
        other => Err(abilities.unable(&format!("the summary {other}"))),
    }
}

impl From<Sandbox> for SandboxMode {
    fn from(sandbox: Sandbox) -> Self {
        match sandbox {
            Sandbox::ReadOnly => Self::ReadOnly,
            Sandbox::WorkspaceWrite => Self::WorkspaceWrite,
            Sandbox::FullAccess => Self::DangerFullAccess,
        }
    }
}

impl From<ApprovalPolicy> for policy::ApprovalPolicy {
    fn from(policy: ApprovalPolicy) -> Self {
        match policy {
            ApprovalPolicy::Untrusted => Self::Untrusted,
            ApprovalPolicy::OnRequest => Self::OnRequest,
            ApprovalPolicy::Never => Self::Never,
        }
    }
}
