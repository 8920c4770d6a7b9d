//! What a turn does besides talking: commands, patches and calls of client tools. Nothing is really done.

use std::time::Duration;

use serde_json::{Value, json};

use crate::approval::{self, Verdict};
use crate::items::{Body, ChangeKind, Command, CommandAction, CommandSource, FileChange, Item, ItemStatus, ToolCall};
use crate::made_up;
use crate::perform::complete;
use crate::play::{Act, Patch, Shell, ToolUse};
use crate::record::Record;
use crate::shapes::Status;
use crate::speech::{self, Asked, Happening, Model, Stream};
use crate::stage::Stage;
use crate::thread::Thread;
use crate::turn::{Parked, Turn};

/// A command that may run runs; one that needs approval asks first; one that must not is never seen.
pub(crate) fn begin_command(thread: &mut Thread, turn: &mut Turn, shell: Shell, stage: &mut Stage) {
    let verdict = approval::of_command(thread, &shell);
    if verdict == Verdict::Refuse {
        return;
    }
    let reason = shell.escalated.then_some("mock wants to run this");
    let item = proposed(shell, thread, stage);
    if verdict == Verdict::Ask {
        thread.set_status(Status::WAITING, stage);
        thread.say_in(&turn.id, Happening::ItemStarted(&item), stage);
        return park(thread, turn, item, reason, stage);
    }
    let item = running(item, stage);
    thread.say_in(&turn.id, Happening::ItemStarted(&item), stage);
    run_command(thread, turn, item, Asked::No, stage);
}

/// The model asks for a command.
pub(crate) fn choose_command(thread: &Thread, turn: &Turn, shell: &Shell, stage: &mut Stage) {
    let arguments = json!({"cmd": shell.command}).to_string();
    let call = Model::Call { id: &shell.id, namespace: None, name: "exec_command", arguments: &arguments };
    thread.say_in(&turn.id, Happening::Model(call), stage);
}

/// The command as it looks before it runs.
fn proposed(shell: Shell, thread: &Thread, stage: &Stage) -> Item {
    let command = Command {
        id: shell.id,
        plugin_id: (),
        script_path: (),
        command: made_up::login_shell(&shell.command),
        cwd: thread.settings.cwd.clone(),
        process_id: None,
        source: CommandSource::Agent,
        status: ItemStatus::InProgress,
        command_actions: [CommandAction::Unknown { command: shell.command }],
        aggregated_output: None,
        exit_code: None,
        duration_ms: None,
    };
    Item::started(Body::CommandExecution(command), stage.now.unix_ms)
}

/// The command as it looks once it runs.
fn running(mut item: Item, stage: &mut Stage) -> Item {
    if let Body::CommandExecution(command) = &mut item.body {
        command.source = CommandSource::UnifiedExecStartup;
        command.process_id = Some((stage.ids.number() % 100_000).to_string());
    }
    item
}

/// Goes on with a command that was allowed.
pub(crate) fn allowed_command(thread: &Thread, turn: &mut Turn, item: Item, stage: &mut Stage) {
    let item = running(item, stage);
    run_command(thread, turn, item, Asked::Yes, stage);
}

/// A command takes the time that it says it sleeps.
fn run_command(thread: &Thread, turn: &mut Turn, item: Item, asked: Asked, stage: &mut Stage) {
    thread.say_in(&turn.id, Happening::Running(&item, asked), stage);
    let pause = match &item.body {
        Body::CommandExecution(command) => made_up::duration(command.asked()),
        _ => Duration::ZERO,
    };
    turn.acts.push_front(Act::Finish(item));
    if !pause.is_zero() {
        turn.acts.push_front(Act::Pause(pause));
    }
}

/// Nothing is run: the output is made up and says so. Tells what the model is told of it.
pub(crate) fn finish_command(
    thread: &mut Thread,
    turn: &str,
    mut item: Item,
    stage: &mut Stage,
) -> Option<(String, Value)> {
    let Body::CommandExecution(command) = &mut item.body else {
        return None;
    };
    let output = made_up::output(command.asked());
    let code = made_up::exit_code(command.asked());
    if let Some(output) = &output {
        thread.say_in(turn, Happening::Delta { item: &command.id, of: Stream::CommandOutput, text: output }, stage);
    }
    let words = format!("Process exited with code {code}\nOutput:\n{}", output.as_deref().unwrap_or_default());
    let told = (command.id.clone(), words.into());
    command.status = if code == 0 { ItemStatus::Completed } else { ItemStatus::Failed };
    command.aggregated_output = output;
    command.exit_code = Some(code);
    command.duration_ms = Some(stage.now.unix_ms.saturating_sub(item.started_at_ms));
    complete(thread, turn, item, stage);
    Some(told)
}

