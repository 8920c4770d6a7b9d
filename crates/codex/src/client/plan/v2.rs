//! A plan in the words of the v2 dialect: upstream's own types.

use std::collections::BTreeMap;

use wire::Json;

use super::super::permissions::PermissionProfile;
use super::{ApprovalPolicy, Input, Sandbox, ThreadOptions, Tool, TurnOptions};
use crate::abilities::{Abilities, Ability, Unable};
use crate::protocol::{
    AskForApproval, DynamicToolNamespaceTool, DynamicToolNamespaceToolFunction, DynamicToolSpec,
    DynamicToolSpecFunction, DynamicToolSpecNamespace, ResponseItem, SandboxMode, ThreadForkParams, ThreadResumeParams,
    ThreadStartParams, TurnStartParams, UserInput, UserInputImage, UserInputLocalImage, UserInputText,
};
use crate::requests::written;

/// Whether a thread is resumed with all of its turns, which can be megabytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::client) enum Turns {
    /// They are listed page by page.
    LeftOut,
    /// The worker knows no other way.
    Whole,
}

pub(in crate::client) fn start(options: &ThreadOptions, abilities: &Abilities) -> Result<ThreadStartParams, Unable> {
    if !options.tools.is_empty() {
        abilities.need(Ability::DynamicTools)?;
    }
    if options.tools.iter().any(|tool| tool.namespace.is_some()) {
        abilities.need(Ability::ToolNamespaces)?;
    }
    if options.is_plain {
        abilities.need(Ability::PlainModels)?;
    }
    Ok(ThreadStartParams {
        cwd: options.cwd.clone(),
        model: options.model.clone(),
        sandbox: sandbox(options),
        approval_policy: Some(options.approval_policy.into()),
        base_instructions: options.base_instructions.clone(),
        developer_instructions: options.developer_instructions.clone(),
        config: config(options),
        ephemeral: options.ephemeral.then_some(true),
        experimental_raw_events: options.raw_events,
        dynamic_tools: (!options.tools.is_empty()).then(|| declared(&options.tools)),
        ..ThreadStartParams::default()
    })
}

pub(in crate::client) fn resume(thread: &str, options: &ThreadOptions, turns: Turns) -> ThreadResumeParams {
    ThreadResumeParams {
        cwd: options.cwd.clone(),
        model: options.model.clone(),
        sandbox: sandbox(options),
        approval_policy: Some(options.approval_policy.into()),
        base_instructions: options.base_instructions.clone(),
        developer_instructions: options.developer_instructions.clone(),
        config: config(options),
        exclude_turns: turns == Turns::LeftOut,
        ..ThreadResumeParams::new(thread)
    }
}

/// A history of the caller's, as if it were that of a thread; then the worker looks for no thread of that id.
pub(in crate::client) fn told(history: Vec<ResponseItem>, options: &ThreadOptions) -> ThreadResumeParams {
    const NOBODY: &str = "00000000-0000-0000-0000-000000000000";
    ThreadResumeParams { history: Some(history), ..resume(NOBODY, options, Turns::Whole) }
}

/// The beginning of the new thread is never told with it.
pub(in crate::client) fn fork(thread: &str, last_turn: &str, options: &ThreadOptions) -> ThreadForkParams {
    ThreadForkParams {
        cwd: options.cwd.clone(),
        model: options.model.clone(),
        sandbox: sandbox(options),
        approval_policy: Some(options.approval_policy.into()),
        base_instructions: options.base_instructions.clone(),
        developer_instructions: options.developer_instructions.clone(),
        config: config(options),
        ephemeral: options.ephemeral,
        exclude_turns: true,
        last_turn_id: Some(last_turn.into()),
        ..ThreadForkParams::new(thread)
    }
}

pub(in crate::client) fn turn(
    thread: &str,
    options: &TurnOptions,
    abilities: &Abilities,
) -> Result<TurnStartParams, Unable> {
    super::need_for(options, abilities)?;
    Ok(TurnStartParams {
        model: options.model.clone(),
        effort: options.effort.as_deref().map(Into::into),
        summary: options.summary.as_deref().map(Into::into),
        // The field without `ForTurn` would count for every later turn too.
        service_tier_for_turn: options.service_tier.clone(),
        output_schema: options.output_schema.as_ref().map(written),
        ..TurnStartParams::new(input(&options.input), thread)
    })
}

pub(in crate::client) fn input(input: &[Input]) -> Vec<UserInput> {
    let said = input.iter().map(|part| match part {
        Input::Text(text) => UserInput::Text(UserInputText::new(text)),
        Input::Image { url } => {
            UserInput::Image(UserInputImage { url: Some(url.clone()), ..UserInputImage::default() })
        }
        Input::LocalImage { path } => UserInput::LocalImage(UserInputLocalImage::new(path)),
    });
    said.collect()
}

/// Never beside a permission profile: the worker would drop the profile without an error.
fn sandbox(options: &ThreadOptions) -> Option<SandboxMode> {
    options.permissions.is_none().then(|| options.sandbox.into())
}

fn config(options: &ThreadOptions) -> Option<BTreeMap<String, Json>> {
    let mut settings: BTreeMap<_, _> =
        options.config.iter().map(|(name, value)| (name.clone(), written(value))).collect();
    let permissions = options.permissions.iter().flat_map(PermissionProfile::settings);
    settings.extend(permissions.map(|(name, value)| (name.to_owned(), written(&value))));
    (!settings.is_empty()).then_some(settings)
}

/// Those of one namespace belong together.
fn declared(tools: &[Tool]) -> Vec<DynamicToolSpec> {
    let mut declared = Vec::new();
    let mut namespaces: BTreeMap<&str, Vec<DynamicToolNamespaceTool>> = BTreeMap::new();
    for tool in tools {
        let (about, schema, name) = (&tool.description, written(&tool.input_schema), &tool.name);
        match &tool.namespace {
            None => {
                declared.push(DynamicToolSpec::Function(DynamicToolSpecFunction::new(about, schema, name)));
            }
            Some(namespace) => {
                let function = DynamicToolNamespaceToolFunction::new(about, schema, name);
                namespaces.entry(namespace).or_default().push(DynamicToolNamespaceTool::Function(function));
            }
        }
    }
    declared.extend(namespaces.into_iter().map(|(name, tools)| {
        DynamicToolSpec::Namespace(DynamicToolSpecNamespace { name: name.into(), description: String::new(), tools })
    }));
    declared
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

impl From<ApprovalPolicy> for AskForApproval {
    fn from(policy: ApprovalPolicy) -> Self {
        match policy {
            ApprovalPolicy::Untrusted => Self::Untrusted,
            ApprovalPolicy::OnRequest => Self::OnRequest,
            ApprovalPolicy::Never => Self::Never,
        }
    }
}