pub(crate) fn begin_patch(thread: &mut Thread, turn: &mut Turn, patch: Patch, stage: &mut Stage) {
    let path = made_up::absolute(&thread.settings.cwd, &patch.path);
    let verdict = approval::of_patch(thread, &path);
    if verdict == Verdict::Refuse {
        return;
    }
    let change = FileChange { path, kind: ChangeKind::Add, diff: format!("{}\n", patch.text) };
    let body = Body::FileChange { id: patch.id, changes: vec![change], status: ItemStatus::InProgress };
    let item = Item::started(body, stage.now.unix_ms);
    thread.say_in(&turn.id, Happening::ItemStarted(&item), stage);
    if verdict == Verdict::Ask {
        thread.set_status(Status::WAITING, stage);
        park(thread, turn, item, None, stage);
    } else {
        thread.say_in(&turn.id, Happening::Running(&item, Asked::No), stage);
        apply_patch(thread, turn, item, stage);
    }
}

/// Goes on with a patch that was allowed.
pub(crate) fn allowed_patch(thread: &mut Thread, turn: &mut Turn, item: Item, stage: &mut Stage) {
    thread.say_in(&turn.id, Happening::Running(&item, Asked::Yes), stage);
    apply_patch(thread, turn, item, stage);
}

/// Nothing is written.
fn apply_patch(thread: &mut Thread, turn: &mut Turn, mut item: Item, stage: &mut Stage) {
    let Body::FileChange { changes, status, .. } = &mut item.body else {
        return;
    };
    *status = ItemStatus::Completed;
    let diff = turn.diff.take().unwrap_or_default() + &made_up::unified_diff(&thread.settings.cwd, &changes[0]);
    complete(thread, &turn.id, item, stage);
    thread.say_in(&turn.id, Happening::Diff(&diff), stage);
    turn.diff = Some(diff);
}

/// The model asks for a tool.
pub(crate) fn choose_tool(thread: &Thread, turn: &Turn, call: &ToolUse, stage: &mut Stage) {
    let (namespace, name) = call.name.split_once('.').map_or((None, &*call.name), |(space, name)| (Some(space), name));
    let call = Model::Call { id: &call.id, namespace, name, arguments: &call.arguments };
    thread.say_in(&turn.id, Happening::Model(call), stage);
}

/// A tool that nobody declared, or arguments that are no JSON, reach only the model.
pub(crate) fn begin_tool_call(thread: &mut Thread, turn: &mut Turn, call: ToolUse, stage: &mut Stage) {
    let (namespace, tool) = match call.name.split_once('.') {
        Some((namespace, name)) => (Some(namespace.to_owned()), name.to_owned()),
        None => (None, call.name),
    };
    let is_declared = thread.record.tools.iter().any(|known| known.namespace == namespace && known.name == tool);
    let (true, Ok(arguments)) = (is_declared, serde_json::from_str::<Value>(&call.arguments)) else {
        return;
    };
    let item = Item::started(
        Body::DynamicToolCall(ToolCall {
            id: call.id,
            namespace,
            tool,
            arguments,
            status: ItemStatus::InProgress,
            content_items: None,
            success: None,
            duration_ms: None,
        }),
        stage.now.unix_ms,
    );
    thread.keep(&Record::Item { turn_id: turn.id.clone(), item: item.clone() }, stage);
    thread.say_in(&turn.id, Happening::ItemStarted(&item), stage);
    park(thread, turn, item, None, stage);
}

/// Asks all subscribers about the item and waits for the first answer.
fn park(thread: &Thread, turn: &mut Turn, item: Item, reason: Option<&str>, stage: &mut Stage) {
    let request = stage.next_request(thread.id());
    let line = speech::ask(thread, &turn.id, request, &item, reason, stage);
    stage.outputs.send_all(&thread.subscribers, line.clone());
    turn.parked.push(Parked { request, line, item });
}
